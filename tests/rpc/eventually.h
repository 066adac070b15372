// For what other threads bring about. Threading: pure; `check` is called on the caller's thread.
#pragma once

#include <chrono>
#include <thread>

namespace weft::rpc::test {

// Whether `check` holds at some time before `limit` is over.
template <class Check>
bool eventually(Check check, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!check()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace weft::rpc::test
