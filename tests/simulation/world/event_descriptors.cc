// eventfd(2) and timerfd_create(2).
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/world/descriptors.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/times.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

using sim::Ns;

constexpr std::uint64_t kMost = UINT64_MAX - 1;

// Both are a counter that is read and written as eight bytes.
ssize_t put_counter(const iovec* into, int count, std::uint64_t value) {
  if (count < 1 || into[0].iov_len < sizeof value) return -EINVAL;
  std::memcpy(into[0].iov_base, &value, sizeof value);
  return sizeof value;
}

class EventCounter final : public sim::Descriptor {
 public:
  EventCounter(unsigned value, bool semaphore) : value_(value), semaphore_(semaphore) {}

  [[nodiscard]] const char* link() const override { return "anon_inode:[eventfd]"; }

  ssize_t readv(const iovec* into, int count) override {
    while (value_ == 0) {
      if (nonblocking) return -EAGAIN;
      static_cast<void>(sim::wait_ready(*this, EPOLLIN));
    }
    const std::uint64_t taken = semaphore_ ? 1 : value_;
    const ssize_t done = put_counter(into, count, taken);
    if (done < 0) return done;
    value_ -= taken;
    changed(EPOLLOUT);
    return done;
  }
  ssize_t writev(const iovec* from, int count) override {
    std::uint64_t more = 0;
    if (sim::total(from, count) < sizeof more) return -EINVAL;
    std::memcpy(&more, sim::gather(from, count, sizeof more).data(), sizeof more);
    if (more > kMost) return -EINVAL;
    while (kMost - value_ < more) {
      if (nonblocking) return -EAGAIN;
      static_cast<void>(sim::wait_ready(*this, EPOLLOUT));
    }
    value_ += more;
    changed(EPOLLIN);
    return sizeof more;
  }
  [[nodiscard]] std::uint32_t ready() const override {
    return (value_ > 0 ? EPOLLIN : 0U) | (value_ < kMost ? EPOLLOUT : 0U);
  }

 private:
  std::uint64_t value_;
  const bool semaphore_;
};

class Timer final : public sim::Descriptor {
 public:
  explicit Timer(clockid_t clock) : clock_(clock) {}

  void set_time(bool absolute, const itimerspec& to) {
    expirations_ = 0;
    interval_ = sim::to_ns(to.it_interval);
    if (sim::to_ns(to.it_value) == 0) {
      due_ = sim::kNever;
      return;
    }
    const Ns at =
        absolute ? sim::from_timespec(clock_, to.it_value) : sim::now() + sim::to_ns(to.it_value);
    due_ = std::max(at, sim::now());
    expire();
    schedule();
  }
  [[nodiscard]] itimerspec left() const {
    const Ns span = due_ == sim::kNever ? 0 : std::max<Ns>(due_ - sim::now(), 1);
    return {{interval_ / sim::kSecond, interval_ % sim::kSecond},
            {span / sim::kSecond, span % sim::kSecond}};
  }
  ssize_t readv(const iovec* into, int count) override {
    while (expirations_ == 0) {
      if (nonblocking) return -EAGAIN;
      static_cast<void>(sim::wait_ready(*this, EPOLLIN));
    }
    const ssize_t done = put_counter(into, count, expirations_);
    if (done > 0) expirations_ = 0;
    return done;
  }
  [[nodiscard]] std::uint32_t ready() const override { return expirations_ > 0 ? EPOLLIN : 0U; }
  void closed() override { due_ = sim::kNever; }

 private:
  // One event at a time is under way: timers are set anew far more often than they expire.
  void schedule() {
    if (due_ == sim::kNever || event_at_ <= due_) return;
    event_at_ = due_;
    sim::at(due_,
            [weak = std::weak_ptr(std::static_pointer_cast<Timer>(shared_from_this())), at = due_] {
              const auto self = weak.lock();
              if (self == nullptr || self->event_at_ != at) return;
              self->event_at_ = sim::kNever;
              self->expire();
              self->schedule();
            });
  }
  void expire() {
    if (due_ > sim::now()) return;
    const Ns late = sim::now() - due_;
    const Ns times = interval_ > 0 ? 1 + late / interval_ : 1;
    expirations_ += static_cast<std::uint64_t>(times);
    due_ = interval_ > 0 ? due_ + times * interval_ : sim::kNever;
    changed(EPOLLIN);
  }

  const clockid_t clock_;
  Ns due_ = sim::kNever;
  Ns interval_ = 0;
  Ns event_at_ = sim::kNever;
  std::uint64_t expirations_ = 0;
};

}  // namespace

extern "C" {

int eventfd(unsigned value, int flags) noexcept {
  if (!sim::active()) return WEFT_REAL(eventfd)(value, flags);
  auto made = std::make_shared<EventCounter>(value, (flags & EFD_SEMAPHORE) != 0);
  made->nonblocking = (flags & EFD_NONBLOCK) != 0;
  return sim::install(std::move(made));
}

int timerfd_create(clockid_t clock, int flags) noexcept {
  if (!sim::active()) return WEFT_REAL(timerfd_create)(clock, flags);
  auto made = std::make_shared<Timer>(clock);
  made->nonblocking = (flags & TFD_NONBLOCK) != 0;
  return sim::install(std::move(made));
}
int timerfd_settime(int fd, int flags, const itimerspec* to, itimerspec* old) noexcept {
  if (!sim::active()) return WEFT_REAL(timerfd_settime)(fd, flags, to, old);
  const auto timer = sim::find_as<Timer>(fd);
  if (timer == nullptr) {
    errno = EINVAL;
    return -1;
  }
  if (old != nullptr) *old = timer->left();
  timer->set_time((flags & TFD_TIMER_ABSTIME) != 0, *to);
  return 0;
}
int timerfd_gettime(int fd, itimerspec* out) noexcept {
  if (!sim::active()) return WEFT_REAL(timerfd_gettime)(fd, out);
  const auto timer = sim::find_as<Timer>(fd);
  if (timer == nullptr) {
    errno = EINVAL;
    return -1;
  }
  *out = timer->left();
  return 0;
}

}  // extern "C"
