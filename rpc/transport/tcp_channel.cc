#include "rpc/transport/tcp_channel.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "rpc/base/assert.h"
#include "rpc/transport/deadlines.h"

namespace weft::rpc {
namespace {

using boost::system::error_code;

// Bytes received and records handed over in one go before other connections of the thread get their
// turn. What a small record costs may be more than its bytes say.
constexpr std::size_t kReadBudget = std::size_t{4} << 20;
constexpr std::size_t kRecordsBudget = 256;
// A record's rest beyond this wakes us for larger parts only.
constexpr std::size_t kLowWaterLeast = std::size_t{64} << 10;
constexpr std::size_t kLowWaterMost = std::size_t{256} << 10;
// What a queue may take of memory without counting for it, and by which it counts beyond that.
constexpr std::size_t kQueueStep = std::size_t{16} << 10;
// Of what a client does not take: the answers of more slots than a session has.
constexpr std::size_t kMostQueueMemory = std::size_t{1} << 20;

void set_option(int fd, int level, int name, int value) {
  // Best effort: every one of these is a refinement, none is needed for correctness.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

std::string name_of(const boost::asio::ip::tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

}  // namespace

TcpChannel::TcpChannel(boost::asio::ip::tcp::socket socket, BufferPool& pool,
                       const TcpLimits& limits, ConnectionPlace place)
    : socket_(std::move(socket)),
      limits_(limits),
      pool_(pool),
      place_(std::move(place)),
      clock_(kLongestTick),
      peer_(name_of(socket_)),
      reader_(pool,
              {.max_record_bytes = limits.max_record_bytes,
               .max_fragments = limits.max_fragments,
               .pipe_from = limits.pipe_from,
               .pipes = limits.pipes,
               .standing = limits.standing,
               .max_stranger_bytes = limits.max_stranger_bytes,
               .look = limits.look},
              limits.locate_payload, place_.host),
      queue_hold_(pool),
      timer_(socket_.get_executor()),
      stranger_since_(clock_.now()),
      last_activity_(stranger_since_),
      held_back_at_(stranger_since_),
      slow_(stranger_since_) {
  set_socket_options();
}

TcpChannel::~TcpChannel() {
  if (place_.gone) place_.gone();
}

bool TcpChannel::promote(Standing to) {
  if (to <= reader_.standing()) return true;
  if (place_.promoted && !place_.promoted(to)) return false;
  reader_.set_standing(to);
  return true;
}

void TcpChannel::set_socket_options() {
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
  const int fd = socket_.native_handle();
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits_.send_deadline.count()));
}

void TcpChannel::start(std::shared_ptr<ChannelUser> user) {
  WEFT_ASSERT(user_ == nullptr && state_ == State::kOpen);
  user_ = std::move(user);
  start_timer();
  schedule_read();
}

void TcpChannel::post(std::move_only_function<void()> work) {
  boost::asio::post(socket_.get_executor(), std::move(work));
}

// --- Receiving -----------------------------------------------------------------------------------

bool TcpChannel::may_read() const { return state_ == State::kOpen && !paused_ && !throttled_; }

void TcpChannel::resume() {
  paused_ = false;
  schedule_read();
}

void TcpChannel::schedule_read() {
  if (read_posted_) return;
  read_posted_ = true;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->read_posted_ = false;
    self->on_readable();
  });
}

void TcpChannel::wait_readable() {
  if (waiting_read_ || state_ == State::kClosed) return;
  waiting_read_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_read_ = false;
                       if (!error) self->on_readable();
                     });
}

void TcpChannel::on_readable() {
  if (state_ == State::kLingering) return discard_until_end();
  std::size_t budget = kReadBudget;
  std::size_t records = kRecordsBudget;
  if (!deliver(records)) return;  // what came before a pause
  bool more = true;
  while (more) {
    more = receive_once(budget);
    if (!deliver(records)) return;
    if (more && budget == 0) return schedule_read();
  }
  if (may_read()) {
    set_low_water();
    wait_readable();
  }
}

bool TcpChannel::receive_once(std::size_t& budget) {
  if (reader_.piping()) return receive_piped(budget);
  auto targets = reader_.targets();
  msghdr header{};
  header.msg_iov = targets.parts.data();
  header.msg_iovlen = targets.count;
  const std::size_t total = targets.parts[0].iov_len + targets.parts[1].iov_len;
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket_.native_handle(), &header, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      auto failed = fail_errno(errno, "receive from " + peer_);
      fail_with(std::move(failed.error()));
    }
    return false;
  }
  if (n == 0) {
    end_of_stream();
    return false;
  }
  reader_.received(static_cast<std::size_t>(n));
  received_ += static_cast<std::size_t>(n);
  last_activity_ = clock_.now();
  budget -= std::min(budget, static_cast<std::size_t>(n));
  // A short read has emptied the socket: asking once more would most likely be in vain.
  return static_cast<std::size_t>(n) == total;
}

