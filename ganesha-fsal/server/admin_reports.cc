#include "ganesha-fsal/server/admin_reports.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <numeric>

#include "ganesha-fsal/files/policies.h"
#include "ganesha-fsal/server/admin_audit.h"
#include "ganesha-fsal/server/admin_backup.h"
#include "ganesha-fsal/server/admin_held.h"
#include "ganesha-fsal/server/admin_maintenance.h"
#include "ganesha-fsal/server/admin_networks.h"
#include "ganesha-fsal/server/metadata_server.h"
#include "rpc/base/log_text.h"

namespace weft::mds {
namespace {

// What a data server is told to fence when it comes it has fenced by then, unless its disk hangs.
constexpr std::chrono::seconds kFencesSoon{5};

std::uint64_t to_ms(Clock::duration span) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
}

DsState to_ds_state(const ServerView& view) {
  if (!view.seen) return DsState::kUnknown;
  switch (view.state) {
    case layout::ServerState::kSuspect: return DsState::kSuspect;
    case layout::ServerState::kDown: return DsState::kDown;
    default: return DsState::kUp;
  }
}

// All CPUs together.
std::uint32_t cpu_busy_permille(const layout::ServerLoad& load) {
  if (load.cpu_percent.empty()) return 0;
  const std::uint32_t sum =
      std::accumulate(load.cpu_percent.begin(), load.cpu_percent.end(), std::uint32_t{0});
  return sum * 10 / static_cast<std::uint32_t>(load.cpu_percent.size());
}

void add_transports(DataServerReport& report, const control::TellTransports& told) {
  for (const control::PartnerTransports& one : told.partners) {
    const std::string by_some = one.rdma > 0 ? "rdma and tcp" : "tcp";
    report.partners.push_back({one.ds_id, one.tcp > 0 ? by_some : "rdma"});
  }
  for (const control::TargetTransports& one : told.targets) {
    report.targets.push_back({one.address, one.transport});
  }
}

// Of this process; 0 when the kernel does not say.
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

DataServerReport report_of(const ServerView& view) {
  DataServerReport report;
  report.id = view.record.id;
  report.name = view.record.name;
  report.failure_domain = view.record.domain;
  report.version = view.version;
  report.state = to_ds_state(view);
  for (const layout::NetAddress& address : view.record.addresses) {
    report.addresses.push_back(layout::to_string(address));
  }
  for (const layout::NetAddress& address : view.record.rdma) {
    report.addresses.push_back(to_string(layout::DeviceAddress(address, layout::Transport::kRdma)));
  }
  report.networks = networks_report(view.record);
  report.heartbeat_age_ms = static_cast<std::uint64_t>(view.silence.count());
  report.uptime_ms = static_cast<std::uint64_t>(view.uptime.count());
  const control::Heartbeat& beat = view.last;
  report.capacity_bytes = beat.space.capacity_bytes;
  report.free_bytes = beat.space.free_bytes;
  report.objects = beat.space.objects;
  // A group says itself what it waits for.
  const bool told = beat.trouble.empty() || beat.scrub.awaited != 0;
  if (view.connected && !told) report.trouble = beat.trouble;
  report.store = told ? beat.store : "not there: " + beat.trouble;
  if (told && view.connected && !view.runs_fenced && view.uptime >= kFencesSoon) {
    report.trouble =
        "it has not ended yet what was sent to it before the metadata server started; its log says "
        "for which objects (event=change_late)";
  }
  report.not_accepted = view.refused;
  report.read_calls = beat.counters.reads;
  report.write_calls = beat.counters.writes;
  report.commit_calls = beat.counters.commits;
  report.read_bytes = beat.counters.read_bytes;
  report.written_bytes = beat.counters.write_bytes;
  report.errors = beat.counters.errors;
  report.refused = beat.counters.refused;
  report.connections = beat.counters.connections;
  const layout::ServerLoad& load = beat.load.measured;
  report.cpu_busy_permille = cpu_busy_permille(load);
  report.run_queue_milli = load.run_queue_milli;
  report.memory_free_bytes = load.memory_free;
  report.disk_available = static_cast<std::uint64_t>(layout::available(load.disk));
  report.net_available = static_cast<std::uint64_t>(layout::available(load.network));
  report.mirror_pending_bytes = beat.mirror.pending_bytes;
  add_transports(report, view.transports);
  return report;
}

class AdminReports {
 public:
  explicit AdminReports(MetadataServer& server) : server_(server) {}

