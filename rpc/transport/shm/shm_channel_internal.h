// What the parts of ShmChannel share: the accepting side's account of what it has borrowed.
//
// Threading: give_back() from any thread, the rest on the channel's.
#pragma once

#include <vector>

#include "rpc/base/mutex.h"
#include "rpc/transport/shm/shm_channel.h"

namespace weft::rpc {

// What bytes through the socket say.
constexpr std::byte kBell{1};
constexpr std::byte kAllGivenBack{2};

// Kept by the channel while it is open, and by every Buffer over borrowed pages: the mapping and
// our end of the socket outlive the last of them.
struct ShmChannel::Borrowed {
  Borrowed(std::weak_ptr<ShmChannel> of, ShmConnection& connection);
  // Says that all is given back. A process that dies says nothing.
  ~Borrowed();

  void give_back(std::uint32_t number);
  // At most `most` of the numbers that are to be told.
  [[nodiscard]] std::vector<std::uint32_t> take(std::size_t most);

  const std::weak_ptr<ShmChannel> channel;
  const std::shared_ptr<SharedMemory> arena;
  const OwnedFd socket;

 private:
  Mutex mutex_;
  std::vector<std::uint32_t> numbers_ WEFT_GUARDED_BY(mutex_);
  bool posted_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::rpc
