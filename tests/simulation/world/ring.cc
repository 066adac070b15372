// io_uring: liburing's functions, on a simulated disk. The queues are ordinary memory, so that the
// functions of liburing's header work as they are. What is submitted is done in any order, some of
// it at once; completions make the ring's descriptor readable.
#include <liburing.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/simulation/world/descriptors.h"
#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

namespace {

constexpr std::uint64_t kAtOnceInMillion = 250'000;

struct Entry {
  std::uint8_t code = 0;
  int fd = -1;
  off_t offset = 0;
  unsigned flags = 0;  // of fsync
  std::uint64_t data = 0;
  std::vector<iovec> vectors;
  std::shared_ptr<disk::Node> node;
};

class Ring final : public Descriptor {
 public:
  explicit Ring(unsigned entries)
      : entries_(std::bit_ceil(entries)),
        requests_(entries_),
        places_(entries_),
        completions_(std::size_t{2} * entries_) {}

  void lay_out(io_uring& ring, int fd) {
    ring = {};
    io_uring_sq& sq = ring.sq;
    sq.khead = &heads_[0];
    sq.ktail = &heads_[1];
    sq.kflags = &zeros_[0];
    sq.kdropped = &zeros_[1];
    sq.array = places_.data();
    sq.sqes = requests_.data();
    sq.ring_entries = entries_;
    sq.ring_mask = entries_ - 1;
    io_uring_cq& cq = ring.cq;
    cq.khead = &heads_[2];
    cq.ktail = &heads_[3];
    cq.kflags = &zeros_[2];
    cq.koverflow = &zeros_[3];
    cq.cqes = completions_.data();
    cq.ring_entries = 2 * entries_;
    cq.ring_mask = 2 * entries_ - 1;
    ring.features = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE;
    ring.ring_fd = ring.enter_ring_fd = fd;
  }

  [[nodiscard]] std::uint32_t ready() const override {
    return heads_[3] != heads_[2] || !overflow_.empty() ? EPOLLIN : 0;
  }

  int submit(unsigned tail) {
    int count = 0;
    for (; heads_[0] != tail; ++heads_[0], ++count) start(requests_[heads_[0] & (entries_ - 1)]);
    return count;
  }
  void end() { ended_ = true; }

  // Makes room for completions that found none.
  void flush() {
    while (!overflow_.empty() && heads_[3] - heads_[2] < completions_.size()) {
      put(overflow_.front());
      overflow_.pop_front();
    }
  }

 private:
  void start(const io_uring_sqe& request) {
    Entry entry{.code = request.opcode,
                .fd = request.fd,
                .offset = static_cast<off_t>(request.off),
                .flags = request.fsync_flags,
                .data = request.user_data,
                .vectors = {},
                .node = disk::node_of(request.fd)};
    if (entry.code == IORING_OP_READV || entry.code == IORING_OP_WRITEV) {
      const auto* const first = reinterpret_cast<const iovec*>(request.addr);
      entry.vectors.assign(first, first + request.len);
    } else if (entry.code != IORING_OP_FSYNC) {
      return complete(entry.data, -EINVAL);
    }
    const auto work = entry.code == IORING_OP_READV    ? disk::Work::kRead
                      : entry.code == IORING_OP_WRITEV ? disk::Work::kWrite
                                                       : disk::Work::kSync;
    // Null for a real file, such as one that was made after power had failed.
    disk::Life* const life = entry.node == nullptr ? nullptr : entry.node->life;
    auto done = [weak = weak_from_this(), entry = std::move(entry)](int error) {
      const auto self = std::static_pointer_cast<Ring>(weak.lock());
      if (self == nullptr || self->ended_) return;
      self->complete(entry.data, run(entry, error));
    };
    if (life == nullptr) return after(0, [done = std::move(done)] { done(0); });
    if (work == disk::Work::kSync || chance(kAtOnceInMillion)) {
      return disk::after_time(*life, work, std::move(done));
    }
    const auto delay = static_cast<Ns>(choose(50 * kMicrosecond));
    after(delay, [life, work, done = std::move(done)]() mutable {
      disk::after_time(*life, work, std::move(done));
    });
  }