  [[nodiscard]] StatusReport status();
  [[nodiscard]] Result<std::vector<DataServerReport>> data_servers();
  [[nodiscard]] ClientsReport clients() const;
  [[nodiscard]] EventsReport events(std::uint64_t after) const;
  [[nodiscard]] Result<FileReport> file(const std::string& path);
  [[nodiscard]] Result<PolicyReport> policy(const std::string& path);
  [[nodiscard]] Result<PolicyReport> set_policy(const std::string& path, const std::string& policy);
  [[nodiscard]] Result<PolicyReport> change_policy(const std::string& path,
                                                   const std::string& keys);
  [[nodiscard]] Result<MaintenanceReport> scrub(const admin::Scrub& request);
  [[nodiscard]] Result<MaintenanceReport> resolve(const admin::ResolveScrub& request);

 private:
  [[nodiscard]] const Environment& environment() const { return server_.environment(); }
  // Milliseconds.
  [[nodiscard]] std::uint64_t since(Clock::time_point then) const {
    return to_ms(environment().clock.now() - then);
  }
  void add_repair(StatusReport& report) const;
  static void add_store(StatusReport& report, const StoreHealth& health);
  void add_inline(StatusReport& report, const StoreHealth& health) const;
  void add_memory(StatusReport& report, const StoreHealth& health) const;
  // If its bytes are in the metadata store.
  [[nodiscard]] Result<> add_inline(FileReport& report, const layout::PlacementPolicy& options);
  void add_layout(FileReport& report, const layout::LayoutMap& map, std::uint16_t export_id) const;
  void add_holders(FileReport& report) const;
  void add_io(FileReport& report) const;
  // What a path of a client names.
  struct Found {
    PathInExport where;
    InodeAttributes attributes;
  };
  [[nodiscard]] Result<Found> find(const std::string& path) const;
  [[nodiscard]] std::string from(const PolicyKey& key, const PathInExport& where) const;
  [[nodiscard]] StripeReport stripe(std::uint32_t ds_id) const;
  [[nodiscard]] std::string domain_of(std::uint32_t ds_id) const;
  // Empty when the copy is current.
  [[nodiscard]] std::string repair_of(FileId file, const layout::LayoutMap& map, std::size_t copy,
                                      std::size_t server) const;

