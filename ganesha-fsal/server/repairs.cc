#include "ganesha-fsal/server/repairs.h"

#include <map>
#include <utility>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {

Repairs::Repairs(MetadataServer& server)
    : server_(server),
      repairer_(repairer_parts()),
      mover_(mover_parts()),
      readmission_(readmission_parts()),
      scrubber_(scrubber_parts()),
      auditor_(auditor_parts()) {}

void Repairs::start() {
  repairer_.start();
  scrubber_.start();
  mover_.start();
  readmission_.start();
  auditor_.start();
}

void Repairs::stop() {
  readmission_.stop();
  mover_.stop();
  repairer_.stop();  // its jobs, also those that the scrubber waits for
  scrubber_.stop();
  auditor_.stop();
}

void Repairs::reload(const ServerOptions& next) {
  repairer_.set_rate(next.resync_rate);
  mover_.set_replace_after(next.replace_after);
  scrubber_.set_every(next.scrub_every);
}

Repairer::Parts Repairs::repairer_parts() {
  Repairer::Limits limits;
  limits.jobs.bytes_per_second = server_.options().resync_rate;
  return {
      .names = server_.names(),
      .servers = server_.cluster(),
      .here =
          [this] {
            std::vector<std::uint32_t> here;
            for (const ServerView& view : server_.cluster().registry().list()) {
              if (view.connected && view.last.trouble.empty()) here.push_back(view.record.id);
            }
            return here;
          },
      .pin = [this](FileId file) { return pin_writers(file); },
      .keep_uncut = [this](FileId file) -> Result<std::shared_ptr<void>> {
        auto learning = enter_learning(server_.files(), file);
        if (!learning) return pass(learning);
        return std::make_shared<Learning>(std::move(*learning));
      },
      .keep_unwritten = [this](FileId file) -> Result<std::shared_ptr<void>> {
        auto alone = server_.data().hold_unchanged(file);
        if (!alone) return pass(alone);
        if (may_be_written(file)) return fail(Errc::kBusy, "somebody writes the file");
        return std::make_shared<Alone>(std::move(*alone));
      },
      .cut_waits =
          [this](FileId file) {
            return FileTable::Looking(server_.files(), file)->phase.is_alone();
          },
      .keep = [this](FileId file) -> Result<std::shared_ptr<void>> {
        if (auto held = server_.names().hold(file); !held) return pass(held);
        return {std::shared_ptr<void>(nullptr, [this, file](void*) { server_.release(file); })};
      },
      .written = [this](FileId file) { return is_written(file); },
      .findings = [this](FileId file) { return scrubber_.open_findings(file); },
      .compared = [this] { server_.data().retry_settling(); },
      .no_object = [this](FileId file, std::uint32_t ds_id) -> Result<> {
        return server_.mirrors().no_object(file, ds_id);
      },
      .doubt = [this](FileId file) { server_.journal().doubt(file); },
      .lost = [this](std::uint32_t ds_id) { return server_.cluster().registry().is_lost(ds_id); },
      .limits = limits,
      .clock = server_.environment().clock};
}

Scrubber::Parts Repairs::scrubber_parts() {
  Scrubber::Limits limits;
  limits.every = server_.options().scrub_every;
  return {.names = server_.names(),
          .scrub = [this](FileId file, const ScrubHow& how) { return repairer_.scrub(file, how); },
          .data_servers = [this] { return server_.group_servers(); },
          .limits = limits,
          .clock = server_.environment().clock};
}

bool Repairs::is_written(FileId file) {
  return may_be_written(file) || server_.data().being_written(file);
}

// By clients under layouts, or by somebody who is gone and may have; or what was written may be at
// some copies only.
bool Repairs::may_be_written(FileId file) {
  const LayoutService& layouts = server_.layouts();
  return layouts.held_for_write(file) || layouts.blocked(file) ||
         server_.journal().unsettled(file).has_value() || server_.data().uncommitted(file) ||
         server_.mirrors().owes(file);
}

Result<PinnedFile> Repairs::pin_writers(FileId file) {
  const auto none = [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    return fail(Errc::kStale, "no layout");
  };
  // Of objects that were not looked at none is to become the source of another.
  if (auto whole = server_.data().fit(file); !whole) return pass(whole);
  auto target = server_.mirrors().begin_write(file, none, Mirrors::Use::kRepair);
  if (!target) return pass(target);
  const auto kept = std::make_shared<Mirrors::Target>(std::move(*target));
  return PinnedFile{kept->map, kept->leads, kept};
}

