#include "ganesha-fsal/files/ds_fencer.h"

#include <algorithm>

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

DsFencer::Order DsFencer::in_order(FileId file, const layout::LayoutMap& map) const {
  Order order{.leaders = {}, .others = servers_of(map)};
  const FileTable::Looking record(files_, file);
  const std::vector<std::uint8_t>& leads = record->mirrors.leads;
  for (std::size_t stripe = 0; stripe < leads.size(); ++stripe) {
    if (leads[stripe] >= map.copies.size()) continue;
    const std::vector<std::uint32_t>& ds_ids = map.copies[leads[stripe]].ds_ids;
    if (stripe >= ds_ids.size() || std::erase(order.others, ds_ids[stripe]) == 0) continue;
    order.leaders.push_back(ds_ids[stripe]);
  }
  return order;
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
  Order order = in_order(file, **map);
  if (order.leaders.empty()) return cluster_.fence(order.others, {fence}, std::move(done));
  cluster_.fence(order.leaders, {fence},
                 [&cluster = cluster_, fence, others = std::move(order.others),
                  done = std::move(done)](Result<> leaders) mutable {
                   const bool over = !leaders && leaders.error() == Errc::kClosed;
                   if (over || others.empty()) return done(std::move(leaders));
                   cluster.fence(others, {fence},
                                 [leaders = std::move(leaders),
                                  done = std::move(done)](Result<> told) mutable {
                                   done(leaders ? std::move(told) : std::move(leaders));
                                 });
                 });
}

}  // namespace weft::mds
