// What a Channel delivers: one record, and where its parts lie.
//
// Threading: a value. Ownership: whoever has it; memory that is the peer's goes back to the channel
// with the last Buffer of it, and the pools outlive all of them.
#pragma once

#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/bulk_apart.h"

namespace weft::rpc {

struct ReceivedRecord {
  // The record, one contiguous Buffer; without its end where that came apart.
  Buffer bytes = {};
  // Its bulk data, the record's end, if it is not among the bytes. Piped: only from channels that
  // were told to (TcpLimits::pipe_from). In memory: through shared memory (shm/bulk_channel.h),
  // where the peer may change it at any time, or by RDMA, read from the peer's memory or a copy of
  // what the peer wrote.
  BulkApart apart = {};
  // Memory of the peer's that was lent with the record, in the order it was spliced; the peer may
  // change it at any time. What it is for the record says. Only from channels that lend
  // (shm/shm_channel.h).
  std::vector<Buffer> loans = {};
  // Memory that a call brings for its answer's bulk data (Message::set_room()): the peer's, through
  // shared memory. By RDMA there is none: the channel keeps what the call brought.
  Buffer room = {};
  // The bytes are the first ones of a record of a stranger or a client that is not worth memory,
  // and the rest was thrown away. Only from channels that were told to look (TcpLimits::look).
  bool head_only = false;
};

}  // namespace weft::rpc
