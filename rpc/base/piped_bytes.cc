#include "rpc/base/piped_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "rpc/base/assert.h"

namespace weft {

struct PipedBytes::Pipe {
  OwnedFd out;
  OwnedFd in;
};

namespace {

// A segment received takes a place for each piece of memory it lies in. Where small segments fill
// the pipe before a payload is whole, the reader goes on in memory.
constexpr int kBytes = 2 << 20;
constexpr int kBytesUnprivileged = 1 << 20;
constexpr std::size_t kIdle = 4;  // pipes kept by a thread

std::atomic<std::size_t> in_use{0};
thread_local std::vector<std::unique_ptr<PipedBytes::Pipe>> idle;

std::unique_ptr<PipedBytes::Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  auto pipe = std::make_unique<PipedBytes::Pipe>(OwnedFd(ends[0]), OwnedFd(ends[1]));
  if (::fcntl(ends[1], F_SETPIPE_SZ, kBytes) >= 0 ||
      ::fcntl(ends[1], F_SETPIPE_SZ, kBytesUnprivileged) >= 0) {
    return pipe;
  }
  return nullptr;
}

}  // namespace

PipedBytes::PipedBytes() noexcept = default;

PipedBytes::PipedBytes(std::unique_ptr<Pipe> pipe, BufferPool& pool)
    : pipe_(std::move(pipe)), pool_(&pool) {}

PipedBytes::PipedBytes(PipedBytes&& other) noexcept
    : pipe_(std::move(other.pipe_)),
      pool_(std::exchange(other.pool_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PipedBytes& PipedBytes::operator=(PipedBytes&& other) noexcept {
  if (this != &other) {
    release();
    pipe_ = std::move(other.pipe_);
    pool_ = std::exchange(other.pool_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

PipedBytes::~PipedBytes() { release(); }

std::optional<PipedBytes> PipedBytes::open(BufferPool& pool) {
  if (in_use.fetch_add(1, std::memory_order_relaxed) >= kMost) {
    in_use.fetch_sub(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  std::unique_ptr<Pipe> pipe;
  if (idle.empty()) {
    pipe = make_pipe();
  } else {
    pipe = std::move(idle.back());
    idle.pop_back();
  }
  if (pipe == nullptr) {
    in_use.fetch_sub(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return PipedBytes(std::move(pipe), pool);
}

void PipedBytes::release() {
  if (pipe_ == nullptr) return;
  in_use.fetch_sub(1, std::memory_order_relaxed);
  // One with bytes left in it is closed: that is how they are thrown away.
  if (size_ == 0 && idle.size() < kIdle) idle.push_back(std::move(pipe_));
  pipe_.reset();
  size_ = 0;
}

Result<> PipedBytes::put(std::span<const std::byte> bytes) {
  WEFT_ASSERT(pipe_ != nullptr && size_ == 0 && bytes.size() <= kMaxPut);
  while (!bytes.empty()) {
    const ssize_t n = ::write(pipe_->in.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "write to a pipe");
    size_ += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

long PipedBytes::fill(int socket, std::size_t most) {
  WEFT_ASSERT(pipe_ != nullptr);
  ssize_t n = 0;
  do {
    n = ::splice(socket, nullptr, pipe_->in.get(), nullptr, most,
                 SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  size_ += static_cast<std::size_t>(n);
  return n;
}

long PipedBytes::write_to(int file, std::uint64_t offset) {
  WEFT_ASSERT(size_ > 0);
  auto at = static_cast<off64_t>(offset);
  ssize_t n = 0;
  do {
    n = ::splice(pipe_->out.get(), nullptr, file, &at, size_, SPLICE_F_MOVE);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  size_ -= static_cast<std::size_t>(n);
  return n;
}

Result<> PipedBytes::take(std::span<std::byte> out) {
  WEFT_ASSERT(out.size() <= size_);
  while (!out.empty()) {
    const ssize_t n = ::read(pipe_->out.get(), out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read from a pipe");
    WEFT_ASSERT(n > 0);  // both ends are ours, and it holds at least so much
    size_ -= static_cast<std::size_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Buffer> PipedBytes::to_buffer() {
  if (empty()) return Buffer{};
  auto buffer = pool_->allocate(size_);
  if (!buffer) return buffer;
  if (auto taken = take(buffer->span()); !taken) return pass(taken);
  return buffer;
}

}  // namespace weft
