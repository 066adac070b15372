#include "ganesha-fsal/meta/kv/store_watch.h"

#include <utility>

#include "rpc/base/mutex.h"

namespace weft::mds {

unsigned Progress::stuck() {
  const std::uint64_t done = done_;
  stuck_ = under_way_ != 0 && done == seen_ ? stuck_ + 1 : 0;
  seen_ = done;
  return stuck_;
}

Regularly::Regularly(std::chrono::milliseconds period, std::function<void()> look)
    : thread_([period, look = std::move(look)](const std::stop_token& stop) {
        Mutex mutex;
        CondVar stopped;
        const std::stop_callback on_stop(stop, [&] {
          const MutexLock lock(mutex);
          stopped.notify_one();
        });
        while (!stop.stop_requested()) {
          {
            const MutexLock lock(mutex);
            stopped.wait_for(mutex, period, [&] { return stop.stop_requested(); });
          }
          if (!stop.stop_requested()) look();
        }
      }) {}

}  // namespace weft::mds
