#include "rpc/transport/rdma/server_channel.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <variant>

#include "rpc/base/assert.h"
#include "rpc/base/host_hold.h"
#include "rpc/base/running_clock.h"
#include "rpc/transport/deadlines.h"
#include "rpc/transport/rdma/answer.h"
#include "rpc/transport/rdma/incoming.h"

namespace weft::rpc::rdma {
namespace {

using boost::system::error_code;

constexpr Milliseconds kStarvedTick{5};

class ServerChannel final : public Channel,
                            public QueuePairUser,
                            public std::enable_shared_from_this<ServerChannel> {
 public:
  ServerChannel(boost::asio::io_context& context, BufferPool& pool,
                std::unique_ptr<QueuePair> queue_pair, Limits limits, ConnectionPlace place,
                std::shared_ptr<Counts> counts)
      : context_(context),
        pool_(pool),
        limits_(std::move(limits)),
        place_(std::move(place)),
        counts_(counts == nullptr ? std::make_shared<Counts>() : std::move(counts)),
        queue_pair_(std::move(queue_pair)),
        credits_(std::min(limits_.credits, queue_pair_->max_receives())),
        clock_(kLongestTick),
        timer_(context),
        standing_(limits_.standing),
        stranger_since_(clock_.now()),
        last_activity_(stranger_since_) {}

  ~ServerChannel() override {
    if (place_.gone) place_.gone();
  }

  void start(std::shared_ptr<ChannelUser> user) override;
  void send(Message message) override;
  void pause() override { paused_ = true; }
  void resume() override;
  [[nodiscard]] bool promote(Standing to) override {
    if (place_.promoted && !place_.promoted(to)) return false;
    standing_ = std::max(standing_, to);
    return true;
  }
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
    kFlushing,  // closing, with answers still to send
    kClosed,
  };

  // A call that is not answered.
  struct Call {
    Chunks places;
    Buffer record;
    Buffer bulk;
    std::optional<HostHold> hold;  // until it is delivered
    std::size_t fetching = 0;      // Reads that are not done
    TimePoint since;               // it came
    bool skipped = false;          // a stranger's, without what would have been fetched
  };
  struct Answer {
    std::uint32_t xid;
    std::variant<Message, Refused> content;
  };

  [[nodiscard]] Result<> post_receives();
  void process();
  // kBusy: no memory; the Send stays where it is.
  [[nodiscard]] Result<> take(const Completion& sent);
  [[nodiscard]] Result<PoolShare> judge(const Incoming& incoming, bool& skipped) const;
  [[nodiscard]] Result<> prepare(const Incoming& incoming, PoolShare share, Call& call,
                                 std::vector<Work>& reads);
  void read_into(Buffer& memory, std::size_t at, const Chunk& chunk, std::uint64_t from,
                 std::size_t size, std::uint32_t xid, std::vector<Work>& out);
  void receive_again();
  void count(const Completion& done);
  void deliver(std::uint32_t xid);
  void fetched(std::uint32_t xid);

  void push_answers();
  [[nodiscard]] Result<> push_answer(const Answer& answer);
  void push(std::vector<Work> work);
  void post_work();
  // Enough waits to be sent: nothing more is taken until it is less.
  [[nodiscard]] bool throttled() const {
    return answers_.size() > credits_ || works_.size() > 2 * credits_;
  }

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
  const Limits limits_;
  ConnectionPlace place_;
  const std::shared_ptr<Counts> counts_;
  const std::unique_ptr<QueuePair> queue_pair_;
  const std::size_t credits_;
  RunningClock clock_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ChannelUser> user_;

  State state_ = State::kOpen;
  Error why_{Errc::kClosed, {}};
  Standing standing_;
  bool connected_ = false;
  bool paused_ = false;
  bool process_posted_ = false;

  std::deque<Completion> arrived_;   // Sends of the peer that were not looked at
  std::deque<std::uint32_t> ready_;  // calls to deliver
  std::unordered_map<std::uint32_t, Call> calls_;
  std::deque<Answer> answers_;
  std::deque<Work> works_;           // to be posted
  std::size_t under_way_ = 0;        // posted, without receives
  std::size_t bytes_under_way_ = 0;  // of what is sent

