// One way of a long link: frames come out in the order in which they went in, later.
//
// A frame waits until those before it are sent (rate), and is then under way for the delay. Frames
// for which there is no room in the queue are dropped, as a router does it, and a share of the
// others at random. Computed from the times that it is told: it waits for nobody.
//
// Threading: none. One thread at a time.
// Ownership: frames are owned from send() until take().
// Invariants:
//   1. Frames leave in the order in which they came, whatever was set meanwhile.
//   2. A frame leaves no earlier than the delay, as it was when the frame came, says.
//   3. At most kMostBytes are in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "rpc/base/clock.h"

namespace weft::delay_line {

using Frame = std::vector<std::byte>;

struct LineSettings {
  Nanoseconds delay{0};
  std::uint32_t lost_per_million = 0;
  std::uint64_t rate = 0;   // bytes a second; 0: no limit
  std::uint64_t queue = 0;  // bytes that may wait to be sent, at a rate
};

struct LineCounts {
  std::uint64_t frames = 0;  // that came
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;    // at random
  std::uint64_t full = 0;    // dropped, for there was no room
  std::uint64_t cut = 0;     // dropped while the link was cut
  std::uint64_t passed = 0;  // that left
};

class Line {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

  // `random` has to outlive it.
  explicit Line(Random& random) : random_(random) {}

  // Of frames that come from now on.
  void set(const LineSettings& settings) { settings_ = settings; }
  // Whether what comes is dropped. What is under way arrives.
  void cut(bool is_cut) { cut_ = is_cut; }

  void send(TimePoint now, Frame frame);
  // When the next frame is due.
  [[nodiscard]] std::optional<TimePoint> next() const;
  // The next frame, if it is due.
  [[nodiscard]] std::optional<Frame> take(TimePoint now);

  [[nodiscard]] const LineCounts& counts() const { return counts_; }

 private:
  struct UnderWay {
    TimePoint due;
    Frame frame;
  };

  [[nodiscard]] bool dropped(TimePoint now, std::size_t size);

  Random& random_;
  LineSettings settings_;
  bool cut_ = false;
  TimePoint sent_{};  // when all that was accepted is sent
  TimePoint last_{};  // when the last of it is due
  std::uint64_t held_ = 0;
  std::deque<UnderWay> under_way_;
  LineCounts counts_;
};

}  // namespace weft::delay_line
