#include "rpc/transport/rdma/server_channel.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <variant>

#include "rpc/base/assert.h"
#include "rpc/base/host_hold.h"
#include "rpc/transport/deadlines.h"
#include "rpc/transport/rdma/answer.h"
#include "rpc/transport/rdma/incoming.h"
#include "rpc/transport/rdma/queue_pair_channel.h"
#include "rpc/transport/slow_peer.h"

namespace weft::rpc::rdma {
namespace {

// What is still to be sent, from which on no more calls are taken. As by TCP.
constexpr std::size_t kMostToSend = std::size_t{8} << 20;
// Work of a stranger that is waited for, likewise.
constexpr std::size_t kMostOfStranger = 8;
// Memory that a peer may hold for any time.
constexpr std::size_t kLittle = std::size_t{64} << 10;

// The one that all segments of the call's chunks have.
std::optional<std::uint32_t> only_handle(const Incoming& incoming) {
  std::optional<std::uint32_t> found;
  bool only = true;
  const auto add = [&](const Chunk& chunk) {
    for (const Segment& segment : chunk.segments) {
      only = only && segment.handle == found.value_or(segment.handle);
      found = segment.handle;
    }
  };
  if (incoming.whole) add(*incoming.whole);
  if (incoming.bulk) add(incoming.bulk->chunk);
  for (const Chunk& write : incoming.places.writes) add(write);
  if (incoming.places.reply) add(*incoming.places.reply);
  return only ? found : std::nullopt;
}

class ServerChannel final : public QueuePairChannel {
 public:
  ServerChannel(boost::asio::io_context& context, BufferPool& pool,
                std::unique_ptr<QueuePair> queue_pair, Limits limits, ConnectionPlace place,
                std::shared_ptr<Counts> counts)
      : QueuePairChannel(context, std::move(queue_pair), options_of(limits)),
        pool_(pool),
        limits_(std::move(limits)),
        place_(std::move(place)),
        counts_(counts == nullptr ? std::make_shared<Counts>() : std::move(counts)),
        standing_(limits_.standing),
        stranger_since_(now()),
        slow_(stranger_since_) {}

  ~ServerChannel() override {
    if (place_.gone) place_.gone();
  }

  void send(Message message) override;
  [[nodiscard]] bool promote(Standing to) override {
    if (to <= standing_) return true;
    if (place_.promoted && !place_.promoted(to)) return false;
    standing_ = to;
    return true;
  }

 private:
  // A call that is not answered.
  struct Call {
    Chunks places;
    std::optional<std::uint32_t> handle;  // to be invalidated by the answer
    Buffer record;
    Buffer bulk;
    std::optional<HostHold> hold;  // until it is delivered
    std::size_t fetching = 0;      // Reads that are not done
    TimePoint since;               // it came
    bool skipped = false;          // without its bulk data, which is not worth fetching
  };
  struct Answer {
    std::uint32_t xid;
    std::variant<Message, Refused> content;
  };

  [[nodiscard]] static Options options_of(const Limits& limits);
  [[nodiscard]] Result<Buffer> memory_to_receive() override {
    if (limits_.receives != nullptr) {
      if (auto memory = limits_.receives->allocate(limits_.receive_bytes); memory) return memory;
    }
    return allocate(pool_, share_of(standing_), limits_.receive_bytes);
  }
  void process() override;
  // kBusy: no memory; the Send stays where it is.
  [[nodiscard]] Result<> take(const Completion& sent);
  [[nodiscard]] bool unseen(const Incoming& incoming) const;
  [[nodiscard]] Result<PoolShare> judge(const Incoming& incoming, bool& skipped) const;
  [[nodiscard]] Result<> prepare(const Incoming& incoming, PoolShare share, Call& call,
                                 std::vector<Work>& reads);
  void read_into(Buffer& memory, std::size_t at, const Chunk& chunk, std::uint64_t from,
                 std::size_t size, std::uint32_t xid, std::vector<Work>& out);
  void done(const Completion& completion) override;
  void deliver(std::uint32_t xid);
  void fetched(std::uint32_t xid);

  void push() override;
  [[nodiscard]] Result<> push_answer(const Answer& answer);
  void push_work(std::vector<Work> work);
  // Enough waits to be sent: nothing more is taken until it is less. Some of it is under way then,
  // and what is done is told of.
  [[nodiscard]] bool throttled() const {
    if (standing_ == Standing::kStranger && waited_for() >= kMostOfStranger) return true;
    return answers_.size() > credits() || works() > 2 * credits() ||
           calls_.size() + sends() >= 2 * credits() || queued_bytes() > kMostToSend;
  }
  [[nodiscard]] bool any_waits() const override { return !answers_.empty(); }
  [[nodiscard]] std::size_t waiting_bytes() const override;
  [[nodiscard]] std::optional<Error> late_too(TimePoint now) override;
  [[nodiscard]] bool crawls(TimePoint now);
  void drop() override;
  void gone() override {
    if (place_.gone) std::exchange(place_.gone, nullptr)();
  }

