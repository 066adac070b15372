#include "ganesha-fsal/meta/kv/key_versions.h"

#include <algorithm>
#include <functional>

namespace weft::mds {

KeyVersions::KeyVersions()
    : versions_(std::make_unique<std::atomic<std::uint64_t>[]>(kSlots)),
      mutexes_(std::make_unique<Mutex[]>(kMutexes)) {}
KeyVersions::~KeyVersions() = default;

KeyVersions::Slot KeyVersions::slot_of(std::string_view key) {
  return static_cast<Slot>(std::hash<std::string_view>()(key) % kSlots);
}

KeyVersions::Read KeyVersions::about_to_read(std::string_view key) const {
  const Slot slot = slot_of(key);
  return {slot, versions_[slot].load(std::memory_order_acquire)};
}

// The mutexes are as many as there are in a vector, which the analysis cannot follow.
KeyVersions::Guard::Guard(KeyVersions& all, const std::vector<Read>& reads,
                          const std::vector<Slot>& writes) WEFT_NO_THREAD_SAFETY_ANALYSIS
    : all_(all) {
  locked_.reserve(reads.size() + writes.size());
  for (const Read& read : reads) locked_.push_back(mutex_of(read.slot));
  for (const Slot slot : writes) locked_.push_back(mutex_of(slot));
  std::ranges::sort(locked_);
  locked_.erase(std::unique(locked_.begin(), locked_.end()), locked_.end());
  for (const std::uint32_t at : locked_) all_.mutexes_[at].lock();
}

KeyVersions::Guard::~Guard() WEFT_NO_THREAD_SAFETY_ANALYSIS {
  for (const std::uint32_t at : locked_) all_.mutexes_[at].unlock();
}

bool KeyVersions::Guard::unchanged(const std::vector<Read>& reads) const {
  return std::ranges::all_of(reads, [this](const Read& read) {
    return all_.versions_[read.slot].load(std::memory_order_relaxed) == read.version;
  });
}

// Who sees the new number sees what was written before it.
void KeyVersions::Guard::written(const std::vector<Slot>& writes) {
  for (const Slot slot : writes) all_.versions_[slot].fetch_add(1, std::memory_order_release);
}

}  // namespace weft::mds
