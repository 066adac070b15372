// Several things at once that each wait for disks and data servers, where one after the other takes
// too long.
//
// Threading: returns when all is done; threads of its own, at most `threads`, the caller's
// included. Fewer where the system gives no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace weft::mds {

// `work(i)` for each i below `count`, on any thread.
template <class Work>
void in_parallel(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads && others.size() + 1 < count) others.emplace_back(run);
  } catch (const std::system_error&) {
    // What there are do it all.
  }
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace weft::mds
