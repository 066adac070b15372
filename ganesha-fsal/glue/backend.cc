#include "ganesha-fsal/glue/backend.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "ganesha-fsal/admin/metrics.h"
#include "ganesha-fsal/glue/admin_reports.h"
#include "ganesha-fsal/glue/clients.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "rpc/base/clock.h"
#include "rpc/base/shared_memory.h"
#include "rpc/control/mds_boot.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::milliseconds kWatch{250};
// An unmount beside a data server that has just died waits for minutes until this has passed.
constexpr std::chrono::milliseconds kLookAtKept{50};
constexpr std::uint64_t kFreeFiles = std::uint64_t{1} << 32;  // file numbers do not run out

constexpr std::chrono::seconds kLongestClose{60};
constexpr std::chrono::seconds kLongestLogLine{3};

thread_local bool may_end_here = false;

struct Backends {
  std::mutex mutex;
  std::condition_variable closed;
  // A path is here from the opening of its store until that is closed.
  std::map<std::string, std::weak_ptr<Backend>> by_path;
  std::vector<std::thread> closers;
  struct OfExport {
    std::weak_ptr<Backend> backend;
    std::string pseudo_path;
    FileId root = kRootFileId;
    layout::PlacementPolicy policy;
  };
  std::map<std::uint16_t, OfExport> by_export;
};

// Never destroyed: Ganesha may exit with exports that were not released.
Backends& backends() {
  static Backends& instance = *new Backends;
  return instance;
}

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

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

std::unexpected<Error> of_option(const char* option, const Error& error) {
  return fail(error.code, fmt::format("{}: {}", option, error.describe()));
}

// Nothing can be promised any more, and nothing that was is lost: whoever supervises us starts us
// again. Clients wait for that as for any restart; answers would be errors at applications.
[[noreturn]] void end_without_store(const Error& error) {
  // The log may be on a disk that does not answer.
  std::thread([] {
    std::this_thread::sleep_for(kLongestLogLine);
    ::_exit(EXIT_FAILURE);
  }).detach();
  spdlog::critical("event=metadata_store_failed error=\"{}\": ganesha.nfsd ends", error.describe());
  ::_exit(EXIT_FAILURE);
}

// Whether a store that is there may be opened later: its disk is full or failed.
bool may_pass(const Error& error, const std::string& path) {
  const bool disk = error.code == Errc::kNoSpace || error.code == Errc::kIo;
  return disk && ::access((path + "/CURRENT").c_str(), F_OK) == 0;
}

std::chrono::seconds lease() { return std::chrono::seconds(nfs_param.nfsv4_param.lease_lifetime); }
std::chrono::seconds grace() { return std::chrono::seconds(nfs_param.nfsv4_param.grace_period); }

}  // namespace

layout::Policy export_policy(const weft_options& options) {
  layout::Policy policy;
  if (options.stripe_count != 0) policy.stripes = options.stripe_count;
  policy.unit = options.stripe_unit;
  policy.copies = options.copies;
  if (options.duplication != WEFT_DUPLICATION_DEFAULT) {
    policy.duplication = static_cast<layout::Duplication>(options.duplication);
  }
  policy.reads = static_cast<layout::ReadPolicy>(options.reads);
  return policy;
}

layout::LayoutType layout_type(const weft_options& options) {
  return options.layout_kind == WEFT_LAYOUT_FLEXFILES ? layout::LayoutType::kFlexFiles
                                                      : layout::LayoutType::kFiles;
}

layout::PlacementPolicy placement_policy(const weft_options& options) {
  layout::PlacementPolicy base;
  // A server is full for new files when it has no room for a stripe unit: how much is to be kept
  // free beyond that depends on its size, and is its file system's to say.
  base.reserve_bytes = options.stripe_unit;
  return layout::placement_policy(export_policy(options), layout_type(options), base);
}

