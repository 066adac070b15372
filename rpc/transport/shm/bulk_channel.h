// RPC over shared memory: a Channel over a ShmChannel that carries RPC messages, and the bulk data
// at their ends in memory that both processes share, never through the rings.
//
// The connecting side is the client, and lends (shm_channel.h). The data of a WRITE it lends with
// the call. For that of a READ it lends room, which the server fills: from the page cache with one
// copy. What comes so is delivered apart: the message up to the length of its bulk data, whose
// padding is left out, and the data. Small payloads, and all for which no memory is left, go in the
// message, through the ring.
//
// The server speaks first: a hello that says which server it is. A client that finds another one
// behind the path than it looks for does without.
//
// A call's room stays with the channel until the call is answered, and then is the answer's data.
// When the connection ends, it is ShmChannel's to wait until the server surely writes no more.
//
// Threading and ownership: channel.h. Between this, the ShmChannel and the user there is no circle
// once the user has let go of its channel.
//
// Invariants:
//  1. A message's head is a copy that the peer cannot change; of what it can, nothing but bulk data
//     is looked at.
//  2. There is room for at most one answer for each call that is not answered, so a session's slots
//     bound it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "rpc/transport/channel.h"
#include "rpc/transport/shm/bulk_record.h"
#include "rpc/transport/shm/shm_options.h"

namespace weft::rpc {

// Payloads below go through the ring: a copy costs less than a loan.
constexpr std::size_t kApartFrom = 4096;
// Holds any message of a session with transfers of 1 MiB, if need be with its bulk data.
constexpr std::size_t kBulkRing = std::size_t{4} << 20;

// Bytes of bulk data through shared memory, since the start. Any thread.
struct BulkCounts {
  std::atomic<std::uint64_t> to_server{0};
  std::atomic<std::uint64_t> to_client{0};
};

// The accepting side of a channel that ShmServer made, not started yet.
[[nodiscard]] std::shared_ptr<Channel> serve_bulk(std::shared_ptr<Channel> accepted,
                                                  const ServerIdentity& self,
                                                  std::shared_ptr<BulkCounts> counts);

struct BulkDialOptions {
  ShmDialerOptions shm{.path = {}, .ring_capacity = kBulkRing, .users = {}, .limits = {}};
  ServerIdentity server{};                      // whom the path must lead to
  std::function<void(const Error&)> on_closed;  // of a channel that was made; on its thread
};

// The connecting side: connects to the socket, and hears who is there. As shm_dialer(); kStale for
// another server. context and pool outlive every channel made.
[[nodiscard]] Dial bulk_dialer(boost::asio::io_context& context, BufferPool& pool,
                               BulkDialOptions options, std::shared_ptr<BulkCounts> counts);

// The same over a channel that stands and lends, not started yet.
void connect_bulk(boost::asio::io_context& context, BufferPool& pool,
                  std::shared_ptr<Channel> lender, BulkDialOptions options,
                  std::shared_ptr<BulkCounts> counts,
                  std::move_only_function<void(Result<std::shared_ptr<Channel>>)> done);

}  // namespace weft::rpc
