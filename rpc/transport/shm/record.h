// What a record in a ring contains: a message, memory lent with it, and lent memory given back.
//
//   RecordHead                     counts and sizes
//   std::uint32_t  [releases]      numbers of loans that the sender has no more use for
//   Loan           [loans]         memory lent with the message
//   std::byte      [message]       the message; may be missing when there are releases
//
// In the machine's byte order: both ends are on one machine. Everything is copied out of shared
// memory before it is looked at (decode_record() is given the copy).
//
// Threading: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rpc/base/error.h"

namespace weft::rpc {

constexpr std::size_t kMaxLoans = 256;  // of one record
constexpr std::size_t kMaxReleases = 1024;

struct RecordHead {
  std::uint32_t releases = 0;
  std::uint32_t loans = 0;
  std::uint32_t message = 0;      // bytes
  std::uint32_t has_message = 0;  // 0 or 1: an empty message is one too
};

struct Loan {
  std::uint64_t offset = 0;  // in the arena
  std::uint64_t size = 0;
  std::uint32_t number = 0;  // by which it is given back
  std::uint32_t unused = 0;
};

// The parts of a record; spans into the bytes it was decoded from.
struct Record {
  std::vector<std::uint32_t> releases;
  std::vector<Loan> loans;
  std::span<const std::byte> message;
  bool has_message = false;
};

// kProtocol: sizes that do not add up, too many parts, or a loan outside `arena_bytes`.
[[nodiscard]] Result<Record> decode_record(std::span<const std::byte> bytes,
                                           std::size_t arena_bytes);

}  // namespace weft::rpc
