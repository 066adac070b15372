// The intent log of a parity group. File `parity-log` of the data server's folder.
//
//   header   16 bytes "weft parity 1\n" and two zero bytes
//   frame    u32 0x5750464d | u32 kind | u32 bytes of the body | u32 0 | body | zeros up to a
//            multiple of 8 | u64 XXH64 of the frame before it
//
//   kind 1 dirty    object | u64 region: writes may be under way in this part of the object; with
//                   the highest bit: while a member is out the object was cut within this region,
//                   or removed, so it has nothing behind its begin but what other frames name
//   kind 2 clean    object: its regions are stable at all members
//   kind 3 cut      object | u64 size | u32 0, or 1 to remove it: being done
//   kind 4 cut done object
//   kind 5 content  object | u64 size of the object | u32 count, then for each: u32 member |
//                   u32 1 for checksums | u64 offset there | opaque<> bytes
//   kind 6 punch    object | u64 first stripe | u64 stripe after the last
//
// object: u64 fileid | u32 generation | u32 fsid. Numbers are big-endian. A frame is synced before
// what it announces begins, but for `clean`, which may be lost. So the last frames may be torn, and
// then nothing was done about them. Contents and punches are written while a member is out, and
// hold what is to be written at the others: then a stripe half written is as good as lost.
//
// decode_group_log() gives what is left to be done. A cut takes with it what was before it.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "dataserver/parity/geometry.h"
#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::ds {

// In a region's number.
constexpr std::uint64_t kCutFrom = std::uint64_t{1} << 63;

struct LogDirty {
  layout::ObjectId object;
  std::uint64_t region = 0;
  friend bool operator==(const LogDirty&, const LogDirty&) = default;
};
struct LogClean {
  layout::ObjectId object;
  friend bool operator==(const LogClean&, const LogClean&) = default;
};
struct LogCut {
  layout::ObjectId object;
  std::uint64_t size = 0;
  bool remove = false;
  friend bool operator==(const LogCut&, const LogCut&) = default;
};
struct LogCutDone {
  layout::ObjectId object;
  friend bool operator==(const LogCutDone&, const LogCutDone&) = default;
};
struct LogContent {
  struct Piece {
    std::uint32_t member = 0;
    bool sums = false;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  layout::ObjectId object;
  std::uint64_t size = 0;
  std::vector<Piece> pieces;
  friend bool operator==(const LogContent&, const LogContent&) = default;
};
struct LogPunch {
  layout::ObjectId object;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const LogPunch&, const LogPunch&) = default;
};
using LogFrame = std::variant<LogDirty, LogClean, LogCut, LogCutDone, LogContent, LogPunch>;

constexpr std::size_t kMaxLogBody = std::size_t{64} << 20;
constexpr std::size_t kMaxLogPieces = 4096;

[[nodiscard]] std::vector<std::byte> group_log_header();
[[nodiscard]] std::vector<std::byte> encode(const LogFrame& frame);

struct DecodedLog {
  std::vector<LogFrame> frames;
  std::size_t good_bytes = 0;  // what follows is torn
};
// kCorrupt when the header does not hold. An empty log is one without frames.
[[nodiscard]] Result<DecodedLog> decode_group_log(std::span<const std::byte> bytes);

// What is to be done about a log.
struct LogState {
  std::map<layout::ObjectId, std::set<std::uint64_t>> dirty;
  std::map<layout::ObjectId, LogCut> cuts;
  std::vector<LogFrame> redo;  // contents and punches, in order
};
[[nodiscard]] LogState replay(std::vector<LogFrame> frames, const ParityGeometry& geometry);

}  // namespace weft::ds
