#include "ganesha-fsal/server/metadata_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <ranges>
#include <system_error>
#include <utility>

#include "ganesha-fsal/cluster/namesakes.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/server/admin_reports.h"
#include "ganesha-fsal/server/before_start.h"
#include "ganesha-fsal/server/metrics.h"
#include "layout/room.h"
#include "rpc/base/shared_memory.h"
#include "rpc/control/mds_boot.h"
#include "rpc/peer/resolve.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kLeastLease{10};
constexpr std::uint64_t kFreeFiles = std::uint64_t{1} << 32;  // file numbers do not run out

// What data servers on this machine share of us: our buffers for proxied I/O. Null: TCP has to do.
std::shared_ptr<Arena> shared_arena(std::size_t limit) {
  // Room for all that may be in use, and as much for what is idle or does not fit together.
  auto memory = SharedMemory::create(2 * limit, "weft-mds-arena");
  if (memory) return std::make_shared<Arena>(std::move(*memory));
  spdlog::warn("event=no_shared_memory why=\"{}\"", memory.error().describe());
  return nullptr;
}

std::uint64_t first_bytes(const std::array<std::byte, 16>& uuid) {
  std::uint64_t value = 0;
  std::memcpy(&value, uuid.data(), sizeof(value));
  return value;
}

std::string crowded_warning(const CrowdedFiles& crowded) {
  constexpr std::size_t kNamed = 5;
  if (crowded.first.empty()) {
    return fmt::format(
        "The last scrub found {} more files with two copies in one failure domain than it names, "
        "which are parted: weft scrub start counts anew.",
        crowded.count);
  }
  std::string named;
  for (const FileId file : crowded.first | std::views::take(kNamed)) {
    named += (named.empty() ? "" : ", ") + std::to_string(file);
  }
  if (crowded.count > std::min(kNamed, crowded.first.size())) named += ", ...";
  return fmt::format(
      "{} files have two copies in one failure domain, though there are domains enough: fileid {}. "
      "Drain and undrain the data servers that have them, one after the other (weft ds drain); "
      "weft layout show FILE says where a file's copies are.",
      crowded.count, named);
}

// RFC 8881 section 8.4.2.1: a grace period is at least as long as a lease.
std::vector<Warning> lease_warnings(std::chrono::seconds lease, std::chrono::seconds grace) {
  std::vector<Warning> warnings;
  if (lease < kLeastLease) {
    warnings.push_back({"LEASE_SHORT", "Lease_Lifetime is " + std::to_string(lease.count()) +
                                           " s: Linux renews a lease every 5 s at most, so clients "
                                           "that are idle lose it, and their "
                                           "locks with it. Set " +
                                           std::to_string(kLeastLease.count()) + " s or more."});
  }
  if (grace != std::chrono::seconds{0} && grace < lease) {
    warnings.push_back(
        {"GRACE_SHORT",
         "Grace_Period is " + std::to_string(grace.count()) +
             " s and shorter than Lease_Lifetime, " + std::to_string(lease.count()) +
             " s: clients that are idle when this server is restarted come too late to "
             "reclaim their locks. Set it to " +
             std::to_string(lease.count()) + " s or more."});
  }
  return warnings;
}

std::vector<Warning> place_warnings(const NfsPlaces& places) {
  std::vector<Warning> warnings;
  if (places.most_clients != 0 && places.clients >= places.most_clients) {
    warnings.push_back(
        {"CLIENTS_WAIT", "There are " + std::to_string(places.clients) +
                             " NFSv4 clients, as many as there may be (Max_Client_Ids). Others "
                             "wait when they mount, until one leaves. weft clients lists them."});
  }
  if (places.most_sessions != 0 && places.sessions >= places.most_sessions) {
    warnings.push_back({"CLIENTS_WAIT", "There are " + std::to_string(places.sessions) +
                                            " sessions of NFSv4 clients, as many as there may be "
                                            "(Max_Sessions). A client has one of its own; others "
                                            "beside it wait."});
  }
  return warnings;
}

}  // namespace

MetadataServer::MetadataServer(ServerOptions options, Environment environment, KvStore& store)
    : options_(std::move(options)), environment_(std::move(environment)), store_(store) {}

Result<std::unique_ptr<MetadataServer>> MetadataServer::start(ServerOptions options,
                                                              Environment environment,
                                                              KvStore& store) {
  std::unique_ptr<MetadataServer> server(
      new MetadataServer(std::move(options), std::move(environment), store));
  if (auto started = server->start_parts(); !started) return pass(started);
  return server;
}

