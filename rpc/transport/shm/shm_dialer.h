// The connecting end of the shared-memory transport.
//
// Threading: the returned function is called on `context`'s thread and calls back there.
#pragma once

#include <boost/asio/io_context.hpp>

#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/shm/shm_options.h"

namespace weft::rpc {

// Connects to a Unix socket and shares the pool's arena. kUnreachable, kTimedOut; kAccess when
// somebody listens who may not (ShmDialerOptions::users); kInvalid when the pool has no arena.
// context and pool outlive every channel made.
[[nodiscard]] Dial shm_dialer(boost::asio::io_context& context, BufferPool& pool,
                              ShmDialerOptions options);

}  // namespace weft::rpc
