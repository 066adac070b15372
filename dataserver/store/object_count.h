// How many objects a store has. What was there before the store was opened is counted in the
// background, folder by folder: with millions of objects that takes a slow disk minutes, and it is
// only a number in reports. Until then the number is of the folders that were read. One that cannot
// be read is logged and left out: whoever asks for an object in it has the error.
//
// An object that is made or removed while its folder was not read yet is counted with the folder;
// one of a folder that was read is counted at once. So that it is never both, a folder is read
// under a mutex that whoever makes or removes something in it takes as long as it was not.
//
// Threading: start() first, by one thread; then all methods from any. A thread of its own counts.
// A mutex is held while a folder is read: who makes an object there waits for that, and for nothing
// that is slower.
//
// Ownership: destruction ends what counts, and joins.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class ObjectCount {
 public:
  // The objects in a folder.
  using Read = std::function<Result<std::uint64_t>(unsigned folder)>;

  // All `folders` are taken to be empty until start().
  explicit ObjectCount(unsigned folders) : folders_(folders), counted_(folders) {}
  ObjectCount(const ObjectCount&) = delete;
  ObjectCount& operator=(const ObjectCount&) = delete;
  ~ObjectCount();

  // Counts what is there. At most once.
  void start(Read read);
  // Until all folders are read, but not longer than `most`.
  void wait(std::chrono::milliseconds most) const;
  [[nodiscard]] std::uint64_t now() const;
  // now() is all there are: all folders are read, each without an error.
  [[nodiscard]] bool whole() const { return counted_.load() == folders_ && !missed_.load(); }

  // `work` makes (1) or removes (-1) an object's file in the folder, and returns whether it did.
  template <class Work>
  void change(unsigned folder, int by, Work work) {
    if (counted_.load() > folder) {
      if (work()) objects_.fetch_add(by, std::memory_order_relaxed);
      return;
    }
    const MutexLock lock(mutex_of(folder));
    const bool counted = counted_.load() > folder;
    if (work() && counted) objects_.fetch_add(by, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kMutexes = 64;

  [[nodiscard]] Mutex& mutex_of(unsigned folder) { return mutexes_[folder % kMutexes]; }
  void run(const Read& read);

  const unsigned folders_;
  std::atomic<unsigned> counted_;  // folders, from the first on
  std::atomic<std::int64_t> objects_{0};
  std::atomic<bool> missed_{false};  // a folder was not read
  std::array<Mutex, kMutexes> mutexes_;
  std::atomic<bool> stopping_{false};
  mutable Mutex end_mutex_;
  mutable CondVar end_;
  bool ended_ WEFT_GUARDED_BY(end_mutex_) = true;
  std::thread thread_;
};

}  // namespace weft::ds