Result<std::shared_ptr<Backend>> Backend::open(const weft_options& options) {
  Backends& all = backends();
  std::shared_ptr<Backend> shared;  // given up without the lock: close() takes it
  std::unique_lock lock(all.mutex);
  const bool settled = all.closed.wait_for(lock, kLongestClose, [&] {
    const auto it = all.by_path.find(options.metadata_path);
    if (it == all.by_path.end()) return true;
    shared = it->second.lock();
    return shared != nullptr;
  });
  if (!settled) {
    return fail(Errc::kBusy, "Metadata_Path: the store is still being closed, try again later");
  }
  if (shared) {
    if (auto same = shared->check_same(options); !same) return pass(same);
    return shared;
  }
  std::unique_ptr<Backend> made(new Backend);
  auto started = made->start(options);
  if (!started) return pass(started);
  shared = std::shared_ptr<Backend>(made.release(), &Backend::close);
  all.by_path[options.metadata_path] = shared;
  return shared;
}

void Backend::close(Backend* backend) {
  Backends& all = backends();
  const auto end = [&all, backend] {
    const std::string path = backend->metadata_path_;
    delete backend;
    const std::lock_guard lock(all.mutex);
    all.by_path.erase(path);
    all.closed.notify_all();
  };
  if (!may_end_here && !UpcallRecaller::in_upcall()) return end();
  const std::lock_guard lock(all.mutex);
  all.closers.emplace_back(end);
}

void Backend::wait_closed() {
  Backends& all = backends();
  std::vector<std::thread> closers;
  {
    const std::lock_guard lock(all.mutex);
    closers.swap(all.closers);
  }
  for (std::thread& closer : closers) closer.join();
}

Backend::MayEnd::MayEnd() { may_end_here = true; }
Backend::MayEnd::~MayEnd() { may_end_here = false; }

std::shared_ptr<Backend> Backend::of_export(std::uint16_t export_id) {
  Backends& all = backends();
  const std::lock_guard lock(all.mutex);
  const auto it = all.by_export.find(export_id);
  return it == all.by_export.end() ? nullptr : it->second.backend.lock();
}

void Backend::add_export(std::uint16_t export_id, const std::shared_ptr<Backend>& backend,
                         std::string pseudo_path, FileId root,
                         const layout::PlacementPolicy& policy) {
  Backends& all = backends();
  const std::lock_guard lock(all.mutex);
  all.by_export[export_id] = {backend, std::move(pseudo_path), root, policy};
}

std::optional<Backend::PathInExport> Backend::find_path(std::string_view path) {
  Backends& all = backends();
  const std::lock_guard lock(all.mutex);
  std::optional<PathInExport> best;
  for (const auto& [id, of] : all.by_export) {
    std::string_view root = of.pseudo_path;
    while (root.ends_with('/')) root.remove_suffix(1);
    if (!path.starts_with(root)) continue;
    const std::string_view rest = path.substr(root.size());
    if (!rest.empty() && rest.front() != '/') continue;
    if (!best || rest.size() < best->path.size()) {
      best = PathInExport{id, rest.empty() ? "/" : std::string(rest), std::string(root), of.root,
                          of.policy};
    }
  }
  return best;
}

void Backend::remove_export(std::uint16_t export_id) {
  Backends& all = backends();
  const std::lock_guard lock(all.mutex);
  all.by_export.erase(export_id);
}

Result<> Backend::check_same(const weft_options& options) const {
  if (text_or_empty(options.control_address) != control_address_) {
    return fail(Errc::kInvalid,
                "Control_Address differs from that of another export with the same "
                "Metadata_Path");
  }
  if (text_or_empty(options.key_file) != key_file_) {
    return fail(Errc::kInvalid,
                "Key_File differs from that of another export with the same Metadata_Path");
  }
  return {};
}

Result<> Backend::start(const weft_options& options) {
  metadata_path_ = options.metadata_path;
  control_address_ = text_or_empty(options.control_address);
  key_file_ = text_or_empty(options.key_file);
  if (auto opened = open_store(options); !opened) return opened;
  if (auto started = start_cluster(options); !started) return started;
  start_layouts(options);
  if (auto opened = data_->open(); !opened) return of_option("Metadata_Path", opened.error());
  start_repair(options);
  start_mover(options);
  start_readmission();
  start_auditor();
  if (auto started = start_admin(options); !started) return started;
  timer_ = std::thread([this] { run_timer(); });
  mender_ = std::thread([this] { run_mender(); });
  watcher_ = std::thread([this] { run_watcher(); });
  keeper_ = std::thread([this] { run_keeper(); });
  return {};
}

