#include "dataserver/store/object_count.h"

#include <spdlog/spdlog.h>

namespace weft::ds {

ObjectCount::~ObjectCount() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void ObjectCount::start(Read read) {
  counted_ = 0;
  {
    const MutexLock lock(end_mutex_);
    ended_ = false;
  }
  thread_ = std::thread([this, read = std::move(read)] { run(read); });
}

void ObjectCount::run(const Read& read) {
  for (unsigned folder = 0; folder < folders_ && !stopping_; ++folder) {
    Result<std::uint64_t> found = 0;
    {
      const MutexLock lock(mutex_of(folder));
      found = read(folder);
      if (found) objects_.fetch_add(static_cast<std::int64_t>(*found), std::memory_order_relaxed);
      if (!found) missed_ = true;
      counted_ = folder + 1;
    }
    if (found) continue;
    spdlog::error("event=objects_uncounted folder={:03x} error=\"{}\"", folder,
                  found.error().describe());
  }
  {
    const MutexLock lock(end_mutex_);
    ended_ = true;
  }
  end_.notify_all();
  if (!stopping_) spdlog::info("event=objects_counted objects={}", now());
}

void ObjectCount::wait(std::chrono::milliseconds most) const {
  const MutexLock lock(end_mutex_);
  end_.wait_for(end_mutex_, most, [this]() WEFT_REQUIRES(end_mutex_) { return ended_; });
}

std::uint64_t ObjectCount::now() const {
  const std::int64_t count = objects_.load(std::memory_order_relaxed);
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

}  // namespace weft::ds
