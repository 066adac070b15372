#include "dataserver/process/watchdog.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

namespace weft::ds {

Watchdog::Watchdog(std::vector<IoRing*> rings, unsigned limit, std::chrono::milliseconds round,
                   std::function<void(unsigned)> on_hung, std::function<void()> on_alive,
                   std::function<bool(pid_t)> at_disk)
    : rings_(std::move(rings)),
      limit_(limit),
      round_(round),
      on_hung_(std::move(on_hung)),
      on_alive_(std::move(on_alive)),
      at_disk_(std::move(at_disk)) {
  for (std::size_t i = 0; i < rings_.size(); ++i) signs_.push_back(std::make_shared<Sign>());
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::run() {
  MutexLock lock(mutex_);
  bool asked = false;
  while (!wake_.wait_for(mutex_, round_, [this]() WEFT_REQUIRES(mutex_) { return stop_; })) {
    bool all = std::exchange(asked, true);
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const std::shared_ptr<Sign>& sign = signs_[i];
      if (!sign->owed.exchange(true)) {
        sign->rounds = 0;
        rings_[i]->post([sign] {
          sign->thread.store(::gettid());
          sign->owed.store(false);
        });
      } else if (const pid_t thread = sign->thread.load(); thread != 0 && at_disk_(thread)) {
        sign->rounds = 0;
      } else {
        all = false;
        if (++sign->rounds == limit_) on_hung_(static_cast<unsigned>(i));
      }
    }
    if (all && on_alive_) on_alive_();
  }
}

void end_hung_process(unsigned thread) {
  spdlog::critical("event=watchdog thread={} action=exit", thread);
  ::_exit(70);  // EX_SOFTWARE
}

}  // namespace weft::ds
