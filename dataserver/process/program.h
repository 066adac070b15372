// What the main programs weft-ds and weft-target have in common: log, signals, limits, the wait for
// the end.
//
// Threading: from the program's main thread. set_up_signals() before any other thread is made.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "rpc/base/error.h"

namespace weft::ds {

void set_up_log(const std::string& program, const std::string& level);
// Descriptors this process may have; as many as it may, where that is not allowed.
void raise_file_limit(std::size_t wanted);
// All threads inherit the mask, and only run_until_stopped() takes the signals.
void set_up_signals();
// Calls `tick` a few times a second until SIGTERM or SIGINT; its error ends the wait too.
[[nodiscard]] Result<> run_until_stopped(const std::function<Result<>()>& tick);
// To standard error; the exit status.
[[nodiscard]] int complain(const std::string& program, const Error& error);
// Tells a supervisor; `life` is its pipe, or -1. A pipe that is full says enough.
void tell(int life, char sign);

}  // namespace weft::ds