  // Since when, for the deadlines; the epoch when not so.
  TimePoint starved_since_{};
  TimePoint closing_since_{};
  TimePoint moved_at_{};  // the last time at which work was done, or began
  TimePoint stranger_since_;
  TimePoint last_activity_;
};

void ServerChannel::start(std::shared_ptr<ChannelUser> user) {
  WEFT_ASSERT(user_ == nullptr && state_ == State::kOpen);
  user_ = std::move(user);
  // Before the peer may send: it does not try again where it finds no receive.
  if (auto posted = post_receives(); !posted) return fail_with(std::move(posted.error()));
  connected_ = true;
  queue_pair_->start(shared_from_this());
  start_timer();
}

Result<> ServerChannel::post_receives() {
  for (std::size_t i = 0; i < credits_; ++i) {
    auto memory = allocate(pool_, share_of(standing_), limits_.receive_bytes);
    if (!memory) return pass(memory);
    queue_pair_->post({.kind = Work::Kind::kReceive, .memory = std::move(*memory), .remote = {}});
  }
  return {};
}

// --- Receiving -----------------------------------------------------------------------------------

void ServerChannel::resume() {
  paused_ = false;
  if (std::exchange(process_posted_, true)) return;
  post([self = shared_from_this()] {
    self->process_posted_ = false;
    self->process();
  });
}

void ServerChannel::process() {
  while (state_ == State::kOpen && !paused_) {
    if (!ready_.empty()) {
      const std::uint32_t xid = ready_.front();
      ready_.pop_front();
      deliver(xid);
    } else if (!arrived_.empty() && !throttled()) {
      if (auto taken = take(arrived_.front()); taken)
        continue;
      else if (taken.error() == Errc::kBusy)
        return starve();
      else
        return fail_with(std::move(taken.error()));
    } else {
      return;
    }
  }
}

Result<> ServerChannel::take(const Completion& sent) {
  const auto incoming = read_incoming(sent.work.memory.span().first(sent.received));
  if (!incoming) return std::unexpected(incoming.error());
  const std::uint32_t xid = incoming->xid;
  if (incoming->ignored) {
    receive_again();
    return {};
  }
  const bool too_large = incoming->bytes() > limits_.max_record_bytes;
  if (incoming->refused || too_large) {
    const Refused why = incoming->refused.value_or(Refused::kChunk);
    receive_again();
    answers_.push_back({.xid = xid, .content = why});
    push_answers();
    return {};
  }
  if (calls_.size() == credits_) return fail(Errc::kProtocol, "more calls than credits");
  if (calls_.contains(xid)) return fail(Errc::kProtocol, "a call that is not answered, again");
  Call call{.places = incoming->places, .since = clock_.now()};
  std::vector<Work> reads;
  const auto share = judge(*incoming, call.skipped);
  if (!share) return std::unexpected(share.error());
  if (auto ready = prepare(*incoming, *share, call, reads); !ready) return ready;
  starved_since_ = {};
  call.fetching = reads.size();
  if (reads.empty()) ready_.push_back(xid);
  calls_.emplace(xid, std::move(call));
  receive_again();
  push(std::move(reads));
  return {};
}

// As RecordReader does with what strangers send by TCP.
Result<PoolShare> ServerChannel::judge(const Incoming& incoming, bool& skipped) const {
  if (standing_ != Standing::kStranger || incoming.bytes() <= limits_.max_stranger_bytes) {
    return share_of(standing_);
  }
  const Glance glance =
      limits_.look && !incoming.message.empty() ? limits_.look(incoming.message) : Glance::kRefuse;
  if (glance == Glance::kRefuse) return fail(Errc::kTooLarge, "a large call of a stranger");
  skipped = glance == Glance::kSkip;
  return skipped ? PoolShare::kStrangers : PoolShare::kClients;
}

// Memory for the call, what of it is inline, and the Reads for the rest.
Result<> ServerChannel::prepare(const Incoming& incoming, PoolShare share, Call& call,
                                std::vector<Work>& reads) {
  const bool apart = call.skipped || incoming.bulk_at_end();
  const std::size_t size = apart ? incoming.message_bytes() : incoming.bytes();
  if (size < kLeastMessage) return fail(Errc::kProtocol, "a record without an RPC message");
  if (place_.host != nullptr && standing_ != Standing::kServer && is_short(pool_)) {
    call.hold = HostHold::take(place_.host, pool_, call.skipped ? size : incoming.bytes());
    if (!call.hold) return fail(Errc::kBusy, "the host holds its share of memory");
  }
  auto record = allocate(pool_, share, size);
  if (!record) return pass(record);
  Buffer bulk;
  const std::size_t bulk_size = incoming.bulk ? incoming.bulk->chunk.size() : 0;
  if (apart && !call.skipped) {
    auto memory = allocate(pool_, share, bulk_size);
    if (!memory) return pass(memory);
    bulk = std::move(*memory);
    read_into(bulk, 0, incoming.bulk->chunk, 0, bulk_size, incoming.xid, reads);
  }
  // In front of the bulk data, and behind it and its padding.
  const std::size_t front =
      apart || !incoming.bulk ? incoming.message_bytes() : std::size_t{incoming.bulk->position};
  const std::size_t back = incoming.message_bytes() - front;
  if (incoming.whole) {
    read_into(*record, 0, *incoming.whole, 0, front, incoming.xid, reads);
    read_into(*record, size - back, *incoming.whole, front, back, incoming.xid, reads);
  } else {
    std::memcpy(record->data(), incoming.message.data(), front);
    std::memcpy(record->data() + size - back, incoming.message.data() + front, back);
  }
  if (!apart && bulk_size > 0) {
    read_into(*record, front, incoming.bulk->chunk, 0, bulk_size, incoming.xid, reads);
    std::memset(record->data() + front + bulk_size, 0, size - back - front - bulk_size);
  }
  call.record = std::move(*record);
  call.bulk = std::move(bulk);
  return {};
}

// Bytes [from, from + size) of the chunk.
void ServerChannel::read_into(Buffer& memory, std::size_t at, const Chunk& chunk,
                              std::uint64_t from, std::size_t size, std::uint32_t xid,
                              std::vector<Work>& out) {
  for (const Segment& segment : chunk.segments) {
    if (size == 0) return;
    if (from >= segment.length) {
      from -= segment.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(segment.length - from, size);
    auto to = memory.share(at, part);
    WEFT_ASSERT(to.has_value());
    out.push_back({.kind = Work::Kind::kRead,
                   .memory = std::move(*to),
                   .remote = {.handle = segment.handle,
                              .length = static_cast<std::uint32_t>(part),
                              .offset = segment.offset + from},
                   .tag = xid});
    at += part;
    size -= part;
    from = 0;
  }
  WEFT_ASSERT(size == 0);
}

// What arrived first is read, and its memory is free for another.
void ServerChannel::receive_again() {
  Work work = std::move(arrived_.front().work);
  arrived_.pop_front();
  queue_pair_->post(std::move(work));
}

void ServerChannel::fetched(std::uint32_t xid) {
  const auto call = calls_.find(xid);
  WEFT_ASSERT(call != calls_.end() && call->second.fetching > 0);
  if (--call->second.fetching == 0) ready_.push_back(xid);
}

void ServerChannel::deliver(std::uint32_t xid) {
  const auto found = calls_.find(xid);
  WEFT_ASSERT(found != calls_.end());
  Buffer record = std::move(found->second.record);
  Buffer bulk = std::move(found->second.bulk);
  found->second.hold.reset();
  // The answer is found by the number in the message, so they must not differ.
  if (word_at(record.span(), 0) != xid) {
    return fail_with({Errc::kProtocol, "an RPC message of another number than its header"});
  }
  if (found->second.skipped) {
    // More of the kind may be on their way, before it can do something about it.
    stranger_since_ = last_activity_;
    return user_->on_skipped_record(std::move(record));
  }
  if (bulk.empty()) return user_->on_record(std::move(record));
  // Its length is in front of it; some clients have padding in the chunk.
  const std::size_t length = word_at(record.span(), record.size() - 4);
  if (bulk.size() == xdr::padded(length)) bulk.truncate(length);
  std::vector<Buffer> parts;
  parts.push_back(std::move(bulk));
  user_->on_bulk_record(std::move(record), std::move(parts), {});
}

// --- Sending -------------------------------------------------------------------------------------

void ServerChannel::send(Message message) {
  if (state_ != State::kOpen) return;
  WEFT_ASSERT(message.bytes().size() >= kLeastMessage);
  const std::uint32_t xid = word_at(message.bytes().bytes(), 0);
  answers_.push_back({.xid = xid, .content = std::move(message)});
  push_answers();
}

void ServerChannel::push_answers() {
  while (state_ != State::kClosed && !answers_.empty()) {
    if (auto pushed = push_answer(answers_.front()); !pushed) {
      if (pushed.error() == Errc::kBusy) return starve();
      return fail_with(std::move(pushed.error()));
    }
    answers_.pop_front();
    starved_since_ = {};
  }
}

Result<> ServerChannel::push_answer(const Answer& answer) {
  const AnswerTo to{.xid = answer.xid, .credits = static_cast<std::uint32_t>(credits_)};
  const auto* message = std::get_if<Message>(&answer.content);
  Refused why = Refused::kChunk;
  if (message != nullptr) {
    const auto call = calls_.find(answer.xid);
    if (call == calls_.end()) return fail(Errc::kInternal, "an answer to nothing");
    auto work = make_answer(to, *message, call->second.places, *queue_pair_, pool_);
    if (work) {
      calls_.erase(call);
      push(std::move(*work));
      return {};
    }
    if (work.error() != Errc::kTooLarge) return pass(work);
  } else {
    why = std::get<Refused>(answer.content);
  }
  auto refusal = make_refusal(to, why, pool_);
  if (!refusal) return pass(refusal);
  // What is refused when it comes is no call that is known: a known one may have its number.
  if (message != nullptr) calls_.erase(answer.xid);
  std::vector<Work> work;
  work.push_back(std::move(*refusal));
  push(std::move(work));
  return {};
}

void ServerChannel::push(std::vector<Work> work) {
  for (Work& each : work) works_.push_back(std::move(each));
  post_work();
}

void ServerChannel::post_work() {
  while (state_ != State::kClosed && !works_.empty() && under_way_ < queue_pair_->max_work()) {
    if (under_way_++ == 0) moved_at_ = clock_.now();
    Work work = std::move(works_.front());
    works_.pop_front();
    if (work.kind != Work::Kind::kRead) bytes_under_way_ += work.memory.size();
    queue_pair_->post(std::move(work));
  }
}

std::size_t ServerChannel::queued_bytes() const {
  std::size_t bytes = bytes_under_way_;
  for (const Work& work : works_) {
    if (work.kind != Work::Kind::kRead) bytes += work.memory.size();
  }
  for (const Answer& answer : answers_) {
    if (const auto* message = std::get_if<Message>(&answer.content)) bytes += message->size();
  }
  return bytes;
}

void ServerChannel::count(const Completion& done) {
  const std::size_t bytes = done.work.memory.size();
  switch (done.work.kind) {
    case Work::Kind::kReceive: counts_->calls.fetch_add(1, std::memory_order_relaxed); break;
    case Work::Kind::kRead: counts_->bytes_in.fetch_add(bytes, std::memory_order_relaxed); break;
    case Work::Kind::kWrite: counts_->bytes_out.fetch_add(bytes, std::memory_order_relaxed); break;
    case Work::Kind::kSend: break;
  }
}

void ServerChannel::on_completion(Completion completion) {
  if (state_ == State::kClosed) return;
  const Work::Kind kind = completion.work.kind;
  if (!completion.done) {
    // Receives fail when the connection has ended, which on_disconnected() says better.
    if (kind == Work::Kind::kReceive) return;
    return fail_with({Errc::kUnreachable, "the device could not reach " + peer()});
  }
  last_activity_ = clock_.now();
  count(completion);
  if (kind == Work::Kind::kReceive) {
    arrived_.push_back(std::move(completion));
    return process();
  }
  moved_at_ = last_activity_;
  --under_way_;
  if (kind == Work::Kind::kRead) {
    fetched(static_cast<std::uint32_t>(completion.work.tag));
  } else {
    bytes_under_way_ -= completion.work.memory.size();
  }
  completion = {};  // its memory may be what others wait for
  post_work();
  push_answers();
  process();
  if (state_ == State::kFlushing) flushed_all();
}

// --- Deadlines -----------------------------------------------------------------------------------

void ServerChannel::starve() {
  if (starved_since_ != TimePoint{}) return;
  starved_since_ = clock_.now();
  start_timer();
}

Milliseconds ServerChannel::tick_interval() const {
  const bool stranger = limits_.standing == Standing::kStranger;
  return rpc::tick_interval({limits_.fetch_deadline, limits_.send_deadline, limits_.memory_deadline,
                             limits_.drain_deadline, limits_.idle_deadline,
                             stranger ? limits_.stranger_deadline : Milliseconds{0}});
}

void ServerChannel::start_timer() {
  // While memory is short, it is asked for again soon.
  timer_.expires_after(starved_since_ == TimePoint{} ? tick_interval() : kStarvedTick);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->tick();
  });
}

