// What the main programs weft-ds and weft-target have in common: log, signals, limits, the wait for
// the end.
//
// Threading: from the program's main thread. set_up_signals() before any other thread is made.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "rpc/base/error.h"

namespace weft::ds {

void set_up_log(const std::string& program, const std::string& level);
// Descriptors this process may have; as many as it may, where that is not allowed. How many it may
// have now.
std::size_t raise_file_limit(std::size_t wanted);
// All threads inherit the mask, and only run_until_stopped() takes the signals. What comes before
// it waits: SIGHUP ends no process of ours.
void set_up_signals();
// Calls `tick` a few times a second until SIGTERM or SIGINT, and `reload` at SIGHUP. The error of
// `tick` ends the wait too.
[[nodiscard]] Result<> run_until_stopped(const std::function<Result<>()>& tick,
                                         const std::function<void()>& reload);
void set_log_level(const std::string& level);
// How a program ends whose command line or configuration is wrong; any other failure is 1. Its unit
// does not start it again after this one.
constexpr int kExitUsage = 2;
// To standard error; the exit status.
[[nodiscard]] int complain(const std::string& program, const Error& error);
// A name that the resolver does not know, kUnreachable, may be known later: that is 1.
[[nodiscard]] int misconfigured(const std::string& program, const Error& error);
// Of a file that is good in itself: can its key file be used?
[[nodiscard]] Result<> check_key_file(const std::string& config, const std::string& key_file);
// Tells a supervisor; `life` is its pipe, or -1. A pipe that is full says enough.
void tell(int life, char sign);
// What it does, for people: a line, whose end is cut off when it is long.
void tell_status(int life, std::string_view text);

// Tells a supervisor, from the tick of run_until_stopped(), that it serves, and what it does when
// that is something else.
class Report {
 public:
  explicit Report(int life) : life_(life) {}
  void tick(bool serving, std::string status);

 private:
  const int life_;
  bool serving_ = false;
  std::string status_;
};

}  // namespace weft::ds
