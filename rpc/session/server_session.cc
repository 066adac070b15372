#include "rpc/session/server_session.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::rpc {
namespace {

using nfs4::Status;

constexpr std::size_t kMaxTakers = 8;  // of one reply: as many connections sent the request again

ServerSession::Begun refuse(Status status) { return {ServerSession::Verdict::kRefuse, status, {}}; }

}  // namespace

ServerSession::ServerSession(nfs4::SessionId id, std::shared_ptr<ServerClient> client,
                             const Limits& limits)
    : id_(id),
      client_(std::move(client)),
      limits_(limits),
      slots_(std::make_unique<Slot[]>(limits.slots)) {
  WEFT_ASSERT(limits.slots > 0);
}

ServerSession::Begun ServerSession::begin(const nfs4::SequenceArgs& args, std::uint32_t op_count) {
  if (dead()) return refuse(Status::NFS4ERR_BADSESSION);
  if (args.slot >= limits_.slots) return refuse(Status::NFS4ERR_BADSLOT);
  if (args.highest_slot >= limits_.slots || args.highest_slot < args.slot) {
    return refuse(Status::NFS4ERR_BAD_HIGH_SLOT);
  }
  Slot& slot = slots_[args.slot];
  Word seen = slot.word.load(std::memory_order_acquire);
  for (;;) {
    const auto state = static_cast<State>(seen >> 32);
    const auto last = static_cast<std::uint32_t>(seen);
    if (state == kReading) {
      // Another connection copies the kept reply out, a matter of nanoseconds.
      std::this_thread::yield();
      seen = slot.word.load(std::memory_order_acquire);
      continue;
    }
    if (state == kRunning || state == kTaken) {
      if (args.sequence == last) return {Verdict::kRunning, Status::NFS4_OK, {}};
      return refuse(Status::NFS4ERR_SEQ_MISORDERED);
    }
    if (args.sequence == last + 1) {
      if (client_->key_dropped.load(std::memory_order_acquire)) {
        return refuse(Status::NFS4ERR_DELAY);
      }
      if (!slot.word.compare_exchange_weak(seen, word(kRunning, args.sequence),
                                           std::memory_order_acq_rel)) {
        continue;
      }
      slot.op_count = op_count;
      slot.kept = false;
      return {Verdict::kExecute, Status::NFS4_OK, {}};
    }
    if (state == kUnused || args.sequence != last) return refuse(Status::NFS4ERR_SEQ_MISORDERED);
    if (!slot.word.compare_exchange_weak(seen, word(kReading, last), std::memory_order_acq_rel)) {
      continue;
    }
    return replay(slot, args, op_count);
  }
}

ServerSession::Begun ServerSession::replay(Slot& slot, const nfs4::SequenceArgs& args,
                                           std::uint32_t op_count) {
  Begun out;
  if (slot.op_count != op_count) {
    out = refuse(Status::NFS4ERR_SEQ_FALSE_RETRY);
  } else if (slot.kept) {
    out = {Verdict::kReplay, Status::NFS4_OK, slot.reply};
  } else {
    out = {Verdict::kUncached, Status::NFS4_OK, {}};
  }
  slot.word.store(word(kIdle, args.sequence), std::memory_order_release);
  return out;
}

bool ServerSession::wait_for_reply(const nfs4::SequenceArgs& args,
                                   std::unique_ptr<ReplyTaker>& taker) {
  WEFT_ASSERT(args.slot < limits_.slots);
  Slot& slot = slots_[args.slot];
  std::unique_ptr<ReplyTaker> before;
  {
    const MutexLock lock(takers_mutex_);
    Word running = word(kRunning, args.sequence);
    const bool running_yet = slot.word.compare_exchange_strong(running, word(kTaken, args.sequence),
                                                               std::memory_order_acq_rel) ||
                             running == word(kTaken, args.sequence);
    if (!running_yet) return false;
    Takers& takers = takers_[args.slot];
    takers.push_back(std::move(taker));
    if (takers.size() > kMaxTakers) {
      before = std::move(takers.front());
      takers.erase(takers.begin());
    }
  }
  if (before != nullptr) before->take({});
  return true;
}

std::vector<std::unique_ptr<ReplyTaker>> ServerSession::finish(
    std::uint32_t slot_index, std::optional<std::span<const std::byte>> reply) {
  WEFT_ASSERT(slot_index < limits_.slots);
  Slot& slot = slots_[slot_index];
  Word running = slot.word.load(std::memory_order_relaxed);
  WEFT_ASSERT(running >> 32 == kRunning || running >> 32 == kTaken);
  if (reply && reply->size() <= limits_.max_kept) {
    slot.reply.assign(reply->begin(), reply->end());
    slot.kept = true;
  } else {
    slot.reply.clear();
    slot.kept = false;
  }
  const Word idle = word(kIdle, static_cast<std::uint32_t>(running));
  running = word(kRunning, static_cast<std::uint32_t>(running));
  if (slot.word.compare_exchange_strong(running, idle, std::memory_order_acq_rel)) return {};
  const MutexLock lock(takers_mutex_);
  auto taken = takers_.extract(slot_index);
  WEFT_ASSERT(!taken.empty());
  slot.word.store(idle, std::memory_order_release);
  return std::move(taken.mapped());
}

bool ServerSession::busy() const {
  return std::any_of(slots_.get(), slots_.get() + limits_.slots, [](const Slot& slot) {
    const Word state = slot.word.load(std::memory_order_acquire) >> 32;
    return state == kRunning || state == kTaken;
  });
}

nfs4::SequenceOk ServerSession::answer(const nfs4::SequenceArgs& args) const {
  return {.session = id_,
          .sequence = args.sequence,
          .slot = args.slot,
          .highest_slot = limits_.slots - 1,
          .target_highest_slot = limits_.slots - 1,
          .status_flags = 0};  // a data server never sets any
}

}  // namespace weft::rpc