Result<> Backend::open_store(const weft_options& options) {
  auto store = open_rocks_kv({.path = metadata_path_,
                              .sync = options.sync_metadata,
                              .stall_limit = std::chrono::seconds(options.metadata_timeout),
                              .on_failure = [](const Error& error) { end_without_store(error); }});
  if (!store) {
    // Ganesha would go on without exports. While others are served, it is the administrator's turn.
    if (may_pass(store.error(), metadata_path_) && backends().by_path.empty()) {
      end_without_store(store.error());
    }
    return of_option("Metadata_Path", store.error());
  }
  store_ = std::move(*store);
  auto names = Namespace::open(*store_);
  if (!names) return of_option("Metadata_Path", names.error());
  names_ = std::move(*names);
  store_id_ = first_bytes(names_->superblock().cluster_uuid);
  recaller_ = std::make_unique<UpcallRecaller>(fsid(), store_id_, [this](FileId file) {
    const auto map = names_->layout(file);
    return map && *map ? (*map)->type : layout::LayoutType::kFiles;
  });
  sizes_ = std::make_unique<NamespaceSizes>(
      *names_, [this](FileId file) { recaller_->invalidate_attributes(file); });
  removal_source_ = std::make_unique<NamespaceRemovals>(*names_);
  return {};
}

Result<> Backend::start_cluster(const weft_options& options) {
  if (key_file_.empty()) return fail(Errc::kInvalid, "Key_File is missing (weft keygen makes one)");
  auto keys = control::Keyring::load(key_file_);
  if (!keys) return of_option("Key_File", keys.error());
  keys_ = std::move(*keys);
  const auto listen = layout::parse_address(control_address_);
  if (!listen) return of_option("Control_Address", listen.error());

  Cluster::Config config;
  config.listen = *listen;
  config.keys = keys_;
  config.registry.cluster = names_->superblock().cluster_uuid;
  config.registry.boot = control::mds_boot(names_->superblock().boot_epoch, std::random_device{}());
  config.registry.device_salt = std::random_device{}();
  system_random().fill(config.registry.seal_key);
  config.registry.lease_seconds = options.data_server_lease;
  config.registry.by_load = options.by_load;
  auto cluster = Cluster::start(std::move(config), *store_, *sizes_);
  if (!cluster) return of_option("Control_Address", cluster.error());
  cluster_ = std::move(*cluster);
  cluster_->on_server_up([this](std::uint32_t ds_id) { server_up(ds_id); });

  const std::size_t memory = std::size_t{options.proxy_memory} << 20;
  pool_ =
      std::make_unique<BufferPool>(memory, options.shared_memory ? shared_arena(memory) : nullptr);
  ProxyIo::Config proxy;
  proxy.owner = "weft-mds-" + control::to_string(names_->superblock().cluster_uuid);
  proxy.keys = keys_;
  proxy.call_timeout = std::chrono::seconds(options.proxy_timeout);
  proxy_ = std::make_unique<ProxyIo>(std::move(proxy), cluster_->registry(), *pool_);

  RemovalTarget target;
  target.reachable = [this](std::uint32_t id) { return cluster_->registry().is_connected(id); };
  target.fence = [this](std::uint32_t id, std::vector<control::Fence> fences, Done<void> done) {
    cluster_->fence({&id, 1}, std::move(fences), std::move(done));
  };
  target.remove = [this](std::uint32_t id, std::vector<layout::ObjectId> objects, Done<void> done) {
    cluster_->remove(id, std::move(objects), std::move(done));
  };
  removals_ = std::make_unique<RemovalQueue>(*removal_source_, std::move(target));
  removals_->start();
  return {};
}

