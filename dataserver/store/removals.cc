#include "dataserver/store/removals.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <iterator>
#include <map>

namespace weft::ds {

void Removals::add(const layout::ObjectId& object, Done done) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back({object, std::move(done), {}});
    if (std::exchange(running_, true)) return;
  }
  boost::asio::post(worker_, [this] { run(); });
}

// A lot at a time: what came meanwhile is the next one.
void Removals::run() {
  std::vector<Removal> lot;
  {
    const MutexLock lock(mutex_);
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, waiting_.size()));
    std::move(waiting_.begin(), end, std::back_inserter(lot));
    waiting_.erase(waiting_.begin(), end);
    running_ = !lot.empty();
  }
  if (lot.empty()) return;
  carry_out(lot);
  boost::asio::post(worker_, [this] { run(); });
}

void Removals::carry_out(std::vector<Removal>& lot) {
  std::map<std::uint32_t, std::vector<Removal*>> folders;
  for (Removal& removal : lot) {
    removal.result = parts_.unlink(removal.object);
    if (removal.result) folders[parts_.folder_of(removal.object)].push_back(&removal);
  }
  for (auto& [folder, removals] : folders) {
    const Result<> synced = parts_.sync(folder);
    for (Removal* removal : removals) removal->result = synced;
  }
  for (Removal& removal : lot) removal.done(std::move(removal.result));
}

}  // namespace weft::ds
