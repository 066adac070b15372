// A short wait for memory, or for a member that is busy.
//
// Threading: on a thread with a ring; goes on there.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "dataserver/ring/io_ring.h"
#include "rpc/base/task.h"

namespace weft::ds::parity {

inline Task<bool> wait_a_moment() {
  boost::asio::steady_timer timer(IoRing::current()->context(), std::chrono::milliseconds(5));
  Join join;
  join.started();
  timer.async_wait([&join](const boost::system::error_code&) { join.ended(); });
  co_await join;
  co_return true;
}

}  // namespace weft::ds::parity
