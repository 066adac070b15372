#include "ganesha-fsal/meta/kv/store_watch.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace weft::mds {

unsigned Progress::stuck() {
  const std::uint64_t done = done_;
  stuck_ = under_way_ != 0 && done == seen_ ? stuck_ + 1 : 0;
  seen_ = done;
  return stuck_;
}

Regularly::Regularly(std::chrono::milliseconds period, std::function<void()> look)
    : thread_([period, look = std::move(look)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          wake.wait_for(lock, stop, period, [] { return false; });
          if (!stop.stop_requested()) look();
        }
      }) {}

}  // namespace weft::mds
