#include "dataserver/process/stall_watch.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dataserver/ring/disk_waits.h"

namespace weft::ds {

namespace {

constexpr std::chrono::seconds kEvery{1};
constexpr int kUncounted = 6;  // times the patience, without a count of what the device does

}  // namespace

StallWatch::StallWatch(Parts parts) : parts_(std::move(parts)) {
  for (std::size_t i = 0; i < parts_.rings.size(); ++i) signs_.push_back(std::make_shared<Sign>());
}

std::optional<TimePoint> StallWatch::oldest(TimePoint now) {
  std::optional<TimePoint> oldest;
  const auto consider = [&oldest](TimePoint since) {
    oldest = oldest ? std::min(*oldest, since) : since;
  };
  for (std::size_t i = 0; i < signs_.size(); ++i) {
    const std::shared_ptr<Sign>& sign = signs_[i];
    if (sign->owed.exchange(true)) {
      const pid_t thread = sign->thread.load();
      if (thread != 0 && parts_.at_disk(thread)) consider(sign->asked);
      continue;
    }
    if (const auto since = sign->oldest.load(); since != 0) {
      consider(TimePoint(TimePoint::duration(since)));
    }
    sign->asked = now;
    parts_.rings[i]->post([sign] {
      const auto waits = DiskWait::oldest();
      sign->thread.store(::gettid());
      sign->oldest.store(waits ? waits->time_since_epoch().count() : 0);
      sign->owed.store(false);
    });
  }
  return oldest;
}

std::optional<std::chrono::seconds> StallWatch::look() {
  const auto told = [this, patience = parts_.patience * (moved_ ? 1 : kUncounted)] {
    return stalled_ >= patience ? std::optional(stalled_) : std::nullopt;
  };
  const TimePoint now = parts_.clock.now();
  if (now - looked_ < kEvery) return told();
  looked_ = now;
  const auto waiting = oldest(now);
  const auto moved = parts_.moved();
  const bool moves = moved && moved_ != *moved;
  moved_ = moved ? std::optional(*moved) : std::nullopt;
  if (!waiting || *waiting > moving_until_ || moves) {
    moving_until_ = now;
    stalled_ = {};
  } else {
    stalled_ += kEvery;
  }
  return told();
}

}  // namespace weft::ds
