// A standing wait for a descriptor to be readable: it calls back each time epoll reports it, and
// makes no system call of its own.
//
// Epoll reports each event of a descriptor that it watches edge-triggered, though it has been
// readable all the time. Boost.Asio watches its own interrupter in this way, and has no public
// interface to it: its waits arm the descriptor anew (epoll_ctl(2)), and its reads read until there
// is nothing. So this reaches into boost::asio::detail: an operation on the epoll reactor that says
// each time that it is done, and is queued again. Known for Boost 1.81 and 1.83.
//
// Ownership: the descriptor is the caller's, and is closed after stop(). The operation is the
// reactor's, and keeps what `told` holds, until stop(), or until the io_context is destroyed. The
// context outlives this, as it does a socket.
//
// Threading: the context's thread, which has to be the only one that runs it (an event that another
// one saw just while the operation is not queued would be lost).
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "rpc/base/error.h"

namespace weft {

class EdgeWatch {
 public:
  EdgeWatch() = default;
  ~EdgeWatch() { stop(); }
  EdgeWatch(const EdgeWatch&) = delete;
  EdgeWatch& operator=(const EdgeWatch&) = delete;

  // Calls `told` on the context's thread after every event, once for several, until stop(): who is
  // told takes all that is there, or makes another event. It is destroyed later than that. Called
  // once. It is work of the context, which runs for as long.
  [[nodiscard]] Result<> start(boost::asio::execution_context& context, int descriptor,
                               std::move_only_function<void()> told);
  // May come from within `told`.
  void stop();

 private:
  struct Watched;
  class Operation;

  std::shared_ptr<Watched> watched_;  // while it is started
};

}  // namespace weft
