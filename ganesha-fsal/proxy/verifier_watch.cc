#include "ganesha-fsal/proxy/verifier_watch.h"

#include <algorithm>

namespace weft::mds {

std::uint64_t VerifierWatch::observe(const Source& source, std::uint64_t verifier) {
  const MutexLock lock(mutex_);
  const auto [known, first] = seen_.emplace(source, verifier);
  if (!first && known->second != verifier) {
    known->second = verifier;
    ++value_;
  }
  return value_;
}

std::uint64_t VerifierWatch::writing(const layout::ObjectId& object,
                                     std::span<const Source> leaders) {
  const MutexLock lock(mutex_);
  Written& written = unstable(object);
  if (!written.leaders.empty() && !std::ranges::equal(written.leaders, leaders)) ++value_;
  written.leaders.assign(leaders.begin(), leaders.end());
  written.last = ++writes_;
  return value_;
}

void VerifierWatch::written(const layout::ObjectId& object, std::span<const Source> leaders) {
  const MutexLock lock(mutex_);
  Written& written = unstable(object);
  if (written.leaders.empty()) written.leaders.assign(leaders.begin(), leaders.end());
  if (!std::ranges::equal(written.leaders, leaders)) ++value_;
  written.last = ++writes_;
}

VerifierWatch::Written& VerifierWatch::unstable(const layout::ObjectId& object) {
  if (unstable_.size() >= kMaxFiles && !unstable_.contains(object)) {
    unstable_.clear();
    ++value_;
  }
  return unstable_[object];
}

VerifierWatch::Commit VerifierWatch::committing(const layout::ObjectId& object,
                                                std::span<const Source> leaders) {
  const MutexLock lock(mutex_);
  const auto written = unstable_.find(object);
  if (written == unstable_.end()) return {object, 0};
  if (!std::ranges::equal(written->second.leaders, leaders)) {
    ++value_;
    unstable_.erase(written);
    return {object, 0};
  }
  return {object, written->second.last};
}

void VerifierWatch::committed(const Commit& commit) {
  const MutexLock lock(mutex_);
  const auto written = unstable_.find(commit.object);
  if (written != unstable_.end() && written->second.last == commit.writes) {
    unstable_.erase(written);
  }
}

}  // namespace weft::mds
