#include "rpc/transport/admission.h"

#include <algorithm>

namespace weft::rpc {

struct Admission::Place {
  std::string peer;
  std::move_only_function<void()> cut;
  std::atomic<bool> is_cut{false};
  Standing standing = Standing::kStranger;
  std::shared_ptr<HostShare> host;
  std::weak_ptr<Channel> channel;         // once it is there
  bool lost = false;                      // it gives way to others, and counts no more
  std::list<PlacePtr>::iterator at = {};  // in queue_of(standing)
};

namespace {

void close_lost(const std::shared_ptr<Channel>& channel) {
  channel->post(
      [channel] { channel->close({Errc::kBusy, "gives way: it has not shown who it is"}); });
}

}  // namespace

Admission::PlacePtr Admission::admit(const std::string& peer, std::uint64_t cuts,
                                     std::move_only_function<void()> cut) {
  const MutexLock lock(mutex_);
  if (cuts != cuts_.load()) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  Host& host = hosts_[peer];
  make_way(peer, host, limits_.standing);
  if (!has_room(host, limits_.standing)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    if (host.empty()) hosts_.erase(peer);
    return nullptr;
  }
  auto place = std::make_shared<Place>();
  place->peer = peer;
  place->cut = std::move(cut);
  place->standing = limits_.standing;
  place->host = host.share;
  open_.insert(place);
  enter(host, place);
  open_count_.fetch_add(1, std::memory_order_relaxed);
  return place;
}

ConnectionPlace Admission::place_of(const PlacePtr& place) {
  return {.gone = [self = shared_from_this(), place] { self->leave(place); },
          .promoted = [self = shared_from_this(),
                       place](Standing to) { return self->promote(place, to); },
          .is_cut = [place] { return place->is_cut.load(std::memory_order_relaxed); },
          .host = place->host};
}

bool Admission::promote(const PlacePtr& place, Standing to) {
  const MutexLock lock(mutex_);
  if (place->lost) return false;
  Host& host = hosts_.at(place->peer);
  // A guest has a client's place.
  const bool has_place = place->standing == Standing::kGuest && to == Standing::kClient;
  if (!has_place) make_way(place->peer, host, to);
  if (!has_place && !has_room(host, to)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  exit(host, place);
  place->standing = to;
  enter(host, place);
  return true;
}

void Admission::has_channel(const PlacePtr& place, const std::shared_ptr<Channel>& channel) {
  const MutexLock lock(mutex_);
  place->channel = channel;
  if (place->lost) close_lost(channel);
}

void Admission::leave(const PlacePtr& place) {
  const MutexLock lock(mutex_);
  if (open_.erase(place) == 0) return;
  if (!place->lost) exit(hosts_.at(place->peer), place);
  open_count_.fetch_sub(1, std::memory_order_relaxed);
  const auto host = hosts_.find(place->peer);
  if (host != hosts_.end() && host->second.empty()) hosts_.erase(host);
}

void Admission::cut() {
  const MutexLock lock(mutex_);
  cuts_.fetch_add(1);
  for (const PlacePtr& place : open_) {
    place->is_cut = true;
    place->cut();
  }
}

bool Admission::has_room(const Host& host, Standing standing) const {
  switch (standing) {
    case Standing::kStranger: return true;  // make_way() has seen to it
    case Standing::kGuest:
    case Standing::kClient:
      return all_.clients < limits_.max_connections &&
             host.clients < limits_.max_connections_per_peer;
    case Standing::kServer: break;
  }
  return all_.servers < limits_.max_servers;
}

std::list<Admission::PlacePtr>* Admission::queue_of(Standing standing) {
  if (standing == Standing::kStranger) return &strangers_;
  return standing == Standing::kGuest ? &guests_ : nullptr;
}

void Admission::enter(Host& host, const PlacePtr& place) {
  ++host.of(place->standing);
  ++all_.of(place->standing);
  if (auto* queue = queue_of(place->standing)) place->at = queue->insert(queue->end(), place);
}

void Admission::exit(Host& host, const PlacePtr& place) {
  --host.of(place->standing);
  --all_.of(place->standing);
  if (auto* queue = queue_of(place->standing)) queue->erase(place->at);
}

// Those that have been for longest what gives way to `standing` go, until there is room for one
// more, or there are none.
void Admission::make_way(const std::string& peer, Host& host, Standing standing) {
  if (standing == Standing::kServer) return;
  const bool stranger = standing == Standing::kStranger;
  std::list<PlacePtr>& queue = stranger ? strangers_ : guests_;
  const std::size_t per_peer =
      stranger ? limits_.max_strangers_per_peer : limits_.max_connections_per_peer;
  if (host.of(standing) >= per_peer) {
    const auto oldest =
        std::ranges::find_if(queue, [&](const PlacePtr& one) { return one->peer == peer; });
    if (oldest != queue.end()) give_way(PlacePtr(*oldest));
  }
  const std::size_t in_all = stranger ? limits_.max_strangers : limits_.max_connections;
  if (all_.of(standing) >= in_all && !queue.empty()) give_way(PlacePtr(queue.front()));
}

// Of a place of one's own: what it comes from goes.
void Admission::give_way(const PlacePtr& place) {
  exit(hosts_.at(place->peer), place);
  place->lost = true;
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (const auto channel = place->channel.lock()) close_lost(channel);
}

}  // namespace weft::rpc
