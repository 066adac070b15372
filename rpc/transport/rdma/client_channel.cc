#include "rpc/transport/rdma/client_channel.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "rpc/base/assert.h"
#include "rpc/transport/rdma/call.h"
#include "rpc/transport/rdma/queue_pair_channel.h"

namespace weft::rpc::rdma {
namespace {

// Granted fewer, no credit is kept for urgent calls.
constexpr std::size_t kCreditsToSpare = 8;

std::uint32_t number_of(const Message& message) { return word_at(message.bytes().bytes(), 0); }

std::shared_ptr<Arena> arena_of(const Exposed& exposed) {
  WEFT_ASSERT(exposed.memory != nullptr);
  auto arena = std::make_shared<Arena>(exposed.memory);
  arena->pin();
  return arena;
}

class ClientChannel final : public QueuePairChannel {
 public:
  ClientChannel(boost::asio::io_context& context, BufferPool& pool,
                std::unique_ptr<QueuePair> queue_pair, CallLimits limits,
                std::shared_ptr<Counts> counts)
      : ClientChannel(context, pool, queue_pair->exposed(), std::move(queue_pair), limits,
                      std::move(counts)) {}

  void start(std::shared_ptr<ChannelUser> user) override {
    counts_->connections.fetch_add(1, std::memory_order_relaxed);
    QueuePairChannel::start(std::move(user));
  }
  void send(Message message) override;

 private:
  ClientChannel(boost::asio::io_context& context, BufferPool& pool, const Exposed& exposed,
                std::unique_ptr<QueuePair> queue_pair, CallLimits limits,
                std::shared_ptr<Counts> counts)
      : QueuePairChannel(context, std::move(queue_pair),
                         {.credits = limits.credits,
                          .idle_deadline = limits.idle_deadline,
                          .send_deadline = limits.send_deadline,
                          .memory_deadline = limits.memory_deadline,
                          .drain_deadline = limits.drain_deadline,
                          .sends = "calls",
                          .takes = "answers"}),
        pool_(pool),
        limits_(limits),
        counts_(counts == nullptr ? std::make_shared<Counts>() : std::move(counts)),
        handle_(exposed.handle),
        stage_(exposed.memory->size(), arena_of(exposed)) {}

  [[nodiscard]] Result<Buffer> memory_to_receive() override {
    return stage_.allocate(limits_.receive_bytes);
  }
  void process() override;
  // kBusy: no memory; the answer stays where it is.
  [[nodiscard]] Result<> take(const Completion& sent);

  void push() override;
  void push_urgent();
  [[nodiscard]] Result<> push_call(const Message& message);
  // Of what is granted, for calls that are not urgent.
  [[nodiscard]] std::size_t ordinary() const {
    return granted_ - (granted_ >= kCreditsToSpare && urgent_out_.empty() ? 1 : 0);
  }
  // Whether there is memory for an urgent call, whatever the others take.
  [[nodiscard]] bool reserve();
  [[nodiscard]] bool any_waits() const override { return !waiting_.empty() || !urgent_.empty(); }
  [[nodiscard]] std::size_t waiting_bytes() const override;
  void drop() override;

  BufferPool& pool_;
  const CallLimits limits_;
  const std::shared_ptr<Counts> counts_;
  const std::uint32_t handle_;
  BufferPool stage_;  // of what is exposed

