// The calling end of RPC over RDMA (RFC 8166, for NFS version 4 RFC 8267): a Channel over a
// QueuePair that exposes memory.
//
// Calls are copied into that memory, and answers out of it: from and to it goes what is too large
// to go inline (call.h). An answer's bulk data is delivered apart, as its call expected it
// (Message::expect_bulk()); every other answer as one record, as by TCP.
//
// Credits: no more calls are unanswered than the peer has granted, one until its first answer. The
// others wait, in order, as do those for which the exposed memory has no room before others are
// answered. A receive is posted for each credit before it is used.
//
// Urgent calls (Message::set_urgent()) wait for urgent ones alone: a credit and memory are kept for
// one of them. So a peer that is slow with all that it was granted still says that it is there.
//
// What a broken peer does ends the connection: an answer to nothing, one that says it is where the
// call brought no place, RDMA_ERROR, a grant of no credits. What it does to the exposed memory
// meanwhile harms nothing but what it is sent, or sends itself.
//
// Memory: what is exposed, for its lifetime, beside the pool; answers are the pool's, and wait
// while that has none, up to a deadline.
//
// Not here: calls of the server to its client (RFC 8167). What is exposed is exposed for longer
// than a call, so remote invalidation is not asked for.
//
// Threading and ownership: channel.h. The queue pair belongs to the channel, and the channel lives
// until that is disconnected.
//
// Invariants:
//  1. At most the granted credits of calls are unanswered, and never more than receives are posted.
//  2. The memory of a call is used for no other before it is answered.
//  3. Nothing that a user is given lies in exposed memory.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <memory>

#include "rpc/base/buffer.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/deadlines.h"
#include "rpc/transport/rdma/counts.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

struct CallLimits {
  using Milliseconds = std::chrono::milliseconds;
  std::size_t credits = 32;                     // asked for, and no more are used
  std::size_t receive_bytes = 4096;             // inline, of one answer; what the peer was told
  std::size_t max_waiting = 4096;               // calls
  Milliseconds idle_deadline{600'000};          // without anything either way; 0: none
  Milliseconds send_deadline{60'000};           // until what is posted is done
  Milliseconds memory_deadline{10'000};         // waiting for the buffer pool
  Milliseconds drain_deadline{kDrainDeadline};  // a draining close
};

// What a connection exposes by default: seven calls with 1 MiB of data, and what goes with them.
constexpr std::size_t kExposedBytes = std::size_t{9} << 20;

// Over a queue pair that is connected and not started yet. context is the queue pair's thread's; it
// and pool outlive the channel. Precondition: the queue pair exposes memory.
[[nodiscard]] std::shared_ptr<Channel> call_over(boost::asio::io_context& context, BufferPool& pool,
                                                 std::unique_ptr<QueuePair> queue_pair,
                                                 CallLimits limits,
                                                 std::shared_ptr<Counts> counts = nullptr);

}  // namespace weft::rpc::rdma
