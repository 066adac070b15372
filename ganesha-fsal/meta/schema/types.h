// What the namespace's callers pass and get: file numbers, attributes, requests, results.
//
// Times are nanoseconds since 1970, sizes bytes. Names are bytes: 1 to 255 of them, no '/' and no
// NUL, not "." or "..".
//
// Threading: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/layout_map.h"
#include "layout/object_id.h"

namespace weft::mds {

using FileId = std::uint64_t;  // never reused within a store
using ClientId = std::uint64_t;

constexpr FileId kRootFileId = 1;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxSymlinkBytes = 4095;
constexpr std::size_t kMaxXattrBytes = 64U << 10;      // one value
constexpr std::size_t kMaxXattrTotalBytes = 1U << 20;  // names and values of one file
constexpr std::size_t kMaxPageEntries = 65'536;        // of one readdir
constexpr std::uint64_t kMaxFileSize = (std::uint64_t{1} << 63) - 1;

// The numbers are durable.
enum class FileType : std::uint8_t {
  kRegular = 1,
  kDirectory = 2,
  kSymlink = 3,
  kBlock = 4,
  kCharacter = 5,
  kFifo = 6,
  kSocket = 7,
};

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

struct InodeAttributes {
  FileId id = 0;
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;  // permission bits, 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t nlink = 0;
  std::uint64_t size = 0;  // of a directory: its number of entries
  std::int64_t atime_ns = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::int64_t btime_ns = 0;
  std::uint64_t change = 0;  // grows with every change of data or metadata, restarts included
  DeviceNumber rdev;

  friend bool operator==(const InodeAttributes&, const InodeAttributes&) = default;
};

// An 8-byte createverf4 (RFC 8881 section 18.16), kept with the file.
using CreateVerifier = std::array<std::byte, 8>;

struct CreateRequest {
  std::uint32_t mode = 0;  // 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;  // overruled by a set-group-id directory's
  // Times of the client's choosing; now when absent.
  std::optional<std::int64_t> atime_ns;
  std::optional<std::int64_t> mtime_ns;
  std::uint64_t size = 0;  // bytes, of a regular file: a hole
  bool hold = false;       // what is made is held (Namespace::hold())
};

// What to change; absent fields stay.
struct AttributeChange {
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;  // regular files
  std::optional<std::int64_t> atime_ns;
  std::optional<std::int64_t> mtime_ns;
  bool atime_now = false;  // the server's clock; wins over atime_ns
  bool mtime_now = false;
};

// A directory's attributes around an operation that changed it (change_info4, atomic).
struct DirectoryChange {
  InodeAttributes before;
  InodeAttributes after;
};

struct Created {
  InodeAttributes attributes;
  bool existed = false;  // the file was there (unchecked create, or an exclusive one repeated)
  DirectoryChange parent;
};

struct Removed {
  InodeAttributes attributes;  // after: nlink 0 when this was the last name
  // The last name went while the file is held: it lives on until its last release().
  bool orphaned = false;
  DirectoryChange parent;
};

struct Renamed {
  DirectoryChange from;
  DirectoryChange to;  // the same as `from` within one directory
  InodeAttributes moved;
  std::optional<InodeAttributes> replaced;  // what the new name named before
  bool replaced_orphaned = false;
};

struct Linked {
  InodeAttributes attributes;
  DirectoryChange parent;
};

// A directory entry. Cookies stay with a name for its life in the directory, over restarts too.
// 0 to 2 are never used (RFC 8881 section 18.23.3); all are less than 2^63.
struct DirectoryEntry {
  std::uint64_t cookie = 0;
  std::string name;
  FileId id = 0;
  FileType type = FileType::kRegular;
  std::optional<InodeAttributes> attributes;  // when asked for
};

struct DirectoryPage {
  std::vector<DirectoryEntry> entries;  // without "." and ".."
  bool end = false;                     // nothing follows
};

// What is to be done at the data servers after a change of size: cut the objects at `cut_at`
// bytes, then acknowledge with finish_truncate(). Recorded in the same transaction as the size.
struct PendingTruncate {
  FileId id = 0;
  std::uint64_t cut_at = 0;
  std::uint64_t ticket = 0;  // which change asked; a later one makes an earlier finish void
  layout::LayoutMap layout;
};

// What was done to a file's objects since the backup that its metadata came back from.
struct SinceBackup {
  std::uint64_t end = 0;               // the file grew to this, and is counted; 0: it did not
  std::optional<PendingTruncate> cut;  // which was made
};

struct AttributesChanged {
  InodeAttributes before;
  InodeAttributes after;
  std::optional<PendingTruncate> truncate;
};

// How far a file has been written, as a client (LAYOUTCOMMIT) or a data server says.
struct Growth {
  FileId id = 0;
  std::uint64_t end = 0;                 // one past the last byte written; 0: unknown
  std::optional<std::int64_t> mtime_ns;  // a client's choice; now when absent
};

// The objects of a file that is gone: to be removed at these data servers, then acknowledged.
struct PendingRemoval {
  layout::ObjectId object;
  std::vector<std::uint32_t> ds_ids;  // those not acknowledged yet
  std::uint32_t least_epoch = 0;      // handles below are to be refused first; 0: none
};

// A range of a file's bytes: [offset, end).
struct DirtyExtent {
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
  friend bool operator==(const DirtyExtent&, const DirtyExtent&) = default;
};

// What one data server holds of one copy of a file, and that it missed writes.
struct StaleObject {
  FileId id = 0;
  std::uint32_t copy = 0;  // in the layout map
  std::uint32_t ds_id = 0;
  std::int64_t since_ns = 0;  // of the first write missed
  std::uint64_t ticket = 0;   // which mark was the last; a later one makes an earlier clear void
  std::vector<DirtyExtent> dirty;  // offsets in the file; at least what was missed

  friend bool operator==(const StaleObject&, const StaleObject&) = default;
};

// What begin_resync() found.
struct ResyncBegun {
  layout::LayoutMap map;
  StaleObject object;
};

// A data server takes the place of another in a file's layout map (schema/journal.h).
enum class MoveStage : std::uint32_t {
  kFilling = 1,  // `to` is in the map besides `from`, until it is current
  kLeft = 2,     // `from` is in the map no more, and its object is still there
};

struct Move {
  FileId id = 0;
  std::uint32_t from = 0;  // data servers
  std::uint32_t to = 0;    // 0: nobody took the place
  MoveStage stage = MoveStage::kFilling;
  std::int64_t since_ns = 0;

  friend bool operator==(const Move&, const Move&) = default;
};

// A move of which the newcomer gets its object before it is in the map.
struct DirectMove {
  FileId id = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t epoch = 0;  // LayoutMap::object_epoch, by which the object is copied
};

// A file of which a layout for writing is out, or was when the metadata server ended.
struct WrittenFile {
  FileId id = 0;
  std::uint64_t boot_epoch = 0;  // the run of the metadata server that handed it out last
  std::int64_t since_ns = 0;

  friend bool operator==(const WrittenFile&, const WrittenFile&) = default;
};

struct SuperblockInfo {
  std::uint32_t format = 0;
  std::array<std::byte, 16> cluster_uuid{};
  std::uint32_t fsid = 0;
  std::uint64_t boot_epoch = 0;  // 1 at the first start, one more at each
  std::int64_t created_ns = 0;
};

struct NamespaceCounts {
  std::uint64_t next_fileid = 0;  // an upper bound of the inodes ever made
};

}  // namespace weft::mds
