// Threads that run work which may block: what the control thread hands on.
//
// Threading: post() from any thread. stop() runs what is queued, then joins; later work is refused.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

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
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> waiting_;  // guarded by mutex_, as is stopping_
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::mds