  MetadataServer& server_;
};

void AdminReports::add_store(StatusReport& report, const StoreHealth& health) {
  report.store = {.failed = !health.failure.empty(),
                  .failure = health.failure,
                  .writes_stopped = health.writes_stopped,
                  .background_errors = health.background_errors,
                  .memory_bytes = health.memory_bytes,
                  .table_bytes = health.table_bytes,
                  .compaction_bytes = health.compaction_bytes,
                  .full = health.full,
                  .free_bytes = health.free_bytes,
                  .floor_bytes = health.floor_bytes,
                  .commits = health.commits,
                  .syncs = health.syncs};
}

void AdminReports::add_inline(StatusReport& report, const StoreHealth& health) const {
  const DataCounters data = server_.data().counters();
  report.inlined = {.files = health.inline_files,
                    .bytes = health.inline_bytes,
                    .reads = data.inline_reads,
                    .read_bytes = data.inline_read_bytes,
                    .writes = data.inline_writes,
                    .written_bytes = data.inline_written_bytes,
                    .grown = data.grown,
                    .busy = server_.data().busy()};
}

void AdminReports::add_memory(StatusReport& report, const StoreHealth& health) const {
  MemoryReport& memory = report.memory;
  memory.resident = resident_bytes();
  memory.cache = health.cache_bytes;
  memory.cache_pinned = health.cache_pinned_bytes;
  memory.cache_most = health.cache_most_bytes;
  memory.files = server_.files().size();
  memory.file_each = FileTable::record_bytes();
  memory.layout_each = FileGrants::grant_bytes();
}

void AdminReports::add_repair(StatusReport& report) const {
  for (const auto& [ds_id, count] : server_.names().stale_counts())
    report.repair.stale_objects += count;
  const RepairTotals totals = server_.repairs().repairer().jobs().totals();
  report.repair.resynced = totals.resynced;
  report.repair.compared = totals.compared;
  report.repair.failed = totals.failed;
  report.repair.compared_bytes = totals.compared_bytes;
  report.repair.differing_bytes = totals.differing_bytes;
  report.repair.copied_bytes = totals.copied_bytes;
  report.repair.moved = server_.repairs().mover().moved();
  report.rebalance = rebalance_report(server_);
  report.scrub = scrub_report(server_);
  add_strays(server_, report);
  add_restored(server_.names(), report);
}

StatusReport AdminReports::status() {
  StatusReport report;
  report.version = WEFT_VERSION;
  report.uptime_ms = to_ms(server_.uptime());
  report.grace_left_ms = to_ms(environment().grace_left());
  const auto clients = environment().clients();
  report.clients = static_cast<std::uint32_t>(clients.size());
  for (const auto& [id, client] : clients) report.memory.opens += client.opens;
  if (const auto counts = server_.names().counts()) report.inodes_made = counts->next_fileid;
  const DataCounters data = server_.data().counters();
  report.mds_read_calls = data.reads;
  report.mds_write_calls = data.writes;
  report.mds_read_bytes = data.read_bytes;
  report.mds_written_bytes = data.written_bytes;
  report.layoutget_refusals = data.layouts_refused;
  report.layoutcommits = data.layout_commits;
  const LayoutCounters layouts = server_.layouts().counters();
  report.layoutgets = layouts.granted;
  report.layoutreturns = layouts.returned;
  report.recalls = layouts.recalls;
  report.fences = layouts.revoked;
  report.fence_failures = layouts.fence_failures;
  report.layout_errors = server_.layout_errors();
  if (report.layout_errors > 0) {
    report.layout_error_age_ms = since(server_.layout_error_at());
  }
  report.removals_queued = server_.removals().backlog();
  report.layouts_out = layouts.out;
  report.recalls_pending = layouts.recalled;
  if (const auto began = server_.layouts().oldest_recall()) report.oldest_recall_ms = since(*began);
  add_repair(report);
  const StoreHealth health = server_.store_health();
  add_store(report, health);
  add_inline(report, health);
  add_memory(report, health);
  for (const Refusals::Refusal& one : server_.cluster().refusals().recent()) {
    report.refused.push_back({one.address, one.name, one.why, one.times, since(one.last)});
  }
  for (Warning& warning : server_.warnings()) {
    report.warnings.push_back(std::move(warning.text));
    report.warning_codes.push_back(std::move(warning.code));
  }
  return report;
}

Result<std::vector<DataServerReport>> AdminReports::data_servers() {
  std::vector<DataServerReport> reports;
  std::map<std::uint32_t, std::vector<RepairReport>> repairs;
  for (const RepairJob& job : server_.repairs().repairer().jobs().running()) {
    repairs[job.ds_id].push_back(
        {.kind = std::string(to_string(job.kind)),
         .fileid = job.file,
         .source = job.source,
         .total_bytes = job.total_bytes,
         .compared_bytes = job.compared_bytes,
         .copied_bytes = job.copied_bytes,
         .bytes_per_second = job.bytes_per_second,
         .age_ms = static_cast<std::uint64_t>(job.age.count()),
         .remaining_ms = static_cast<std::uint64_t>(job.remaining.count())});
  }
  const auto stale = server_.names().stale_counts();
  const auto waits = server_.repairs().repairer().waits_for();
  for (const ServerView& view : server_.cluster().registry().list()) {
    DataServerReport& report = reports.emplace_back(report_of(view));
    report.repairs = std::move(repairs[report.id]);
    if (const auto it = stale.find(report.id); it != stale.end()) {
      report.stale_objects = it->second;
    }
    if (const auto why = waits.find(report.id); why != waits.end() && report.stale_objects > 0) {
      report.repair_waits = why->second;
    }
    report.duty = to_string(view.record.duty);
    const ProxyIo::Route route = server_.proxy().route(report.id);
    report.proxy = route.transport;
    report.proxy_shared_bytes = route.shared_bytes;
  }
  add_leaving(server_, reports);
  return reports;
}

ClientsReport AdminReports::clients() const {
  ClientsReport report{.lease_ms = to_ms(environment().lease), .count = 0, .clients = {}};
  std::map<ClientId, ClientReport> rows;
  const Registry& registry = server_.cluster().registry();
  const auto ds_ids = registry.ids();
  for (const auto& [id, client] : environment().clients()) {
    rows[id] = {.id = id,
                .address = client.address,
                .owner = client.owner,
                .minor_version = client.minor_version,
                .opens = client.opens,
                .renewed_ms = to_ms(client.renewed),
                .no_way = no_way(registry, client.address, ds_ids)};
  }
  for (const auto& [id, moved] : server_.traffic().all()) {
    const auto row = rows.find(id);
    if (row == rows.end()) continue;
    row->second.reads = moved.reads;
    row->second.read_bytes = moved.read_bytes;
    row->second.writes = moved.writes;
    row->second.written_bytes = moved.written_bytes;
  }
  for (const FileId file : server_.layouts().files()) {
    for (const Grant& grant : server_.layouts().grants_of(file)) {
      // One whose lease has ended in the meantime is on its way to be fenced.
      const auto row = rows.find(grant.client);
      if (row == rows.end()) continue;
      ++(grant.writes() ? row->second.writing : row->second.reading);
      if (!grant.recalled_at) continue;
      ++row->second.recalled;
      row->second.oldest_recall_ms =
          std::max(row->second.oldest_recall_ms, since(*grant.recalled_at));
    }
  }
  report.count = rows.size();
  for (auto& [id, row] : rows) report.clients.push_back(std::move(row));
  // The slowest to give back what it is asked for first.
  std::ranges::sort(report.clients, [](const ClientReport& a, const ClientReport& b) {
    return std::pair(b.oldest_recall_ms, a.id) < std::pair(a.oldest_recall_ms, b.id);
  });
  return report;
}

EventsReport AdminReports::events(std::uint64_t after) const {
  if (environment().events == nullptr) return {};
  EventsReport report = environment().events->after(after);
  for (EventReport& event : report.events) {
    if (!event.server) continue;
    if (const auto view = server_.cluster().registry().find(event.server->id)) {
      event.server->name = view->record.name;
    }
  }
  return report;
}

StripeReport AdminReports::stripe(std::uint32_t ds_id) const {
  StripeReport stripe;
  stripe.ds_id = ds_id;
  if (const auto view = server_.cluster().registry().find(ds_id)) {
    stripe.ds_name = view->record.name;
    stripe.ds_state = to_ds_state(*view);
  }
  return stripe;
}

std::string AdminReports::domain_of(std::uint32_t ds_id) const {
  const auto view = server_.cluster().registry().find(ds_id);
  return view ? view->record.domain : "";
}

// Empty when it is not recorded.
std::string why(const layout::LayoutMap& map, std::size_t copy, std::size_t server) {
  const layout::Reason reason = map.reason_of(copy, server);
  return reason == layout::Reason::kUnknown ? "" : std::string(to_string(reason));
}

std::string AdminReports::repair_of(FileId file, const layout::LayoutMap& map, std::size_t copy,
                                    std::size_t server) const {
  if (map.copies[copy].state_of(server) == layout::CopyState::kCurrent) return "";
  return server_.repairs().repairer().state_of(file, map.copies[copy].ds_ids[server]);
}

void AdminReports::add_layout(FileReport& report, const layout::LayoutMap& map,
                              std::uint16_t export_id) const {
  report.object = layout::to_string(server_.names().object_of(report.fileid, map));
  report.layout_type = map.type == layout::LayoutType::kFiles ? "files" : "flexfiles";
  report.stripe_unit = map.stripe_unit;
  const layout::Copy& copy = map.copies.front();
  const auto view = server_.mirrors().look(report.fileid);
  for (std::size_t i = 0; i < copy.ds_ids.size(); ++i) {
    const std::size_t place = (i + copy.first_index) % copy.ds_ids.size();
    StripeReport& row = report.stripes.emplace_back(stripe(copy.ds_ids[place]));
    row.why = why(map, 0, place);
    if (map.copies.size() == 1) continue;
    const bool led = view && place < view->leads.size();
    for (std::size_t of = 0; of < map.copies.size(); ++of) {
      if (!map.copies[of].holds(place)) continue;
      const StripeReport at = stripe(map.copies[of].ds_ids[place]);
      row.copies.push_back({at.ds_id, at.ds_name, at.ds_state,
                            std::string(to_string(map.copies[of].state_of(place))),
                            led && view->leads[place] == of, domain_of(at.ds_id),
                            why(map, of, place), repair_of(report.fileid, map, of, place)});
    }
  }
  if (map.placed.skipped_ds != 0) {
    report.skipped = {map.placed.skipped_ds, std::string(to_string(map.placed.skipped_for))};
  }
  const Registry& registry = server_.cluster().registry();
  if (const auto device = registry.known_device(copy.ds_ids)) {
    for (const std::byte byte :
         layout::pack(registry.device_id(environment().fsal_id, export_id, *device))) {
      report.device_id += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    }
  }
}

void AdminReports::add_holders(FileReport& report) const {
  const auto grants = server_.layouts().grants_of(report.fileid);
  if (grants.empty()) return;
  const auto clients = environment().clients();
  for (const Grant& grant : grants) {
    GrantReport row;
    row.client_id = grant.client;
    if (const auto it = clients.find(grant.client); it != clients.end())
      row.client = to_string(it->second);
    row.write = grant.writes();
    row.age_ms = since(grant.since);
    row.recalled = grant.deadline.has_value();
    if (grant.recalled_at) row.recall_age_ms = since(*grant.recalled_at);
    report.grants.push_back(std::move(row));
  }
}

std::unexpected<Error> no_file(const std::string& path) {
  return fail(Errc::kWrongType, path + " is no regular file");
}

void AdminReports::add_io(FileReport& report) const {
  for (const auto& [ds_id, io] : server_.data().reports().io_of(report.fileid)) {
    report.io.push_back({ds_id, stripe(ds_id).ds_name, io.reads, io.read_bytes, io.writes,
                         io.written_bytes, io.errors});
  }
}

Result<AdminReports::Found> AdminReports::find(const std::string& path) const {
  // The part below the export's pseudo path is the path below the directory that it exports.
  auto where = environment().find_path(path);
  if (!where) return in_no_export(server_, path);
  auto top = server_.names().path_of(where->root);
  if (!top) return pass(top);
  auto attributes = server_.names().lookup_path(*top + where->path);
  if (!attributes) return pass(attributes);
  return Found{std::move(*where), *attributes};
}

Result<> AdminReports::add_inline(FileReport& report, const layout::PlacementPolicy& options) {
  auto policy = placement_for(server_.names(), report.fileid, options);
  if (!policy) return pass(policy);
  if (policy->inline_bytes == 0 && !server_.names().inlines()) return {};
  auto here = server_.names().inline_file(report.fileid);
  if (!here) return pass(here);
  if (!*here || (policy->inline_bytes == 0 && (*here)->bytes.empty())) return {};
  report.inline_bytes = (*here)->bytes.size();
  report.layout_type = "inline";
  return {};
}

Result<FileReport> AdminReports::file(const std::string& path) {
  auto found = find(path);
  if (!found) return pass(found);
  const InodeAttributes& attributes = found->attributes;
  if (attributes.type == FileType::kDirectory) {
    return fail(Errc::kWrongType,
                path + " is a directory, and layouts are of files: weft policy show " + path +
                    " says what those made there get");
  }
  if (attributes.type != FileType::kRegular) return no_file(path);
  FileReport report;
  report.path = path;
  report.fileid = attributes.id;
  report.size = attributes.size;
  report.layout_type = "none";
  auto map = server_.names().layout(attributes.id);
  if (!map) return pass(map);
  if (*map) {
    add_layout(report, **map, found->where.export_id);
    report.no_way =
        without_way(server_.cluster().registry(), environment().clients(), servers_of(**map));
  }
  if (auto here = add_inline(report, found->where.policy); !here) return pass(here);
  auto policy = policy_text(server_.names(), attributes, found->where.policy);
  if (!policy) return pass(policy);
  report.policy = std::move(*policy);
  report.moving = moving_report(server_, attributes.id);
  add_holders(report);
  add_io(report);
  return report;
}

std::string AdminReports::from(const PolicyKey& key, const PathInExport& where) const {
  switch (key.from) {
    case PolicyKey::From::kExport: return "export";
    case PolicyKey::From::kLayout: return "layout";
    case PolicyKey::From::kMadeWith: return "directory it was made in";
    case PolicyKey::From::kDirectory: break;
  }
  const auto path = server_.names().path_of(key.dir);
  const auto root = server_.names().path_of(where.root);
  if (!path || !root) return fmt::format("directory {}", key.dir);
  // As clients see it, unless it is above what is exported.
  const std::string top = *root == "/" ? "" : *root;
  if (*path != top && !path->starts_with(top + "/")) return "the store's " + *path;
  const std::string below = *path == "/" ? "" : path->substr(top.size());
  const std::string shown = where.pseudo_path + below;
  return shown.empty() ? "/" : shown;
}

Result<MaintenanceReport> AdminReports::scrub(const admin::Scrub& request) {
  if (request.path.empty()) return begin_scrub(server_, std::nullopt, request.only_tell);
  auto found = find(request.path);
  if (!found) return pass(found);
  if (found->attributes.type != FileType::kRegular) return no_file(request.path);
  return begin_scrub(server_, found->attributes.id, request.only_tell);
}

Result<MaintenanceReport> AdminReports::resolve(const admin::ResolveScrub& request) {
  FileId file = 0;
  const char* const end = request.file.data() + request.file.size();
  const auto number = std::from_chars(request.file.data(), end, file);
  if (request.file.empty() || number.ec != std::errc() || number.ptr != end) {
    auto found = find(request.file);
    if (!found) return pass(found);
    file = found->attributes.id;
  }
  return resolve_scrub(server_, file, request.server);
}

Result<PolicyReport> AdminReports::policy(const std::string& path) {
  auto found = find(path);
  if (!found) return pass(found);
  const InodeAttributes& attributes = found->attributes;
  auto keys = policy_keys(server_.names(), attributes, found->where.policy);
  if (!keys) return pass(keys);
  PolicyReport report;
  report.path = path;
  report.directory = attributes.type == FileType::kDirectory;
  if (report.directory) {
    auto own = server_.names().policy(attributes.id);
    if (!own) return pass(own);
    report.own = to_string(*own);
  }
  for (const PolicyKey& key : *keys) {
    report.rows.push_back({key.key, key.value, from(key, found->where)});
  }
  return report;
}

Result<PolicyReport> AdminReports::set_policy(const std::string& path, const std::string& policy) {
  auto found = find(path);
  if (!found) return pass(found);
  const FileId dir = found->attributes.id;
  auto set = mds::set_policy(server_.names(), dir, policy, found->where.policy);
  if (!set) return pass(set);
  environment().invalidate_attributes(dir);
  spdlog::info("event=policy_set path=\"{}\" policy=\"{}\"", log_text(path), log_text(policy));
  return this->policy(path);
}

Result<PolicyReport> AdminReports::change_policy(const std::string& path, const std::string& keys) {
  auto changed = layout::parse_policy(keys);
  if (!changed) return pass(changed);
  auto found = find(path);
  if (!found) return pass(found);
  if (found->attributes.type != FileType::kDirectory) return fail(Errc::kNotDirectory);
  auto own = server_.names().policy(found->attributes.id);
  if (!own) return pass(own);
  return set_policy(path, to_string(layout::inherit(*own, *changed)));
}

}  // namespace