std::optional<Error> ServerChannel::late(TimePoint now) const {
  const auto beyond = [now](TimePoint since, Milliseconds deadline) {
    return is_over(since, deadline, now);
  };
  if (state_ == State::kFlushing) {
    if (!beyond(closing_since_, limits_.drain_deadline)) return std::nullopt;
    return why_;
  }
  for (const auto& [xid, call] : calls_) {
    if (call.fetching > 0 && beyond(call.since, limits_.fetch_deadline)) {
      return Error{Errc::kTimedOut, "chunks of " + peer() + " that cannot be read"};
    }
  }
  if (under_way_ > 0 && beyond(moved_at_, limits_.send_deadline)) {
    return Error{Errc::kTimedOut, peer() + " takes no answers"};
  }
  if (standing_ == Standing::kStranger && beyond(stranger_since_, limits_.stranger_deadline)) {
    return Error{Errc::kTimedOut, peer() + " does not show who it is"};
  }
  if (beyond(starved_since_, limits_.memory_deadline)) {
    return Error{Errc::kBusy, "no memory for calls of " + peer()};
  }
  if (limits_.idle_deadline.count() > 0 && beyond(last_activity_, limits_.idle_deadline)) {
    return Error{Errc::kTimedOut, peer() + " is idle"};
  }
  return std::nullopt;
}

