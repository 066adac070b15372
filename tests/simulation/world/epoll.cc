// epoll(7) and poll(2) over the simulation's descriptors. A set keeps a list of entries that may be
// ready, in the order in which they became so; epoll_wait() asks each what it is now, as Linux
// does: edge-triggered entries leave the list when they were told, level-triggered ones stay at its
// end.
//
// A real descriptor is refused with EPERM, as a file is; in a poll it is as it is, and not waited
// for.
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "tests/simulation/world/descriptors.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

using sim::Descriptor;

constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;
constexpr std::uint32_t kModes = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;

class EpollSet;

class Entry final : public sim::Watcher {
 public:
  Entry(EpollSet& set, const std::shared_ptr<Descriptor>& target, const epoll_event& event)
      : set_(set), target_(target) {
    target->watch(*this);
    arm(event);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() override;

  void arm(const epoll_event& event);
  void told(std::uint32_t edge) override;
  // What there is to tell: taken from the list by the caller, who puts it back if `again`.
  struct Told {
    std::optional<epoll_event> event;
    bool again = false;
  };
  [[nodiscard]] Told take();
  [[nodiscard]] std::shared_ptr<Descriptor> target() const { return target_.lock(); }

  bool queued = false;

 private:
  EpollSet& set_;
  const std::weak_ptr<Descriptor> target_;
  epoll_event event_{};
  std::uint32_t mask_ = 0;  // 0: told once, and to be armed again
};

class EpollSet final : public Descriptor {
 public:
  int change(int operation, int fd, const epoll_event* event);
  int collect(epoll_event* out, int most);
  void enqueue(Entry& entry) {
    if (entry.queued) return;
    entry.queued = true;
    ready_.push_back(&entry);
    changed(EPOLLIN);
  }
  void forget(Entry& entry) {
    if (entry.queued) ready_.remove(&entry);
  }
  [[nodiscard]] std::uint32_t ready() const override { return ready_.empty() ? 0U : EPOLLIN; }
  void closed() override { entries_.clear(); }

 private:
  std::map<int, std::unique_ptr<Entry>> entries_;
  std::list<Entry*> ready_;
};

Entry::~Entry() {
  set_.forget(*this);
  if (const auto target = target_.lock(); target != nullptr) target->unwatch(*this);
}

void Entry::arm(const epoll_event& event) {
  event_ = event;
  mask_ = (event.events & ~kModes) | kAlways;
  told(0);
}

void Entry::told(std::uint32_t edge) {
  if (mask_ == 0) return;
  if (edge == 0) {
    const auto target = target_.lock();
    edge = target == nullptr ? 0 : target->ready();
  }
  if ((edge & mask_) != 0) set_.enqueue(*this);
}

Entry::Told Entry::take() {
  const auto target = target_.lock();
  // All numbers of it may be closed while a call still holds it: then it is in no set any more.
  if (target == nullptr || target->numbers == 0 || mask_ == 0) return {};
  const std::uint32_t now = target->ready() & mask_;
  if (now == 0) return {};
  Told told{.event = event_};
  told.event->events = now;
  if ((event_.events & EPOLLONESHOT) != 0) {
    mask_ = 0;
  } else {
    told.again = (event_.events & EPOLLET) == 0;
  }
  return told;
}

int EpollSet::change(int operation, int fd, const epoll_event* event) {
  const auto target = sim::find(fd);
  if (target == nullptr) return -EPERM;
  if (target.get() == this) return -EINVAL;
  auto found = entries_.find(fd);
  // The number may have meant another descriptor, which was closed.
  if (found != entries_.end() && found->second->target() != target) {
    entries_.erase(found);
    found = entries_.end();
  }
  switch (operation) {
    case EPOLL_CTL_ADD:
      if (found != entries_.end()) return -EEXIST;
      entries_[fd] = std::make_unique<Entry>(*this, target, *event);
      return 0;
    case EPOLL_CTL_MOD:
      if (found == entries_.end()) return -ENOENT;
      found->second->arm(*event);
      return 0;
    case EPOLL_CTL_DEL:
      if (found == entries_.end()) return -ENOENT;
      entries_.erase(found);
      return 0;
    default: return -EINVAL;
  }
}

int EpollSet::collect(epoll_event* out, int most) {
  int count = 0;
  for (std::size_t left = ready_.size(); left > 0 && count < most; --left) {
    Entry* const entry = ready_.front();
    ready_.pop_front();
    entry->queued = false;
    const Entry::Told told = entry->take();
    if (told.event) out[count++] = *told.event;
    if (told.again) {
      entry->queued = true;
      ready_.push_back(entry);
    }
  }
  return count;
}

sim::Ns deadline_of(int timeout_ms) {
  return timeout_ms < 0 ? sim::kNever : sim::now() + timeout_ms * sim::kMillisecond;
}

// --- poll ----------------------------------------------------------------------------------------

class Poll final : public sim::Watcher {
 public:
  Poll(pollfd* all, nfds_t count) : all_(all), count_(count) {
    for (nfds_t i = 0; i < count; ++i) {
      targets_.push_back(sim::find(all[i].fd));
      if (targets_.back() != nullptr) targets_.back()->watch(*this);
    }
  }
  Poll(const Poll&) = delete;
  Poll& operator=(const Poll&) = delete;
  ~Poll() override {
    for (const auto& target : targets_) {
      if (target != nullptr) target->unwatch(*this);
    }
  }
  void told(std::uint32_t /*edge*/) override { sim::wake_all(list_); }