std::unexpected<Error> in_no_export(const MetadataServer& server, const std::string& path) {
  std::string all;
  for (const ExportReport& one : server.environment().config().exports) {
    all += (all.empty() ? "" : ", ") + one.path;
  }
  return fail(Errc::kInvalid, path + " is in no export of WEFT; there " +
                                  (all.empty() ? "is none" : "are: " + all));
}

admin::Table make_admin_table(MetadataServer& server) {
  admin::Table table;
  const auto reports = std::make_shared<AdminReports>(server);
  // Both in one answer, so that they are of one moment.
  table.on<admin::GetStatus>([reports](auto&) -> Result<SystemReport> {
    auto servers = reports->data_servers();
    if (!servers) return pass(servers);
    return SystemReport{reports->status(), std::move(*servers)};
  });
  table.on<admin::GetDataServers>([reports](auto&) -> Result<admin::DataServersReport> {
    auto servers = reports->data_servers();
    if (!servers) return pass(servers);
    return admin::DataServersReport{std::move(*servers)};
  });
  table.on<admin::GetConfig>(
      [&server](auto&) -> Result<ConfigReport> { return server.environment().config(); });
  table.on<admin::GetClients>(
      [reports](auto&) -> Result<ClientsReport> { return reports->clients(); });
  table.on<admin::GetEvents>([reports](const admin::GetEvents& request) -> Result<EventsReport> {
    return reports->events(request.after);
  });
  table.on<admin::GetFile>(
      [reports](const admin::GetFile& request) { return reports->file(request.path); });
  table.on<admin::GetPolicy>(
      [reports](const admin::GetPolicy& request) { return reports->policy(request.path); });
  table.on<admin::SetPolicy>([reports](const admin::SetPolicy& request) {
    return reports->set_policy(request.path, request.policy);
  });
  table.on<admin::ChangePolicy>([reports](const admin::ChangePolicy& request) {
    return reports->change_policy(request.path, request.keys);
  });
  table.on<admin::Scrub>(
      [reports](const admin::Scrub& request) { return reports->scrub(request); });
  table.on<admin::ResolveScrub>(
      [reports](const admin::ResolveScrub& request) { return reports->resolve(request); });
  add_maintenance(server, table);
  add_audit(server, table);
  add_backup(server, table);
  add_held(server, table);
  return table;
}

}  // namespace weft::mds