Result<> MetadataServer::start_parts() {
  if (auto opened = open_names(); !opened) return opened;
  if (auto started = start_cluster(); !started) return started;
  make_proxy();
  make_removals();
  make_layouts();
  if (auto opened = data_->open(); !opened) return of_option("Metadata_Path", opened.error());
  repairs_ = std::make_unique<Repairs>(*this);
  for (const Warning& warning : lease_warnings(environment_.lease, environment_.grace)) {
    spdlog::warn("event=lease why=\"{}\"", warning.text);
  }
  return start_admin();
}

void MetadataServer::start_background() {
  spdlog::info("event=server_started version={} boot_epoch={}", WEFT_VERSION,
               names_->superblock().boot_epoch);
  removals_->start();
  repairs_->start();
  background_.start();
}

MetadataServer::~MetadataServer() {
  if (data_) spdlog::info("event=server_stops");
  if (data_) data_->stop();
  background_.stop();
  status_page_.reset();
  metrics_.reset();
  admin_.reset();
  if (prefetcher_) prefetcher_->stop();
  if (repairs_) repairs_->stop();
  if (removals_) removals_->stop();
  if (proxy_) proxy_->stop();
  if (cluster_) cluster_->stop();
}

Result<> MetadataServer::open_names() {
  auto names = Namespace::open(store_, {.now_ns = [this] { return environment_.clock.wall_ns(); },
                                        .root_mode = options_.shared_root ? 01777U : 0755U});
  if (!names) return of_option("Metadata_Path", names.error());
  names_ = std::move(*names);
  keep_maps(files_, *names_);
  store_id_ = first_bytes(names_->superblock().cluster_uuid);
  journal_ = std::make_unique<WriterJournal>(
      WriterJournal::Parts{.files = files_, .names = *names_, .linger = options_.journal_linger});
  sizes_ = std::make_unique<NamespaceSizes>(*names_, files_, *journal_,
                                            environment_.invalidate_attributes);
  removal_source_ = std::make_unique<NamespaceRemovals>(*names_);
  return {};
}

Result<> MetadataServer::start_cluster() {
  auto keys = load_keys(options_);
  if (!keys) return pass(keys);
  keys_ = std::move(*keys);
  const auto listen = rpc::peer::resolve_address(options_.control_address);
  if (!listen) return of_option("Control_Address", listen.error());

  const auto draw = [this] { return static_cast<std::uint32_t>(environment_.random.u64()); };
  Cluster::Config config;
  config.listen = *listen;
  config.keys = keys_;
  config.registry.cluster = names_->superblock().cluster_uuid;
  config.registry.boot = control::mds_boot(names_->superblock().boot_epoch, draw());
  config.registry.device_salt = draw();
  environment_.random.fill(config.registry.seal_key);
  config.registry.heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat.count());
  config.registry.lease_seconds = static_cast<std::uint32_t>(options_.data_server_lease.count());
  config.registry.by_load = options_.by_load;
  if (const auto& restore = names_->restore()) {
    config.registry.first_lost = restore->first_lost;
    config.registry.first_fresh = restore->first_fresh;
  }
  config.registry.now = [this] { return environment_.clock.now(); };
  auto cluster = Cluster::start(std::move(config), store_, *sizes_);
  if (!cluster) return of_option("Control_Address", cluster.error());
  cluster_ = std::move(*cluster);
  cluster_->on_server_up([this](std::uint32_t ds_id) { background_.server_up(ds_id); });
  return {};
}

void MetadataServer::make_proxy() {
  const std::size_t memory = options_.proxy_memory;
  pool_ =
      std::make_unique<BufferPool>(memory, options_.shared_memory ? shared_arena(memory) : nullptr);
  ProxyIo::Config config{
      .owner = "weft-mds-" + control::to_string(names_->superblock().cluster_uuid),
      .keys = keys_,
      .boot_epoch = static_cast<std::uint32_t>(names_->superblock().boot_epoch),
      .call_timeout = options_.proxy_timeout,
      .is_gone = {},
      .rdma = options_.rdma,
      .clock = environment_.clock,
      .random = environment_.random};
  proxy_ = std::make_unique<ProxyIo>(std::move(config), cluster_->registry(), *pool_);
}

void MetadataServer::make_removals() {
  removals_ = std::make_unique<RemovalQueue>(RemovalQueue::Parts{
      .source = *removal_source_,
      .servers = *cluster_,
      .reachable = [this](std::uint32_t id) { return cluster_->registry().has_fences(id); },
      .may_change = [this](const layout::ObjectId& object,
                           std::uint32_t id) { return data_->may_change(object, id); }});
  names_->watch_removals(
      [this](std::span<const layout::ObjectId> objects) { removals_->queued(objects); });
}

