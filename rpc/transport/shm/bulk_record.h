// What goes in front of an RPC message in a BulkChannel's records, and the first record of one.
//
//   BulkHello   the accepting side's first record: what it is
//   BulkHead    in front of every message after that
//
// In the machine's byte order, as record.h. Decoders look at copies that the peer cannot change.
//
// Threading: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/base/error.h"

namespace weft::rpc {

using ServerIdentity = std::array<std::byte, 16>;

constexpr std::uint64_t kBulkMagic = 0x3153'464e'5446'4557;  // "WEFTNFS1"

struct BulkHello {
  std::uint64_t magic = kBulkMagic;
  ServerIdentity server{};
};
static_assert(sizeof(BulkHello) == 24);

struct BulkHead {
  static constexpr std::uint32_t kRoom = 1;  // a call: the last loan is for the answer's bulk data

  std::uint32_t bulk = 0;  // bytes that come apart: a call's in its loans, an answer's in the room
  std::uint32_t flags = 0;
};
static_assert(sizeof(BulkHead) == 8);

// kProtocol for anything but a hello, and for one of a later kind.
[[nodiscard]] Result<BulkHello> decode_bulk_hello(std::span<const std::byte> record);
// The head of a record with that many loans, of `lent` bytes without the room's. kProtocol: it is
// no head, there is no RPC message behind it, or it does not fit the loans.
[[nodiscard]] Result<BulkHead> decode_call_head(std::span<const std::byte> record,
                                                std::span<const std::size_t> loans);
// Of an answer to a call that brought `room` bytes.
[[nodiscard]] Result<BulkHead> decode_answer_head(std::span<const std::byte> record,
                                                  std::size_t room);
// The first word of the message behind a head: the call's number. Precondition: a head was decoded.
[[nodiscard]] std::uint32_t xid_behind_head(std::span<const std::byte> record);

}  // namespace weft::rpc
