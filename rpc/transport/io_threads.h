// The I/O threads of a program: one io_context each, pinned to a processor.
//
// Everything on the data path stays on the thread its connection was given to: socket, session
// server, store completions. There is no work stealing, hence no locks. What belongs to one thread
// alone (an io_uring, say) is kept in an array indexed by IoThreads::current().
//
// Threading: construct, start() and stop() from one thread; context() and next() from any.
// Lifetime: stop() (or the destructor) ends and joins all threads; handlers still queued are
// destroyed unrun.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace weft::rpc {

class IoThreads {
 public:
  static constexpr unsigned kNone = ~0U;

  // pin: give thread i the i-th processor this process may run on (modulo their number).
  explicit IoThreads(unsigned count, bool pin = true);
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  void start();
  void stop();

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(contexts_.size()); }
  [[nodiscard]] boost::asio::io_context& context(unsigned index) { return *contexts_[index]; }
  // Round robin, for new connections.
  [[nodiscard]] unsigned next() { return next_++ % size(); }
  // The index of the calling thread, kNone when it is not one of any IoThreads.
  [[nodiscard]] static unsigned current();

 private:
  using WorkGuard = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;

  bool pin_;
  std::atomic<unsigned> next_{0};
  std::vector<std::unique_ptr<boost::asio::io_context>> contexts_;
  std::vector<WorkGuard> guards_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::rpc
