#include "tools/delay_line/line.h"

#include <algorithm>
#include <utility>

namespace weft::delay_line {
namespace {

constexpr std::uint64_t kMillion = 1'000'000;

Nanoseconds time_for(std::uint64_t bytes, std::uint64_t rate) {
  return Nanoseconds(static_cast<std::int64_t>(1e9 * double(bytes) / double(rate)));
}

}  // namespace

bool Line::dropped(TimePoint now, std::size_t size) {
  if (cut_) {
    ++counts_.cut;
    return true;
  }
  if (settings_.lost_per_million > 0 && random_.below(kMillion) < settings_.lost_per_million) {
    ++counts_.lost;
    return true;
  }
  const bool queue_full =
      settings_.rate > 0 && sent_ > now && sent_ - now > time_for(settings_.queue, settings_.rate);
  if (queue_full || held_ + size > kMostBytes) {
    ++counts_.full;
    return true;
  }
  return false;
}

void Line::send(TimePoint now, Frame frame) {
  ++counts_.frames;
  counts_.bytes += frame.size();
  if (dropped(now, frame.size())) return;
  sent_ = std::max(sent_, now);
  if (settings_.rate > 0) sent_ += time_for(frame.size(), settings_.rate);
  last_ = std::max(last_, sent_ + settings_.delay);
  held_ += frame.size();
  under_way_.push_back({last_, std::move(frame)});
}

std::optional<TimePoint> Line::next() const {
  if (under_way_.empty()) return std::nullopt;
  return under_way_.front().due;
}

std::optional<Frame> Line::take(TimePoint now) {
  if (under_way_.empty() || under_way_.front().due > now) return std::nullopt;
  Frame frame = std::move(under_way_.front().frame);
  under_way_.pop_front();
  held_ -= frame.size();
  ++counts_.passed;
  return frame;
}

}  // namespace weft::delay_line
