// The serving end of RPC over RDMA (RFC 8166, for NFS version 4 RFC 8267): a Channel over a
// QueuePair.
//
// A call comes inline, or in the Read chunk of position zero. The bulk data of a WRITE is in one
// further Read chunk; both are read from the client's memory into the pool's before the call is
// delivered. Where nothing comes behind the bulk data it is delivered apart; else as one record, as
// by TCP.
//
// The places that a call brings for its answer stay here, found by the answer's xid. The one
// payload of an answer is written to the Write chunk, straight from where it is if the device
// reaches that, and from a copy else. What is left of the answer goes inline, or to the Reply chunk
// if it is too large for that. An answer without a place is answered RDMA_ERROR, as is a header
// that cannot be used. A client that wants it has the handle of its call's chunks invalidated by
// the answer, if all segments have one and the same.
//
// Credits: as many calls may be unanswered as were granted, each has a receive posted, and it is
// posted again before its call is answered, so a client that keeps to its credits always finds one.
// A peer says itself how often this end tries to reach a receive of its, which may be for ever: so
// calls are left where they are while it takes no answers, and it is given up in time.
//
// Memory: a receive for each credit; what is fetched, within the pool's shares for peers of its
// standing and, while memory is short, for one host (rpc/base/standing.h). For memory that is not
// there calls and answers wait, in order, up to a deadline. A stranger's large call, and a client's
// call with bulk data, is looked at before that is fetched, if its message is inline.
//
// Not here: calls of the server to its client (RFC 8167).
//
// Threading and ownership: channel.h. The queue pair belongs to the channel, and the channel lives
// until that is disconnected.
//
// Invariants:
//  1. No more than Limits::credits calls are unanswered; one more ends the connection.
//  2. What answers hold that the peer has not taken is bounded: no call is taken while they and
//     calls that are not answered are twice the credits, or 8 MiB are still to be sent; of a
//     stranger while a few Sends are. What was taken by then still adds its answers.
//  3. Nothing a peer sends, or fails to do, ends more than its connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <memory>

#include "rpc/base/buffer.h"
#include "rpc/base/standing.h"
#include "rpc/onc/record_reader.h"
#include "rpc/transport/admission.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/deadlines.h"
#include "rpc/transport/rdma/counts.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

using Milliseconds = std::chrono::milliseconds;

struct Limits {
  std::size_t credits = 32;
  std::size_t receive_bytes = 4096;  // inline, of one message; what the peer was told
  // A connection has memory for its receives for its whole life: of this pool as far as it goes, so
  // that it does not make memory short for what is under way, and of the connection's then. Of the
  // same arena; it outlives the channel.
  BufferPool* receives = nullptr;
  // Of a call with what is fetched for it. 1 MiB of data and room for headers by default.
  std::size_t max_record_bytes = (std::size_t{1} << 20) + (std::size_t{8} << 10);
  Milliseconds fetch_deadline{15'000};          // until a call's chunks have been read
  Milliseconds idle_deadline{600'000};          // without anything either way; 0: none
  Milliseconds send_deadline{60'000};           // until what is posted is done
  Milliseconds memory_deadline{10'000};         // waiting for the buffer pool
  Milliseconds drain_deadline{kDrainDeadline};  // a draining close

  // As TcpLimits.
  Standing standing = Standing::kServer;
  std::size_t max_stranger_bytes = std::size_t{4} << 10;
  LookAtHead look = {};
  Milliseconds stranger_deadline{15'000};
  // Of what is sent, while memory is short. What is queued is to be gone in fetch_deadline.
  std::size_t least_rate = std::size_t{64} << 10;  // bytes a second
  Milliseconds slow_deadline{5'000};
};

// Over a queue pair that is not accepted yet; start() posts receives and accepts. context is the
// queue pair's thread's; it and pool outlive the channel.
[[nodiscard]] std::shared_ptr<Channel> serve(boost::asio::io_context& context, BufferPool& pool,
                                             std::unique_ptr<QueuePair> queue_pair, Limits limits,
                                             ConnectionPlace place = {},
                                             std::shared_ptr<Counts> counts = nullptr);

}  // namespace weft::rpc::rdma
