// How many of the log lines are written that peers can provoke, strangers among them: of each kind
// a number at once, and then a few a second. Those left out are written at level debug, and
// counted: the next line says how many there were (left_out=).
//
// Threading: any thread. Ownership: the clock outlives it.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft {

class LogLimit {
 public:
  static constexpr std::uint64_t kAtOnce = 100;  // lines
  static constexpr std::chrono::milliseconds kForOne{200};

  explicit LogLimit(const Clock& clock = system_clock()) : clock_(clock) {}

  template <class... Args>
  void write(spdlog::level::level_enum level, spdlog::format_string_t<Args...> format,
             Args&&... args) {
    const auto left_out = admit();
    if (!left_out) return spdlog::debug(format, std::forward<Args>(args)...);
    if (*left_out == 0) return spdlog::log(level, format, std::forward<Args>(args)...);
    spdlog::log(level, "{} left_out={}", fmt::format(format, std::forward<Args>(args)...),
                *left_out);
  }
  template <class... Args>
  void info(spdlog::format_string_t<Args...> format, Args&&... args) {
    write(spdlog::level::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(spdlog::format_string_t<Args...> format, Args&&... args) {
    write(spdlog::level::warn, format, std::forward<Args>(args)...);
  }

 private:
  // How many were left out since the last one that is written, if this one is.
  [[nodiscard]] std::optional<std::uint64_t> admit();

  const Clock& clock_;
  Mutex mutex_;
  std::uint64_t lines_ WEFT_GUARDED_BY(mutex_) = kAtOnce;  // that may be written now
  std::optional<TimePoint> since_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t left_out_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft
