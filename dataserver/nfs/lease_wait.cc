#include "dataserver/nfs/lease_wait.h"

#include "rpc/base/assert.h"

namespace weft::ds {

LeaseWait::LeaseWait(const Lease& lease, const BufferPool& pool, const std::vector<IoRing*>& rings,
                     const Clock& clock, LeaseWaitLimits limits)
    : lease_(lease), pool_(pool), clock_(clock), limits_(limits) {
  for (IoRing* ring : rings) threads_.push_back(std::make_unique<PerThread>(*ring));
}

void LeaseWait::wait(Go go) {
  const IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr && ring->index() < threads_.size());
  PerThread& mine = *threads_[ring->index()];
  if (given_up_.load() || mine.waiters.size() >= limits_.max_waiting ||
      pool_.in_use_bytes() > pool_.limit_bytes() / 2) {
    return go(End::kNot);
  }
  waiting_.fetch_add(1, std::memory_order_relaxed);
  mine.waiters.push_back({std::move(go), clock_.now() + limits_.deadline});
  if (mine.waiters.size() == 1) poll_later(mine);
}

void LeaseWait::give_up() {
  given_up_.store(true);
  for (const auto& thread : threads_) {
    thread->ring.post([this, thread = thread.get()] { poll(*thread); });
  }
}

void LeaseWait::poll_later(PerThread& mine) {
  mine.timer.expires_after(limits_.poll);
  mine.timer.async_wait([this, &mine](const boost::system::error_code& error) {
    if (!error) poll(mine);
  });
}

void LeaseWait::poll(PerThread& mine) {
  const bool held = lease_.held();
  const bool given_up = given_up_.load();
  const bool all = held || given_up;
  const End end = held ? End::kHeld : given_up ? End::kNot : End::kInVain;
  const TimePoint now = clock_.now();
  std::deque<Waiter> over;  // what goes on may come back, and then waits behind the others
  while (!mine.waiters.empty() && (all || mine.waiters.front().deadline <= now)) {
    over.push_back(std::move(mine.waiters.front()));
    mine.waiters.pop_front();
  }
  waiting_.fetch_sub(over.size(), std::memory_order_relaxed);
  if (!mine.waiters.empty()) poll_later(mine);
  for (Waiter& waiter : over) waiter.go(end);
}

}  // namespace weft::ds