void Backend::start_layouts(const weft_options& options) {
  placement_ = std::make_unique<layout::ByLoad>(names_->superblock().boot_epoch);
  fencer_ = std::make_unique<DsFencer>(*names_, *cluster_);
  LayoutLimits limits;
  limits.recall_timeout =
      options.recall_timeout == 0 ? lease() : std::chrono::seconds(options.recall_timeout);
  layouts_ = std::make_unique<LayoutService>(
      *recaller_, *fencer_, limits, [] { return Clock::now(); },
      [this](FileId file) {
        data_->layouts_gone(file);
        release(file);
      },
      [this](FileId file) { data_->writer_fenced(file); },
      LayoutKeeping{.limits = {.per_client = options.kept_layouts},
                    .in_use = [this](FileId file, ClientId client) {
                      return open_files_.is_open(file, client);
                    }});
  journal_ = std::make_unique<WriterJournal>(
      WriterJournal::Parts{.names = *names_, .in_use = [this](FileId file) {
                             return layouts_->held_for_write(file) || layouts_->blocked(file) ||
                                    data_->uncommitted(file) || mirrors_->owes(file);
                           }});
  mirrors_ = std::make_unique<Mirrors>(mirror_parts());
  cluster_->keep_missed_copies(*mirrors_);
  data_ = std::make_unique<FileData>(
      FileData::Parts{*names_, *cluster_, *proxy_, *layouts_, *fencer_, *placement_, *journal_,
                      *mirrors_, [this](FileId file) { recaller_->invalidate_attributes(file); },
                      [this](FileId file) { return repairer_->compare(file); }});
}

Mirrors::Parts Backend::mirror_parts() {
  Registry& registry = cluster_->registry();
  return {.names = *names_,
          .journal = *journal_,
          .layouts = *layouts_,
          .reach = [&registry](std::uint32_t ds_id) { return registry.reach(ds_id); },
          .dead = [&registry](std::uint32_t ds_id) { return registry.is_dead(ds_id); },
          .servers = [&registry] { return registry.candidates(); },
          .fence = [this](std::span<const std::uint32_t> ds_ids, const control::Fence& fence,
                          Done<void> done) { cluster_->fence(ds_ids, {fence}, std::move(done)); },
          .grants_known = [this] { return std::chrono::steady_clock::now() - started_ > grace(); }};
}

Result<> Backend::start_admin(const weft_options& options) {
  admin_source_ = make_admin_reports(*this);
  if (const std::string path = text_or_empty(options.admin_socket); !path.empty()) {
    auto server = admin::Server::start({.socket_path = path}, *admin_source_);
    if (!server) return of_option("Admin_Socket", server.error());
    admin_ = std::move(*server);
  }
  if (const std::string listen = text_or_empty(options.metrics_address); !listen.empty()) {
    if (const auto address = layout::parse_address(listen); !address) {
      return of_option("Metrics_Address", address.error());
    }
    auto page = MetricsPage::open(
        listen, [this](Metrics& out) { admin::write_metrics(*admin_source_, out); });
    if (!page) return of_option("Metrics_Address", page.error());
    metrics_ = std::move(*page);
  }
  return {};
}

Backend::~Backend() {
  {
    const std::lock_guard lock(timer_mutex_);
    stopping_ = true;
  }
  timer_wake_.notify_all();
  if (data_) data_->stop();
  if (timer_.joinable()) timer_.join();
  if (mender_.joinable()) mender_.join();
  if (watcher_.joinable()) watcher_.join();
  if (keeper_.joinable()) keeper_.join();
  metrics_.reset();
  admin_.reset();
  if (readmission_) readmission_->stop();
  if (mover_) mover_->stop();
  if (repairer_) repairer_->stop();  // its jobs, also those that the scrubber waits for
  if (scrubber_) scrubber_->stop();
  if (auditor_) auditor_->stop();
  if (removals_) removals_->stop();
  if (proxy_) proxy_->stop();
  if (cluster_) cluster_->stop();
}

// Runs on a worker of the cluster, possibly before the rest of us is made: it leaves everything to
// the timer.
void Backend::server_up(std::uint32_t ds_id) {
  const auto view = cluster_->registry().find(ds_id);
  {
    const std::lock_guard lock(timer_mutex_);
    server_came_up_ = true;
    came_up_.insert(ds_id);
    if (view) {
      const auto [it, fresh] = generations_.try_emplace(ds_id, view->record.address_generation);
      server_moved_ = server_moved_ || it->second != view->record.address_generation;
      it->second = view->record.address_generation;
    }
  }
  timer_wake_.notify_all();
}

