#include "dataserver/ring/io_ring.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <optional>
#include <system_error>

#include "dataserver/ring/disk_waits.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

thread_local IoRing* current_ring = nullptr;

constexpr unsigned kMaxWorkers = 16;  // kernel threads for what cannot be done without blocking

int init_ring(io_uring* ring, unsigned entries) {
  // COOP_TASKRUN spares interrupts: this thread enters the kernel often enough by itself.
  const int result = io_uring_queue_init(entries, ring, IORING_SETUP_COOP_TASKRUN);
  if (result != -EINVAL) return result;
  return io_uring_queue_init(entries, ring, 0);
}

// What runs the operations of every ring where there is no io_uring.
boost::asio::thread_pool& workers() {
  static boost::asio::thread_pool pool{kMaxWorkers};
  return pool;
}

constexpr int kNoRing = -1;  // io_uring::ring_fd

io_uring no_ring(int error) {
  static std::atomic_flag said;
  if (!said.test_and_set()) {
    spdlog::warn(
        "event=no_io_uring error=\"{}\" threads={} (slower; containers forbid io_uring "
        "unless their seccomp profile allows it)",
        std::generic_category().message(error), kMaxWorkers);
  }
  io_uring ring{};
  ring.ring_fd = kNoRing;
  return ring;
}

}  // namespace

struct IoRing::Operation {
  enum class Kind { kReadv, kWritev, kFdatasync };
  Kind kind;
  int fd;
  std::span<const iovec> vectors;
  std::uint64_t offset;
  OnResult on_result;
  std::optional<DiskWait> wait{};

  // On a worker thread, in place of io_uring.
  [[nodiscard]] int run() const {
    const auto count = static_cast<int>(vectors.size());
    const auto at = static_cast<off_t>(offset);
    ssize_t result = -1;
    do {
      switch (kind) {
        case Kind::kReadv: result = ::preadv(fd, vectors.data(), count, at); break;
        case Kind::kWritev: result = ::pwritev(fd, vectors.data(), count, at); break;
        case Kind::kFdatasync: result = ::fdatasync(fd); break;
      }
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : static_cast<int>(result);
  }
};

Result<std::unique_ptr<IoRing>> IoRing::create(boost::asio::io_context& context, unsigned index,
                                               unsigned entries) {
  io_uring ring{};
  if (const int result = init_ring(&ring, entries); result < 0) {
    if (result != -ENOSYS && result != -EPERM) return fail_errno(-result, "io_uring_queue_init");
    return std::unique_ptr<IoRing>(new IoRing(context, index, no_ring(-result)));
  }
  unsigned workers[2] = {kMaxWorkers, kMaxWorkers};
  io_uring_register_iowq_max_workers(&ring, workers);  // best effort
  return std::unique_ptr<IoRing>(new IoRing(context, index, ring));
}

IoRing::IoRing(boost::asio::io_context& context, unsigned index, io_uring ring)
    : context_(context), index_(index), ring_(ring), watch_(context) {
  if (ring_.ring_fd != kNoRing) watch_.assign(::fcntl(ring_.ring_fd, F_DUPFD_CLOEXEC, 3));
}

IoRing::~IoRing() {
  WEFT_ASSERT(idle());
  // A worker may have handed over its result, and not be done with the context.
  while (const unsigned left = at_workers_->load()) at_workers_->wait(left);
  if (current_ring == this) current_ring = nullptr;
  boost::system::error_code ignored;
  watch_.close(ignored);
  if (ring_.ring_fd != kNoRing) io_uring_queue_exit(&ring_);
}

void IoRing::bind_to_this_thread() { current_ring = this; }

IoRing* IoRing::current() { return current_ring; }

void IoRing::readv(int fd, std::span<const iovec> into, std::uint64_t offset, OnResult on_result) {
  start(
      std::make_unique<Operation>(Operation::Kind::kReadv, fd, into, offset, std::move(on_result)));
}

void IoRing::writev(int fd, std::span<const iovec> from, std::uint64_t offset, OnResult on_result) {
  start(std::make_unique<Operation>(Operation::Kind::kWritev, fd, from, offset,
                                    std::move(on_result)));
}

void IoRing::fdatasync(int fd, OnResult on_result) {
  start(std::make_unique<Operation>(Operation::Kind::kFdatasync, fd, std::span<const iovec>{}, 0,
                                    std::move(on_result)));
}

void IoRing::start(std::unique_ptr<Operation> operation) {
  ++in_flight_;
  operation->wait.emplace();
  if (ring_.ring_fd == kNoRing) {
    auto guard = boost::asio::make_work_guard(context_);
    at_workers_->fetch_add(1);
    boost::asio::post(workers(), [this, operation = std::move(operation), guard = std::move(guard),
                                  at_workers = at_workers_]() mutable {
      const int result = operation->run();
      boost::asio::post(context_, [this, result, operation = std::move(operation)] {
        --in_flight_;
        operation->on_result(result);
      });
      guard.reset();
      at_workers->fetch_sub(1);
      at_workers->notify_all();
    });
    return;
  }
  if (!backlog_.empty() || !try_queue(operation.get())) {
    backlog_.push_back(operation.release());
  } else {
    static_cast<void>(operation.release());  // the ring has it now; reap() takes it back
  }
  submit_soon();
}

bool IoRing::try_queue(Operation* operation) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) return false;
  const auto count = static_cast<unsigned>(operation->vectors.size());
  switch (operation->kind) {
    case Operation::Kind::kReadv:
      io_uring_prep_readv(entry, operation->fd, operation->vectors.data(), count,
                          operation->offset);
      break;
    case Operation::Kind::kWritev:
      io_uring_prep_writev(entry, operation->fd, operation->vectors.data(), count,
                           operation->offset);
      break;
    case Operation::Kind::kFdatasync:
      io_uring_prep_fsync(entry, operation->fd, IORING_FSYNC_DATASYNC);
      break;
  }
  io_uring_sqe_set_data(entry, operation);
  return true;
}

void IoRing::submit_soon() {
  if (submit_posted_) return;
  submit_posted_ = true;
  boost::asio::post(context_, [this] {
    submit_posted_ = false;
    submit();
    reap();  // what needed no waiting is done already
    wait_for_completions();
  });
}

void IoRing::submit() {
  io_uring_submit(&ring_);
  while (!backlog_.empty() && try_queue(backlog_.front())) {
    backlog_.pop_front();
    if (io_uring_sq_space_left(&ring_) == 0) io_uring_submit(&ring_);
  }
  io_uring_submit(&ring_);
}

void IoRing::wait_for_completions() {
  if (watching_ || in_flight_ == 0) return;
  watching_ = true;
  watch_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;  // only when the ring is being destroyed
                      watching_ = false;
                      reap();
                      wait_for_completions();
                    });
}

void IoRing::reap() {
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(&ring_, &completion) == 0) {
    std::unique_ptr<Operation> operation(
        static_cast<Operation*>(io_uring_cqe_get_data(completion)));
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    --in_flight_;
    operation->on_result(result);
  }
  if (!backlog_.empty() || io_uring_sq_ready(&ring_) > 0) submit_soon();
}

}  // namespace weft::ds
