// The registry's judgement of the stores that data servers come with: docs/protocol.md, "A store's
// history".

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/registry.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kStillAsks{10};  // refused, it asks again every second

std::string title(const ServerRecord& record) { return fmt::format("data server {}", record.id); }

bool is_accepted(const ServerRecord& record, const control::StoreState& state) {
  if (!record.history) return true;
  if (record.review == Review::kAdmitted && record.reviewed == state) return true;
  return state == record.history->accepted || state == record.history->before;
}

// The last run that was accepted has not noted its state yet, and this is another one: of before
// it, which may never have been accepted, or of after it.
bool is_of_another_run(const ServerRecord& record, const control::Register& request) {
  return record.history && record.history->before && request.state == *record.history->before &&
         request.boot != record.history->accepted.boot;
}

// Short: a registration is refused with it, which takes control::kMaxText bytes.
std::string mismatch_text(const ServerRecord& record, const control::StoreState& state) {
  const control::StoreState& accepted = record.history->accepted;
  const std::string store = fmt::format("the store of {}", title(record));
  const auto generations =
      fmt::format("(generation {}, {} was accepted last)", state.generation, accepted.generation);
  if (state.generation < accepted.generation) {
    return store + " was rolled back, or is an old copy " + generations;
  }
  if (state.generation > accepted.generation) {
    return store + " is newer than the metadata store, which was rolled back " + generations;
  }
  return store +
         " is not the one in use: a copy of it served in its place, or its target was rolled "
         "back " +
         generations;
}

}  // namespace

bool Registry::serves_locked(const Live& live, std::optional<std::uint64_t> silent) const {
  return live.connected && live.connection != silent &&
         options_.now() - live.heard < options_.probe_after_silence;
}

bool Registry::heard_of_late_locked(std::uint32_t ds_id) const {
  const auto live = live_.find(ds_id);
  return live != live_.end() && options_.now() - live->second.heard < options_.probe_after_silence;
}

bool Registry::lapsed_locked(const Live* live) const {
  if (live != nullptr && live->dead) return true;
  const bool heard = live != nullptr && live->answered.has_value();
  return options_.now() >= (heard ? *live->answered : opened_) + with_margin(longest_lease_);
}

std::optional<Registry::Rival> Registry::rival_locked(
    const ServerRecord& record, const std::vector<layout::NetAddress>& addresses,
    std::uint64_t boot, std::optional<std::uint64_t> silent) const {
  const auto found = live_.find(record.id);
  const Live* const live = found == live_.end() ? nullptr : &found->second;
  const bool known = live != nullptr && live->registered != Clock::time_point{};
  if (!known && !record.history) return std::nullopt;
  if (boot == (known ? live->boot : record.history->accepted.boot)) return std::nullopt;
  if (live != nullptr && live->dead) return std::nullopt;
  if (live != nullptr && serves_locked(*live, silent)) {
    return Rival{.ds_id = record.id,
                 .connection = live->connection,
                 .alive = true,
                 .addresses = record.addresses,
                 .why = fmt::format("{} is alive at {}: a store, or a copy of it, is served by one "
                                    "process at a time: stop one of the two",
                                    title(record), to_string(record.addresses.front()))};
  }
  // One that starts where the last one was has its address, and its lock on the store.
  if (record.addresses == addresses || lapsed_locked(live)) return std::nullopt;
  return Rival{.ds_id = record.id,
               .connection = live == nullptr ? 0 : live->connection,
               .alive = false,
               .addresses = record.addresses,
               .why = fmt::format("{} may still serve clients at {}, where it was last: waiting "
                                  "until it is known to be dead, or its lease has ended",
                                  title(record), to_string(record.addresses.front()))};
}

std::optional<Registry::Rival> Registry::rival(const layout::NetAddress& from,
                                               const control::Register& request) const {
  const MutexLock lock(mutex_);
  const auto known = std::ranges::find_if(
      servers_, [&](const auto& server) { return server.second.store == request.store; });
  if (known == servers_.end()) return std::nullopt;
  return rival_locked(known->second, concrete(from, request.addresses), request.boot, {});
}

