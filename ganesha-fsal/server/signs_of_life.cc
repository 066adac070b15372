#include "ganesha-fsal/server/signs_of_life.h"

namespace weft::mds {

SignsOfLife::Hold SignsOfLife::add(Part part) {
  const MutexLock lock(mutex_);
  asked_[++last_].part = std::move(part);
  return {*this, last_};
}

void SignsOfLife::remove(std::uint64_t id) {
  const MutexLock lock(mutex_);
  asked_.erase(id);
}

bool SignsOfLife::look() {
  bool excused = false;
  bool given = true;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, asked] : asked_) {
      excused = asked.part.store_waits() || excused;
      if (asked.owed->exchange(true)) {
        given = false;
      } else {
        asked.part.ask([owed = asked.owed] { owed->store(false); });
      }
    }
  }
  return given || excused || at_disk_();
}

void sign_of(DataServers& servers, std::function<void()> give) {
  constexpr std::uint32_t kNone = 0;
  servers.call(kNone, control::GetKeys{}, [give = std::move(give)](auto&&) { give(); });
}

}  // namespace weft::mds
