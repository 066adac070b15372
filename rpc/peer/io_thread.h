// One thread that runs an io_context, and the rule that makes stopping it exact: what is posted
// before stop() runs before the thread ends; what comes after is refused.
//
// Threading: start() and stop() from the owner's thread; post() from any.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <optional>
#include <thread>

#include "rpc/base/assert.h"
#include "rpc/base/mutex.h"

namespace weft::rpc::peer {

class IoThread {
 public:
  IoThread() : context_(1), work_(context_.get_executor()) {}
  ~IoThread() { WEFT_ASSERT(!thread_.joinable()); }

  [[nodiscard]] boost::asio::io_context& context() { return context_; }

  void start() {
    thread_ = std::thread([this] { context_.run(); });
  }

  // Runs `work` on the thread. False, and `work` untouched, when it is stopped or was not started.
  template <class Work>
  [[nodiscard]] bool post(Work&& work) {
    const MutexLock lock(mutex_);
    if (stopped_) return false;
    boost::asio::post(context_, std::forward<Work>(work));
    return true;
  }

  // Runs `last` after everything posted so far, lets what it cancels finish, and joins.
  template <class Last>
  void stop(Last&& last) {
    {
      const MutexLock lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
      boost::asio::post(context_, std::forward<Last>(last));
    }
    work_.reset();
    if (!thread_.joinable()) {
      context_.run();  // never started: what was posted is completed here
      return;
    }
    WEFT_ASSERT(thread_.get_id() != std::this_thread::get_id());
    thread_.join();
  }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  Mutex mutex_;
  bool stopped_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft::rpc::peer