Result<> Registry::check_store(std::uint32_t ds_id, const layout::NetAddress& from,
                               const control::Register& request,
                               std::optional<std::uint64_t> silent) {
  Refused refused{.state = request.state, .at = options_.now()};
  const MutexLock lock(mutex_);
  const auto known = servers_.find(ds_id);
  if (known == servers_.end()) return {};
  const ServerRecord& record = known->second;
  Errc code = Errc::kBusy;
  if (auto rival = rival_locked(record, concrete(from, request.addresses), request.boot, silent)) {
    refused.rival = true;
    refused.why = std::move(rival->why);
  } else if (is_of_another_run(record, request) && heard_of_late_locked(ds_id)) {
    // What a run sent before it died may be read after the next one has registered. If that one is
    // not heard of, this one is alive after all.
    refused.rival = true;
    refused.why = title(record) + " was started anew a moment ago";
  } else if (!is_accepted(record, request.state)) {
    refused.why = mismatch_text(record, request.state);
    code = Errc::kStale;
  } else {
    refused_.erase(record.id);
    return {};
  }
  Refused& kept = refused_[record.id];
  if (kept.state == refused.state && !kept.rival) refused.review = std::move(kept.review);
  kept = std::move(refused);
  return fail(code, text_of(kept));
}

std::string Registry::text_of(const Refused& refused) {
  if (refused.rival) return refused.why;
  return refused.why + "; " +
         (refused.review.empty() ? "its copies are being marked stale" : refused.review);
}

std::optional<std::string> Registry::refused_locked(std::uint32_t ds_id) const {
  const auto found = refused_.find(ds_id);
  if (found == refused_.end() || options_.now() - found->second.at > kStillAsks) return {};
  return text_of(found->second);
}

std::vector<Registry::Foreign> Registry::foreign() const {
  const MutexLock lock(mutex_);
  std::vector<Foreign> out;
  for (const auto& [id, refused] : refused_) {
    if (refused.rival || options_.now() - refused.at > kStillAsks) continue;
    const auto record = servers_.find(id);
    if (record == servers_.end()) continue;
    const bool same = record->second.reviewed == refused.state;
    if (record->second.review == Review::kAdmitted && same) continue;
    out.push_back({.ds_id = id,
                   .name = record->second.name,
                   .state = refused.state,
                   .as_is = same && record->second.review == Review::kTakeAsIs});
  }
  return out;
}

void Registry::explain(std::uint32_t ds_id, std::string review) {
  const MutexLock lock(mutex_);
  const auto found = refused_.find(ds_id);
  if (found != refused_.end()) found->second.review = std::move(review);
}

Result<> Registry::admit(std::uint32_t ds_id, const control::StoreState& state) {
  return change_record(ds_id, [&](ServerRecord& record) {
    record.review = Review::kAdmitted;
    record.reviewed = state;
  });
}

Result<> Registry::take_as_is(std::uint32_t ds_id) {
  control::StoreState state;
  {
    const MutexLock lock(mutex_);
    const auto found = refused_.find(ds_id);
    if (found == refused_.end() || found->second.rival ||
        options_.now() - found->second.at > kStillAsks) {
      return fail(Errc::kInvalid, "it does not ask to be accepted: start weft-ds there");
    }
    state = found->second.state;
  }
  return change_record(ds_id, [&](ServerRecord& record) {
    record.review = Review::kTakeAsIs;
    record.reviewed = state;
  });
}

Result<> Registry::confirm(std::uint32_t ds_id, const control::StoreState& state) {
  {
    const MutexLock lock(mutex_);
    const auto record = servers_.find(ds_id);
    if (record == servers_.end() || !record->second.history ||
        record->second.history->accepted != state) {
      return fail(Errc::kStale, "its store is not in the state that was accepted");
    }
    if (!record->second.history->before) return {};
  }
  return change_record(ds_id, [&state](ServerRecord& record) {
    if (record.history && record.history->accepted == state) record.history->before.reset();
  });
}

Result<> Registry::change_record(std::uint32_t ds_id,
                                 const std::function<void(ServerRecord&)>& change) {
  auto turn = await_turn();
  if (!turn) return pass(turn);
  auto view = find(ds_id);
  if (!view) return fail(Errc::kNotFound, "no data server " + std::to_string(ds_id));
  change(view->record);
  auto kept = store_.run([&](Transaction& tx) -> Result<> {
    tx.put(cluster_keys::server(ds_id), encode(view->record));
    return {};
  });
  if (!kept) return kept;
  const MutexLock lock(mutex_);
  servers_[ds_id] = std::move(view->record);
  return {};
}

}  // namespace weft::mds
