// A rate limit: how long to wait before the next piece of work.
//
// What is used may be more than there is; it is then paid back before anything else. So the limit
// holds over time whatever the size of a piece, and nothing is ever held while waiting.
//
// Threading: a TokenBucket belongs to one thread; a SharedRate is for any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class TokenBucket {
 public:
  // 0: no limit. At most a tenth of a second's worth is saved up.
  TokenBucket(std::uint64_t bytes_per_second, TimePoint now)
      : rate_(static_cast<double>(bytes_per_second)), at_(now) {}

  void use(std::uint64_t bytes) { have_ -= static_cast<double>(bytes); }
  // Zero when work may go on.
  [[nodiscard]] Nanoseconds wait(TimePoint now) {
    if (rate_ <= 0) return Nanoseconds{0};
    have_ = std::min(have_ + rate_ * std::chrono::duration<double>(now - at_).count(), rate_ / 10);
    at_ = now;
    if (have_ >= 0) return Nanoseconds{0};
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(-have_ / rate_)) +
           Nanoseconds{1};
  }

 private:
  double rate_;
  TimePoint at_;
  double have_ = 0;
};

class SharedRate {
 public:
  explicit SharedRate(TimePoint now) : bucket_(0, now) {}

  // What was used and not paid back yet is forgotten when the rate changes.
  void set(std::uint64_t bytes_per_second, TimePoint now) {
    const MutexLock lock(mutex_);
    if (std::exchange(rate_, bytes_per_second) != bytes_per_second) {
      bucket_ = TokenBucket(bytes_per_second, now);
    }
  }
  void use(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    if (rate_ != 0) bucket_.use(bytes);
  }
  [[nodiscard]] Nanoseconds wait(TimePoint now) {
    const MutexLock lock(mutex_);
    return bucket_.wait(now);
  }

 private:
  Mutex mutex_;
  std::uint64_t rate_ WEFT_GUARDED_BY(mutex_) = 0;
  TokenBucket bucket_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::ds
