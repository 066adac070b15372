#include "ganesha-fsal/cluster/work_queue.h"

namespace weft::mds {

WorkQueue::WorkQueue(unsigned threads, std::size_t max_waiting) : max_waiting_(max_waiting) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkQueue::~WorkQueue() { stop(); }

bool WorkQueue::post(Work&& work) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkQueue::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkQueue::run() {
  MutexLock lock(mutex_);
  while (true) {
    wake_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace weft::mds
