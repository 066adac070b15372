// Pipes, and the calls that move bytes between sockets, pipes and files without a program's memory:
// splice(2) from a socket to a pipe and from a pipe to a file, sendfile(2) from a file to a socket.
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <utility>

#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/tcp.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

using sim::Descriptor;
using sim::tcp::Socket;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargestPipe = std::size_t{4} << 20;

class PipeEnd final : public Descriptor {
 public:
  struct Pipe {
    sim::ByteQueue bytes;
    std::size_t capacity = 16 * kPage;
    PipeEnd* reader = nullptr;  // null: closed
    PipeEnd* writer = nullptr;
  };

  PipeEnd(std::shared_ptr<Pipe> pipe, bool writes) : pipe_(std::move(pipe)), writes_(writes) {
    (writes_ ? pipe_->writer : pipe_->reader) = this;
  }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  [[nodiscard]] bool writes() const { return writes_; }
  [[nodiscard]] sim::ByteQueue& bytes() { return pipe_->bytes; }
  [[nodiscard]] bool other_closed() const {
    return (writes_ ? pipe_->reader : pipe_->writer) == nullptr;
  }
  // Each piece takes a place of its own, of as many as the pipe has pages.
  [[nodiscard]] std::size_t room() const {
    if (pipe_->bytes.pieces() >= pipe_->capacity / kPage) return 0;
    return pipe_->capacity - std::min(pipe_->capacity, pipe_->bytes.size());
  }
  void moved() {
    if (pipe_->reader != nullptr && !pipe_->bytes.empty()) pipe_->reader->changed(EPOLLIN);
    if (pipe_->writer != nullptr && room() > 0) pipe_->writer->changed(EPOLLOUT);
  }

  ssize_t readv(const iovec* into, int count) override {
    if (writes_) return -EBADF;
    while (pipe_->bytes.empty()) {
      if (other_closed()) return 0;
      if (nonblocking) return -EAGAIN;
      static_cast<void>(sim::wait_ready(*this, EPOLLIN));
    }
    const std::size_t taken = pipe_->bytes.take(into, count, false);
    moved();
    return static_cast<ssize_t>(taken);
  }
  ssize_t writev(const iovec* from, int count) override {
    if (!writes_) return -EBADF;
    for (;;) {
      if (other_closed()) return -EPIPE;
      if (room() > 0) break;
      if (nonblocking) return -EAGAIN;
      static_cast<void>(sim::wait_ready(*this, EPOLLOUT));
    }
    const std::size_t part = std::min(sim::total(from, count), room());
    pipe_->bytes.push(sim::gather(from, count, part));
    moved();
    return static_cast<ssize_t>(part);
  }
  [[nodiscard]] std::uint32_t ready() const override {
    if (writes_) return (room() > 0 ? EPOLLOUT : 0U) | (other_closed() ? EPOLLERR : 0U);
    return (pipe_->bytes.empty() ? 0U : EPOLLIN) | (other_closed() ? EPOLLHUP : 0U);
  }
  void closed() override {
    (writes_ ? pipe_->writer : pipe_->reader) = nullptr;
    if (pipe_->reader != nullptr) pipe_->reader->changed(EPOLLHUP);
    if (pipe_->writer != nullptr) pipe_->writer->changed(EPOLLERR);
  }
  int control(unsigned long request, void* argument) override {
    if (request != FIONREAD) return -ENOTTY;
    *static_cast<int*>(argument) = static_cast<int>(pipe_->bytes.size());
    return 0;
  }
  int set(int command, long argument) override {
    if (command == F_SETPIPE_SZ) {
      if (static_cast<std::size_t>(argument) > kLargestPipe) return -EPERM;
      pipe_->capacity = std::max(static_cast<std::size_t>(argument), kPage);
    } else if (command != F_GETPIPE_SZ) {
      return -EINVAL;
    }
    return static_cast<int>(pipe_->capacity);
  }

 private:
  const std::shared_ptr<Pipe> pipe_;
  const bool writes_;
};

