#include "rpc/transport/rdma/queue_pair_channel.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "rpc/base/assert.h"
#include "rpc/transport/deadlines.h"

namespace weft::rpc::rdma {
namespace {

using boost::system::error_code;

constexpr std::chrono::milliseconds kStarvedTick{5};
// So many Sends at most are told of together.
constexpr std::size_t kMostQuiet = 15;

// Reads fetch what the peer has; the others send.
std::size_t sent_bytes(const Work& work) {
  return work.kind == Work::Kind::kRead ? 0 : work.memory.size();
}

}  // namespace

QueuePairChannel::QueuePairChannel(boost::asio::io_context& context,
                                   std::unique_ptr<QueuePair> queue_pair, const Options& options)
    : context_(context),
      options_(options),
      queue_pair_(std::move(queue_pair)),
      credits_(std::min(options.credits, queue_pair_->max_receives())),
      most_quiet_(std::min(kMostQuiet, queue_pair_->max_work() / 4)),
      clock_(kLongestTick),
      timer_(context),
      last_activity_(clock_.now()) {}

void QueuePairChannel::start(std::shared_ptr<ChannelUser> user) {
  WEFT_ASSERT(user_ == nullptr && state_ == State::kOpen);
  user_ = std::move(user);
  // Before the peer may send: it does not try again where it finds no receive.
  if (auto posted = post_receives(); !posted) return fail_with(std::move(posted.error()));
  connected_ = true;
  queue_pair_->start(shared_from_this());
  start_timer();
}

Result<> QueuePairChannel::post_receives() {
  for (std::size_t i = 0; i < credits_; ++i) {
    auto memory = memory_to_receive();
    if (!memory) return pass(memory);
    queue_pair_->post({.kind = Work::Kind::kReceive, .memory = std::move(*memory), .remote = {}});
  }
  return {};
}

void QueuePairChannel::post(std::move_only_function<void()> work) {
  boost::asio::post(context_, std::move(work));
}

void QueuePairChannel::resume() {
  paused_ = false;
  if (std::exchange(process_posted_, true)) return;
  post([self = shared_from_this()] {
    self->process_posted_ = false;
    self->process();
  });
}

void QueuePairChannel::receive_again() {
  Work work = std::move(arrived_.front().work);
  arrived_.pop_front();
  queue_pair_->post(std::move(work));
}

void QueuePairChannel::post_work() {
  while (state_ != State::kClosed && !works_.empty() && under_way_ < queue_pair_->max_work()) {
    Work work = std::move(works_.front());
    works_.pop_front();
    work.quiet = work.quiet && state_ == State::kOpen && quiet_ < most_quiet_;
    ++under_way_;
    if (work.quiet) {
      ++quiet_;
    } else {
      waited_since_.push_back(clock_.now());
      if (work.kind == Work::Kind::kSend) ++sends_;
    }
    bytes_under_way_ += sent_bytes(work);
    // What it is joined with may have to wait for the next turn.
    if (under_way_ == queue_pair_->max_work()) work.joined = false;
    queue_pair_->post(std::move(work));
  }
}

std::size_t QueuePairChannel::queued_bytes() const {
  std::size_t bytes = bytes_under_way_ + waiting_bytes();
  for (const Work& work : works_) bytes += sent_bytes(work);
  return bytes;
}

void QueuePairChannel::on_completion(Completion completion) {
  if (state_ == State::kClosed) return;
  const Work::Kind kind = completion.work.kind;
  if (!completion.done) {
    // They fail, done or not, when the connection has ended, which on_disconnected() says better.
    if (kind == Work::Kind::kReceive || completion.work.quiet) return;
    return fail_with({Errc::kUnreachable, "the device could not reach " + peer()});
  }
  last_activity_ = clock_.now();
  done(completion);
  if (kind == Work::Kind::kReceive) {
    arrived_.push_back(std::move(completion));
    return process();
  }
  --under_way_;
  if (completion.work.quiet) {
    --quiet_;
  } else {
    waited_since_.pop_front();
    if (kind == Work::Kind::kSend) --sends_;
  }
  bytes_under_way_ -= sent_bytes(completion.work);
  bytes_sent_ += sent_bytes(completion.work);
  completion = {};  // its memory may be what others wait for
  post_work();
  push();
  process();
  if (state_ == State::kFlushing) flushed_all();
}

void QueuePairChannel::on_disconnected(const Error& why) {
  connected_ = false;
  fail_with(why);
}

// --- Deadlines -----------------------------------------------------------------------------------

void QueuePairChannel::starve(Want what) {
  if (since(what) != TimePoint{}) return;
  since(what) = clock_.now();
  start_timer();
}

void QueuePairChannel::start_timer() {
  const Milliseconds interval =
      state_ == State::kOpen ? tick_interval({options_.send_deadline, options_.memory_deadline,
                                              options_.idle_deadline, options_.own_deadline})
                             : tick_interval({options_.drain_deadline});
  timer_.expires_after(starves() ? kStarvedTick : interval);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->tick();
  });
}

