// Whether keys have changed since they were read: how a commit finds its conflicts.
//
// A key has a slot, which follows from its hash, and a slot has a number. Who reads a key takes the
// number before; who commits locks the slots of all keys that it has read or is about to write,
// looks whether the numbers are still those, writes, and counts up those of what it has written.
// Keys that share a slot make transactions run again that need not, which is rare.
//
// Threading: any thread. A Guard belongs to the thread that made it; a thread has one at a time.
//
// Invariants:
//  1. Mutexes are locked in ascending order, all at once: no deadlock.
//  2. While a slot's number is the same, nobody has written a key of it, but for somebody that has
//     it locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "rpc/base/mutex.h"

namespace weft::mds {

class KeyVersions {
 public:
  using Slot = std::uint32_t;
  struct Read {
    Slot slot = 0;
    std::uint64_t version = 0;
  };

  KeyVersions();
  ~KeyVersions();
  KeyVersions(const KeyVersions&) = delete;
  KeyVersions& operator=(const KeyVersions&) = delete;

  [[nodiscard]] static Slot slot_of(std::string_view key);
  // Before the key is read.
  [[nodiscard]] Read about_to_read(std::string_view key) const;

  // Holds the slots of these.
  class Guard {
   public:
    Guard(KeyVersions& all, const std::vector<Read>& reads, const std::vector<Slot>& writes);
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();

    [[nodiscard]] bool unchanged(const std::vector<Read>& reads) const;
    // When they are written.
    void written(const std::vector<Slot>& writes);

   private:
    KeyVersions& all_;
    std::vector<std::uint32_t> locked_;  // of mutexes, ascending
  };

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 18;  // 2 MiB of numbers
  static constexpr std::size_t kMutexes = std::size_t{1} << 12;
  [[nodiscard]] static std::uint32_t mutex_of(Slot slot) { return slot % kMutexes; }

  const std::unique_ptr<std::atomic<std::uint64_t>[]> versions_;  // written under the slot's mutex
  const std::unique_ptr<Mutex[]> mutexes_;
};

}  // namespace weft::mds
