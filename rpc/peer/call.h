// Calls and replies between servers, and the table of calls that wait for their reply.
//
// The payload of a message is an ONC RPC message (RFC 5531) of program kProgram without
// credentials: TLS has said already who sends it. Both ends call and both answer.
// A successful reply's results begin with a status word; one that is not 0 is followed by a text
// and nothing else.
//
// Threading: used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <variant>

#include "rpc/base/error.h"
#include "rpc/peer/request.h"

namespace weft::rpc::peer {

constexpr std::uint32_t kProgram = 0x20574654;  // in the range for users (RFC 5531 section 8.4.2)

constexpr std::size_t kMaxErrorText = 256;
constexpr std::size_t kMaxHeaderBytes = 64;  // what encode_call and encode_reply put before

struct Call {
  std::uint32_t xid = 0;
  std::uint32_t verb = 0;
  Bytes arguments;
};

struct Reply {
  std::uint32_t xid = 0;
  Result<Bytes> results;
};

[[nodiscard]] Bytes encode_call(std::uint32_t xid, std::uint32_t version, std::uint32_t verb,
                                std::span<const std::byte> arguments);
[[nodiscard]] Bytes encode_reply(std::uint32_t xid, const Result<Bytes>& results);

// kProtocol for anything but a call of our program in this version, or a reply.
[[nodiscard]] Result<std::variant<Call, Reply>> decode_message(std::span<const std::byte> payload,
                                                               std::uint32_t version);

// Which error travels as which number. Numbers are never reused; what is not listed is kInternal.
[[nodiscard]] std::uint32_t wire_status(Errc code);
[[nodiscard]] Errc errc_from_wire(std::uint32_t status);

// The calls that wait for a reply. Each is completed exactly once: answered, expired or failed.
class PendingCalls {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PendingCalls(std::size_t limit) : limit_(limit) {}

  // The xid to send the call with, or kBusy, and `done` untouched, at the limit.
  [[nodiscard]] Result<std::uint32_t> add(Clock::time_point deadline, Done<Bytes>&& done);
  // A reply that nobody waits for came after its deadline and is dropped.
  void answer(Reply reply);
  // Completes calls whose deadline has passed with kTimedOut.
  void expire(Clock::time_point now);
  void fail_all(const Error& why);
  // The first deadline; the end of time if nothing waits.
  [[nodiscard]] Clock::time_point earliest() const {
    return deadlines_.empty() ? Clock::time_point::max() : deadlines_.begin()->first;
  }
  [[nodiscard]] std::size_t size() const { return calls_.size(); }

 private:
  struct Waiting {
    Clock::time_point deadline;
    Done<Bytes> done;
  };

  const std::size_t limit_;
  std::uint32_t next_xid_ = 1;
  std::map<std::uint32_t, Waiting> calls_;
  std::multimap<Clock::time_point, std::uint32_t> deadlines_;
};

}  // namespace weft::rpc::peer