  static int run(const Entry& entry, int error) {
    // A program that closes a file under a request of it would get another file's bytes.
    if (disk::node_of(entry.fd) != entry.node) disk::broken("a file of a request is closed");
    if (entry.node == nullptr) return run_real(entry);
    if (entry.code == IORING_OP_FSYNC) {
      const bool data_only = (entry.flags & IORING_FSYNC_DATASYNC) != 0;
      if (!entry.node->life->over) disk::written_back(entry.node, data_only, error != 0);
      note(entry.node->id);
      return -error;
    }
    if (error != 0) return -error;
    const auto count = static_cast<int>(entry.vectors.size());
    const ssize_t bytes =
        entry.code == IORING_OP_READV
            ? disk::read_now(entry.fd, entry.vectors.data(), count, entry.offset, 0)
            : disk::write_now(entry.node, entry.fd, entry.vectors.data(), count, entry.offset, 0);
    return bytes < 0 ? -errno : static_cast<int>(bytes);
  }

  static int run_real(const Entry& entry) {
    const auto count = static_cast<int>(entry.vectors.size());
    ssize_t bytes = 0;
    if (entry.code == IORING_OP_READV) {
      bytes = WEFT_REAL(preadv)(entry.fd, entry.vectors.data(), count, entry.offset);
    } else if (entry.code == IORING_OP_WRITEV) {
      bytes = WEFT_REAL(pwritev)(entry.fd, entry.vectors.data(), count, entry.offset);
    } else {
      bytes = WEFT_REAL(fdatasync)(entry.fd);
    }
    return bytes < 0 ? -errno : static_cast<int>(bytes);
  }

  void complete(std::uint64_t data, int result) {
    io_uring_cqe completion{};
    completion.user_data = data;
    completion.res = result;
    note(data != 0 ? static_cast<std::uint64_t>(result) : 1);
    flush();
    if (!overflow_.empty() || heads_[3] - heads_[2] == completions_.size()) {
      overflow_.push_back(completion);
    } else {
      put(completion);
    }
    changed(EPOLLIN);
  }
  void put(const io_uring_cqe& completion) {
    std::memcpy(&completions_[heads_[3] & (2 * entries_ - 1)], &completion, sizeof completion);
    ++heads_[3];
  }

  const unsigned entries_;
  unsigned heads_[4] = {};  // submission queue's head and tail, completion queue's head and tail
  unsigned zeros_[4] = {};
  std::vector<io_uring_sqe> requests_;
  std::vector<unsigned> places_;
  std::vector<io_uring_cqe> completions_;
  std::deque<io_uring_cqe> overflow_;
  bool ended_ = false;
};

}  // namespace

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

int io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  if (!sim::active()) return WEFT_REAL(io_uring_queue_init)(entries, ring, flags);
  if ((flags & ~unsigned{IORING_SETUP_COOP_TASKRUN}) != 0 || entries == 0) return -EINVAL;
  auto made = std::make_shared<sim::Ring>(entries);
  made->nonblocking = true;
  made->node = sim::node();
  const int fd = sim::install(made);
  if (fd < 0) return -errno;
  made->lay_out(*ring, fd);
  return 0;
}
void io_uring_queue_exit(io_uring* ring) {
  const auto found = sim::active() ? sim::find_as<sim::Ring>(ring->ring_fd) : nullptr;
  if (found == nullptr) return WEFT_REAL(io_uring_queue_exit)(ring);
  found->end();
  ::close(ring->ring_fd);
}
int io_uring_submit(io_uring* ring) {
  const auto found = sim::active() ? sim::find_as<sim::Ring>(ring->ring_fd) : nullptr;
  if (found == nullptr) return WEFT_REAL(io_uring_submit)(ring);
  const int count = found->submit(ring->sq.sqe_tail);
  sim::preempt();
  return count;
}
int io_uring_register_iowq_max_workers(io_uring* ring, unsigned* values) {
  if (!sim::active()) return WEFT_REAL(io_uring_register_iowq_max_workers)(ring, values);
  return 0;
}
// Never waits: the programs look only for what is there.
int __io_uring_get_cqe(io_uring* ring, io_uring_cqe** out, unsigned submit,  // NOLINT: liburing's
                       unsigned wait_nr, sigset_t* mask) {
  const auto found = sim::active() ? sim::find_as<sim::Ring>(ring->ring_fd) : nullptr;
  if (found == nullptr) return WEFT_REAL(__io_uring_get_cqe)(ring, out, submit, wait_nr, mask);
  if (wait_nr != 0 || submit != 0) sim::disk::broken("a wait for completions");
  found->flush();
  *out = nullptr;
  const unsigned head = *ring->cq.khead;
  if (head == *ring->cq.ktail) return -EAGAIN;
  *out = &ring->cq.cqes[head & ring->cq.ring_mask];
  return 0;
}

}  // extern "C"
