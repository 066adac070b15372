#include "ganesha-fsal/meta/ops/inode_locks.h"

#include <algorithm>

#include "rpc/base/assert.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// A Guard holds the mutexes of as many stripes as there are in its vector, which the analysis
// cannot follow: it is off where they are locked and unlocked, and where a Guard must be held.
struct InodeLocks::Stripe {
  static constexpr std::size_t kMostUntold = 16;

  // The caller has untold_mutex.
  [[nodiscard]] std::vector<UntoldWrite>::iterator find(FileId id) WEFT_REQUIRES(untold_mutex) {
    return std::ranges::find(untold, id, &UntoldWrite::id);
  }

  Mutex mutex;
  std::atomic<std::uint32_t> writers{0};  // 1 while locked
  std::atomic<CommitSeq> last_commit{0};  // written under mutex
  std::unordered_map<FileId, std::uint32_t> holds WEFT_GUARDED_BY(mutex);
  Mutex untold_mutex;  // after mutex, if both
  std::vector<UntoldWrite> untold WEFT_GUARDED_BY(untold_mutex);
  std::atomic<std::size_t> untold_count{0};  // written under untold_mutex
};

InodeLocks::InodeLocks() : stripes_(std::make_unique<Stripe[]>(kStripes)) {}
InodeLocks::~InodeLocks() = default;

InodeLocks::Stripe& InodeLocks::stripe_of(FileId id) const {
  const std::uint64_t hash = id * 0x9E3779B97F4A7C15ULL;
  return stripes_[(hash >> 40) & (kStripes - 1)];
}

InodeLocks::Guard InodeLocks::lock(const std::vector<FileId>& ids) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<Stripe*> stripes;
  for (const FileId id : ids) {
    if (id != 0) stripes.push_back(&stripe_of(id));
  }
  std::ranges::sort(stripes);
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  for (Stripe* stripe : stripes) {
    stripe->mutex.lock();
    stripe->writers.store(1);
  }
  return Guard(std::move(stripes));
}

InodeLocks::Guard InodeLocks::lock(std::initializer_list<FileId> ids) {
  return lock(std::vector<FileId>(ids));
}

void InodeLocks::Guard::committed(CommitSeq seq) {
  for (Stripe* stripe : stripes_)
    stripe->last_commit.store(std::max(seq, stripe->last_commit.load()));
}

void InodeLocks::Guard::unlock() WEFT_NO_THREAD_SAFETY_ANALYSIS {
  for (Stripe* stripe : stripes_) {
    stripe->writers.store(0);
    stripe->mutex.unlock();
  }
  stripes_.clear();
}

CommitSeq InodeLocks::Guard::seen() const {
  CommitSeq seq = 0;
  for (const Stripe* stripe : stripes_) seq = std::max(seq, stripe->last_commit.load());
  return seq;
}

CommitSeq InodeLocks::seen(std::initializer_list<FileId> ids) {
  CommitSeq seq = 0;
  for (const FileId id : ids) {
    if (id == 0) continue;
    Stripe& stripe = stripe_of(id);
    // What the caller read was committed under the lock: either its owner still has it, and noting
    // is waited for here, or last_commit has been set before writers went to 0.
    if (stripe.writers.load() != 0) const MutexLock wait(stripe.mutex);
    seq = std::max(seq, stripe.last_commit.load());
  }
  return seq;
}

CommitSeq InodeLocks::last(FileId id) const { return stripe_of(id).last_commit.load(); }

void InodeLocks::hold(FileId id) WEFT_NO_THREAD_SAFETY_ANALYSIS { ++stripe_of(id).holds[id]; }

std::uint32_t InodeLocks::release(FileId id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  auto& holds = stripe_of(id).holds;
  const auto at = holds.find(id);
  if (at == holds.end()) return 0;
  const std::uint32_t left = --at->second;
  if (left == 0) holds.erase(at);
  return left;
}

bool InodeLocks::held(FileId id) const WEFT_NO_THREAD_SAFETY_ANALYSIS {
  return stripe_of(id).holds.contains(id);
}

bool InodeLocks::write_again(FileId id, std::uint64_t end, std::int64_t now_ns) {
  Stripe& stripe = stripe_of(id);
  if (stripe.untold_count.load() == 0) return false;
  const MutexLock lock(stripe.untold_mutex);
  // Whoever has the stripe locked may have read what is changed here.
  if (stripe.writers.load() != 0) return false;
  const auto write = stripe.find(id);
  if (write == stripe.untold.end() || !write->known || end > write->size) return false;
  const std::int64_t age = now_ns - write->stored_ns;
  if (age < 0 || age >= kKeepTimesNs) return false;
  write->written_ns = now_ns;
  return true;
}

bool InodeLocks::untold(FileId id) const { return untold_write(id).has_value(); }

std::optional<UntoldWrite> InodeLocks::untold_write(FileId id) const {
  Stripe& stripe = stripe_of(id);
  if (stripe.untold_count.load() == 0) return std::nullopt;
  const MutexLock lock(stripe.untold_mutex);
  const auto write = stripe.find(id);
  return write == stripe.untold.end() ? std::nullopt : std::optional(*write);
}

void InodeLocks::set_known(FileId id, std::uint64_t change) {
  Stripe& stripe = stripe_of(id);
  const MutexLock lock(stripe.untold_mutex);
  const auto write = stripe.find(id);
  if (write != stripe.untold.end() && write->change == change) write->known = true;
}

void InodeLocks::remember(const UntoldWrite& write) {
  Stripe& stripe = stripe_of(write.id);
  const MutexLock lock(stripe.untold_mutex);
  auto at = stripe.find(write.id);
  if (at == stripe.untold.end() && stripe.untold.size() >= Stripe::kMostUntold) {
    at = std::ranges::find_if(stripe.untold, [](const UntoldWrite& other) {
      return other.stored_ns == other.written_ns;  // the store has all of it
    });
    if (at == stripe.untold.end()) return;
  }
  if (at == stripe.untold.end()) {
    stripe.untold.push_back(write);
  } else {
    *at = write;
  }
  stripe.untold_count.store(stripe.untold.size());
}

void InodeLocks::forget(FileId id) {
  Stripe& stripe = stripe_of(id);
  const MutexLock lock(stripe.untold_mutex);
  const auto write = stripe.find(id);
  if (write == stripe.untold.end()) return;
  *write = stripe.untold.back();
  stripe.untold.pop_back();
  stripe.untold_count.store(stripe.untold.size());
}

}  // namespace weft::mds
