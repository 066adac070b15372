// Keys of the metadata store. docs/on-disk-formats.md has the whole table.
//
// A key is one letter and big-endian numbers, so that keys sort by them; names come last. The
// letters 'S' (data servers), 'D' (devices) and 'W' (the rest of the cluster's) belong to
// ganesha-fsal/cluster.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds::keys {

enum class Prefix : char {
  kInode = 'I',        // I file -> inode
  kEntry = 'E',        // E dir name -> cookie, file, type
  kCookie = 'K',       // K dir cookie -> file, type, name
  kParent = 'P',       // P dir -> its directory, its name there
  kLayout = 'L',       // L file -> layout map
  kReverse = 'R',      // R ds file generation -> nothing
  kRemoval = 'Q',      // Q file generation -> data servers still to be told
  kTruncate = 'T',     // T file -> where to cut, ticket
  kOrphan = 'O',       // O file -> nothing
  kXattr = 'X',        // X file name -> value
  kInline = 'B',       // B file -> the bytes of an inline file
  kGrowing = 'G',      // G file -> nothing: they are being written to its objects
  kPolicy = 'Y',       // Y file -> policy of a directory, or taken by a file
  kClientEpoch = 'C',  // C client -> epoch
  kRestored = 'V',     // V file -> as of a backup, and its objects not found to fit yet
  kStore = 'M',        // M super, M next, M restored, M grown: of the store itself
  kServers = 'S',      // cluster: data servers
  kDevices = 'D',      // cluster: devices
  kCluster = 'W',      // cluster: anything else
  kJournal = 'J',      // J w file, J s ds file copy, J m file: schema/journal.h
};

[[nodiscard]] std::string superblock();
[[nodiscard]] std::string next_fileid();
[[nodiscard]] std::string skipped_fileids();
[[nodiscard]] std::string restore();
[[nodiscard]] std::string restored(FileId id);
[[nodiscard]] std::string restored_grown();
[[nodiscard]] std::string inode(FileId id);
[[nodiscard]] std::string entry(FileId dir, std::string_view name);
[[nodiscard]] std::string cookie(FileId dir, std::uint64_t cookie);
[[nodiscard]] std::string parent(FileId dir);
[[nodiscard]] std::string layout(FileId id);
[[nodiscard]] std::string reverse(std::uint32_t ds_id, FileId id, std::uint32_t generation);
[[nodiscard]] std::string removal(FileId id, std::uint32_t generation);
[[nodiscard]] std::string truncate(FileId id);
[[nodiscard]] std::string orphan(FileId id);
[[nodiscard]] std::string xattr(FileId id, std::string_view name);
[[nodiscard]] std::string inline_bytes(FileId id);
[[nodiscard]] std::string growing(FileId id);
[[nodiscard]] std::string policy(FileId id);
[[nodiscard]] std::string client_epoch(ClientId client);
[[nodiscard]] std::string writers(FileId id);
[[nodiscard]] std::string stale(std::uint32_t ds_id, FileId id, std::uint32_t copy);
[[nodiscard]] std::string move(FileId id);

// All keys of one kind, or of one kind and number: [begin, end).
struct Range {
  std::string begin;
  std::string end;
};
[[nodiscard]] Range all(Prefix prefix);
[[nodiscard]] Range under(Prefix prefix, std::uint64_t id);
[[nodiscard]] Range reverse_of(std::uint32_t ds_id);
[[nodiscard]] Range all_writers();
[[nodiscard]] Range all_stale();
[[nodiscard]] Range stale_of(std::uint32_t ds_id);
[[nodiscard]] Range all_moves();
// The least key greater than `key`.
[[nodiscard]] std::string after(std::string_view key);

// The numbers of a key, or nullopt when it is not of that form.
struct NumberKey {
  std::uint64_t id = 0;
};
struct NamedKey {
  std::uint64_t id = 0;
  std::string_view name;  // into the key
};
struct CookieKey {
  FileId dir = 0;
  std::uint64_t cookie = 0;
};
struct ObjectKey {
  std::uint32_t ds_id = 0;  // 0 in a removal's
  FileId id = 0;
  std::uint32_t generation = 0;
};
struct StaleKey {
  std::uint32_t ds_id = 0;
  FileId id = 0;
  std::uint32_t copy = 0;
};
[[nodiscard]] std::optional<NumberKey> parse_number(Prefix prefix, std::string_view key);
[[nodiscard]] std::optional<NamedKey> parse_named(Prefix prefix, std::string_view key);
[[nodiscard]] std::optional<CookieKey> parse_cookie(std::string_view key);
[[nodiscard]] std::optional<ObjectKey> parse_reverse(std::string_view key);
[[nodiscard]] std::optional<ObjectKey> parse_removal(std::string_view key);
[[nodiscard]] std::optional<NumberKey> parse_writers(std::string_view key);
[[nodiscard]] std::optional<StaleKey> parse_stale(std::string_view key);
[[nodiscard]] std::optional<NumberKey> parse_move(std::string_view key);

}  // namespace weft::mds::keys