  int wait(sim::Ns deadline) {
    for (;;) {
      const int found = look();
      if (found != 0 || deadline <= sim::now()) return found;
      if (!sim::wait_until(list_, deadline)) return look();
    }
  }

 private:
  // poll(2)'s flags are epoll's: POLLIN is EPOLLIN, and so on.
  int look() {
    int found = 0;
    for (nfds_t i = 0; i < count_; ++i) {
      pollfd& one = all_[i];
      one.revents = 0;
      if (targets_[i] != nullptr) {
        const std::uint32_t wanted = static_cast<std::uint16_t>(one.events) | kAlways;
        one.revents = static_cast<short>(targets_[i]->ready() & wanted);
      } else if (one.fd >= 0) {
        static_cast<void>(WEFT_REAL(poll)(&one, 1, 0));
      }
      found += one.revents != 0 ? 1 : 0;
    }
    return found;
  }

  pollfd* const all_;
  const nfds_t count_;
  std::vector<std::shared_ptr<Descriptor>> targets_;
  sim::WaitList list_;
};

}  // namespace

extern "C" {

int epoll_create1(int flags) noexcept {
  if (!sim::active()) return WEFT_REAL(epoll_create1)(flags);
  return sim::install(std::make_shared<EpollSet>());
}
int epoll_create(int size) noexcept {
  if (!sim::active()) return WEFT_REAL(epoll_create)(size);
  return sim::install(std::make_shared<EpollSet>());
}

int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
  if (!sim::active()) return WEFT_REAL(epoll_ctl)(set, operation, fd, event);
  const auto found = sim::find_as<EpollSet>(set);
  if (found == nullptr) {
    errno = EBADF;
    return -1;
  }
  return sim::to_result(found->change(operation, fd, event));
}

int epoll_wait(int set, epoll_event* events, int most, int timeout) {
  if (!sim::active()) return WEFT_REAL(epoll_wait)(set, events, most, timeout);
  sim::preempt();
  const auto found = sim::find_as<EpollSet>(set);
  if (found == nullptr || most <= 0) {
    errno = found == nullptr ? EBADF : EINVAL;
    return -1;
  }
  const sim::Ns deadline = deadline_of(timeout);
  for (;;) {
    const int count = found->collect(events, most);
    if (count > 0) sim::note(static_cast<std::uint64_t>(count));
    if (count > 0 || timeout == 0) return count;
    if (!sim::wait_ready(*found, EPOLLIN, deadline)) return 0;
  }
}
int epoll_pwait(int set, epoll_event* events, int most, int timeout, const sigset_t* signals) {
  if (!sim::active()) return WEFT_REAL(epoll_pwait)(set, events, most, timeout, signals);
  return epoll_wait(set, events, most, timeout);
}

int poll(pollfd* all, nfds_t count, int timeout) {
  if (!sim::active()) return WEFT_REAL(poll)(all, count, timeout);
  sim::preempt();
  return Poll(all, count).wait(deadline_of(timeout));
}
int __poll_chk(pollfd* all, nfds_t count, int timeout, size_t /*room*/) {
  return poll(all, count, timeout);
}
int ppoll(pollfd* all, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  if (!sim::active()) return WEFT_REAL(ppoll)(all, count, timeout, signals);
  sim::preempt();
  sim::Ns deadline = sim::kNever;
  if (timeout != nullptr) {
    deadline = sim::now() + timeout->tv_sec * sim::kSecond + timeout->tv_nsec;
  }
  return Poll(all, count).wait(deadline);
}

}  // extern "C"