std::vector<Mover::Server> Repairs::movable_servers() {
  Registry& registry = server_.cluster().registry();
  std::map<std::uint32_t, Duty> duties;
  for (const ServerView& view : registry.list()) duties[view.record.id] = view.record.duty;
  std::vector<Mover::Server> servers;
  for (layout::Candidate& candidate : registry.candidates()) {
    const std::uint32_t id = candidate.ds_id;
    servers.push_back(
        {std::move(candidate), registry.reach(id), duties[id], registry.gone_for(id)});
  }
  return servers;
}

Mover::Parts Repairs::mover_parts() {
  Mover::Limits limits;
  // What is read through this server is read, or given up, by then.
  limits.linger = server_.options().proxy_timeout + std::chrono::seconds(1);
  limits.replace_after = server_.options().replace_after;
  return {
      .names = server_.names(),
      .servers = [this] { return movable_servers(); },
      .lapse = [this](std::uint32_t ds_id) { return server_.cluster().registry().lapse(ds_id); },
      .begin = [this](FileId file, std::uint32_t from,
                      std::uint32_t to) { return server_.data().begin_move(file, from, to); },
      .hold_unused = [this](FileId file,
                            const layout::LayoutMap& map) -> Result<std::shared_ptr<void>> {
        auto alone = server_.data().hold_unused(file, map);
        if (!alone) return pass(alone);
        return std::make_shared<Alone>(std::move(*alone));
      },
      .copy =
          [this](FileId file, const layout::LayoutMap& map, std::uint32_t source,
                 std::uint32_t to) {
            return repairer_.copy({.file = file, .map = &map, .source = source, .to = to});
          },
      .allocated = [this](FileId file, const layout::LayoutMap& map) -> Result<std::uint64_t> {
        auto stat = await<ObjectCalls::Stat>([&](Done<ObjectCalls::Stat> done) {
          server_.cluster().objects().stat(map, server_.names().object_of(file, map),
                                           std::move(done));
        });
        if (!stat) return pass(stat);
        return stat->allocated;
      },
      .exclude = [this](FileId file, std::uint32_t ds_id) -> Result<> {
        // After a restore: which copy is to stay, its objects say.
        if (auto whole = server_.data().fit(file); !whole) return whole;
        return server_.mirrors().exclude(file, ds_id, Mirrors::Cause::kMoved);
      },
      .finish = [this](FileId file) { return server_.mirrors().finish_move(file); },
      .fence =
          [this](std::uint32_t ds_id, std::vector<control::Fence> fences) {
            return server_.cluster().fence_and_wait(std::span(&ds_id, 1), std::move(fences));
          },
      .fill = [this](std::uint32_t ds_id) { repairer_.look_soon(ds_id); },
      .removals = [this] { server_.removals().kick(); },
      .forget =
          [this](std::uint32_t ds_id) {
            auto removed = server_.cluster().remove_server(ds_id);
            server_.removals().look_again();
            return removed;
          },
      .differs = [this](FileId file) { return !scrubber_.open_findings(file).empty(); },
      .limits = limits,
      .clock = server_.environment().clock};
}

Readmission::Parts Repairs::readmission_parts() {
  Registry& registry = server_.cluster().registry();
  return {
      .names = server_.names(),
      .foreign = [&registry] { return registry.foreign(); },
      .lapse = [&registry](std::uint32_t ds_id) { return registry.lapse(ds_id); },
      .mark = [this](FileId file,
                     std::uint32_t ds_id) { return server_.mirrors().rolled_back(file, ds_id); },
      .fence =
          [&registry](std::uint32_t ds_id, std::span<const control::Fence> fences) {
            return registry.add_fences(std::span(&ds_id, 1), fences);
          },
      .explain = [&registry](std::uint32_t ds_id,
                             std::string why) { registry.explain(ds_id, std::move(why)); },
      .admit = [&registry](
                   std::uint32_t ds_id,
                   const control::StoreState& state) { return registry.admit(ds_id, state); },
      .clock = server_.environment().clock};
}

Auditor::Parts Repairs::auditor_parts() {
  Cluster& cluster = server_.cluster();
  return {.names = server_.names(),
          .servers =
              [&cluster] {
                std::vector<Auditor::Parts::Server> servers;
                for (const ServerView& view : cluster.registry().list()) {
                  servers.push_back({view.record.id, view.connected});
                }
                return servers;
              },
          .list = [&cluster](std::uint32_t ds_id,
                             const control::ListFrom& from) { return cluster.ask(ds_id, from); },
          .stat =
              [&cluster](std::uint32_t ds_id, const layout::ObjectId& object) {
                return cluster.ask(ds_id, control::Stat{object});
              },
          .removals = [this] { server_.removals().kick(); },
          .clock = server_.environment().clock};
}

}  // namespace weft::mds