ssize_t socket_to_pipe(Socket& socket, PipeEnd& pipe, std::size_t most, bool wait) {
  if (pipe.other_closed()) return -EPIPE;
  // Now and then the pieces of memory that bytes lie in are many and small, and fill the pipe.
  if (pipe.room() == 0 || (!pipe.bytes().empty() && sim::chance(10'000))) return -EAGAIN;
  ssize_t moved = 0;
  while (static_cast<std::size_t>(moved) < most && pipe.room() > 0) {
    std::vector<std::byte> bytes;
    const std::size_t left = std::min(most - static_cast<std::size_t>(moved), pipe.room());
    const ssize_t n = socket.receive_piece(bytes, left, wait && moved == 0);
    if (n <= 0) return moved > 0 ? moved : n;
    moved += n;
    pipe.bytes().push(std::move(bytes));
    pipe.moved();
  }
  return moved;
}

// -1 and errno, as the disk has it.
ssize_t pipe_to_file(PipeEnd& pipe, int file, off64_t* at, std::size_t most) {
  std::size_t size = std::min(most, pipe.bytes().size());
  if (size == 0) return pipe.other_closed() ? 0 : sim::to_result<ssize_t>(-EAGAIN);
  // It may take less than all, at a page's end.
  if (size > kPage && sim::chance(50'000)) size = kPage * (1 + sim::choose(size / kPage));
  std::vector<std::byte> bytes(size);
  const iovec one{bytes.data(), size};
  pipe.bytes().take(&one, 1, true);
  const ssize_t written = sim::disk::pwritev(file, &one, 1, at == nullptr ? -1 : *at, 0);
  if (written <= 0) return written;
  if (at != nullptr) *at += written;
  const iovec done{bytes.data(), static_cast<std::size_t>(written)};
  pipe.bytes().take(&done, 1, false);
  pipe.moved();
  return written;
}

}  // namespace

extern "C" {

int pipe2(int ends[2], int flags) noexcept {
  if (!sim::active()) return WEFT_REAL(pipe2)(ends, flags);
  const auto pipe = std::make_shared<PipeEnd::Pipe>();
  for (int i = 0; i < 2; ++i) {
    auto end = std::make_shared<PipeEnd>(pipe, i == 1);
    end->nonblocking = (flags & O_NONBLOCK) != 0;
    ends[i] = sim::install(std::move(end));
    if (ends[i] < 0) return -1;
  }
  return 0;
}
int pipe(int ends[2]) noexcept {
  if (!sim::active()) return WEFT_REAL(pipe)(ends);
  return pipe2(ends, 0);
}

ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, size_t most, unsigned flags) {
  if (!sim::active()) return WEFT_REAL(splice)(from, from_at, to, to_at, most, flags);
  sim::preempt();
  const auto source = sim::find(from);
  const auto target = sim::find(to);
  const auto socket = std::dynamic_pointer_cast<Socket>(source);
  const auto in = std::dynamic_pointer_cast<PipeEnd>(target);
  if (socket != nullptr && in != nullptr && in->writes()) {
    const bool wait = !socket->nonblocking && (flags & SPLICE_F_NONBLOCK) == 0;
    const ssize_t moved = socket_to_pipe(*socket, *in, most, wait);
    sim::note(static_cast<std::uint64_t>(moved));
    return sim::to_result(moved);
  }
  const auto out = std::dynamic_pointer_cast<PipeEnd>(source);
  if (out != nullptr && !out->writes() && target == nullptr) {
    return pipe_to_file(*out, to, to_at, most);
  }
  return sim::to_result<ssize_t>(-EINVAL);
}

ssize_t sendfile(int to, int from, off_t* at, size_t most) noexcept {
  if (!sim::active()) return WEFT_REAL(sendfile)(to, from, at, most);
  sim::preempt();
  const auto socket = sim::find_as<Socket>(to);
  if (socket == nullptr || sim::find(from) != nullptr) return sim::to_result<ssize_t>(-EINVAL);
  const ssize_t room = socket->room_to_send(!socket->nonblocking);
  if (room < 0) return sim::to_result(room);
  std::vector<std::byte> bytes(std::min(most, static_cast<std::size_t>(room)));
  const iovec one{bytes.data(), bytes.size()};
  const ssize_t got = sim::disk::preadv(from, &one, 1, at == nullptr ? -1 : *at, 0);
  if (got <= 0) return got;
  if (at != nullptr) *at += got;
  bytes.resize(static_cast<std::size_t>(got));
  socket->send_piece(std::move(bytes));
  sim::note(static_cast<std::uint64_t>(got));
  return got;
}
ssize_t sendfile64(int to, int from, off64_t* at, size_t most) noexcept {
  return sendfile(to, from, at, most);
}

}  // extern "C"
