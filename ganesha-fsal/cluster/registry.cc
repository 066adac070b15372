#include "ganesha-fsal/cluster/registry.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/removed_servers.h"
#include "layout/wildcard.h"
#include "rpc/base/assert.h"

namespace weft::mds {
namespace {

using layout::ServerState;

constexpr std::size_t kEverything = SIZE_MAX;

// Durable before any data server is given this one.
Result<std::uint32_t> longest_lease(Transaction& tx, std::uint32_t now) {
  auto kept = tx.get(cluster_keys::longest_lease());
  if (!kept) return pass(kept);
  if (kept->has_value()) {
    auto before = decode_u32(**kept);
    if (!before || *before >= now) return before;
  }
  tx.put(cluster_keys::longest_lease(), encode_u32(now));
  return now;
}

Result<layout::HandleKey> kept_seal_key(Transaction& tx, const layout::HandleKey& fresh) {
  auto kept = tx.get(cluster_keys::seal_key());
  if (!kept) return pass(kept);
  layout::HandleKey key = fresh;
  if (!kept->has_value()) {
    tx.put(cluster_keys::seal_key(),
           std::string(reinterpret_cast<const char*>(key.data()), key.size()));
    return key;
  }
  if ((*kept)->size() != key.size()) return fail(Errc::kCorrupt, "the key of exports' handles");
  std::memcpy(key.data(), (*kept)->data(), key.size());
  return key;
}

// Bytes a second that clients moved, in the direction that was busier; what was brought to partners
// included. Nothing when that cannot be said: another process, or one heartbeat right after
// another.
std::optional<std::uint64_t> served_between(const control::Heartbeat& before,
                                            const control::Heartbeat& now,
                                            RegistryOptions::Clock::duration span) {
  const double seconds = std::chrono::duration<double>(span).count();
  const std::uint64_t out_before = before.counters.read_bytes + before.mirror.forwarded_bytes;
  const std::uint64_t out = now.counters.read_bytes + now.mirror.forwarded_bytes;
  const std::uint64_t in_before = before.counters.write_bytes;
  const std::uint64_t in = now.counters.write_bytes;
  if (seconds < 0.05 || out < out_before || in < in_before) return std::nullopt;
  const std::uint64_t moved = std::max(out - out_before, in - in_before);
  return static_cast<std::uint64_t>(static_cast<double>(moved) / seconds);
}

}  // namespace

std::vector<layout::NetAddress> concrete(const layout::NetAddress& from,
                                         std::vector<layout::NetAddress> addresses) {
  for (layout::NetAddress& address : addresses) {
    if (!layout::is_wildcard(address)) continue;
    address.v6 = from.v6;
    address.ip = from.ip;
  }
  return addresses;
}

RegistryOptions::Clock::duration with_margin(std::chrono::seconds lease) {
  return lease + std::chrono::duration_cast<std::chrono::milliseconds>(lease) / 20 +
         std::chrono::seconds(2);
}

std::string_view to_string(Reach reach) {
  switch (reach) {
    case Reach::kHere: return "here";
    case Reach::kWait: return "wait";
    case Reach::kGone: return "gone";
  }
  return "unknown";
}

Registry::Registry(KvStore& store, RegistryOptions options, std::uint32_t salt, std::uint32_t lease)
    : store_(store), options_(std::move(options)), longest_lease_(lease), devices_(salt) {}

Result<std::unique_ptr<Registry>> Registry::open(KvStore& store, RegistryOptions options) {
  std::uint32_t salt = options.device_salt;
  std::uint32_t lease = 0;
  auto salted = store.run([&](Transaction& tx) -> Result<> {
    auto longest = longest_lease(tx, options.lease_seconds);
    if (!longest) return pass(longest);
    lease = *longest;
    auto seal_key = kept_seal_key(tx, options.seal_key);
    if (!seal_key) return pass(seal_key);
    options.seal_key = *seal_key;
    auto kept = tx.get(cluster_keys::device_salt());
    if (!kept) return pass(kept);
    if (!kept->has_value()) {
      tx.put(cluster_keys::device_salt(), encode_u32(options.device_salt));
      return {};
    }
    const auto decoded = decode_u32(**kept);
    if (!decoded) return std::unexpected(decoded.error());
    salt = *decoded;
    return {};
  });
  if (!salted) return pass(salted);
  std::unique_ptr<Registry> registry(new Registry(store, std::move(options), salt, lease));
  if (auto loaded = registry->load(); !loaded) return pass(loaded);
  return registry;
}

Result<> Registry::load() {
  std::vector<ServerRecord> servers;
  std::vector<layout::Device> devices;
  Result<> outcome;
  const auto keep = [&](auto decoded, auto& into) {
    if (!decoded) outcome = std::unexpected(decoded.error());
    if (decoded) into.push_back(std::move(*decoded));
    return decoded.has_value();
  };
  const auto all_servers = cluster_keys::all_servers();
  auto read = store_.latest().scan(all_servers.begin, all_servers.end, kEverything,
                                   [&](std::string_view, std::string_view value) {
                                     return keep(decode_server(value), servers);
                                   });
  if (!read || !outcome) return read ? outcome : read;
  const auto all_devices = cluster_keys::all_devices();
  read = store_.latest().scan(all_devices.begin, all_devices.end, kEverything,
                              [&](std::string_view, std::string_view value) {
                                return keep(layout::decode_device(std::as_bytes(std::span(value))),
                                            devices);
                              });
  if (!read || !outcome) return read ? outcome : read;
  const MutexLock lock(mutex_);
  for (ServerRecord& record : servers) servers_.insert_or_assign(record.id, std::move(record));
  for (layout::Device& device : devices) {
    if (auto added = devices_.add(std::move(device)); !added) return pass(added);
  }
  return {};
}

namespace {

// One that came with an id of its own has it (Registry::adopt()).
Result<std::uint32_t> next_id(Transaction& tx, const std::map<std::uint32_t, ServerRecord>& known) {
  auto next = tx.get(cluster_keys::next_server());
  if (!next) return pass(next);
  auto id = next->has_value() ? decode_u32(**next) : Result<std::uint32_t>(1);
  for (; id; ++*id) {
    if (known.contains(*id)) continue;
    auto removed = was_removed(tx, *id);
    if (!removed) return pass(removed);
    if (!*removed) break;
  }
  return id;
}

}  // namespace

Result<Registry::Turn> Registry::await_turn() {
  MutexLock lock(mutex_);
  if (!changed_.wait_for(mutex_, options_.longest_wait,
                         [this]() WEFT_REQUIRES(mutex_) { return !changing_; })) {
    return fail(Errc::kBusy, "another change of the data servers has not ended");
  }
  changing_ = true;
  return Turn(this);
}

void Registry::end_turn() {
  {
    const MutexLock lock(mutex_);
    changing_ = false;
  }
  changed_.notify_one();
}

Result<ServerRecord> Registry::adopt(const layout::NetAddress& from,
                                     const control::Register& request) const {
  const bool fresh = request.cluster == control::Uuid{};
  if (!fresh && request.cluster != options_.cluster) {
    return fail(Errc::kAccess,
                "the store belongs to system " + control::to_string(request.cluster));
  }
  if (request.addresses.empty()) return fail(Errc::kInvalid, "no address for NFS clients");
  auto removed = was_removed(store_.latest(), request.ds_id);
  if (!removed) return pass(removed);
  ServerRecord record;
  const MutexLock lock(mutex_);
  for (const auto& [id, known] : servers_) {
    if (known.store == request.store) record = known;
  }
  const bool lost = request.ds_id >= options_.first_lost && request.ds_id < options_.first_fresh &&
                    !servers_.contains(request.ds_id) && !*removed;
  if (record.id == 0 && !fresh && lost) {
    record.id = request.ds_id;
    spdlog::warn("event=registered_after_the_backup ds={} store={}", record.id,
                 control::to_string(request.store));
  }
  if (record.id == 0 && !fresh) {
    return fail(Errc::kInvalid, "this metadata store does not know the data server's store " +
                                    control::to_string(request.store));
  }
  if (request.ds_id != 0 && request.ds_id != record.id) {
    return fail(Errc::kInvalid, "the data server says it is " + std::to_string(request.ds_id) +
                                    ", and is " + std::to_string(record.id));
  }
  record.store = request.store;
  record.name = request.name;
  record.domain = request.domain;
  auto addresses = concrete(from, request.addresses);
  auto rdma = concrete(from, request.rdma);
  const bool same =
      record.addresses == addresses && record.rdma == rdma && record.networks == request.networks;
  if (record.id != 0 && !same) ++record.address_generation;
  record.addresses = std::move(addresses);
  record.rdma = std::move(rdma);
  record.networks = request.networks;
  return record;
}

Result<control::Registered> Registry::register_server(const layout::NetAddress& from,
                                                      const control::Register& request,
                                                      std::optional<std::uint64_t> silent) {
  auto turn = await_turn();
  if (!turn) return pass(turn);
  auto adopted = adopt(from, request);
  if (!adopted) return pass(adopted);
  if (auto good = check_store(adopted->id, from, request, silent); !good) return pass(good);
  const control::StoreState next = control::next_state(request.state, request.boot);
  adopted->history = StoreHistory{.accepted = next, .before = {}};
  if (next != request.state) adopted->history->before = request.state;
  adopted->review = Review::kNone;
  adopted->reviewed = {};
  std::map<std::uint32_t, ServerRecord> known;
  if (adopted->id == 0) {
    const MutexLock lock(mutex_);
    known = servers_;
  }
  ServerRecord record;
  auto kept = store_.run([&](Transaction& tx) -> Result<> {
    record = *adopted;
    if (record.id == 0) {
      auto id = next_id(tx, known);
      if (!id) return pass(id);
      record.id = *id;
      tx.put(cluster_keys::next_server(), encode_u32(record.id + 1));
    }
    tx.put(cluster_keys::server(record.id), encode(record));
    return {};
  });
  if (!kept) return pass(kept);
  started_anew(record.id, request.boot);
  auto fences = pending_fences(record.id, control::kMaxFences);
  if (!fences) return pass(fences);

  const MutexLock lock(mutex_);
  Live& live = live_[record.id];
  if (live.boot != request.boot || live.registered == Clock::time_point{}) {
    live.registered = options_.now();
  }
  live.boot = request.boot;
  live.local = request.local;
  live.version = request.version;
  live.heard = options_.now();
  live.last.space = request.space;
  const std::uint32_t id = record.id;
  servers_.insert_or_assign(id, std::move(record));
  return control::Registered{options_.cluster, id, options_.boot, options_.heartbeat_ms,
                             std::move(*fences)};
}

void Registry::connected(std::uint32_t ds_id) {
  const MutexLock lock(mutex_);
  Live& live = live_[ds_id];
  live.connected = true;
  live.transports = {};
  live.group.reset();
  live.beaten = false;
  live.leased = false;
  live.dead = false;
  ++live.connection;
}

void Registry::disconnected(std::uint32_t ds_id) {
  const MutexLock lock(mutex_);
  Live& live = live_[ds_id];
  if (in_order_locked(live)) live.lost = options_.now();
  live.connected = false;
  live.transports = {};
  live.group.reset();
  live.beaten = false;
}

void Registry::told(std::uint32_t ds_id, control::TellTransports transports) {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  if (found != live_.end() && found->second.connected) {
    found->second.transports = std::move(transports);
  }
}

void Registry::told(std::uint32_t ds_id, const control::TellGroup& group) {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  if (found != live_.end() && found->second.connected) found->second.group = group;
}

Registry::Beat Registry::heartbeat(std::uint32_t ds_id, const control::Heartbeat& beat) {
  const MutexLock lock(mutex_);
  Live& live = live_[ds_id];
  const auto now = options_.now();
  if (const auto served = served_between(live.last, beat, now - live.heard)) live.served = *served;
  live.heard = now;
  live.last = beat;
  if (!beat.trouble.empty()) {
    if (in_order_locked(live)) live.lost = live.heard;
    // If it is catching up, that is void.
    if (std::exchange(live.beaten, false)) ++live.connection;
    live.stopped = true;
    live.leased = false;
    return {};
  }
  Beat answer;
  if (!std::exchange(live.beaten, true)) answer.first_of = live.connection;
  if (live.leased) {
    live.answered = live.heard;
    answer.lease.seconds = options_.lease_seconds;
  }
  return answer;
}

void Registry::caught_up(std::uint32_t ds_id, std::uint64_t connection) {
  const MutexLock lock(mutex_);
  Live& live = live_[ds_id];
  if (live.connection != connection) return;
  live.leased = true;
  live.stopped = false;
}

bool Registry::has_stopped(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  return found != live_.end() && found->second.stopped && !found->second.beaten;
}

bool Registry::lapse(std::uint32_t ds_id) {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  const Live* const known = found == live_.end() ? nullptr : &found->second;
  const bool stopped = known != nullptr && known->stopped;
  if (!stopped && !lapsed_locked(known)) return false;
  if (found != live_.end()) {
    Live& live = found->second;
    if (in_order_locked(live)) live.lost = options_.now();
    live.leased = false;
    live.beaten = false;  // it catches up with its next heartbeat, if it is connected
    ++live.connection;
  }
  return true;
}

bool Registry::in_touch_locked(const Live& live) const {
  return live.connected && live.beaten && (live.runs_fenced || !run_fence());
}

bool Registry::in_order_locked(const Live& live) const {
  return in_touch_locked(live) && !live.stopped;
}

ServerState Registry::state_of(const ServerRecord& record, const Live* live) const {
  if (live == nullptr) return ServerState::kDown;
  const auto silence = options_.now() - live->heard;
  if (silence >= options_.down_after || live->stopped) return ServerState::kDown;
  if (!in_touch_locked(*live) || silence >= options_.suspect_after) {
    return ServerState::kSuspect;
  }
  return record.duty == Duty::kServing ? ServerState::kUp : ServerState::kDraining;
}

ServerView Registry::view_of(const ServerRecord& record) const {
  ServerView view;
  view.record = record;
  view.refused = refused_locked(record.id).value_or("");
  const auto found = live_.find(record.id);
  view.state = state_of(record, found == live_.end() ? nullptr : &found->second);
  if (found == live_.end() || found->second.heard == Clock::time_point{}) return view;
  const Live& live = found->second;
  const auto since = [&](Clock::time_point then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(options_.now() - then);
  };
  view.seen = true;
  view.connected = live.connected;
  view.runs_fenced = live.runs_fenced || !run_fence();
  view.silence = since(live.heard);
  view.uptime = since(live.registered);
  view.boot = live.boot;
  view.local = live.local;
  view.version = live.version;
  view.last = live.last;
  view.transports = live.transports;
  // An older data server, or one that has not told yet.
  if (live.connected) view.group = live.group.value_or(control::read_group_words(live.last.store));
  return view;
}

std::optional<ServerView> Registry::find(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = servers_.find(ds_id);
  if (found == servers_.end()) return std::nullopt;
  return view_of(found->second);
}

std::vector<ServerView> Registry::list() const {
  const MutexLock lock(mutex_);
  std::vector<ServerView> views;
  views.reserve(servers_.size());
  for (const auto& [id, record] : servers_) views.push_back(view_of(record));
  return views;
}

std::vector<std::uint32_t> Registry::ids() const {
  const MutexLock lock(mutex_);
  std::vector<std::uint32_t> ids;
  ids.reserve(servers_.size());
  for (const auto& [id, record] : servers_) ids.push_back(id);
  return ids;
}

layout::Candidate Registry::candidate_of(const ServerRecord& record) const {
  layout::Candidate candidate{.ds_id = record.id, .domain = record.domain, .load = {}};
  const auto found = live_.find(record.id);
  const Live* const live = found == live_.end() ? nullptr : &found->second;
  candidate.state = state_of(record, live);
  if (live == nullptr) return candidate;
  candidate.capacity_bytes = live->last.space.capacity_bytes;
  candidate.free_bytes = live->last.space.free_bytes;
  if (options_.by_load) {
    candidate.load = live->last.load.measured;
    candidate.served = live->served;
  }
  return candidate;
}

std::vector<layout::Candidate> Registry::candidates() const {
  const MutexLock lock(mutex_);
  std::vector<layout::Candidate> candidates;
  candidates.reserve(servers_.size());
  for (const auto& [id, record] : servers_) candidates.push_back(candidate_of(record));
  return candidates;
}

std::vector<layout::Candidate> Registry::candidates(std::span<const std::uint32_t> ds_ids) const {
  const MutexLock lock(mutex_);
  std::vector<layout::Candidate> candidates;
  candidates.reserve(ds_ids.size());
  for (const std::uint32_t ds_id : ds_ids) {
    const auto record = servers_.find(ds_id);
    if (record != servers_.end()) candidates.push_back(candidate_of(record->second));
  }
  return candidates;
}

bool Registry::has_fences(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  return found != live_.end() && found->second.connected && found->second.leased;
}

std::vector<Registry::Lost> Registry::lost() const {
  const MutexLock lock(mutex_);
  std::vector<Lost> lost;
  for (const auto& [id, record] : servers_) {
    const auto live = live_.find(id);
    const bool dead = live != live_.end() && live->second.dead;
    const bool silent = live != live_.end() && silent_locked(live->second);
    if (dead || (!silent && reach_locked(id) != Reach::kGone)) continue;
    lost.push_back({id, live == live_.end() ? 0 : live->second.connection, record.addresses});
  }
  return lost;
}

bool Registry::silent_locked(const Live& live) const {
  return live.connected && options_.now() - live.heard >= options_.probe_after_silence;
}

bool Registry::found_dead(std::uint32_t ds_id, std::uint64_t connection) {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  if (found == live_.end()) {
    // Not seen since the start: there is nothing that could be later than what was asked.
    if (connection == 0) live_[ds_id].dead = true;
    return connection == 0;
  }
  Live& live = found->second;
  if (live.connection != connection || (live.connected && !silent_locked(live))) return false;
  live.dead = true;
  return true;
}

bool Registry::is_dead(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = live_.find(ds_id);
  return found != live_.end() && found->second.dead;
}

Reach Registry::reach(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  return reach_locked(ds_id);
}

Reach Registry::reach_locked(std::uint32_t ds_id) const {
  const auto now = options_.now();
  const auto found = live_.find(ds_id);
  if (found == live_.end()) {
    return now - opened_ < options_.gone_after_start ? Reach::kWait : Reach::kGone;
  }
  const Live& live = found->second;
  if (live.dead || live.stopped) return Reach::kGone;
  if (in_touch_locked(live)) {
    return now - live.heard < options_.gone_after_silence ? Reach::kHere : Reach::kGone;
  }
  const bool never = live.lost == Clock::time_point{};
  const auto wait = never ? options_.gone_after_start : options_.gone_after_loss;
  return now - in_order_until(live) < wait ? Reach::kWait : Reach::kGone;
}

Registry::Clock::time_point Registry::in_order_until(const Live& live) const {
  return live.lost == Clock::time_point{} ? opened_ : live.lost;
}

std::vector<std::uint32_t> Registry::down_of(const layout::LayoutMap& map) const {
  const MutexLock lock(mutex_);
  std::vector<std::uint32_t> down;
  for (const layout::Copy& copy : map.copies) {
    for (const std::uint32_t id : copy.ds_ids) {
      if (id == 0) continue;  // a vacant place
      const auto record = servers_.find(id);
      const auto live = live_.find(id);
      const bool is_down =
          record == servers_.end() ||
          state_of(record->second, live == live_.end() ? nullptr : &live->second) ==
              ServerState::kDown;
      if (is_down) down.push_back(id);
    }
  }
  return down;
}

std::optional<Registry::Clock::duration> Registry::gone_for(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  if (reach_locked(ds_id) != Reach::kGone) return std::nullopt;
  const auto found = live_.find(ds_id);
  if (found == live_.end()) return options_.now() - opened_;
  const Live& live = found->second;
  return options_.now() - (in_order_locked(live) ? live.heard : in_order_until(live));
}

bool Registry::is_lost(std::uint32_t ds_id) const {
  const MutexLock lock(mutex_);
  const auto found = servers_.find(ds_id);
  const Duty duty = found == servers_.end() ? Duty::kRemoving : found->second.duty;
  return mds::is_lost(reach_locked(ds_id), duty);
}

Result<> Registry::remove_server(std::uint32_t ds_id) {
  auto turn = await_turn();
  if (!turn) return pass(turn);
  const auto view = find(ds_id);
  if (!view) return fail(Errc::kNotFound, "no data server " + std::to_string(ds_id));
  // Who asks has looked at its files a while ago. One that serves again may have new ones.
  if (view->record.duty != Duty::kRemoving) {
    return fail(Errc::kInvalid, "it is not being removed any more");
  }
  const auto fences = cluster_keys::fences_of(ds_id);
  const bool restored = options_.first_lost > 0 && ds_id >= options_.first_lost;
  auto removed = store_.run([&](Transaction& tx) -> Result<> {
    std::vector<std::string> keys{cluster_keys::server(ds_id)};
    auto read =
        tx.scan(fences.begin, fences.end, kEverything, [&](std::string_view key, std::string_view) {
          keys.emplace_back(key);
          return true;
        });
    if (!read) return read;
    for (const std::string& key : keys) tx.erase(key);
    if (restored) note_removed(tx, ds_id);
    return {};
  });
  if (!removed) return removed;
  const MutexLock lock(mutex_);
  servers_.erase(ds_id);
  live_.erase(ds_id);
  refused_.erase(ds_id);
  return {};
}

Result<> Registry::set_duty(std::uint32_t ds_id, Duty duty) {
  return change_record(ds_id, [duty](ServerRecord& record) { record.duty = duty; });
}

}  // namespace weft::mds
