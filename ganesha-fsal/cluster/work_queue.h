// Threads that run work which may block: what the control thread hands on.
//
// Threading: post() from any thread. stop() runs what is queued, then joins; later work is refused.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "rpc/base/mutex.h"

namespace weft::mds {

class WorkQueue {
 public:
  using Work = std::move_only_function<void()>;

  WorkQueue(unsigned threads, std::size_t max_waiting);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue();

  // False, and `work` untouched, when too much waits or the queue has stopped.
  [[nodiscard]] bool post(Work&& work);
  void stop();

 private:
  void run();

  const std::size_t max_waiting_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Work> waiting_ WEFT_GUARDED_BY(mutex_);
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::mds