void ServerChannel::tick() {
  if (state_ == State::kOpen && user_->is_awaited()) last_activity_ = clock_.now();
  if (auto why = late(clock_.tick())) return fail_with(std::move(*why));
  if (starved_since_ != TimePoint{}) {
    push_answers();
    process();
    if (state_ == State::kFlushing) flushed_all();
  }
  if (state_ != State::kClosed) start_timer();
}

// --- Closing -------------------------------------------------------------------------------------

void ServerChannel::close(Error why, bool drain) {
  if (state_ == State::kClosed) return;
  if (!drain) return fail_with(std::move(why));
  if (state_ != State::kOpen) return;
  why_ = std::move(why);
  state_ = State::kFlushing;
  closing_since_ = clock_.now();
  flushed_all();
}

void ServerChannel::flushed_all() {
  if (answers_.empty() && works_.empty() && under_way_ == 0) finish_close();
}

void ServerChannel::fail_with(Error why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen) why_ = std::move(why);
  finish_close();
}

void ServerChannel::finish_close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  timer_.cancel();
  arrived_.clear();
  ready_.clear();
  calls_.clear();
  answers_.clear();
  works_.clear();
  bytes_under_way_ = 0;
  if (connected_) queue_pair_->disconnect();
  // Later: the user may be in the middle of a call of ours or theirs.
  post([self = shared_from_this()] {
    if (self->place_.gone) std::exchange(self->place_.gone, nullptr)();
    if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(self->why_);
  });
}

}  // namespace

std::shared_ptr<Channel> serve(boost::asio::io_context& context, BufferPool& pool,
                               std::unique_ptr<QueuePair> queue_pair, Limits limits,
                               ConnectionPlace place, std::shared_ptr<Counts> counts) {
  return std::make_shared<ServerChannel>(context, pool, std::move(queue_pair), std::move(limits),
                                         std::move(place), std::move(counts));
}

}  // namespace weft::rpc::rdma
