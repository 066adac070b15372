// The bell by which a sleeping side of a shared-memory channel is woken: an eventfd of its own,
// which it passes to the peer. The peer writes to it; its owner watches it (rpc/base/edge_watch.h),
// and never reads it: waking a thread takes one write(2) of the one side and one epoll_wait(2) of
// the other.
//
// Threading: that of an EdgeWatch; ring() is for any.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "rpc/base/buffer.h"
#include "rpc/base/edge_watch.h"
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
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // Calls `rung` on the context's thread after every ring, once for several, until stop(). It is
  // destroyed later than that. Called once.
  [[nodiscard]] Result<> listen(boost::asio::execution_context& context,
                                std::move_only_function<void()> rung);
  // May come from within `rung`.
  void stop() { watch_.stop(); }

 private:
  OwnedFd fd_;
  EdgeWatch watch_;  // ends before the descriptor
};

}  // namespace weft::rpc
