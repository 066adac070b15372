// Checks a metadata store: the namespace's invariants (namespace.h) and every value's form.
//
// Of what the registry of data servers keeps (ganesha-fsal/cluster) devices, and which data servers
// there are, are known here. The caller says what the rest is to be like.
//
// Give it a snapshot, or a store that nobody changes. It reads every key once or twice and keeps
// about 100 bytes in memory for each inode.
//
// Threading: a function; the reader is used by the calling thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

enum class ProblemKind : std::uint8_t {
  kMalformed,      // a key or value that does not decode
  kUnknownKey,     // of no kind this program knows
  kDanglingEntry,  // an entry whose inode is missing, or in a directory that is missing
  kWrongType,      // an entry and its inode disagree about what it is
  kCookieIndex,    // entries and the cookie index do not match
  kLinkCount,
  kDirectorySize,
  kUnreachable,   // an inode without a name that is no orphan; a directory not below the root
  kParent,        // a directory's parent record is missing or wrong
  kOrphan,        // an orphan with links, or without an inode
  kReverseIndex,  // the reverse index does not match layouts and removals
  kLayout,        // a layout map, or a pending truncate, of nothing that may have one
  kServer,        // a layout map names a data server that never registered, or is forgotten
  kJournal,       // the journal and the layout maps do not match
  kPolicy,        // a policy of nothing that may have one
  kInline,        // bytes of an inline file that do not fit it, or of none
  kXattr,         // extended attributes without inode, or miscounted
  kCounter,       // the file number counter is not above every file number
};

[[nodiscard]] std::string_view to_string(ProblemKind kind);

struct Problem {
  ProblemKind kind = ProblemKind::kMalformed;
  FileId id = 0;     // the inode concerned, 0 when none can be named
  std::string text;  // for people
};

struct FsckReport {
  static constexpr std::size_t kMaxProblems = 1000;  // listed; all are counted
  std::vector<Problem> problems;
  std::uint64_t problem_count = 0;
  std::uint64_t inodes = 0;
  std::uint64_t directories = 0;
  std::uint64_t entries = 0;
  std::uint64_t orphans = 0;  // no problem: the next start, or --reclaim, removes them
  std::uint64_t layouts = 0;
  std::uint64_t removals = 0;
  std::uint64_t truncates = 0;
  std::uint64_t xattrs = 0;
  std::uint64_t policies = 0;      // of directories, and taken by files
  std::uint64_t inline_files = 0;  // with bytes in the store
  std::uint64_t inline_bytes = 0;
  std::uint64_t written = 0;  // files in the journal: no problem, the next start looks at them
  std::uint64_t stale = 0;    // objects that missed writes: no problem, to be mended
  std::uint64_t moves = 0;    // files that are being moved

  std::uint64_t restored = 0;  // of a backup, not compared yet, or found damaged
  std::uint64_t damaged = 0;   // of these, found damaged

  [[nodiscard]] bool clean() const { return problem_count == 0; }
};

// Whether a key of the registry (S, W) and its value are of their form.
using CheckRegistry = std::function<Result<>(std::string_view key, std::string_view value)>;

// kIo, kNotSupported (a later format), kNotFound (no superblock: not a store of ours). Damage is
// no error but in the report. Without `registry` its values are not looked at.
[[nodiscard]] Result<FsckReport> fsck(const KvReader& reader, const CheckRegistry& registry = {});

}  // namespace weft::mds