bool TcpChannel::receive_piped(std::size_t& budget) {
  const std::size_t wanted = reader_.body_left();
  const long n = reader_.receive_piped(socket_.native_handle());
  if (n == 0) {
    end_of_stream();
    return false;
  }
  if (n > 0) {
    received_ += static_cast<std::size_t>(n);
    last_activity_ = clock_.now();
    budget -= std::min(budget, static_cast<std::size_t>(n));
    return static_cast<std::size_t>(n) == wanted;
  }
  if (n == -EAGAIN) {
    int queued = 0;
    if (::ioctl(socket_.native_handle(), FIONREAD, &queued) == 0 && queued == 0) return false;
  } else if (n != -EINVAL && n != -ENOMEM) {
    auto failed = fail_errno(static_cast<int>(-n), "receive from " + peer_);
    fail_with(std::move(failed.error()));
    return false;
  }
  reader_.pipe_full();  // or the socket does not splice
  return true;
}

void TcpChannel::end_of_stream() {
  const bool half = reader_.partial();
  fail_with({half ? Errc::kProtocol : Errc::kClosed,
             half ? "closed in the middle of a record" : "closed by the peer"});
}

bool TcpChannel::deliver(std::size_t& records) {
  while (may_read()) {
    if (records == 0) {
      schedule_read();
      return false;
    }
    if (place_.is_cut()) {
      fail_with({Errc::kClosed, "cut"});
      return false;
    }
    auto record = reader_.next();
    if (!record) {
      if (record.error() == Errc::kBusy) {
        // The tick tries again, soon; meanwhile TCP's window holds the peer back.
        if (starved_since_ == TimePoint{}) {
          starved_since_ = clock_.now();
          start_timer();
        }
      } else {
        fail_with(std::move(record.error()));
      }
      return false;
    }
    starved_since_ = {};
    if (!*record) {
      if (!reader_.partial()) {
        partial_since_ = {};
      } else if (partial_since_ == TimePoint{}) {
        partial_since_ = last_activity_;
      }
      return true;
    }
    --records;
    partial_since_ = {};  // of this record; a next one counts from its own first byte
    const bool head_only = reader_.take_skipped();
    // More of the kind may be on their way, before it can do something about it.
    if (head_only) stranger_since_ = last_activity_;
    user_->on_record({.bytes = std::move(**record),
                      .apart = {.piped = reader_.take_piped()},
                      .head_only = head_only});
  }
  return false;
}

// Our side is shut: what the peer still sends is thrown away, so that closing does not reset the
// connection under replies it has not read yet.
void TcpChannel::discard_until_end() {
  std::array<std::byte, 4096> waste;
  for (int turns = 0; turns < 64; ++turns) {
    const ssize_t n = ::recv(socket_.native_handle(), waste.data(), waste.size(), MSG_DONTWAIT);
    if (n > 0) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_readable();
    if (n < 0 && errno == EINTR) continue;
    return finish_close();
  }
  schedule_read();
}

void TcpChannel::set_low_water() {
  const std::size_t left = reader_.body_left();
  const int wanted = left < kLowWaterLeast ? 1 : static_cast<int>(std::min(left, kLowWaterMost));
  if (wanted == low_water_) return;
  low_water_ = wanted;
  set_option(socket_.native_handle(), SOL_SOCKET, SO_RCVLOWAT, wanted);
}

// --- Sending -------------------------------------------------------------------------------------

void TcpChannel::send(Message message) {
  if (state_ != State::kOpen) return;
  queue_.push(std::move(message));
  if (queue_.bytes() > limits_.max_queued_bytes || !queue_has_room()) throttled_ = true;
  schedule_flush();
}

// Servers take what is sent to them.
bool TcpChannel::queue_has_room() {
  const Standing standing = reader_.standing();
  if (standing == Standing::kServer || queue_.memory() <= kQueueStep) return true;
  if (standing == Standing::kStranger || queue_.memory() > kMostQueueMemory) return false;
  return queue_hold_.grow(PoolShare::kReplies, queue_.memory() / kQueueStep * kQueueStep);
}

void TcpChannel::schedule_flush() {
  if (flush_posted_ || waiting_write_) return;
  flush_posted_ = true;
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void TcpChannel::flush() {
  if (state_ != State::kOpen && state_ != State::kFlushing) return;
  auto done = queue_.flush(socket_.native_handle());
  if (!done) return fail_with(std::move(done.error()));
  last_activity_ = clock_.now();
  queue_hold_.shrink(queue_.memory() / kQueueStep * kQueueStep);
  if (throttled_ && queue_.bytes() <= limits_.max_queued_bytes / 2 && queue_has_room()) {
    throttled_ = false;
    schedule_read();
  }
  if (!*done) return wait_writable();
  if (state_ == State::kFlushing) flushed_all();
}

void TcpChannel::wait_writable() {
  if (waiting_write_) return;
  waiting_write_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_write_ = false;
                       if (!error) self->flush();
                     });
}

