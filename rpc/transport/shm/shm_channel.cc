#include "rpc/transport/shm/shm_channel.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <thread>

#include "rpc/base/assert.h"
#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_channel_internal.h"

namespace weft::rpc {

using boost::system::error_code;

namespace {

// Records in one go before other connections of the thread get their turn.
constexpr int kRecordBudget = 128;
constexpr int kLooks = 64;  // at the ring, between two looks at everything else
constexpr Milliseconds kMemoryRetry{5};

// Where this thread runs just now.
unsigned this_cpu() {
  const int cpu = ::sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

std::byte* ring_at(const ShmConnection& connection, bool first) {
  return connection.rings->base() + (first ? 0 : ring_bytes(connection.ring_capacity));
}

}  // namespace

ShmChannel::ShmChannel(ShmConnection connection, BufferPool& pool, const ShmLimits& limits,
                       std::move_only_function<void()> gone)
    : connection_(std::move(connection)),
      pool_(pool),
      limits_(limits),
      gone_(std::move(gone)),
      out_(ring_at(connection_, connection_.lender), connection_.ring_capacity),
      in_(ring_at(connection_, !connection_.lender), connection_.ring_capacity),
      bell_(std::move(connection_.bell)),
      patience_(limits.max_poll),
      stall_timer_(connection_.socket.get_executor()),
      memory_timer_(connection_.socket.get_executor()) {}

ShmChannel::~ShmChannel() {
  if (gone_) gone_();
}

void ShmChannel::start(std::shared_ptr<ChannelUser> user) {
  WEFT_ASSERT(user_ == nullptr && state_ == State::kOpen);
  user_ = std::move(user);
  if (!connection_.lender) {
    borrowed_ = std::make_shared<Borrowed>(weak_from_this(), connection_);
    if (!borrowed_->socket) return fail_with({Errc::kBusy, "no descriptor for a connection"});
  }
  auto& context = connection_.socket.get_executor().context();
  auto listening = bell_.listen(context, [self = shared_from_this()] { self->on_bell(); });
  if (!listening) return fail_with(std::move(listening.error()));
  listen_to_socket();
  schedule_drain();
}

void ShmChannel::post(std::move_only_function<void()> work) {
  boost::asio::post(connection_.socket.get_executor(), std::move(work));
}

void ShmChannel::resume() {
  paused_ = false;
  schedule_drain();
}

bool ShmChannel::hand_over(int descriptor) {
  return !connection_.lender && state_ == State::kOpen &&
         rpc::hand_over(connection_.handing.get(), descriptor);
}

Result<OwnedFd> ShmChannel::take_handed() {
  if (!connection_.lender) return fail(Errc::kNotFound, "nobody hands descriptors to this side");
  return rpc::take_handed(connection_.handing.get());
}

// --- Waiting -------------------------------------------------------------------------------------

void ShmChannel::listen_to_socket() {
  connection_.socket.async_receive(
      boost::asio::buffer(bytes_),
      [self = shared_from_this()](const error_code& error, std::size_t count) {
        const auto said = std::span(self->bytes_).first(count);
        if (std::ranges::find(said, kAllGivenBack) != said.end()) self->all_given_back_ = true;
        self->on_socket(error);
      });
}

void ShmChannel::on_socket(const error_code& error) {
  if (state_ == State::kClosed) return;
  if (error) return peer_gone();
  if (state_ != State::kLingering) on_bell();
  if (state_ != State::kClosed) listen_to_socket();
}

void ShmChannel::on_bell() {
  flush_queue();
  if (state_ == State::kOpen) drain();
}

void ShmChannel::schedule_drain() {
  if (drain_posted_) return;
  drain_posted_ = true;
  boost::asio::post(connection_.socket.get_executor(), [self = shared_from_this()] {
    self->drain_posted_ = false;
    self->drain();
  });
}

void ShmChannel::wait_for_more() {
  const unsigned cpu = this_cpu();
  in_.waits_on(cpu);
  // While we poll on the peer's own processor it cannot answer.
  if (!patience_.ever() || out_.reader_cpu() == cpu + 1) return sleep();
  const auto now = connection_.clock.now();
  if (idle_since_ == TimePoint{}) idle_since_ = now;
  const Patience::Duration budget = patience_.budget();
  if (budget.count() == 0) return sleep();
  poll_until_ = now + budget;
  if (!std::exchange(polling_, true)) {
    boost::asio::post(connection_.socket.get_executor(),
                      [self = shared_from_this()] { self->poll(); });
  }
}

void ShmChannel::poll() {
  polling_ = false;
  if (state_ != State::kOpen) return;
  for (int look = 0; look < kLooks; ++look) {
    if (!in_.looks_empty()) return drain();
    relax();
  }
  if (connection_.clock.now() >= poll_until_) return sleep();
  // By way of the io_context, so that what else is ready on this thread is not kept waiting.
  polling_ = true;
  boost::asio::post(connection_.socket.get_executor(),
                    [self = shared_from_this()] { self->poll(); });
}

void ShmChannel::sleep() {
  if (!in_.may_sleep()) schedule_drain();
}

// --- Receiving -----------------------------------------------------------------------------------

bool ShmChannel::may_read() const {
  const bool throttled = !connection_.lender && queued_bytes_ > limits_.max_queued_bytes;
  return state_ == State::kOpen && !paused_ && !throttled && !starved_;
}

void ShmChannel::drain() {
  in_.awake();
  for (int records = 0; records < kRecordBudget; ++records) {
    if (!receive_one()) return;
  }
  schedule_drain();
}

bool ShmChannel::receive_one() {
  if (!may_read()) return false;
  auto size = in_.peek();
  if (!size) {
    fail_with(std::move(size.error()));
    return false;
  }
  if (!*size) {
    wait_for_more();
    return false;
  }
  if (idle_since_ != TimePoint{}) {
    patience_.waited(connection_.clock.now() - idle_since_);
    idle_since_ = {};
  }
  scratch_.resize(**size);
  in_.copy(0, scratch_);
  auto record = decode_record(scratch_, connection_.arena->size());
  if (!record) {
    fail_with(std::move(record.error()));
    return false;
  }
  Buffer message;
  if (record->has_message) {
    auto buffer = pool_.allocate(record->message.size());
    if (!buffer) {
      out_of_memory();
      return false;
    }
    message = std::move(*buffer);
    if (!record->message.empty()) {
      std::memcpy(message.data(), record->message.data(), record->message.size());
    }
  }
  starved_since_ = {};
  in_.pop();
  if (in_.must_ring()) ring_bell();
  if (!take_back(*record)) return false;
  if (record->has_message) deliver(*record, std::move(message));
  return true;
}

// The peer has no more use for these loans.
bool ShmChannel::take_back(const Record& record) {
  for (const std::uint32_t number : record.releases) {
    const auto loan = lent_.find(number);
    if (loan == lent_.end()) {
      fail_with({Errc::kProtocol, "a loan given back that is not out"});
      return false;
    }
    lent_bytes_ -= loan->second.size();
    lent_.erase(loan);
  }
  return true;
}

void ShmChannel::deliver(const Record& record, Buffer message) {
  if (record.loans.empty()) return user_->on_record({.bytes = std::move(message)});
  if (connection_.lender) {
    return fail_with({Errc::kProtocol, "a loan of our own memory"});
  }
  std::vector<Buffer> loans;
  loans.reserve(record.loans.size());
  for (const Loan& loan : record.loans) {
    loans.push_back(Buffer::foreign(
        {connection_.arena->base() + loan.offset, loan.size},
        [borrowed = borrowed_, number = loan.number] { borrowed->give_back(number); }));
  }
  user_->on_record({.bytes = std::move(message), .loans = std::move(loans)});
}

void ShmChannel::out_of_memory() {
  const auto now = connection_.clock.now();
  if (starved_since_ == TimePoint{}) starved_since_ = now;
  if (now - starved_since_ > limits_.memory_deadline) {
    return fail_with({Errc::kBusy, "no memory for a record of " + connection_.peer});
  }
  starved_ = true;
  memory_timer_.expires_after(kMemoryRetry);
  memory_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    self->starved_ = false;
    if (!error) self->drain();
  });
}

