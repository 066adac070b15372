// One session at the server: its slots, and with them the promise that each request is executed
// exactly once (RFC 8881 section 2.10.6). Sans-io.
//
// A slot remembers the sequence number of its last request, whether that is still running, and,
// once it is done, a reply small enough to keep. begin() says what to do with a request; whoever
// was told kExecute owns the slot until finish().
//
// A client sends a request again over a new connection when it has lost the one before, and then
// waits for the answer there, perhaps for ever (Linux does). So a request that comes while it runs
// takes the reply over: the newest that came is answered, and no other.
//
// Threading: any thread. A slot's sequence number and state share one atomic word, changed by
// compare-and-exchange, so that requests of one session arriving on several connections agree on
// who executes without a lock. The kept reply belongs to whoever made the state kRunning or
// kReading. A mutex is for what is rare: that a reply is taken over.
//
// Invariants:
//  1. A refused request changes nothing: the slot keeps its sequence number and reply.
//  2. Between begin() == kExecute and finish() no other caller gets kExecute for that slot.
//  3. A kept reply is never larger than the limit given at construction.
//  4. A slot has takers exactly while its state is kTaken, seen under the mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rpc/base/mutex.h"
#include "rpc/nfs4/session_ops.h"
#include "rpc/onc/message.h"
#include "rpc/session/handler.h"

namespace weft::rpc {

// A client id of the server; the table's mutex protects what is not atomic here (client_table.h).
struct ServerClient {
  static constexpr std::int64_t kEnded = std::numeric_limits<std::int64_t>::min();

  // A sign of life at that time. False: its lease has ended before.
  [[nodiscard]] bool renew(std::int64_t now_ns) {
    std::int64_t seen = renewed_ns.load(std::memory_order_relaxed);
    while (seen != kEnded) {
      const std::int64_t latest = std::max(seen, now_ns);
      if (renewed_ns.compare_exchange_weak(seen, latest, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  // Ends the lease if the last sign of life is the one that was seen. False: it is not.
  [[nodiscard]] bool end(std::int64_t seen) {
    return renewed_ns.compare_exchange_strong(seen, kEnded, std::memory_order_acq_rel);
  }
  void end() { renewed_ns.store(kEnded, std::memory_order_release); }

  ClientInfo info;                          // constant once the client is confirmed
  std::atomic<std::int64_t> renewed_ns{0};  // Clock::now() of the last sign of life, or kEnded
  std::atomic<bool> reclaim_complete{false};
  // It is a server, or an OpHandler has seen that it has a right (Compound::shows_right).
  std::atomic<bool> has_right{false};
  // It is a server that showed a key which is accepted no more: nothing of it is begun, and it goes
  // once nothing of it runs.
  std::atomic<bool> key_dropped{false};
};

// Waits for the reply to a request that runs already.
class ReplyTaker {
 public:
  ReplyTaker() = default;
  ReplyTaker(const ReplyTaker&) = delete;
  ReplyTaker& operator=(const ReplyTaker&) = delete;
  virtual ~ReplyTaker() = default;
  // The reply; or nothing: too many wait for it. Called once, from any thread.
  virtual void take(std::optional<Message> reply) = 0;
};

class ServerSession {
 public:
  struct Limits {
    std::uint32_t slots = 1;
    std::uint32_t max_request = 0;
    std::uint32_t max_response = 0;
    std::uint32_t max_response_cached = 0;  // as negotiated: what cache_this may ask for
    std::uint32_t max_operations = 0;
    std::size_t max_kept = 0;  // bytes of a reply kept in a slot
  };

  ServerSession(nfs4::SessionId id, std::shared_ptr<ServerClient> client, const Limits& limits);
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  enum class Verdict : std::uint8_t {
    kExecute,   // new: run it and call finish()
    kReplay,    // done before: Begun::reply is the kept reply
    kUncached,  // done before, reply not kept: NFS4ERR_RETRY_UNCACHED_REP
    kRunning,   // running right now: wait_for_reply()
    kRefuse,    // Begun::status
  };
  struct Begun {
    Verdict verdict = Verdict::kRefuse;
    nfs4::Status status = nfs4::Status::NFS4_OK;
    std::vector<std::byte> reply;
  };

  // op_count tells a retransmission from another request under an old number
  // (NFS4ERR_SEQ_FALSE_RETRY).
  [[nodiscard]] Begun begin(const nfs4::SequenceArgs& args, std::uint32_t op_count);
  // The reply to the request that runs on the slot goes to `taker`, which is moved from, as well.
  // Of many the first is told that it gets none. False: that request is over, begin() anew.
  [[nodiscard]] bool wait_for_reply(const nfs4::SequenceArgs& args,
                                    std::unique_ptr<ReplyTaker>& taker);
  // Ends the request that begin() let run on `slot`. `reply` is kept when given and small enough.
  // Who waits for the reply, besides who sent the request. Which transmission's connection is still
  // read nobody here knows: what was buffered of an old one may be seen after a newer one. So each
  // is answered.
  [[nodiscard]] std::vector<std::unique_ptr<ReplyTaker>> finish(
      std::uint32_t slot, std::optional<std::span<const std::byte>> reply);

  // Whether a request runs. It looks at each slot.
  [[nodiscard]] bool busy() const;

  [[nodiscard]] nfs4::SequenceOk answer(const nfs4::SequenceArgs& args) const;

  // A dead session answers NFS4ERR_BADSESSION; requests already running go on.
  void kill() { dead_.store(true, std::memory_order_release); }
  [[nodiscard]] bool dead() const { return dead_.load(std::memory_order_acquire); }

  [[nodiscard]] const nfs4::SessionId& id() const { return id_; }
  [[nodiscard]] ServerClient& client() const { return *client_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  // state << 32 | sequence
  using Word = std::uint64_t;
  enum State : std::uint32_t { kUnused = 0, kIdle = 1, kRunning = 2, kReading = 3, kTaken = 4 };
  using Takers = std::vector<std::unique_ptr<ReplyTaker>>;
  struct alignas(64) Slot {
    std::atomic<Word> word{0};
    std::uint32_t op_count = 0;
    bool kept = false;
    std::vector<std::byte> reply;  // memory is taken when there is something to keep
  };
  static_assert(sizeof(Slot) == 64);  // there are 64 a session

  static constexpr Word word(State state, std::uint32_t sequence) {
    return Word{state} << 32 | sequence;
  }
  [[nodiscard]] Begun replay(Slot& slot, const nfs4::SequenceArgs& args, std::uint32_t op_count);

  const nfs4::SessionId id_;
  const std::shared_ptr<ServerClient> client_;
  const Limits limits_;
  std::unique_ptr<Slot[]> slots_;
  Mutex takers_mutex_;
  std::map<std::uint32_t, Takers> takers_ WEFT_GUARDED_BY(takers_mutex_);  // by slot; none empty
  std::atomic<bool> dead_{false};
};

}  // namespace weft::rpc
