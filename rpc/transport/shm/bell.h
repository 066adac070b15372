// The bell by which a sleeping side of a shared-memory channel is woken: an eventfd of its own,
// which it passes to the peer. The peer writes to it; its owner watches it, and never reads it.
//
// Waking a thread so takes one write(2) of the one side and one epoll_wait(2) of the other: epoll
// reports each write to a descriptor that it watches edge-triggered, though it has been readable
// all the time. Boost.Asio watches its own interrupter in this way, and has no public interface to
// it: its waits and reads arm the descriptor anew, or read until there is nothing. So this reaches
// into boost::asio::detail: an operation on the epoll reactor that says each time that it is done,
// and is queued again, which makes no system call. Known for Boost 1.81.
//
// Ownership: the operation is the reactor's, and keeps what `rung` holds, until stop(), or until
// the io_context is destroyed. The context outlives the Bell, as it does a socket.
//
// Threading: the context's thread, which has to be the only one that runs it (a write that another
// one saw just while the operation is not queued would be lost); ring() is for any.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::rpc {

class Bell {
 public:
  // Fails when no descriptor is free.
  [[nodiscard]] static Result<OwnedFd> make();
  // Wakes the owner of a bell. False: its counter is full, which takes a peer that writes more to
  // it than rings, and nobody was woken. Waits if the owner made it to (it may clear O_NONBLOCK,
  // which belongs to the open file): only for owners that may stop this process anyway.
  [[nodiscard]] static bool ring(int bell);

  // None: nothing to listen to.
  explicit Bell(OwnedFd fd) : fd_(std::move(fd)) {}
  ~Bell() { stop(); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // Calls `rung` on the context's thread after every ring, once for several, until stop(). It is
  // destroyed later than that. Called once.
  [[nodiscard]] Result<> listen(boost::asio::execution_context& context,
                                std::move_only_function<void()> rung);
  // May come from within `rung`.
  void stop();

 private:
  struct Watch;
  class Operation;

  OwnedFd fd_;
  std::shared_ptr<Watch> watch_;  // while listening
};

}  // namespace weft::rpc
