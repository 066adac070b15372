// Values of the metadata store and their durable forms (docs/on-disk-formats.md).
//
// Each value is XDR, begins with a version word, and has nothing after its last field. Decoding
// believes nothing: kCorrupt for whatever encoding cannot have made, kNotSupported for a later
// version.
//
// Threading: plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/schema/types.h"
#include "layout/policy.h"
#include "rpc/base/error.h"

namespace weft::mds {

// 2: there may be inline files. 1 is read, and is 2 from then on. 3: the store came back from a
// backup, and there may be files that are not to be served before they were looked at.
constexpr std::uint32_t kStoreFormat = 2;
constexpr std::uint32_t kRestoredFormat = 3;  // the last that this program knows
constexpr std::uint64_t kFirstCookie = 3;
// Parity groups use the highest bit of an object's generation.
constexpr std::uint32_t kMaxRestoreStamp = (1U << 31) - 1;
// The number of a restore that is made at this moment (nanoseconds since 1970): seconds since the
// beginning of 2026. Nothing: the clock says a year that no restore is made in.
[[nodiscard]] std::optional<std::uint32_t> restore_stamp(std::int64_t now_ns);
constexpr std::size_t kMaxHolders = 16U * 256;  // data servers of one layout map

struct InodeRecord {
  InodeAttributes attributes;
  std::uint64_t next_cookie = kFirstCookie;  // directories
  std::uint32_t xattr_bytes = 0;             // names and values
  std::optional<CreateVerifier> verifier;    // made by an exclusive create
  std::string target;                        // symbolic links

  friend bool operator==(const InodeRecord&, const InodeRecord&) = default;
};

struct EntryRecord {
  std::uint64_t cookie = 0;
  FileId id = 0;
  FileType type = FileType::kRegular;

  friend bool operator==(const EntryRecord&, const EntryRecord&) = default;
};

struct CookieRecord {
  FileId id = 0;
  FileType type = FileType::kRegular;
  std::string name;

  friend bool operator==(const CookieRecord&, const CookieRecord&) = default;
};

struct ParentRecord {
  FileId dir = 0;
  std::string name;

  friend bool operator==(const ParentRecord&, const ParentRecord&) = default;
};

struct TruncateRecord {
  std::uint64_t cut_at = 0;
  std::uint64_t ticket = 0;  // the inode's change counter when it was asked for

  friend bool operator==(const TruncateRecord&, const TruncateRecord&) = default;
};

// The first bytes of an inline file; the rest of it is zeros.
struct InlineRecord {
  std::string bytes;  // 1 to layout::kGreatestInline, and no more than the file's size

  friend bool operator==(const InlineRecord&, const InlineRecord&) = default;
};

// That the store came back from a backup, the last time it did.
struct RestoreRecord {
  std::uint32_t stamp = 0;        // number of the restore: greater than that of any before
  std::int64_t made_ns = 0;       // when the backup was made
  std::int64_t restored_ns = 0;   // when it was brought back
  std::uint64_t boot_epoch = 0;   // of the run that the backup was made in
  std::uint32_t first_lost = 0;   // data servers from this number on registered after the backup,
  std::uint32_t first_fresh = 0;  // up to this one, which none has yet

  friend bool operator==(const RestoreRecord&, const RestoreRecord&) = default;
};

// A file of a store that came back from a backup. What was done to its objects since is not known.
struct RestoredRecord {
  enum class State : std::uint32_t {
    kUnchecked = 1,  // nobody has looked at its objects
    kDamaged = 2,    // they do not have all of its bytes
  };
  State state = State::kUnchecked;
  std::uint32_t missing = 0;  // stripes of which no copy's object is there
  std::uint32_t cut = 0;      // of which all that are there are too short

  friend bool operator==(const RestoredRecord&, const RestoredRecord&) = default;
};

struct RemovalRecord {
  std::vector<std::uint32_t> ds_ids;  // ascending, each once
  // Handles of the object below it are refused before it is removed, so that nobody makes it anew;
  // 0: nobody has one that could.
  std::uint32_t least_epoch = 0;

  friend bool operator==(const RemovalRecord&, const RemovalRecord&) = default;
};

[[nodiscard]] std::string encode(const InodeRecord& record);
[[nodiscard]] std::string encode(const EntryRecord& record);
[[nodiscard]] std::string encode(const CookieRecord& record);
[[nodiscard]] std::string encode(const ParentRecord& record);
[[nodiscard]] std::string encode(const TruncateRecord& record);
[[nodiscard]] std::string encode(const RemovalRecord& record);
[[nodiscard]] std::string encode(const InlineRecord& record);
[[nodiscard]] std::string encode(const RestoreRecord& record);
[[nodiscard]] std::string encode(const RestoredRecord& record);
// Precondition: at least one key is set.
[[nodiscard]] std::string encode(const layout::Policy& policy);
[[nodiscard]] std::string encode(const SuperblockInfo& record);
[[nodiscard]] std::string encode_counter(std::uint64_t value);

[[nodiscard]] Result<InodeRecord> decode_inode(std::string_view value);
[[nodiscard]] Result<EntryRecord> decode_entry(std::string_view value);
[[nodiscard]] Result<CookieRecord> decode_cookie(std::string_view value);
[[nodiscard]] Result<ParentRecord> decode_parent(std::string_view value);
[[nodiscard]] Result<TruncateRecord> decode_truncate(std::string_view value);
[[nodiscard]] Result<RemovalRecord> decode_removal(std::string_view value);
[[nodiscard]] Result<InlineRecord> decode_inline(std::string_view value);
[[nodiscard]] Result<RestoreRecord> decode_restore(std::string_view value);
[[nodiscard]] Result<RestoredRecord> decode_restored(std::string_view value);
[[nodiscard]] Result<layout::Policy> decode_policy(std::string_view value);
[[nodiscard]] Result<SuperblockInfo> decode_superblock(std::string_view value);
[[nodiscard]] Result<std::uint64_t> decode_counter(std::string_view value);

// 1 to kMaxNameBytes bytes, no '/', no NUL, not "." and not "..".
[[nodiscard]] bool is_entry_name(std::string_view name);

}  // namespace weft::mds