void Backend::run_timer() {
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    timer_wake_.wait_for(lock, kTick, [this] { return stopping_ || server_came_up_; });
    if (stopping_) return;
    const bool came_up = std::exchange(server_came_up_, false);
    const bool moved = std::exchange(server_moved_, false);
    const auto back = std::exchange(came_up_, {});
    mend_now_ = mend_now_ || came_up;
    lock.unlock();
    keys_->follow();
    if (came_up) removals_->kick();
    for (const std::uint32_t ds_id : back) repairer_->server_up(ds_id);
    if (came_up) mover_->look_now();
    if (moved) layouts_->recall_all("a data server has new addresses");
    tick();
    lock.lock();
  }
}

// Apart from the timer, whose deadlines must not wait for a data server.
void Backend::run_mender() {
  bool more = false;
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    if (!more) timer_wake_.wait_for(lock, kTick, [this] { return stopping_ || mend_now_; });
    if (stopping_) return;
    const bool came_up = std::exchange(mend_now_, false);
    lock.unlock();
    if (came_up) data_->retry_settling();
    data_->catch_up();
    data_->commit_left();
    // Ganesha says whether clients may still reclaim: grace has begun before exports are made, ends
    // early when all have come back, and may be begun anew.
    more = data_->settle_due(grace_left_ms() == 0);
    more = data_->duplicate_left() || more;
    lock.lock();
  }
}

// Apart from both: clients wait for what it does.
void Backend::run_watcher() {
  DeathProbe deaths(cluster_->registry(),
                    [this](std::uint32_t ds_id) { cluster_->disconnect(ds_id); });
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    timer_wake_.wait_for(lock, kWatch, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    deaths.tick();
    mirrors_->tick();
    lock.lock();
  }
}

std::set<std::uint32_t> Backend::servers_away() {
  std::set<std::uint32_t> away;
  for (const layout::Candidate& server : cluster_->registry().candidates()) {
    if (mirrors_->reach(server.ds_id) != Reach::kHere) away.insert(server.ds_id);
  }
  return away;
}

// Apart from all: asking a client may wait for its backchannel.
void Backend::run_keeper() {
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    timer_wake_.wait_for(lock, kLookAtKept, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    layouts_->look_at_kept(servers_away());
    lock.lock();
  }
}

void Backend::tick() {
  layouts_->tick();
  // Once grace is over, whoever had an unlinked file open has opened it again, or never will.
  if (!orphans_reclaimed_ && std::chrono::steady_clock::now() - started_ > grace() + lease()) {
    orphans_reclaimed_ = true;
    const auto gone = names_->reclaim_orphans();
    if (gone && *gone > 0) {
      spdlog::info("orphans of the last run removed count={}", *gone);
      removals_->kick();
    }
  }
}

void Backend::release(FileId file) {
  const auto released = names_->release(file);
  if (!released) {
    spdlog::error("file not released file={:x} error=\"{}\"", file, released.error().describe());
  }
  bool was_orphan = false;
  {
    const std::lock_guard lock(orphans_mutex_);
    was_orphan = orphans_.contains(file) && !names_->getattr(file);
    if (was_orphan) orphans_.erase(file);
  }
  if (was_orphan) removals_->kick();
}

void Backend::remember_orphan(FileId file) {
  const std::lock_guard lock(orphans_mutex_);
  orphans_.insert(file);
}

void Backend::orphaned(FileId file) {
  remember_orphan(file);
  if (!open_files_.is_open(file)) layouts_->recall(file, "unlinked");
}

FsSpace Backend::space() {
  FsSpace space;
  for (const layout::Candidate& server : cluster_->registry().candidates()) {
    space.capacity_bytes += server.capacity_bytes;
    space.free_bytes += server.free_bytes;
  }
  if (const auto counts = names_->counts()) space.files = counts->next_fileid;
  space.free_files = kFreeFiles;
  return space;
}

std::vector<std::string> Backend::placement_warnings() const {
  std::vector<std::string> warnings;
  for (std::uint32_t copies = 2; copies <= layout::kMaxMirrors; ++copies) {
    std::ranges::move(placement_->warnings(copies), std::back_inserter(warnings));
  }
  return warnings;
}

std::uint64_t Backend::write_verifier() const { return proxy_->verifier(); }

}  // namespace weft::mds
