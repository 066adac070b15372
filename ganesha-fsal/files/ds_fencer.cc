#include "ganesha-fsal/files/ds_fencer.h"

namespace weft::mds {

void DsFencer::await_counted(ClientId client) {
  counted_.wait(mutex_, [&]() WEFT_REQUIRES(mutex_) { return !counting_.contains(client); });
}

void DsFencer::make_room() {
  if (epochs_.size() >= kMostKnown) epochs_.erase(epochs_.begin());
}

Result<std::uint32_t> DsFencer::epoch_for(ClientId client) {
  const MutexLock lock(mutex_);
  await_counted(client);  // what is sealed with the epoch of before would be refused
  auto it = epochs_.find(client);
  if (it == epochs_.end()) {
    const auto known = names_.client_epoch(client);
    if (!known) return fail(known.error().code, known.error().text);
    make_room();
    it = epochs_.emplace(client, Epoch{.current = *known}).first;
  }
  it->second.used = true;
  return it->second.current;
}

Result<std::uint32_t> DsFencer::epoch_against(ClientId client) {
  MutexLock lock(mutex_);
  await_counted(client);
  const auto it = epochs_.find(client);
  // Unknown since the start: an earlier process may have sealed handles with its epoch.
  if (it != epochs_.end() && !it->second.used) return it->second.current;
  counting_.insert(client);
  lock.unlock();  // over the sync
  const auto next = names_.bump_client_epoch(client);
  lock.lock();
  counting_.erase(client);
  counted_.notify_all();
  if (!next) return fail(next.error().code, next.error().text);
  make_room();
  epochs_[client] = Epoch{.current = *next};
  return *next;
}

void DsFencer::fence(FileId file, ClientId client, std::function<void(Result<>)> done) {
  const auto map = names_.layout(file);
  if (!map) return done(fail(map.error().code, map.error().text));
  if (!*map) return done({});  // there was never a handle
  const auto epoch = epoch_against(client);
  if (!epoch) return done(fail(epoch.error().code, epoch.error().text));
  control::Fence fence;
  fence.what = control::Fence::What::kClient;
  fence.client_id = client;
  fence.epoch = *epoch;
  cluster_.fence(servers_of(**map), {fence}, std::move(done));
}

}  // namespace weft::mds