  std::size_t granted_ = 1;      // until the peer has said more (RFC 8166 section 3.3.1)
  std::deque<Message> waiting_;  // for credits, or for room
  std::deque<Message> urgent_;   // likewise
  // What an urgent call takes: let go of for one, and taken again before any other goes.
  Buffer reserved_reply_;
  Buffer reserved_send_;
  std::unordered_set<std::uint32_t> urgent_out_;
  std::unordered_map<std::uint32_t, CallMemory> calls_;  // that are not answered
  std::vector<std::byte> header_;  // of the answer that is looked at: out of the peer's reach
};

// --- Sending -------------------------------------------------------------------------------------

void ClientChannel::send(Message message) {
  if (state() != State::kOpen) return;
  WEFT_ASSERT(user() != nullptr && message.bytes().size() >= kLeastMessage);
  if (waiting_.size() + urgent_.size() >= limits_.max_waiting) {
    return fail_with({Errc::kBusy, "too many calls wait for " + peer()});
  }
  (message.urgent() ? urgent_ : waiting_).push_back(std::move(message));
  push();
}

void ClientChannel::push_urgent() {
  while (state() != State::kClosed && !urgent_.empty() && calls_.size() < granted_) {
    const std::uint32_t number = number_of(urgent_.front());
    if (calls_.contains(number)) return;
    auto pushed = push_call(urgent_.front());
    if (!pushed && pushed.error() == Errc::kBusy && !reserved_reply_.empty()) {
      reserved_reply_.reset();
      reserved_send_.reset();
      pushed = push_call(urgent_.front());
    }
    if (!pushed) {
      if (pushed.error() == Errc::kBusy && (!calls_.empty() || any_under_way())) return;
      return fail_with(std::move(pushed.error()));
    }
    urgent_out_.insert(number);
    urgent_.pop_front();
  }
}

bool ClientChannel::reserve() {
  if (!reserved_reply_.empty()) return true;
  auto reply = stage_.allocate(kReplyRoom);
  auto send = stage_.allocate(queue_pair().max_send_bytes());
  if (!reply || !send) return false;
  reserved_reply_ = std::move(*reply);
  reserved_send_ = std::move(*send);
  return true;
}

void ClientChannel::push() {
  push_urgent();
  while (state() != State::kClosed && !waiting_.empty() && calls_.size() < ordinary()) {
    if (!reserve() && (!calls_.empty() || any_under_way())) return;
    // The same once more: when it could be told whose the answer is.
    if (calls_.contains(number_of(waiting_.front()))) return;
    if (auto pushed = push_call(waiting_.front()); !pushed) {
      // What others have comes back when they are answered, and have been sent.
      if (!(pushed.error() == Errc::kBusy)) return fail_with(std::move(pushed.error()));
      if (!calls_.empty() || any_under_way()) return;
      return fail_with({Errc::kTooLarge, "a call larger than what may be exposed to " + peer()});
    }
    waiting_.pop_front();
  }
}

Result<> ClientChannel::push_call(const Message& message) {
  auto call = make_call(static_cast<std::uint32_t>(credits()), message, queue_pair(), stage_);
  if (!call) return pass(call);
  counts_->calls.fetch_add(1, std::memory_order_relaxed);
  counts_->bytes_out.fetch_add(call->memory.bulk.size() + call->memory.whole.size(),
                               std::memory_order_relaxed);
  calls_.emplace(number_of(message), std::move(call->memory));
  add(std::move(call->send));
  post_work();
  return {};
}

std::size_t ClientChannel::waiting_bytes() const {
  std::size_t bytes = 0;
  for (const auto* queue : {&waiting_, &urgent_}) {
    for (const Message& message : *queue) bytes += message.size();
  }
  return bytes;
}

// --- Receiving -----------------------------------------------------------------------------------

// While it is closing, what is answered makes room for what is still to be sent.
void ClientChannel::process() {
  while (state() != State::kClosed && !arrived().empty() &&
         (!paused() || state() == State::kFlushing)) {
    if (auto taken = take(arrived().front()); !taken) {
      if (taken.error() == Errc::kBusy) return starve(Want::kToReceive);
      return fail_with(std::move(taken.error()));
    }
    push();
    if (state() == State::kFlushing) flushed_all();
  }
}

Result<> ClientChannel::take(const Completion& sent) {
  const auto received = sent.work.memory.span().first(sent.received);
  header_.assign(received.begin(), received.end());
  xdr::Decoder in(header_);
  const auto start = decode_start(in);
  if (!start) return std::unexpected(start.error());
  const auto call = calls_.find(start->xid);
  if (call == calls_.end()) return fail(Errc::kProtocol, "an answer to nothing");
  const auto answered = read_answer(*start, in, header_, call->second, handle_);
  if (!answered) return std::unexpected(answered.error());
  if (start->credits == 0) return fail(Errc::kProtocol, "a grant of no credits");
  Delivery delivery;
  if (state() == State::kOpen) {
    auto copied = copy_answer(start->xid, *answered, call->second, pool_);
    if (!copied) return std::unexpected(copied.error());
    delivery = std::move(*copied);
  }
  fed(Want::kToReceive);
  granted_ = std::min<std::size_t>(start->credits, credits());
  calls_.erase(call);
  urgent_out_.erase(start->xid);
  receive_again();
  if (state() != State::kOpen) return {};
  counts_->bytes_in.fetch_add(answered->bulk_bytes + answered->reply_bytes,
                              std::memory_order_relaxed);
  user()->on_record(
      {.bytes = std::move(delivery.record), .apart = {.lent = std::move(delivery.bulk)}});
  return {};
}

// The memory of calls stays theirs: the peer may reach it until it is disconnected.
void ClientChannel::drop() {
  if (user() != nullptr) counts_->connections.fetch_sub(1, std::memory_order_relaxed);
  waiting_.clear();
  urgent_.clear();
}

}  // namespace

std::shared_ptr<Channel> call_over(boost::asio::io_context& context, BufferPool& pool,
                                   std::unique_ptr<QueuePair> queue_pair, CallLimits limits,
                                   std::shared_ptr<Counts> counts) {
  return std::make_shared<ClientChannel>(context, pool, std::move(queue_pair), limits,
                                         std::move(counts));
}

}  // namespace weft::rpc::rdma
