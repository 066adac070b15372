// weft-delay-line: a long link between two TAP devices, for kernels without netem.
//
//   weft-delay-line NEAR FAR [SEED]
//
// What one device is to send comes out of the other one, later (line.h). It is told what to do on
// standard input, a line each, and answers with a line of JSON, which has what was counted:
//
//   set DELAY_US LOST_PER_MILLION RATE QUEUE    both ways alike; rate in bytes a second, 0: none
//   cut | restore                               a black hole, and no more
//   counts
//
// It ends with its standard input. Devices are there already, and keep their state.
//
// Threading: one thread.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "tools/delay_line/line.h"

namespace weft::delay_line {
namespace {

constexpr std::size_t kLongestFrame = 65536;
constexpr std::size_t kLongestCommand = 4096;
constexpr int kFramesInTurn = 64;  // of one device, before it is the other one's turn
constexpr std::uint64_t kMostDelayUs = 60'000'000;
constexpr std::uint64_t kMillion = 1'000'000;

int open_tap(const char* name) {
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq wanted{};
  wanted.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(wanted.ifr_name, name, IFNAMSIZ - 1);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (device < 0 || ::ioctl(device, TUNSETIFF, &wanted) != 0) {
    std::fprintf(stderr, "weft-delay-line: %s: %s\n", name, std::strerror(errno));
    return -1;
  }
  return device;
}

struct Way {
  int from;
  int to;
  Line line;

  void receive(TimePoint now) {
    std::array<std::byte, kLongestFrame> frame;
    for (int i = 0; i < kFramesInTurn; ++i) {
      const ssize_t got = ::read(from, frame.data(), frame.size());
      if (got <= 0) return;
      line.send(now, Frame(frame.begin(), frame.begin() + got));
    }
  }

  // A device that is down takes nothing; the frame is gone, as on a wire.
  void deliver(TimePoint now) {
    while (const auto frame = line.take(now)) {
      if (::write(to, frame->data(), frame->size()) < 0 && errno == EBADF) std::abort();
    }
  }
};

std::string counts_json(const Way& way) {
  const LineCounts& counts = way.line.counts();
  std::ostringstream text;
  text << "{\"frames\": " << counts.frames << ", \"bytes\": " << counts.bytes
       << ", \"lost\": " << counts.lost << ", \"full\": " << counts.full
       << ", \"cut\": " << counts.cut << ", \"passed\": " << counts.passed << "}";
  return text.str();
}

class Program {
 public:
  Program(int near, int far, Random& random)
      : ways_{Way{near, far, Line(random)}, Way{far, near, Line(random)}} {}

  int run() {
    while (true) {
      std::array<pollfd, 3> waited{
          {{ways_[0].from, POLLIN, 0}, {ways_[1].from, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
      const timespec until = until_next();
      if (::ppoll(waited.data(), waited.size(), &until, nullptr) < 0 && errno != EINTR) return 1;
      for (std::size_t i = 0; i < ways_.size(); ++i) {
        if (waited[i].revents & POLLIN) ways_[i].receive(system_clock().now());
      }
      for (auto& way : ways_) way.deliver(system_clock().now());
      if (waited[2].revents != 0 && !read_commands()) return 0;
    }
  }

 private:
  [[nodiscard]] timespec until_next() const {
    Nanoseconds least = std::chrono::seconds(1);
    const TimePoint now = system_clock().now();
    for (const auto& way : ways_) {
      if (const auto due = way.line.next()) least = std::min(least, *due - now);
    }
    return {.tv_sec = 0, .tv_nsec = std::clamp<long>(least.count(), 0, 999'999'999)};
  }

  // False at the end of the input.
  bool read_commands() {
    std::array<char, kLongestCommand> text;
    const ssize_t got = ::read(STDIN_FILENO, text.data(), text.size());
    if (got <= 0) return got < 0 && errno == EINTR;
    input_.append(text.data(), static_cast<std::size_t>(got));
    for (auto end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      answer(input_.substr(0, end));
      input_.erase(0, end + 1);
    }
    return input_.size() < kLongestCommand;
  }

  void answer(const std::string& command) {
    const std::string said = obey(command);
    std::printf("%s\n", said.c_str());
    std::fflush(stdout);
  }

  std::string obey(const std::string& command) {
    std::istringstream words(command);
    std::string verb;
    words >> verb;
    if (verb == "set") {
      std::uint64_t delay_us = 0;
      std::uint64_t lost = 0;
      LineSettings settings;
      words >> delay_us >> lost >> settings.rate >> settings.queue;
      if (!words || delay_us > kMostDelayUs || lost > kMillion) return R"({"error": "numbers"})";
      settings.delay = std::chrono::microseconds(delay_us);
      settings.lost_per_million = static_cast<std::uint32_t>(lost);
      for (auto& way : ways_) way.line.set(settings);
    } else if (verb == "cut" || verb == "restore") {
      for (auto& way : ways_) way.line.cut(verb == "cut");
    } else if (verb != "counts") {
      return R"({"error": "set, cut, restore or counts"})";
    }
    return "{\"near\": " + counts_json(ways_[0]) + ", \"far\": " + counts_json(ways_[1]) + "}";
  }

  std::array<Way, 2> ways_;
  std::string input_;
};

int run(int count, char** words) {
  if (count < 3 || count > 4) {
    std::fputs("usage: weft-delay-line NEAR FAR [SEED]\n", stderr);
    return 2;
  }
  const int near = open_tap(words[1]);
  const int far = near < 0 ? -1 : open_tap(words[2]);
  if (far < 0) return 1;
  SeededRandom random(count == 4 ? std::strtoull(words[3], nullptr, 10) : 1);
  return Program(near, far, random).run();
}

}  // namespace
}  // namespace weft::delay_line

int main(int count, char** words) { return weft::delay_line::run(count, words); }
