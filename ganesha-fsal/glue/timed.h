// Takes the time of operations that Ganesha calls (server/operation_times.h):
//
//   ops.lookup = guarded<timed<TimedOp::kLookup, &lookup>>;
//
// Only for operations on an object, since it is their export's server that counts them.
//
// Threading: that of the operations.
#pragma once

#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/server/operation_times.h"

namespace weft::mds {

// From its making to its end, of the running operation.
class OperationTimer {
 public:
  explicit OperationTimer(TimedOp op)
      : server_(this_export().server()), op_(op), began_(server_.environment().clock.now()) {}
  OperationTimer(const OperationTimer&) = delete;
  OperationTimer& operator=(const OperationTimer&) = delete;
  ~OperationTimer() { server_.times().add(op_, server_.environment().clock.now() - began_); }

 private:
  MetadataServer& server_;
  const TimedOp op_;
  const TimePoint began_;
};

template <TimedOp op, auto function>
struct Timed;

template <TimedOp op, class R, class... A, R (*function)(A...)>
struct Timed<op, function> {
  static R call(A... args) {
    const OperationTimer timer(op);
    return function(args...);
  }
};

template <TimedOp op, auto function>
inline constexpr auto timed = &Timed<op, function>::call;

}  // namespace weft::mds
