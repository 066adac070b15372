// The free space of the file system that the metadata store is on: how much of it is to stay free,
// and a reserve for when others use it up.
//
// Removing takes space too, before it gives any back: a record in the log, tables that are merged
// into new ones before the old ones go. So a floor is kept free, under which nothing is added. Half
// of it is a file of zeros, the reserve, which is given up when others have taken the other half.
//
// Threading: full() and the sizes from any thread, look() from one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace weft::mds {

class StoreSpace {
 public:
  // What is free; nullopt: not known now.
  using Probe = std::function<std::optional<std::uint64_t>()>;
  // What RocksDB writes when nothing is added comes to less than so many write buffers: a log of 4,
  // 4 of memory, a compaction of 8, and half of the last two for inline files.
  static constexpr std::uint64_t kBuffersOfFloor = 24;

  // `folder` is the store's and may be absent until the store is made. A floor of 0: nothing is
  // kept, and full() is never true. Without a probe the file system is asked, for what is free to
  // ordinary users: what it keeps for root is no use when it is full.
  StoreSpace(const std::string& folder, std::uint64_t floor_bytes, Probe probe);

  // A sixteenth of the file system; at most 1 GiB, or what suits a write buffer of that size where
  // that is more.
  [[nodiscard]] static std::uint64_t floor_of(std::uint64_t file_system_bytes,
                                              std::uint64_t buffer_bytes);
  // Of the file system that the folder is on, or will be.
  [[nodiscard]] static std::uint64_t floor_for(const std::string& folder,
                                               std::uint64_t buffer_bytes);

  // Before the store is opened: what the last run left in the log may need the reserve.
  void make_way();
  // While it is open, often. `needed`: the store waits for space, so that the reserve is due.
  void look(bool needed);

  [[nodiscard]] bool full() const { return full_; }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_; }
  [[nodiscard]] std::uint64_t floor_bytes() const { return floor_; }
  [[nodiscard]] std::uint64_t reserve_bytes() const { return floor_ / 2; }
  // Of the floor, what is not in the reserve now: so much is to be free as others see it.
  [[nodiscard]] std::uint64_t keeps_bytes() const {
    return floor_ - std::min(floor_, held_.load());
  }

 private:
  void take();
  void give_up();

  const std::string file_;  // the reserve
  const std::uint64_t floor_;
  const Probe probe_;
  bool possible_ = true;                // the file system can keep some
  std::atomic<std::uint64_t> held_{0};  // bytes in the reserve
  std::atomic<bool> full_{false};
  std::atomic<std::uint64_t> free_{0};  // with the reserve
};

}  // namespace weft::mds
