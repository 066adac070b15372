#include "rpc/transport/io_threads.h"

#include <pthread.h>
#include <sched.h>

#include "rpc/base/assert.h"

namespace weft::rpc {
namespace {

thread_local unsigned current_index = IoThreads::kNone;

// Pins the calling thread to the index-th processor it may run on. Best effort: an I/O thread that
// wanders is slower, not wrong.
void pin_to(unsigned index) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int count = CPU_COUNT(&allowed);
  if (count <= 0) return;
  unsigned skip = index % static_cast<unsigned>(count);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof one, &one));
    return;
  }
}

}  // namespace

IoThreads::IoThreads(unsigned count, bool pin) : pin_(pin) {
  WEFT_ASSERT(count > 0);
  for (unsigned i = 0; i < count; ++i) {
    // One thread runs each context: Asio may leave out what several would need.
    contexts_.push_back(std::make_unique<boost::asio::io_context>(1));
    guards_.emplace_back(contexts_.back()->get_executor());
  }
}

IoThreads::~IoThreads() {
  stop();
  contexts_.clear();
}

void IoThreads::start() {
  WEFT_ASSERT(threads_.empty());
  for (unsigned i = 0; i < size(); ++i) {
    threads_.emplace_back([this, i] {
      current_index = i;
      if (pin_) pin_to(i);
      ::pthread_setname_np(::pthread_self(), ("weft-io-" + std::to_string(i)).c_str());
      contexts_[i]->run();
    });
  }
}

void IoThreads::stop() {
  guards_.clear();
  for (auto& context : contexts_) context->stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

unsigned IoThreads::current() { return current_index; }

}  // namespace weft::rpc
