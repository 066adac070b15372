#include "dataserver/ring/ring_threads.h"

#include <sched.h>

#include <algorithm>
#include <future>
#include <thread>

#include "rpc/base/clock.h"

namespace weft::ds {

namespace {

unsigned usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

Result<std::unique_ptr<RingThreads>> RingThreads::start(unsigned count, bool pin) {
  if (count == 0) count = usable_cpus();
  std::unique_ptr<RingThreads> made(new RingThreads(count, pin));
  for (unsigned i = 0; i < count; ++i) {
    auto ring = IoRing::create(made->threads_.context(i), i);
    if (!ring) return pass(ring);
    made->rings_.push_back(std::move(*ring));
    made->rings_.back()->post([ring = made->rings_.back().get()] { ring->bind_to_this_thread(); });
  }
  made->threads_.start();
  return made;
}

std::vector<IoRing*> RingThreads::list() const {
  std::vector<IoRing*> list;
  for (const auto& ring : rings_) list.push_back(ring.get());
  return list;
}

bool RingThreads::wait_until_quiet(const std::function<bool()>& workers_idle,
                                   std::chrono::milliseconds limit) {
  const auto end = system_clock().now() + limit;
  unsigned quiet_passes = 0;
  while (quiet_passes < 2) {  // an operation may move between ring and worker during one pass
    bool quiet = workers_idle();
    for (const auto& ring : rings_) {
      auto idle = std::make_shared<std::promise<bool>>();
      auto answer = idle->get_future();
      ring->post([idle, ring = ring.get()] { idle->set_value(ring->idle()); });
      if (answer.wait_until(end) != std::future_status::ready) return false;
      if (!answer.get()) quiet = false;
    }
    quiet_passes = quiet ? quiet_passes + 1 : 0;
    if (system_clock().now() > end) return false;
    if (!quiet) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void RingThreads::stop() {
  threads_.stop();
  rings_.clear();
}

}  // namespace weft::ds
