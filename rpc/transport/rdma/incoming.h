// What a Send that a server received is: a call, something to be refused, or nothing.
//
// Threading: values and a pure function. An Incoming borrows the bytes it was read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rpc/transport/rdma/header.h"

namespace weft::rpc::rdma {

struct Incoming {
  std::uint32_t xid = 0;
  std::optional<Refused> refused;  // and nothing below
  bool ignored = false;            // nothing is below, and nothing is answered

  std::span<const std::byte> message;  // inline
  std::optional<Chunk> whole;          // or it is there
  std::optional<ReadChunk> bulk;       // what was taken out of it; not empty
  Chunks places;                       // for the answer; no Read chunks

  // Bytes of the message without its bulk data.
  [[nodiscard]] std::uint64_t message_bytes() const {
    return whole ? whole->size() : message.size();
  }
  // With it, as one run.
  [[nodiscard]] std::uint64_t bytes() const {
    return message_bytes() + (bulk ? (bulk->chunk.size() + 3) / 4 * 4 : 0);
  }
  // Whether nothing comes behind the bulk data.
  [[nodiscard]] bool bulk_at_end() const { return bulk && bulk->position == message_bytes(); }
};

// kProtocol: it has not even a header's start.
[[nodiscard]] Result<Incoming> read_incoming(std::span<const std::byte> received);

}  // namespace weft::rpc::rdma