// --- Closing -------------------------------------------------------------------------------------

void ShmChannel::peer_gone() {
  if (state_ == State::kOpen) {
    // What it had written before is as good as ever. No more than the ring can have held: it may
    // only have closed the socket, and go on writing.
    const std::size_t most = connection_.ring_capacity / kCacheLine;
    for (std::size_t records = 0; records < most && receive_one(); ++records) {
    }
  }
  if (state_ == State::kClosed) return;
  retire_lent();
  if (state_ == State::kLingering) {
    state_ = State::kClosed;
    error_code ignored;
    connection_.socket.close(ignored);
    return;
  }
  fail_with({Errc::kClosed, "closed by the peer"});
}

// Pages the peer had when it went: a disk may still write into them on behalf of a process that is
// gone (direct I/O), however long that takes. One that lives has said that it uses them no more.
void ShmChannel::retire_lent() {
  for (const auto& [number, pages] : lent_) {
    if (!pages.empty() && !all_given_back_) pool_.arena()->retire(pages.span());
  }
  lent_bytes_ = 0;
  lent_.clear();
}

void ShmChannel::close(Error why, bool drain) {
  if (!drain || queue_.empty()) return fail_with(std::move(why));
  if (state_ != State::kOpen) return;
  why_ = std::move(why);
  state_ = State::kFlushing;
  start_stall_timer(limits_.drain_deadline);
}

void ShmChannel::fail_with(Error why) {
  if (state_ == State::kOpen) why_ = std::move(why);
  finish_close();
}

void ShmChannel::finish_close() {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  error_code ignored;
  if (lent_.empty()) {
    state_ = State::kClosed;
    connection_.socket.close(ignored);
  } else {
    // The peer sees our end, and ends its own when it has let go of the pages.
    state_ = State::kLingering;
    connection_.socket.shutdown(boost::asio::socket_base::shutdown_send, ignored);
  }
  bell_.stop();
  borrowed_.reset();
  stall_timer_.cancel();
  memory_timer_.cancel();
  queue_.clear();
  queued_bytes_ = 0;
  // Later: the user may be in the middle of a call of ours or theirs.
  boost::asio::post(connection_.socket.get_executor(), [self = shared_from_this()] {
    if (self->gone_) std::exchange(self->gone_, nullptr)();
    if (auto user = std::exchange(self->user_, nullptr)) user->on_closed(self->why_);
  });
}

}  // namespace weft::rpc
