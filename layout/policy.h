// Policy: how the files of an export or a directory are to be laid out, as people write it.
//
//   "stripes=4 unit=1MiB copies=2 duplication=server-sync reads=all"
//
//   stripes      data servers that a file's bytes are spread over: 1 to 58, or all
//   unit         bytes of a stripe unit: 4KiB to 1GiB, a multiple of 64; K, KiB, M, MiB, G, GiB
//   copies       1 to 3
//   duplication  who brings bytes to the other copies, and when a write is answered: server-async,
//                server-sync or client-sync; check() refuses client-async. For several copies
//   reads        one: layouts for reading name one copy; all: every copy, each for its part
//   inline       bytes up to which a file is kept in the metadata store: 0 (never) to 1MiB
//   skip         new: a mirror group that has nothing to spare may be left out of a new file (one
//                at most, CEFT-PVFS); never: a file has the stripes that it is to have
//   first        which mirror group has a file's first stripe unit. turn: with every new file the
//                next one; directory: the same for all new files of a directory, so that its small
//                files come to the same disks in the order in which they are made; a number, 1 to
//                2^63 - 1: the same for all that have it. A file takes its directory's number
//
// Keys stand once at most, in any order, with blanks, commas or line ends between them. A key that
// is not there is inherited: from the directory above, and so on to the export, and from
// defaults_for() last. A file takes what its directory has when it is made, and keeps it.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "layout/candidate.h"
#include "rpc/base/error.h"

namespace weft::layout {

struct Policy {
  std::optional<std::uint32_t> stripes;  // 0: all
  std::optional<std::uint32_t> unit;     // bytes
  std::optional<std::uint32_t> copies;
  std::optional<Duplication> duplication;
  std::optional<ReadPolicy> reads;
  std::optional<std::uint32_t> inline_bytes;  // 0: never
  std::optional<bool> skip;
  std::optional<std::uint64_t> first;  // kFirstByTurn, kFirstByDirectory, or a number

  friend bool operator==(const Policy&, const Policy&) = default;
};

constexpr std::uint64_t kFirstByDirectory = UINT64_MAX;
constexpr std::uint64_t kGreatestFirst = UINT64_MAX / 2;

constexpr std::size_t kMaxPolicyText = 512;
constexpr std::uint32_t kLeastUnit = 4u << 10;
constexpr std::uint32_t kGreatestUnit = 1u << 30;
// What one READ or WRITE carries: an inline file is read, or written, by one. Each write stores all
// of it anew, so a greater limit would cost more than it saves.
constexpr std::uint32_t kGreatestInline = 1u << 20;

// kInvalid for anything else than the above, naming the key and what it may be, and for a misspelt
// key or word the nearest right one. An empty text inherits everything.
[[nodiscard]] Result<Policy> parse_policy(std::string_view text);

// The keys that are set, in the order above; parses to the same.
[[nodiscard]] std::string to_string(const Policy& policy);

// What holds in a directory: its own keys, and those above for the rest.
[[nodiscard]] Policy inherit(const Policy& above, const Policy& own);

// What holds where nobody said anything; every key is set. The clients of a flexfiles layout write
// every copy themselves (client-sync), in one stripe; those of a files layout leave it to the
// servers.
[[nodiscard]] Policy defaults_for(LayoutType type);

// What an export's options say, every key set.
[[nodiscard]] Policy policy_of(const PlacementPolicy& options);
// What a file has, as its layout map says: without duplication and reads when it has one copy.
[[nodiscard]] Policy policy_of(const LayoutMap& map);

// Whether an export of this layout type can do it: the clients' protocols need flexfiles, the
// servers' need files, and so do stripes (ganesha-fsal/files/flex_grant.h). kInvalid saying so.
[[nodiscard]] Result<> check(const Policy& policy, LayoutType type);

// The policy as placement takes it; keys that are not set have their defaults. `reserve_bytes`
// stays as it is in `base`. Without a directory each file has its turn. Precondition:
// check(policy, type).
[[nodiscard]] PlacementPolicy placement_policy(const Policy& policy, LayoutType type,
                                               const PlacementPolicy& base = {});

}  // namespace weft::layout
