#include "ganesha-fsal/meta/ops/inode_locks.h"

#include <algorithm>

#include "rpc/base/assert.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// A Guard holds the mutexes of as many stripes as there are in its vector, which the analysis
// cannot follow: it is off where they are locked and unlocked, and where a Guard must be held.
struct InodeLocks::Stripe {
  Mutex mutex;
  std::atomic<std::uint32_t> writers{0};  // 1 while locked
  std::atomic<CommitSeq> last_commit{0};  // written under mutex
  std::unordered_map<FileId, std::uint32_t> holds WEFT_GUARDED_BY(mutex);
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

}  // namespace weft::mds