void MetadataServer::make_layouts() {
  placement_ = std::make_unique<layout::Placement>(names_->superblock().boot_epoch);
  fencer_ = std::make_unique<DsFencer>(*names_, *cluster_, files_);
  LayoutLimits limits;
  const bool told = options_.recall_timeout.count() != 0;
  limits.recall_timeout = told ? options_.recall_timeout : environment_.lease;
  layouts_ = std::make_unique<LayoutService>(
      files_, environment_.recaller, *fencer_, limits, [this] { return environment_.clock.now(); },
      [this](FileId file) {
        data_->layouts_gone(file);
        release(file);
      },
      [this](FileId file) { data_->writer_fenced(file); },
      LayoutKeeping{.limits = {.per_client = options_.kept_layouts},
                    .in_use = [this](FileId file, ClientId client) {
                      return environment_.is_open(file, client);
                    }});
  mirrors_ = std::make_unique<Mirrors>(mirror_parts());
  cluster_->keep_missed_copies(*mirrors_);
  data_ = std::make_unique<FileData>(FileData::Parts{
      files_, *names_, *cluster_, *proxy_, *layouts_, *fencer_, *placement_, *journal_, *mirrors_,
      environment_.invalidate_attributes,
      [this](FileId file) { return repairs_->repairer().compare(file); }, options_.commit_after});
  make_prefetcher();
}

void MetadataServer::make_prefetcher() {
  prefetcher_ = std::make_unique<Prefetcher>(Prefetcher::Parts{
      .after =
          [this](FileId dir, std::string_view name, FileOrder order, std::size_t limit) {
            return files_after(store_.latest(), dir, name, order, limit)
                .value_or(std::vector<NamedFile>());
          },
      .reads =
          [this](FileId file) {
            return reads_expected(files_, *names_, *mirrors_, file, control::Prefetch::kMostBytes);
          },
      .servers = *cluster_});
}

Mirrors::Parts MetadataServer::mirror_parts() {
  Registry& registry = cluster_->registry();
  return {.files = files_,
          .names = *names_,
          .journal = *journal_,
          .layouts = *layouts_,
          .reach = [&registry](std::uint32_t ds_id) { return registry.reach(ds_id); },
          .dead = [&registry](std::uint32_t ds_id) { return registry.is_dead(ds_id); },
          .servers = [&registry] { return registry.ids(); },
          .candidates =
              [&registry](std::span<const std::uint32_t> ds_ids) {
                return registry.candidates(ds_ids);
              },
          .fence = [this](std::span<const std::uint32_t> ds_ids, const control::Fence& fence,
                          Done<void> done) { cluster_->fence(ds_ids, {fence}, std::move(done)); },
          .without =
              [this](const layout::LayoutMap& map, const layout::ObjectId& object,
                     Mirrors::Parts::Asked done) {
                cluster_->objects().without(map, object, std::move(done));
              },
          .lacks =
              [this](std::uint32_t ds_id, const layout::ObjectId& object,
                     std::move_only_function<void(bool)> done) {
                cluster_->objects().lacks(ds_id, object, std::move(done));
              },
          .late = [this](const layout::ObjectId& object,
                         std::uint32_t ds_id) { return proxy_->unsettled(object, ds_id); },
          // Grace begins when the last store is open, which may be later than this one was.
          .grants_known =
              [this] {
                return uptime() >= environment_.grace && environment_.grace_left().count() <= 0;
              },
          .owing_for = options_.owing_for};
}

Result<> MetadataServer::start_admin() {
  admin_table_ = make_admin_table(*this);
  if (const std::string& path = options_.admin_socket; !path.empty()) {
    auto server = admin::Server::start({.socket_path = path}, admin_table_);
    if (!server) return of_option("Admin_Socket", server.error());
    admin_ = std::move(*server);
  }
  if (const std::string& listen = options_.metrics_address; !listen.empty()) {
    const auto address = rpc::peer::resolve_address(listen);
    if (!address) return of_option("Metrics_Address", address.error());
    auto page = MetricsPage::open(layout::to_string(*address), [this](Metrics& out) {
      if (const auto system = admin_table_.ask(admin::GetStatus{})) {
        admin::write_metrics(*system, out);
        admin::write_times(times_, out);
      }
    });
    if (!page) return of_option("Metrics_Address", page.error());
    metrics_ = std::move(*page);
  }
  if (const std::string& listen = options_.status_address; !listen.empty()) {
    const auto address = rpc::peer::resolve_address(listen);
    if (!address) return of_option("Status_Address", address.error());
    auto page =
        StatusPage::open(layout::to_string(*address),
                         {.status = [this] { return admin_table_.ask(admin::GetStatus{}); },
                          .clients = [this] { return admin_table_.ask(admin::GetClients{}); },
                          .events = [this] { return admin_table_.ask(admin::GetEvents{}); }},
                         environment_.clock);
    if (!page) return of_option("Status_Address", page.error());
    status_page_ = std::move(*page);
  }
  return {};
}

