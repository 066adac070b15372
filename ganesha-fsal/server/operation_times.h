// How long the metadata server takes for what clients ask, by kind of operation.
//
// What the protocol's side answers from its own cache is not here. An operation ends when its
// outcome is known; the sync that its reply waits for comes later, once for a whole request, and
// is a number of its own.
//
// Threading: any thread, without locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rpc/base/latency.h"

namespace weft::mds {

enum class TimedOp : std::uint8_t {
  kLookup,
  kReaddir,
  kGetattr,
  kSetattr,
  kOpen,    // opening a file, which may make it
  kCreate,  // what is no file: directories, links, special files
  kRename,
  kRemove,
  kLayoutGet,
  kLayoutReturn,
  kLayoutCommit,
  kRead,
  kWrite,
  kCommit,
};

class OperationTimes {
 public:
  // In the order of TimedOp.
  static constexpr std::array<std::string_view, 14> kNames{
      "lookup", "readdir",   "getattr",      "setattr",      "open", "create", "rename",
      "remove", "layoutget", "layoutreturn", "layoutcommit", "read", "write",  "commit"};

  void add(TimedOp op, Nanoseconds took) { operations_[static_cast<std::size_t>(op)].add(took); }
  void add_reply_wait(Nanoseconds took) { reply_waits_.add(took); }

  [[nodiscard]] LatencyTotals total(std::size_t op) const { return operations_[op].total(); }
  [[nodiscard]] LatencyTotals reply_waits() const { return reply_waits_.total(); }

 private:
  std::array<SharedLatency, kNames.size()> operations_;
  SharedLatency reply_waits_;
};
static_assert(OperationTimes::kNames.size() == static_cast<std::size_t>(TimedOp::kCommit) + 1);

}  // namespace weft::mds