// --- Deadlines -----------------------------------------------------------------------------------

Milliseconds TcpChannel::tick_interval() const {
  if (state_ != State::kOpen) return rpc::tick_interval({limits_.drain_deadline});
  const bool stranger = limits_.standing == Standing::kStranger;
  return rpc::tick_interval({limits_.record_deadline, limits_.send_deadline,
                             limits_.memory_deadline, limits_.idle_deadline,
                             stranger ? limits_.stranger_deadline : Milliseconds{0}});
}

void TcpChannel::start_timer() {
  // While memory is short, it is asked for again soon.
  timer_.expires_after(starved_since_ == TimePoint{} ? tick_interval() : Milliseconds{5});
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ != State::kClosed) self->tick();
  });
}

// What the peer has acknowledged: our kernel takes megabytes of answers at once, and then none for
// as long as the peer has for them.
std::uint64_t TcpChannel::acknowledged() {
  int waits = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &waits) != 0 || waits < 0) waits = 0;
  return queue_.sent() - std::min(queue_.sent(), static_cast<std::uint64_t>(waits));
}

// What it sends is to be here within record_deadline, too: tick() sees to that.
bool TcpChannel::crawls(TimePoint now, std::uint64_t taken) {
  if (reader_.standing() == Standing::kServer) return false;
  const std::size_t held = queue_.held() > kQueueStep ? queue_.held() : 0;
  return slow_.look(now,
                    {.least_rate = limits_.least_rate,
                     .whole = limits_.record_deadline,
                     .patience = limits_.slow_deadline,
                     .every = tick_interval()},
                    {.sends = reader_.holds_memory() && may_read() && starved_since_ == TimePoint{},
                     .received = received_,
                     .takes = !queue_.empty(),
                     .taken = taken,
                     .queued = std::min(queue_.bytes(), held),
                     .memory_short = is_short(pool_)});
}

void TcpChannel::tick() {
  const auto now = clock_.tick();
  const auto beyond = [now](TimePoint since, Milliseconds deadline) {
    return is_over(since, deadline, now);
  };
  const std::uint64_t taken = acknowledged();
  if (queue_.empty() || taken != taken_at_tick_) {
    stalled_since_ = {};
  } else if (stalled_since_ == TimePoint{}) {
    stalled_since_ = now;
  }
  taken_at_tick_ = taken;

  if (state_ == State::kOpen) {
    // A record that waits for us (paused, throttled, no memory) is not late by the peer's doing:
    // its time begins when we read again.
    if (!may_read() || starved_since_ != TimePoint{}) held_back_at_ = now;
    if (user_->is_awaited()) last_activity_ = now;
    if (beyond(partial_since_, limits_.record_deadline) &&
        beyond(held_back_at_, limits_.record_deadline)) {
      fail_with({Errc::kTimedOut, "half a record from " + peer_});
    } else if (reader_.standing() == Standing::kStranger &&
               beyond(stranger_since_, limits_.stranger_deadline)) {
      fail_with({Errc::kTimedOut, peer_ + " does not show who it is"});
    } else if (crawls(now, taken)) {
      fail_with({Errc::kTimedOut, peer_ + " is slow, and memory short"});
    } else if (beyond(stalled_since_, limits_.send_deadline)) {
      fail_with({Errc::kTimedOut, peer_ + " takes no replies"});
    } else if (beyond(starved_since_, limits_.memory_deadline)) {
      fail_with({Errc::kBusy, "no memory for a record of " + peer_});
    } else if (limits_.idle_deadline.count() > 0 && beyond(last_activity_, limits_.idle_deadline)) {
      fail_with({Errc::kTimedOut, peer_ + " is idle"});
    }
  } else if (beyond(closing_since_, limits_.drain_deadline)) {
    finish_close();
  }
  if (state_ == State::kClosed) return;
  if (starved_since_ != TimePoint{}) schedule_read();
  start_timer();
}

// --- Closing -------------------------------------------------------------------------------------

void TcpChannel::close(Error why, bool drain) {
  if (state_ == State::kClosed) return;
  if (!drain) return fail_with(std::move(why));
  if (state_ != State::kOpen) return;
  why_ = std::move(why);
  state_ = State::kFlushing;
  closing_since_ = clock_.now();
  start_timer();
  schedule_flush();
}

void TcpChannel::flushed_all() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  schedule_read();
}

void TcpChannel::fail_with(Error why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen) why_ = std::move(why);
  finish_close();
}

void TcpChannel::finish_close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  // First: who ends connections by their sockets' numbers must not hit whoever has this one next.
  if (place_.gone) std::exchange(place_.gone, nullptr)();
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  queue_.clear();
  queue_hold_.shrink(0);
  // Later: the user may be in the middle of a call of ours or theirs.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(self->why_);
  });
}

}  // namespace weft::rpc
