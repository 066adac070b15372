#include "rpc/transport/rdma/client_channel.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <unordered_map>

#include "rpc/base/assert.h"
#include "rpc/base/running_clock.h"
#include "rpc/transport/deadlines.h"
#include "rpc/transport/rdma/call.h"

namespace weft::rpc::rdma {
namespace {

using boost::system::error_code;
using Milliseconds = CallLimits::Milliseconds;

constexpr Milliseconds kStarvedTick{5};

std::uint32_t number_of(const Message& message) { return word_at(message.bytes().bytes(), 0); }

std::shared_ptr<Arena> arena_of(const Exposed& exposed) {
  WEFT_ASSERT(exposed.memory != nullptr);
  auto arena = std::make_shared<Arena>(exposed.memory);
  arena->pin();
  return arena;
}

class ClientChannel final : public Channel,
                            public QueuePairUser,
                            public std::enable_shared_from_this<ClientChannel> {
 public:
  ClientChannel(boost::asio::io_context& context, BufferPool& pool,
                std::unique_ptr<QueuePair> queue_pair, CallLimits limits,
                std::shared_ptr<Counts> counts)
      : context_(context),
        pool_(pool),
        limits_(limits),
        counts_(counts == nullptr ? std::make_shared<Counts>() : std::move(counts)),
        handle_(queue_pair->exposed().handle),
        stage_(queue_pair->exposed().memory->size(), arena_of(queue_pair->exposed())),
        queue_pair_(std::move(queue_pair)),
        credits_(std::min(limits_.credits, queue_pair_->max_receives())),
        clock_(kLongestTick),
        timer_(context),
        last_activity_(clock_.now()) {}

  void start(std::shared_ptr<ChannelUser> user) override;
  void send(Message message) override;
  void pause() override { paused_ = true; }
  void resume() override;
  void close(Error why, bool drain) override;
  void post(std::move_only_function<void()> work) override {
    boost::asio::post(context_, std::move(work));
  }
  [[nodiscard]] const std::string& peer() const override { return queue_pair_->peer(); }
  [[nodiscard]] bool by_rdma() const override { return true; }
  [[nodiscard]] std::size_t queued_bytes() const override;

  void on_completion(Completion completion) override;
  void on_disconnected(const Error& why) override {
    connected_ = false;
    fail_with(why);
  }

 private:
  enum class State {
    kOpen,
    kFlushing,  // closing, with calls still to send
    kClosed,
  };

  [[nodiscard]] Result<> post_receives();
  void process();
  // kBusy: no memory; the answer stays where it is.
  [[nodiscard]] Result<> take(const Completion& sent);
  void receive_again();

  void push_calls();
  [[nodiscard]] Result<> push_call(const Message& message);
  void post_work();

  void starve();
  void start_timer();
  [[nodiscard]] Milliseconds tick_interval() const;
  void tick();
  [[nodiscard]] std::optional<Error> late(TimePoint now) const;
  void flushed_all();
  void fail_with(Error why);
  void finish_close();

  boost::asio::io_context& context_;
  BufferPool& pool_;
  const CallLimits limits_;
  const std::shared_ptr<Counts> counts_;
  const std::uint32_t handle_;
  BufferPool stage_;  // of what is exposed
  const std::unique_ptr<QueuePair> queue_pair_;
  const std::size_t credits_;
  RunningClock clock_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ChannelUser> user_;

  State state_ = State::kOpen;
  Error why_{Errc::kClosed, {}};
  bool connected_ = false;
  bool paused_ = false;
  bool process_posted_ = false;

  std::size_t granted_ = 1;         // until the peer has said more (RFC 8166 section 3.3.1)
  std::deque<Message> waiting_;     // for credits, or for room
  std::deque<Completion> arrived_;  // answers that were not looked at
  std::unordered_map<std::uint32_t, CallMemory> calls_;  // that are not answered
  std::deque<Work> works_;                               // to be posted
  std::size_t under_way_ = 0;                            // posted, without receives
  std::size_t bytes_under_way_ = 0;                      // of what is sent
  std::vector<std::byte> header_;  // of the answer that is looked at: out of the peer's reach

  // Since when, for the deadlines; the epoch when not so.
  TimePoint starved_since_{};
  TimePoint closing_since_{};
  TimePoint moved_at_{};  // the last time at which work was done, or began
  TimePoint last_activity_;
};

void ClientChannel::start(std::shared_ptr<ChannelUser> user) {
  WEFT_ASSERT(user_ == nullptr && state_ == State::kOpen);
  user_ = std::move(user);
  counts_->connections.fetch_add(1, std::memory_order_relaxed);
  if (auto posted = post_receives(); !posted) return fail_with(std::move(posted.error()));
  connected_ = true;
  queue_pair_->start(shared_from_this());
  start_timer();
}

Result<> ClientChannel::post_receives() {
  for (std::size_t i = 0; i < credits_; ++i) {
    auto memory = stage_.allocate(limits_.receive_bytes);
    if (!memory) return pass(memory);
    queue_pair_->post({.kind = Work::Kind::kReceive, .memory = std::move(*memory), .remote = {}});
  }
  return {};
}

// --- Sending -------------------------------------------------------------------------------------

void ClientChannel::send(Message message) {
  if (state_ != State::kOpen) return;
  WEFT_ASSERT(user_ != nullptr && message.bytes().size() >= kLeastMessage);
  if (waiting_.size() >= limits_.max_waiting) {
    return fail_with({Errc::kBusy, "too many calls wait for " + peer()});
  }
  waiting_.push_back(std::move(message));
  push_calls();
}

void ClientChannel::push_calls() {
  while (state_ != State::kClosed && !waiting_.empty() && calls_.size() < granted_) {
    // The same once more: when it could be told whose the answer is.
    if (calls_.contains(number_of(waiting_.front()))) return;
    if (auto pushed = push_call(waiting_.front()); !pushed) {
      // What others have comes back when they are answered, and have been sent.
      if (!(pushed.error() == Errc::kBusy)) return fail_with(std::move(pushed.error()));
      if (!calls_.empty() || under_way_ > 0) return;
      return fail_with({Errc::kTooLarge, "a call larger than what may be exposed to " + peer()});
    }
    waiting_.pop_front();
  }
}

Result<> ClientChannel::push_call(const Message& message) {
  auto call = make_call(static_cast<std::uint32_t>(credits_), message, *queue_pair_, stage_);
  if (!call) return pass(call);
  counts_->calls.fetch_add(1, std::memory_order_relaxed);
  counts_->bytes_out.fetch_add(call->memory.bulk.size() + call->memory.whole.size(),
                               std::memory_order_relaxed);
  calls_.emplace(number_of(message), std::move(call->memory));
  works_.push_back(std::move(call->send));
  post_work();
  return {};
}

void ClientChannel::post_work() {
  while (state_ != State::kClosed && !works_.empty() && under_way_ < queue_pair_->max_work()) {
    if (under_way_++ == 0) moved_at_ = clock_.now();
    Work work = std::move(works_.front());
    works_.pop_front();
    bytes_under_way_ += work.memory.size();
    queue_pair_->post(std::move(work));
  }
}

std::size_t ClientChannel::queued_bytes() const {
  std::size_t bytes = bytes_under_way_;
  for (const Work& work : works_) bytes += work.memory.size();
  for (const Message& message : waiting_) bytes += message.size();
  return bytes;
}

void ClientChannel::on_completion(Completion completion) {
  if (state_ == State::kClosed) return;
  const Work::Kind kind = completion.work.kind;
  if (!completion.done) {
    // Receives fail when the connection has ended, which on_disconnected() says better.
    if (kind == Work::Kind::kReceive) return;
    return fail_with({Errc::kUnreachable, "the device could not reach " + peer()});
  }
  last_activity_ = clock_.now();
  if (kind == Work::Kind::kReceive) {
    arrived_.push_back(std::move(completion));
    return process();
  }
  moved_at_ = last_activity_;
  --under_way_;
  bytes_under_way_ -= completion.work.memory.size();
  completion = {};  // its memory may be what others wait for
  post_work();
  push_calls();
  if (state_ == State::kFlushing) flushed_all();
}

// --- Receiving -----------------------------------------------------------------------------------

void ClientChannel::resume() {
  paused_ = false;
  if (std::exchange(process_posted_, true)) return;
  post([self = shared_from_this()] {
    self->process_posted_ = false;
    self->process();
  });
}

// While it is closing, what is answered makes room for what is still to be sent.
void ClientChannel::process() {
  while (state_ != State::kClosed && !arrived_.empty() &&
         (!paused_ || state_ == State::kFlushing)) {
    if (auto taken = take(arrived_.front()); !taken) {
      if (taken.error() == Errc::kBusy) return starve();
      return fail_with(std::move(taken.error()));
    }
    push_calls();
    if (state_ == State::kFlushing) flushed_all();
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
  if (state_ == State::kOpen) {
    auto copied = copy_answer(start->xid, *answered, call->second, pool_);
    if (!copied) return std::unexpected(copied.error());
    delivery = std::move(*copied);
  }
  starved_since_ = {};
  granted_ = std::min<std::size_t>(start->credits, credits_);
  calls_.erase(call);
  receive_again();
  if (state_ != State::kOpen) return {};
  counts_->bytes_in.fetch_add(answered->bulk_bytes + answered->reply_bytes,
                              std::memory_order_relaxed);
  if (delivery.bulk.empty()) {
    user_->on_record(std::move(delivery.record));
  } else {
    user_->on_bulk_record(std::move(delivery.record), std::move(delivery.bulk), {});
  }
  return {};
}

// What arrived first is read, and its memory is free for another.
void ClientChannel::receive_again() {
  Work work = std::move(arrived_.front().work);
  arrived_.pop_front();
  queue_pair_->post(std::move(work));
}

// --- Deadlines -----------------------------------------------------------------------------------

void ClientChannel::starve() {
  if (starved_since_ != TimePoint{}) return;
  starved_since_ = clock_.now();
  start_timer();
}

Milliseconds ClientChannel::tick_interval() const {
  return rpc::tick_interval({limits_.send_deadline, limits_.memory_deadline, limits_.drain_deadline,
                             limits_.idle_deadline});
}

void ClientChannel::start_timer() {
  // While memory is short, it is asked for again soon.
  timer_.expires_after(starved_since_ == TimePoint{} ? tick_interval() : kStarvedTick);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->tick();
  });
}

std::optional<Error> ClientChannel::late(TimePoint now) const {
  const auto beyond = [now](TimePoint since, Milliseconds deadline) {
    return is_over(since, deadline, now);
  };
  if (state_ == State::kFlushing) {
    if (!beyond(closing_since_, limits_.drain_deadline)) return std::nullopt;
    return why_;
  }
  if (under_way_ > 0 && beyond(moved_at_, limits_.send_deadline)) {
    return Error{Errc::kTimedOut, peer() + " takes no calls"};
  }
  if (beyond(starved_since_, limits_.memory_deadline)) {
    return Error{Errc::kBusy, "no memory for answers of " + peer()};
  }
  if (limits_.idle_deadline.count() > 0 && beyond(last_activity_, limits_.idle_deadline)) {
    return Error{Errc::kTimedOut, peer() + " is idle"};
  }
  return std::nullopt;
}

void ClientChannel::tick() {
  if (auto why = late(clock_.tick())) return fail_with(std::move(*why));
  if (starved_since_ != TimePoint{}) process();
  if (state_ != State::kClosed) start_timer();
}

// --- Closing -------------------------------------------------------------------------------------

void ClientChannel::close(Error why, bool drain) {
  if (state_ == State::kClosed) return;
  if (!drain || user_ == nullptr) return fail_with(std::move(why));
  if (state_ != State::kOpen) return;
  why_ = std::move(why);
  state_ = State::kFlushing;
  closing_since_ = clock_.now();
  flushed_all();
}

void ClientChannel::flushed_all() {
  if (waiting_.empty() && works_.empty() && under_way_ == 0) finish_close();
}

void ClientChannel::fail_with(Error why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen) why_ = std::move(why);
  finish_close();
}

void ClientChannel::finish_close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (user_ != nullptr) counts_->connections.fetch_sub(1, std::memory_order_relaxed);
  timer_.cancel();
  arrived_.clear();
  waiting_.clear();
  works_.clear();
  bytes_under_way_ = 0;
  // The memory of calls stays theirs: the peer may reach it until it is disconnected.
  if (connected_) queue_pair_->disconnect();
  // Later: the user may be in the middle of a call of ours or theirs.
  post([self = shared_from_this()] {
    if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(self->why_);
  });
}

}  // namespace

std::shared_ptr<Channel> call_over(boost::asio::io_context& context, BufferPool& pool,
                                   std::unique_ptr<QueuePair> queue_pair, CallLimits limits,
                                   std::shared_ptr<Counts> counts) {
  return std::make_shared<ClientChannel>(context, pool, std::move(queue_pair), limits,
                                         std::move(counts));
}

}  // namespace weft::rpc::rdma
