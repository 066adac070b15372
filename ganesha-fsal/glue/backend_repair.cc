// Backend: what makes copies equal again, and what it needs of the rest.
#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/glue/backend.h"

namespace weft::mds {

void Backend::start_repair(const weft_options& options) {
  copy_servers_ = std::make_unique<ClusterCopyServers>(*cluster_);
  Repairer::Limits limits;
  limits.bytes_per_second = std::uint64_t{options.resync_rate} << 20;
  repairer_ = std::make_unique<Repairer>(
      Repairer::Parts{.names = *names_,
                      .servers = *copy_servers_,
                      .here =
                          [this] {
                            std::vector<std::uint32_t> here;
                            for (const ServerView& view : cluster_->registry().list()) {
                              if (view.connected && view.last.trouble.empty())
                                here.push_back(view.record.id);
                            }
                            return here;
                          },
                      .pin = [this](FileId file) { return pin_writers(file); },
                      .written = [this](FileId file) { return is_written(file); },
                      .compared = [this] { data_->retry_settling(); },
                      .limits = limits});
  repairer_->start();
  Scrubber::Limits scrub;
  scrub.every = std::chrono::seconds(options.scrub_every);
  scrubber_ = std::make_unique<Scrubber>(Scrubber::Parts{
      .names = *names_,
      .scrub = [this](FileId file, const ScrubHow& how) { return repairer_->scrub(file, how); },
      .limits = scrub});
  scrubber_->start();
}

// By clients under layouts, through this server, or by somebody who is gone and may have; or what
// they wrote may be at some copies only.
bool Backend::is_written(FileId file) {
  return layouts_->held_for_write(file) || layouts_->blocked(file) ||
         journal_->unsettled(file).has_value() || data_->being_written(file) ||
         data_->uncommitted(file) || mirrors_->owes(file);
}

Result<PinnedFile> Backend::pin_writers(FileId file) {
  const auto none = [](const InodeAttributes&) -> Result<layout::LayoutMap> {
    return fail(Errc::kStale, "no layout");
  };
  auto target = mirrors_->begin_write(file, none, Mirrors::Use::kPin);
  if (!target) return pass(target);
  const auto kept = std::make_shared<Mirrors::Target>(std::move(*target));
  return PinnedFile{kept->map, kept->leads, kept};
}

std::vector<Mover::Server> Backend::movable_servers() {
  Registry& registry = cluster_->registry();
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

void Backend::start_mover(const weft_options& options) {
  Mover::Limits limits;
  // What is read through this server is read, or given up, by then.
  limits.linger = std::chrono::seconds(options.proxy_timeout + 1);
  limits.replace_after = std::chrono::seconds(options.replace_after);
  mover_ = std::make_unique<Mover>(Mover::Parts{
      .names = *names_,
      .servers = [this] { return movable_servers(); },
      .lapse = [this](std::uint32_t ds_id) { return cluster_->registry().lapse(ds_id); },
      .begin = [this](FileId file, std::uint32_t from,
                      std::uint32_t to) { return data_->begin_move(file, from, to); },
      .exclude = [this](FileId file, std::uint32_t ds_id) -> Result<> {
        auto out = mirrors_->exclude(file, ds_id, Mirrors::Cause::kMoved);
        return out ? Result<>() : pass(out);
      },
      .finish = [this](FileId file) { return mirrors_->finish_move(file); },
      .fence =
          [this](std::uint32_t ds_id, const control::Fence& fence) {
            return copy_servers_->fence(std::span(&ds_id, 1), fence);
          },
      .fill = [this](std::uint32_t ds_id) { repairer_->look_soon(ds_id); },
      .removals = [this] { removals_->kick(); },
      .forget = [this](std::uint32_t ds_id) { return cluster_->remove_server(ds_id); },
      .limits = limits});
  mover_->start();
}

void Backend::start_readmission() {
  Registry& registry = cluster_->registry();
  readmission_ = std::make_unique<Readmission>(Readmission::Parts{
      .names = *names_,
      .foreign = [&registry] { return registry.foreign(); },
      .lapse = [&registry](std::uint32_t ds_id) { return registry.lapse(ds_id); },
      .mark = [this](FileId file,
                     std::uint32_t ds_id) { return mirrors_->rolled_back(file, ds_id); },
      .fence =
          [&registry](std::uint32_t ds_id, std::span<const control::Fence> fences) {
            return registry.add_fences(std::span(&ds_id, 1), fences);
          },
      .explain = [&registry](std::uint32_t ds_id,
                             std::string why) { registry.explain(ds_id, std::move(why)); },
      .admit = [&registry](
                   std::uint32_t ds_id,
                   const control::StoreState& state) { return registry.admit(ds_id, state); }});
  readmission_->start();
}

void Backend::start_auditor() {
  auditor_ = std::make_unique<Auditor>(
      Auditor::Parts{.names = *names_,
                     .servers =
                         [this] {
                           std::vector<Auditor::Parts::Server> servers;
                           for (const ServerView& view : cluster_->registry().list()) {
                             servers.push_back({view.record.id, view.connected});
                           }
                           return servers;
                         },
                     .list =
                         [this](std::uint32_t ds_id, const control::ListFrom& from) {
                           return await<control::Listed>(
                               [&](auto done) { cluster_->list(ds_id, from, std::move(done)); });
                         },
                     .stat =
                         [this](std::uint32_t ds_id, const layout::ObjectId& object) {
                           return await<control::ObjectStat>([&](auto done) {
                             cluster_->stat_at(ds_id, object, std::move(done));
                           });
                         },
                     .removals = [this] { removals_->kick(); }});
  auditor_->start();
}

}  // namespace weft::mds
