// What a calling end sends for one call, and what an answer says of it.
//
// What is larger than the peer takes inline it reads from memory that the call brings: the one
// payload of a message from a Read chunk at its place in the message (RFC 8267: the data of a
// WRITE), the rest from the chunk of position zero. For an answer's bulk data a call that expects
// some brings a Write chunk; every other call brings a Reply chunk, for an answer too large to come
// inline.
//
// All of it lies in memory that is exposed to this peer alone (queue_pair.h), and is copied there.
// Whatever the peer does to it, it does to what it is sent, or sends itself: nothing there is
// looked at but by a copy of it.
//
// Threading: functions without state; they take memory from pools, and make_call() reads files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/onc/message.h"
#include "rpc/transport/rdma/header.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

// Holds the largest answer without bulk data that the servers of a system give each other.
constexpr std::size_t kReplyRoom = std::size_t{16} << 10;

// Memory that the peer reaches for one call: until it is answered.
struct CallMemory {
  Buffer whole;  // the message, if it is not inline; read by the peer, as the next
  Buffer bulk;   // taken out of it
  Buffer write;  // room for the answer's bulk data
  Buffer reply;  // and for the answer
};

struct OutgoingCall {
  CallMemory memory;
  Work send;
};

// `stage` is a pool of what the queue pair exposes. kBusy: it has no room now. kTooLarge: it never
// has, or the header alone is larger than the peer takes. Others: a payload could not be read.
[[nodiscard]] Result<OutgoingCall> make_call(std::uint32_t credits, const Message& message,
                                             const QueuePair& queue_pair, BufferPool& stage);

// Where the parts of an answer are.
struct Answered {
  std::optional<std::span<const std::byte>> message;  // inline; else the first reply_bytes of reply
  std::size_t reply_bytes = 0;
  std::size_t bulk_bytes = 0;  // of the memory for bulk data, its first
};

// Reads on behind the Start of an answer to the call that has this memory, exposed as `handle`.
// kProtocol: it is none, refuses the call, or speaks of other memory, or of more. kTooLarge: more
// chunks than we take.
[[nodiscard]] Result<Answered> read_answer(const Start& start, xdr::Decoder& in,
                                           std::span<const std::byte> received,
                                           const CallMemory& memory, std::uint32_t handle);

// What a user is given of an answer.
struct Delivery {
  Buffer record;
  std::vector<Buffer> bulk;
};
// Into memory of `pool`. kBusy: it has none now. kProtocol: it is no RPC message of this number.
[[nodiscard]] Result<Delivery> copy_answer(std::uint32_t xid, const Answered& answered,
                                           const CallMemory& memory, BufferPool& pool);

}  // namespace weft::rpc::rdma