std::optional<Error> QueuePairChannel::late(TimePoint now) {
  const auto beyond = [now](TimePoint since, Milliseconds deadline) {
    return is_over(since, deadline, now);
  };
  if (state_ == State::kFlushing) {
    if (!beyond(closing_since_, options_.drain_deadline)) return std::nullopt;
    return why_;
  }
  if (auto late = late_too(now)) return late;
  if (!waited_since_.empty() && beyond(waited_since_.front(), options_.send_deadline)) {
    return Error{Errc::kTimedOut, peer() + " takes no " + options_.sends};
  }
  if (beyond(starved_receiving_, options_.memory_deadline) ||
      beyond(starved_sending_, options_.memory_deadline)) {
    return Error{Errc::kBusy, std::string("no memory for ") + options_.takes + " of " + peer()};
  }
  if (options_.idle_deadline.count() > 0 && beyond(last_activity_, options_.idle_deadline)) {
    return Error{Errc::kTimedOut, peer() + " is idle"};
  }
  return std::nullopt;
}

void QueuePairChannel::tick() {
  if (state_ == State::kOpen && user_->is_awaited()) last_activity_ = clock_.now();
  if (auto why = late(clock_.tick())) return fail_with(std::move(*why));
  if (starves()) {
    push();
    process();
    if (state_ == State::kFlushing) flushed_all();
  }
  // Nothing else comes that would tell of them.
  if (under_way_ == quiet_ && works_.empty()) ask_for_quiet();
  if (state_ != State::kClosed) start_timer();
}

void QueuePairChannel::ask_for_quiet() {
  if (state_ == State::kClosed || quiet_ == 0) return;
  add({.kind = Work::Kind::kNothing, .memory = {}, .remote = {}});
  post_work();
}

// --- Closing -------------------------------------------------------------------------------------

void QueuePairChannel::close(Error why, bool drain) {
  if (state_ == State::kClosed) return;
  if (!drain || user_ == nullptr) return fail_with(std::move(why));
  if (state_ != State::kOpen) return;
  why_ = std::move(why);
  state_ = State::kFlushing;
  closing_since_ = clock_.now();
  start_timer();
  ask_for_quiet();
  flushed_all();
}

void QueuePairChannel::flushed_all() {
  if (!any_waits() && works_.empty() && under_way_ == 0) finish_close();
}

void QueuePairChannel::fail_with(Error why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen) why_ = std::move(why);
  finish_close();
}

void QueuePairChannel::finish_close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  timer_.cancel();
  arrived_.clear();
  works_.clear();
  bytes_under_way_ = 0;
  drop();
  if (connected_) queue_pair_->disconnect();
  // Later: the user may be in the middle of a call of ours or theirs.
  post([self = shared_from_this()] {
    self->gone();
    if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(self->why_);
  });
}

}  // namespace weft::rpc::rdma