void MetadataServer::release(FileId file) {
  const auto released = names_->release(file);
  if (!released) {
    spdlog::error("file not released file={:x} error=\"{}\"", file, released.error().describe());
    background_.reclaim_again();
  }
}

void MetadataServer::orphaned(FileId file) {
  if (environment_.is_open(file, std::nullopt)) return;
  // Clients hear of it, perhaps before whoever removed it is told.
  if (names_->settle(file)) layouts_->recall(file, "unlinked");
}

FsSpace MetadataServer::space(std::uint32_t copies) {
  const std::vector<layout::Candidate> servers = cluster_->registry().candidates();
  std::vector<std::uint64_t> capacity;
  std::vector<std::uint64_t> free;
  for (const layout::Candidate& server : servers) {
    if (server.state == layout::ServerState::kDown) continue;
    if (server.state == layout::ServerState::kDraining) continue;
    capacity.push_back(server.capacity_bytes);
    free.push_back(server.free_bytes);
  }
  // While some are away, files go on with the copies that are left. With too few altogether no file
  // gets a place.
  const auto here = static_cast<std::uint32_t>(capacity.size());
  if (servers.size() >= copies) copies = std::clamp(copies, 1u, std::max(1u, here));
  FsSpace space{.capacity_bytes = layout::room_for(std::move(capacity), copies),
                .free_bytes = layout::room_for(std::move(free), copies)};
  if (const auto counts = names_->counts()) space.files = counts->next_fileid;
  space.free_files = kFreeFiles;
  return space;
}

std::vector<Warning> MetadataServer::warnings() const {
  std::vector<Warning> warnings;
  for (std::string& text : placement_warnings()) {
    warnings.push_back({"PLACEMENT", std::move(text)});
  }
  for (std::string& text : namesakes(cluster_->registry().list())) {
    warnings.push_back({"DS_NAMESAKES", std::move(text)});
  }
  if (const int error = environment_.client_refused(); error != 0) {
    warnings.push_back(
        {"CLIENTS_REFUSED",
         "The last client that came was refused: it cannot be recorded below "
         "Ganesha's RecoveryRoot: " +
             std::generic_category().message(error) +
             ". Those that are there go on; others can mount when it can be written."});
  }
  std::ranges::move(place_warnings(environment_.places()), std::back_inserter(warnings));
  std::ranges::move(lease_warnings(environment_.lease, environment_.grace),
                    std::back_inserter(warnings));
  return warnings;
}

void MetadataServer::count_layout_errors(std::uint64_t count) {
  if (count == 0) return;
  layout_error_at_ = environment_.clock.now();
  layout_errors_ += count;
}

std::vector<layout::GroupServer> MetadataServer::group_servers() const {
  std::vector<layout::GroupServer> servers;
  for (layout::Candidate& server : cluster_->registry().candidates()) {
    if (server.state != layout::ServerState::kDraining) {
      servers.push_back({server.ds_id, std::move(server.domain)});
    }
  }
  return servers;
}

std::vector<std::string> MetadataServer::placement_warnings() const {
  // Of those that are there, not of those that the last file was placed among: nobody is to
  // learn by his first files that their copies share a rack.
  const std::vector<layout::GroupServer> servers = group_servers();
  const std::set<std::uint32_t> wanted = environment_.copies();
  std::vector<std::string> warnings;
  for (std::uint32_t copies = 2; copies <= layout::kMaxMirrors; ++copies) {
    if (!wanted.contains(copies) && placement_->warnings(copies).empty()) continue;
    std::ranges::move(layout::form_groups({}, servers, copies).warnings,
                      std::back_inserter(warnings));
  }
  const bool unnamed = std::ranges::count(servers, "", &layout::GroupServer::domain) > 1;
  if (unnamed && !warnings.empty()) {
    warnings.emplace_back(
        "Data servers that say no failure_domain (weft-ds.toml(5)) are in one domain together.");
  }
  if (const CrowdedFiles crowded = repairs_->scrubber().crowded(); crowded.count > 0) {
    warnings.push_back(crowded_warning(crowded));
  }
  return warnings;
}

}  // namespace weft::mds
