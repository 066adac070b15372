#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cstring>

#include "rpc/transport/shm/shm_channel_internal.h"

namespace weft::rpc {

using boost::system::error_code;

namespace {

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> items) {
  return std::as_bytes(items);
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool say(int socket, std::byte what) {
  return ::send(socket, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

}  // namespace

ShmChannel::Borrowed::Borrowed(std::weak_ptr<ShmChannel> of, ShmConnection& connection)
    : channel(std::move(of)),
      arena(connection.arena),
      socket(::fcntl(connection.socket.native_handle(), F_DUPFD_CLOEXEC, 0)) {}

ShmChannel::Borrowed::~Borrowed() {
  if (socket) static_cast<void>(say(socket.get(), kAllGivenBack));
}

void ShmChannel::Borrowed::give_back(std::uint32_t number) {
  auto open = channel.lock();
  if (open == nullptr) return;  // the end of the socket tells
  {
    const MutexLock lock(mutex_);
    numbers_.push_back(number);
    if (std::exchange(posted_, true)) return;
  }
  auto executor = open->connection_.socket.get_executor();
  boost::asio::post(executor, [open = std::move(open)] { open->flush_releases(); });
}

std::vector<std::uint32_t> ShmChannel::Borrowed::take(std::size_t most) {
  const MutexLock lock(mutex_);
  posted_ = false;
  if (numbers_.size() <= most) return std::exchange(numbers_, {});
  const auto rest = numbers_.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<std::uint32_t> taken(numbers_.begin(), rest);
  numbers_.erase(numbers_.begin(), rest);
  return taken;
}

bool ShmChannel::lends(const Buffer& buffer) const {
  return connection_.lender && !buffer.empty() && connection_.arena->contains(buffer.span());
}

void ShmChannel::send(Message message) {
  if (state_ != State::kOpen) return;
  std::vector<Loan> loans;
  std::vector<std::byte> gathered;
  const bool plain = !message.has_payload();
  if (!plain) gathered = encode(message, loans);
  const std::span<const std::byte> bytes = plain ? message.bytes().bytes() : gathered;
  std::vector<std::uint32_t> releases;
  if (borrowed_ != nullptr) releases = borrowed_->take(kMaxReleases);
  const RecordHead head{.releases = static_cast<std::uint32_t>(releases.size()),
                        .loans = static_cast<std::uint32_t>(loans.size()),
                        .message = static_cast<std::uint32_t>(bytes.size()),
                        .has_message = 1};
  push_or_queue(head, releases, loans, bytes);
}

// The message's bytes, with those of what is not lent in their places. Notes what is.
std::vector<std::byte> ShmChannel::encode(Message& message, std::vector<Loan>& loans) {
  std::vector<std::byte> out;
  const auto bytes = message.bytes().bytes();
  out.reserve(bytes.size());
  std::size_t at = 0;
  for (Message::Splice& splice : message.splices()) {
    append(out, bytes.subspan(at, splice.at - at));
    at = splice.at;
    Payload rest;
    for (Payload::Piece& piece : splice.payload.pieces()) {
      auto* buffer = std::get_if<Buffer>(&piece);
      if (buffer == nullptr || !lends(*buffer) || loans.size() == kMaxLoans) {
        rest.append(std::move(piece));
        continue;
      }
      const std::uint32_t number = next_loan_++;
      loans.push_back(
          {.offset = static_cast<std::uint64_t>(buffer->data() - connection_.arena->base()),
           .size = buffer->size(),
           .number = number});
      lent_bytes_ += buffer->size();
      lent_.emplace(number, std::move(*buffer));
    }
    if (rest.size() == 0) continue;
    if (auto copied = rest.flatten()) {
      append(out, *copied);
    } else {
      fail_with(std::move(copied.error()));
    }
  }
  append(out, bytes.subspan(at));
  return out;
}

void ShmChannel::push_or_queue(const RecordHead& head, std::span<const std::uint32_t> releases,
                               std::span<const Loan> loans, std::span<const std::byte> message) {
  const std::array<std::span<const std::byte>, 4> parts{
      bytes_of(std::span(&head, 1)), bytes_of(releases), bytes_of(loans), message};
  std::size_t size = 0;
  for (const auto& part : parts) size += part.size();
  if (size > out_.max_record()) {
    return fail_with({Errc::kTooLarge, "a record of " + std::to_string(size) + " bytes"});
  }
  if (queue_.empty()) {
    auto pushed = out_.push(parts);
    if (!pushed) return fail_with(std::move(pushed.error()));
    if (*pushed) {
      if (out_.must_ring()) ring_bell();
      return;
    }
  }
  std::vector<std::byte> record;
  record.reserve(size);
  for (const auto& part : parts) append(record, part);
  queued_bytes_ += size;
  queue_.push_back(std::move(record));
  if (queue_.size() > 1) return;  // waiting already
  start_stall_timer(limits_.send_deadline);
  flush_queue();
}

void ShmChannel::flush_queue() {
  while (!queue_.empty()) {
    const std::span<const std::byte> record = queue_.front();
    auto pushed = out_.push(std::span(&record, 1));
    if (!pushed) return fail_with(std::move(pushed.error()));
    if (!*pushed) {
      if (out_.may_sleep(record.size())) return;
      continue;  // there is room by now
    }
    if (out_.must_ring()) ring_bell();
    queued_bytes_ -= record.size();
    queue_.pop_front();
    if (!queue_.empty()) {
      if (state_ == State::kOpen) start_stall_timer(limits_.send_deadline);
      continue;
    }
    stall_timer_.cancel();
    if (state_ == State::kFlushing) return finish_close();
    schedule_drain();  // if reading had stopped
  }
}

// Runs while a record waits for room; each that finds it begins anew, but for those of a close.
void ShmChannel::start_stall_timer(std::chrono::milliseconds limit) {
  stall_timer_.expires_after(limit);
  stall_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->fail_with({Errc::kTimedOut, self->connection_.peer + " takes no records"});
  });
}

void ShmChannel::flush_releases() {
  while (state_ == State::kOpen) {
    const auto releases = borrowed_->take(kMaxReleases);
    if (releases.empty()) return;
    push_or_queue({.releases = static_cast<std::uint32_t>(releases.size())}, releases, {}, {});
  }
}

void ShmChannel::ring_bell() {
  if (connection_.peer_bell && Bell::ring(connection_.peer_bell.get())) return;
  // A socket that takes no more is full of bells; one that is broken tells us by its end.
  static_cast<void>(say(connection_.socket.native_handle(), kBell));
}

}  // namespace weft::rpc