  BufferPool& pool_;
  const Limits limits_;
  ConnectionPlace place_;
  const std::shared_ptr<Counts> counts_;

  Standing standing_;
  std::deque<std::uint32_t> ready_;  // calls to deliver
  std::unordered_map<std::uint32_t, Call> calls_;
  std::deque<Answer> answers_;
  TimePoint stranger_since_;
  SlowPeer slow_;
};

QueuePairChannel::Options ServerChannel::options_of(const Limits& limits) {
  Milliseconds own = limits.fetch_deadline;
  if (limits.standing == Standing::kStranger && limits.stranger_deadline.count() > 0) {
    own = std::min(own, limits.stranger_deadline);
  }
  return {.credits = limits.credits,
          .idle_deadline = limits.idle_deadline,
          .send_deadline = limits.send_deadline,
          .memory_deadline = limits.memory_deadline,
          .drain_deadline = limits.drain_deadline,
          .own_deadline = own,
          .sends = "answers",
          .takes = "calls"};
}

// --- Receiving -----------------------------------------------------------------------------------

void ServerChannel::process() {
  while (state() == State::kOpen && !paused()) {
    if (place_.is_cut()) return fail_with({Errc::kClosed, "cut"});
    if (!ready_.empty()) {
      const std::uint32_t xid = ready_.front();
      ready_.pop_front();
      deliver(xid);
    } else if (!arrived().empty() && !throttled()) {
      if (auto taken = take(arrived().front()); taken)
        continue;
      else if (taken.error() == Errc::kBusy)
        return starve(Want::kToReceive);
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
  if (incoming->refused || too_large || unseen(*incoming)) {
    const Refused why = incoming->refused.value_or(Refused::kChunk);
    receive_again();
    answers_.push_back({.xid = xid, .content = why});
    push();
    return {};
  }
  if (calls_.size() == credits()) return fail(Errc::kProtocol, "more calls than credits");
  if (calls_.contains(xid)) return fail(Errc::kProtocol, "a call that is not answered, again");
  Call call{.places = incoming->places, .since = now()};
  if (queue_pair().may_invalidate()) call.handle = only_handle(*incoming);
  std::vector<Work> reads;
  const auto share = judge(*incoming, call.skipped);
  if (!share) return std::unexpected(share.error());
  if (auto ready = prepare(*incoming, *share, call, reads); !ready) return ready;
  fed(Want::kToReceive);
  call.fetching = reads.size();
  if (reads.empty()) ready_.push_back(xid);
  calls_.emplace(xid, std::move(call));
  receive_again();
  push_work(std::move(reads));
  return {};
}

// Of a call that is in the chunk of position zero nothing can be looked at before it is read. No
// client has a reason to send a large one so: its head fits inline, and what it writes is bulk
// data.
bool ServerChannel::unseen(const Incoming& incoming) const {
  if (standing_ == Standing::kServer || !incoming.whole) return false;
  return incoming.bulk || incoming.bytes() > limits_.max_stranger_bytes;
}

// As RecordReader does with what strangers and clients send by TCP. Bulk data of any size is
// fetched, which is work for the device: so it is looked at whatever its size.
Result<PoolShare> ServerChannel::judge(const Incoming& incoming, bool& skipped) const {
  const bool stranger = standing_ == Standing::kStranger;
  const bool large = stranger && incoming.bytes() > limits_.max_stranger_bytes;
  const bool fetches = standing_ != Standing::kServer && incoming.bulk;
  if (!large && !fetches) {
    // What is whole is answered at once, and then needs no memory any more: that anybody may have.
    return stranger && !incoming.whole ? PoolShare::kServers : share_of(standing_);
  }
  const Glance glance = limits_.look ? limits_.look(incoming.message, standing_) : Glance::kRefuse;
  if (large && glance == Glance::kRefuse) {
    return fail(Errc::kTooLarge, "a large call of a stranger");
  }
  skipped = glance == Glance::kSkip;
  // So it is with the head of what is skipped.
  if (skipped || glance == Glance::kTakeOfServer) return PoolShare::kServers;
  return large ? PoolShare::kClients : share_of(standing_);
}

// Memory for the call, what of it is inline, and the Reads for the rest.
Result<> ServerChannel::prepare(const Incoming& incoming, PoolShare share, Call& call,
                                std::vector<Work>& reads) {
  const bool apart = call.skipped || incoming.bulk_at_end();
  const std::size_t size = apart ? incoming.message_bytes() : incoming.bytes();
  if (size < kLeastMessage) return fail(Errc::kProtocol, "a record without an RPC message");
  if (place_.host != nullptr && share != PoolShare::kServers && is_short(pool_)) {
    call.hold = HostHold::take(place_.host, pool_, incoming.bytes());
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
    stranger_since_ = last_activity();
    return user()->on_record({.bytes = std::move(record), .head_only = true});
  }
  if (bulk.empty()) return user()->on_record({.bytes = std::move(record)});
  // Its length is in front of it; some clients have padding in the chunk.
  const std::size_t length = word_at(record.span(), record.size() - 4);
  if (bulk.size() == xdr::padded(length)) bulk.truncate(length);
  std::vector<Buffer> parts;
  parts.push_back(std::move(bulk));
  user()->on_record({.bytes = std::move(record), .apart = {.lent = std::move(parts)}});
}

// --- Sending -------------------------------------------------------------------------------------

void ServerChannel::send(Message message) {
  if (state() != State::kOpen) return;
  WEFT_ASSERT(message.bytes().size() >= kLeastMessage);
  const std::uint32_t xid = word_at(message.bytes().bytes(), 0);
  answers_.push_back({.xid = xid, .content = std::move(message)});
  push();
}

void ServerChannel::push() {
  while (state() != State::kClosed && !answers_.empty()) {
    if (auto pushed = push_answer(answers_.front()); !pushed) {
      if (pushed.error() == Errc::kBusy) return starve(Want::kToSend);
      return fail_with(std::move(pushed.error()));
    }
    answers_.pop_front();
    fed(Want::kToSend);
  }
}

Result<> ServerChannel::push_answer(const Answer& answer) {
  AnswerTo to{.xid = answer.xid, .credits = static_cast<std::uint32_t>(credits())};
  if (standing_ == Standing::kServer) to.share = PoolShare::kServers;
  const auto* message = std::get_if<Message>(&answer.content);
  Refused why = Refused::kChunk;
  if (message != nullptr) {
    const auto call = calls_.find(answer.xid);
    if (call == calls_.end()) return fail(Errc::kInternal, "an answer to nothing");
    auto work = make_answer(to, *message, call->second.places, queue_pair(), pool_);
    if (work) {
      work->back().invalidate = call->second.handle;
      // What it leaves behind is little. Bulk data has memory to give back, and of a stranger
      // everything counts.
      work->back().quiet = work->size() == 1 && standing_ != Standing::kStranger;
      calls_.erase(call);
      push_work(std::move(*work));
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
  push_work(std::move(work));
  return {};
}

// It is one thing for the device, and told of when all is done.
void ServerChannel::push_work(std::vector<Work> work) {
  for (std::size_t i = 0; i < work.size(); ++i) {
    work[i].joined = i + 1 < work.size();
    add(std::move(work[i]));
  }
  post_work();
}

std::size_t ServerChannel::waiting_bytes() const {
  std::size_t bytes = 0;
  for (const Answer& answer : answers_) {
    if (const auto* message = std::get_if<Message>(&answer.content)) bytes += message->size();
  }
  return bytes;
}

void ServerChannel::done(const Completion& completion) {
  const std::size_t bytes = completion.work.memory.size();
  switch (completion.work.kind) {
    case Work::Kind::kReceive: counts_->calls.fetch_add(1, std::memory_order_relaxed); break;
    case Work::Kind::kRead:
      counts_->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
      fetched(static_cast<std::uint32_t>(completion.work.tag));
      break;
    case Work::Kind::kWrite: counts_->bytes_out.fetch_add(bytes, std::memory_order_relaxed); break;
    case Work::Kind::kSend:
    case Work::Kind::kNothing: break;
  }
}

// What it sends has come before it takes memory, or is fetched within fetch_deadline.
bool ServerChannel::crawls(TimePoint now) {
  if (standing_ == Standing::kServer) return false;
  return slow_.look(now,
                    {.least_rate = limits_.least_rate,
                     .whole = limits_.fetch_deadline,
                     .patience = limits_.slow_deadline,
                     .every = limits_.slow_deadline / 8},
                    {.sends = false,
                     .received = 0,
                     .takes = sends() > 0 && bytes_under_way() > kLittle,
                     .taken = bytes_sent(),
                     .queued = bytes_under_way(),
                     .memory_short = is_short(pool_)});
}

std::optional<Error> ServerChannel::late_too(TimePoint now) {
  for (const auto& [xid, call] : calls_) {
    if (call.fetching > 0 && is_over(call.since, limits_.fetch_deadline, now)) {
      return Error{Errc::kTimedOut, "chunks of " + peer() + " that cannot be read"};
    }
  }
  if (standing_ == Standing::kStranger &&
      is_over(stranger_since_, limits_.stranger_deadline, now)) {
    return Error{Errc::kTimedOut, peer() + " does not show who it is"};
  }
  if (crawls(now)) return Error{Errc::kTimedOut, peer() + " is slow, and memory short"};
  return std::nullopt;
}

void ServerChannel::drop() {
  ready_.clear();
  calls_.clear();
  answers_.clear();
}

}  // namespace

std::shared_ptr<Channel> serve(boost::asio::io_context& context, BufferPool& pool,
                               std::unique_ptr<QueuePair> queue_pair, Limits limits,
                               ConnectionPlace place, std::shared_ptr<Counts> counts) {
  return std::make_shared<ServerChannel>(context, pool, std::move(queue_pair), std::move(limits),
                                         std::move(place), std::move(counts));
}

}  // namespace weft::rpc::rdma
