// What is posted for one answer: Writes to the places that its call brought, and the Send that says
// what is in them.
//
// Threading: functions without state; they take memory from the pool, and read files.
#pragma once

#include <cstdint>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/standing.h"
#include "rpc/onc/message.h"
#include "rpc/transport/rdma/header.h"
#include "rpc/transport/rdma/queue_pair.h"

namespace weft::rpc::rdma {

struct AnswerTo {
  std::uint32_t xid = 0;
  std::uint32_t credits = 0;              // granted
  PoolShare share = PoolShare::kReplies;  // of bulk data that has to be copied
};

// To be posted in order. kBusy: there is no memory, and nothing was changed. kTooLarge: it has no
// place (then refuse() with Refused::kChunk). Other errors: bulk data could not be read.
[[nodiscard]] Result<std::vector<Work>> make_answer(AnswerTo to, const Message& message,
                                                    const Chunks& places,
                                                    const QueuePair& queue_pair, BufferPool& pool);

// kBusy: there is no memory.
[[nodiscard]] Result<Work> make_refusal(AnswerTo to, Refused why, BufferPool& pool);

}  // namespace weft::rpc::rdma
