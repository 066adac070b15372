#include "dataserver/main/data_server.h"

#include <sched.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "dataserver/main/addresses.h"
#include "dataserver/segments/segment_metrics.h"
#include "dataserver/store/cache_metrics.h"
#include "dataserver/sums/sum_metrics.h"
#include "layout/copies_hint.h"
#include "rpc/base/clock.h"
#include "rpc/base/listen_trouble.h"
#include "rpc/base/process_metrics.h"
#include "rpc/nfs4/payload_locator.h"
#include "rpc/peer/keys.h"
#include "rpc/session/cluster_session.h"
#include "rpc/session/server_dial.h"
#include "rpc/transport/deadlines.h"

namespace weft::ds {

namespace {

constexpr std::chrono::seconds kCloseConnections{5};
static_assert(kCloseConnections > rpc::kDrainDeadline + rpc::kLongestTick);
constexpr std::chrono::seconds kQuiet{5};
constexpr std::size_t kMostLost = 4;  // one part in so many of server.memory_limit
constexpr std::size_t kPipeFrom = std::size_t{64} << 10;  // below, a copy costs less than a pipe
constexpr std::chrono::milliseconds kWatchdogRound{500};
constexpr std::size_t kMaxLocal = 16;     // connections of metadata servers on this machine
constexpr unsigned kTicksForOneMds = 50;  // before the next address is tried
// How often a partner that had no RDMA is asked after.
constexpr std::chrono::milliseconds kLocateEvery{30'000};

// Before a store is made for a server that nobody will reach.
Result<> can_listen(const DsConfig& config) {
  const auto can = [](const layout::NetAddress& address, const std::string& what) -> Result<> {
    const std::string text = layout::to_string(address);
    const std::string why = listen_trouble(text);
    if (!why.empty()) return fail(Errc::kIo, what + text + ": " + why);
    return {};
  };
  for (const layout::NetAddress& address : config.listen) {
    if (auto good = can(address, "bind to "); !good) return good;
  }
  if (!config.metrics) return {};
  return can(*config.metrics, "metrics page at ");
}

}  // namespace

Result<std::unique_ptr<DataServer>> DataServer::open(DsConfig config,
                                                     std::optional<Standalone> standalone,
                                                     std::function<void()> on_alive) {
  auto keys = rpc::peer::Keyring::load(config.key_file);
  if (!keys) return fail(keys.error().code, "cluster.key_file: " + keys.error().text);
  if (auto good = can_listen(config); !good) return pass(good);
  auto arena = arena_for(config);
  if (!arena) return pass(arena);
  std::unique_ptr<DataServer> server(new DataServer(std::move(config), std::move(*arena)));
  server->keys_ = std::move(*keys);
  server->forgetting_.keys_changed(system_clock().now());
  server->on_alive_ = std::move(on_alive);
  if (auto opened = server->open_store(); !opened) return pass(opened);
  if (auto started = server->start_threads(); !started) return pass(started);
  if (standalone) server->give_up_ = standalone->give_up;
  if (auto started = server->start_serving(standalone); !started) return pass(started);
  return server;
}

DataServer::~DataServer() {
  if (!stopped_) static_cast<void>(stop());
}

Result<> DataServer::open_store() {
  auto chain = StoreChain::open(config_, pool_);
  if (!chain) return pass(chain);
  chain_ = std::move(*chain);
  auto fences = FenceTable::open(chain_->directory().root(), keys_->now().fingerprints);
  if (!fences) return pass(fences);
  fences_ = std::move(*fences);
  auto state = read_state(chain_->directory().root());
  if (!state) return pass(state);
  store_state_ = *state;
  return {};
}

Result<> DataServer::start_threads() {
  auto threads = RingThreads::start(config_.threads, config_.pin_threads);
  if (!threads) return pass(threads);
  threads_ = std::move(*threads);
  config_.threads = threads_->size();
  return {};
}

rpc::SessionServerOptions DataServer::session_options() const {
  rpc::SessionServerOptions options;
  // One for each store: two data servers must never be taken for one (RFC 8881 section 2.10.5).
  options.server_major_id = "weft-ds-" + to_string(chain_->directory().identity().uuid);
  options.server_scope = options.server_major_id;
  options.role = rpc::nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
  options.server_key = [keys = keys_](const rpc::nfs4::ExchangeIdArgs& args) {
    return rpc::server_key(*keys, args);
  };
  const ClientLimits limits = client_limits(config_);
  options.max_clients = limits.clients;
  options.max_clients_per_host = limits.clients_per_peer;
  options.max_slots = config_.max_slots;
  options.max_cached_total_bytes = limits.reply_bytes;
  return options;
}

void DataServer::make_stall_watch() {
  stall_watch_ = std::make_unique<StallWatch>(StallWatch::Parts{
      .rings = threads_->list(),
      .clock = system_clock(),
      .moved = [this, device = kernel_files_->device_of(
                          config_.store.path)] { return bytes_moved(*kernel_files_, device); },
      .patience = config_.disk_patience});
}

void DataServer::make_read_ahead() {
  const bool turns = rotates(*kernel_files_, kernel_files_->device_of(config_.store.path));
  if (!reads_ahead(config_, turns)) return;
  read_ahead_ = std::make_unique<ReadAhead>(chain_->store(), threads_->list());
}

Result<> DataServer::start_serving(std::optional<Standalone> standalone) {
  const auto rings = threads_->list();
  if (auto connected = chain_->connect(keys_, rings, dial_targets()); !connected) return connected;
  const std::uint32_t ds_id = standalone ? standalone->ds_id : chain_->directory().identity().ds_id;
  gate_ = std::make_unique<HandleGate>(keys_, ds_id, *fences_);
  counters_ = std::make_unique<Counters>(config_.threads);
  writes_ = std::make_unique<WritesInFlight>(rings);
  load_ = std::make_unique<SystemLoad>(load_options(config_), config_.store.path, *kernel_files_,
                                       system_clock());
  make_stall_watch();
  const std::uint64_t boot = system_random().u64();
  if (standalone) {
    gate_->lease().never_ends();
    chain_->serve(false);  // nobody reviews it
  }
  SizeAuthority* sizes = &local_sizes_;
  if (!standalone) {
    store_watch_ =
        std::make_unique<StoreWatch>(StoreWatch::Parts{.usage = [this] { return chain_->usage(); },
                                                       .folder = chain_->directory().watch(),
                                                       .clock = system_clock()});
    make_read_ahead();
    control_ = std::make_unique<ControlLink>(
        ControlLink::Parts{.config = config_,
                           .chain = *chain_,
                           .fences = *fences_,
                           .gate = *gate_,
                           .writes = *writes_,
                           .counters = *counters_,
                           .load = *load_,
                           .watch = *store_watch_,
                           .rings = rings,
                           .keys = keys_,
                           .boot = boot,
                           .state = store_state_,
                           .session_counts =
                               [this] {
                                 const auto now = sessions_->counts();
                                 return rpc::control::Counters{.connections = now.connections,
                                                               .sessions = now.sessions};
                               },
                           .on_first_registration = [this] { may_serve_.store(true); },
                           .told = [this] { return told_now(); },
                           .read_ahead = read_ahead_.get()});
    control_->tell_options(config_values(config_));
    patient_sizes_ = std::make_unique<PatientSizes>(
        *control_, *gate_, rings, system_clock(),
        RoundLimits{.deadline = PatientSizes::kPatience, .hopeless = out_of_touch()});
    sizes = patient_sizes_.get();
  }
  start_mirroring(boot);
  lease_wait_ = std::make_unique<LeaseWait>(
      gate_->lease(), pool_, rings, system_clock(),
      LeaseWaitLimits{.deadline = std::chrono::seconds(config_.lease_wait)});
  handler_ = std::make_unique<DsHandler>(
      DsHandler::Parts{chain_->store(), *gate_, *sizes, *writes_, *counters_, system_clock(),
                       duplicator_.get(), lease_wait_.get(), &pool_, chain_->segments()});
  sessions_ = std::make_unique<rpc::SessionServer>(session_options(), *handler_, system_clock(),
                                                   system_random());
  prepare_rdma();
  if (auto told = start_metrics(); !told) return told;
  if (config_.watchdog.count() > 0 || on_alive_) {
    watchdog_ =
        std::make_unique<Watchdog>(rings, static_cast<unsigned>(config_.watchdog / kWatchdogRound),
                                   kWatchdogRound, end_hung_process, on_alive_);
  }
  if (control_ == nullptr) may_serve_.store(true);
  if (auto bound = bind(); !bound) return bound;
  return tick();
}

DialRdma DataServer::dial_targets() {
  const auto by_rdma = [](const TargetAddress& address) { return address.rdma; };
  if (!(config_.target && config_.target->rdma) && !std::ranges::any_of(config_.parity, by_rdma)) {
    return {};
  }
  target_dialer_ = std::make_unique<rpc::rdma::Dialer>(threads_->threads());
  return target_dialer_->by(pool_);
}

Result<> DataServer::start_metrics() {
  if (!config_.metrics) return {};
  auto page = MetricsPage::open(layout::to_string(*config_.metrics), [this](Metrics& out) {
    write_program_metrics("weft-ds", WEFT_VERSION, out);
    write_metrics(metrics(), out);
    if (const TargetView* target = chain_->target()) write_target_metrics(*target, out);
    if (const ParityView* parity = chain_->parity()) write_parity_metrics(*parity, out);
    if (const SumView* checksums = chain_->checksums()) {
      write_checksum_metrics(SumCounts{} += *checksums, "weft_ds", out);
    }
    if (SegmentStore* segments = chain_->segments()) {
      write_segment_metrics(segments->table(), out);
    }
    if (const EmulatedDisk* disk = chain_->emulated()) {
      write_emulated_metrics(*disk, "weft_ds", out);
    }
    if (const CacheView* cache = chain_->cache()) write_cache_metrics(*cache, "weft_ds", out);
  });
  if (!page) return pass(page);
  metrics_ = std::move(*page);
  return {};
}

// The gate outlives all that waits for the metadata server.
std::function<bool()> DataServer::out_of_touch() {
  return [&lease = gate_->lease()] { return !lease.in_touch(); };
}

rpc::Dial DataServer::dial_partner(boost::asio::io_context& context,
                                   const rpc::control::Located& found,
                                   std::function<void()> better) {
  return rpc::dial_server(context, pool_,
                          {.addresses = found.addresses,
                           .rdma = found.rdma,
                           .within = config_.mirror.timeout,
                           .dial_rdma = dialer_ == nullptr ? rpc::DialRdma{} : dialer_->by(pool_),
                           .on_connected =
                               [](const rpc::Channel& channel) {
                                 spdlog::info("event=partner_connected peer={} transport={}",
                                              channel.peer(), channel.by_rdma() ? "rdma" : "tcp");
                               },
                           .on_better = std::move(better)});
}

void DataServer::start_mirroring(std::uint64_t boot) {
  MirrorAuthority* authority = &no_partners_;
  if (control_ != nullptr) authority = control_.get();
  LinkConfig link;
  link.owner = "weft-ds-" + to_string(chain_->directory().identity().uuid) + "-mirror";
  link.make_dial = [this](auto& context, const auto& found, auto better) {
    return dial_partner(context, found, std::move(better));
  };
  if (!config_.listen_rdma.empty()) {
    dialer_ = std::make_unique<rpc::rdma::Dialer>(threads_->threads());
    link.locate_every = kLocateEvery;
  }
  RoundLimits reports{.hopeless = out_of_touch()};
  duplicator_ = std::make_unique<Duplicator>(Duplicator::Parts{.store = chain_->store(),
                                                               .keys = keys_,
                                                               .authority = *authority,
                                                               .clock = system_clock(),
                                                               .rings = threads_->list(),
                                                               .boot = boot,
                                                               .options = config_.mirror,
                                                               .link = std::move(link),
                                                               .reports = std::move(reports)});
  if (control_ == nullptr) return;
  resyncs_ = std::make_unique<Resyncs>(Resyncs::Parts{
      .store = chain_->store(),
      .duplicator = *duplicator_,
      .clock = system_clock(),
      .pool = pool_,
      .rings = threads_->list(),
      .fence = [this](const layout::ObjectId& object, std::uint32_t epoch,
                      auto done) { control_->fence_object(object, epoch, std::move(done)); },
      .admit = [this](const layout::ObjectId& object,
                      std::uint32_t epoch) -> Result<WritesInFlight::Token> {
        // As for a write: the token first, so that a fence that comes now waits for it.
        auto token = writes_->enter();
        layout::Handle handle{.access = layout::Access::kMirror, .object = object};
        handle.object_epoch = epoch;
        if (!fences_->admits(handle)) return fail(Errc::kFenced, "the object is fenced above it");
        return token;
      },
      .own_id = [this] { return gate_->ds_id(); }});
  control_->mirror_by(*duplicator_, *resyncs_);
}

// For a metadata server on this machine. Only that is an error which was asked for.
Result<> DataServer::listen_locally() {
  const LocalEndpoint endpoint = local_endpoint(config_);
  if (endpoint.socket.empty()) return {};
  rpc::ShmServerOptions options;
  options.path = endpoint.socket;
  options.mode = 0600;
  options.max_connections = kMaxLocal;
  local_ = std::make_unique<rpc::ShmServer>(
      threads_->threads(), pool_, options, [this](std::shared_ptr<rpc::Channel> channel) {
        sessions_->serve(
            rpc::serve_bulk(std::move(channel), chain_->directory().identity().uuid, local_counts_),
            rpc::Via::kSharedMemory);
      });
  auto listened = local_->listen();
  if (listened) {
    spdlog::info("event=listening socket={}", options.path);
    return {};
  }
  local_.reset();
  if (!config_.socket.empty()) return listened;
  spdlog::warn("event=no_shared_memory why=\"{}\"", listened.error().describe());
  return {};
}

Result<> DataServer::bind() {
  const ClientLimits limits = client_limits(config_);
  for (const layout::NetAddress& address : config_.listen) {
    rpc::TcpServerOptions options;
    options.address = layout::ip_text(address);
    options.port = address.port;
    options.max_connections = limits.connections;
    options.max_connections_per_peer = config_.max_connections_per_peer;
    options.max_strangers = limits.strangers;
    options.max_strangers_per_peer = limits.strangers_per_peer;
    options.limits.standing = Standing::kStranger;
    options.limits.look = [this](std::span<const std::byte> head, Standing of) {
      return sessions_->look_at(head, of);
    };
    // So that direct writes need no copy, and others copy from a page boundary.
    options.limits.locate_payload = rpc::nfs4::locate_payload;
    // A target takes what is in memory it shares; past it goes what is in a pipe.
    options.limits.pipe_from = kPipeFrom;
    // What goes to partners, too, is wanted in memory: by its share, as other records are.
    options.limits.pipes = [this](std::span<const std::byte> head) {
      if (!chain_->takes_pipes()) return false;
      const auto handle = rpc::nfs4::locate_handle(head);
      return !handle || !layout::seems_of_copies(*handle);
    };
    auto listener = std::make_unique<rpc::TcpServer>(
        threads_->threads(), pool_, options,
        [this](std::shared_ptr<rpc::Channel> channel) { sessions_->serve(std::move(channel)); });
    if (auto bound = listener->bind(); !bound) return bound;
    listeners_.push_back(std::move(listener));
  }
  return {};
}

// As by TCP, but for the memory of each connection: receives are posted from its start.
void DataServer::prepare_rdma() {
  if (config_.listen_rdma.empty()) return;
  const ClientLimits limits = client_limits(config_);
  rpc::rdma::ServerOptions options;
  for (const layout::NetAddress& address : config_.listen_rdma) {
    options.addresses.push_back({.ip = layout::ip_text(address), .port = address.port});
  }
  options.admission.max_connections = limits.connections;
  options.admission.max_connections_per_peer = config_.max_connections_per_peer;
  options.admission.max_strangers = std::max<std::size_t>(limits.strangers / 8, 1);
  options.admission.max_strangers_per_peer =
      std::max<std::size_t>(limits.strangers_per_peer / 8, 1);
  options.limits.standing = options.admission.standing = Standing::kStranger;
  options.limits.receives = &receives_;
  options.limits.look = [this](std::span<const std::byte> head, Standing of) {
    return sessions_->look_at(head, of);
  };
  rdma_ =
      std::make_unique<rpc::rdma::Server>(threads_->threads(), pool_, std::move(options),
                                          [this](std::shared_ptr<rpc::Channel> channel) {
                                            sessions_->serve(std::move(channel), rpc::Via::kRdma);
                                          });
  rdma_->bind();
  tell_rdma();
}

// Without a device TCP serves alone; one may come. Addresses are bound before the server registers,
// as those for TCP are, so that a start changes nothing of what clients are told.
void DataServer::listen_by_rdma() {
  if (rdma_ == nullptr || !listening_ || cut_) return;
  rdma_->look();
  tell_rdma();
}

Told DataServer::told_now() const {
  const MutexLock lock(told_mutex_);
  return told_;
}

// While the disk hangs what clients are told stays: they come back by what they know.
void DataServer::tell_rdma() {
  auto now = told(config_, rdma_->reachable());
  {
    const MutexLock lock(told_mutex_);
    if (now == told_) return;
    told_ = std::move(now);
  }
  if (control_ != nullptr) control_->addresses_changed();
}

Result<> DataServer::listen() {
  // First: whoever was connected so before a restart is to find it again, rather than TCP.
  if (auto listened = listen_locally(); !listened) return listened;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (auto listened = listeners_[i]->listen(); !listened) return listened;
    spdlog::info("event=listening address={} port={}", layout::ip_text(config_.listen[i]),
                 listeners_[i]->port());
  }
  listening_ = true;
  return {};
}

// It registers with the room it has: before its target has said how much that is, it would count as
// full until the next heartbeat.
void DataServer::join_when_able() {
  if (auto usage = chain_->store().usage(); usage) {
    joining_ = true;
    control_->use(config_.mds[mds_index_]);
  } else if (++ticks_unregistered_ % kTicksForOneMds == 0) {
    spdlog::warn("event=store_wait why=\"{}\"", usage.error().describe());
  }
}

void DataServer::follow_keys() {
  const auto now = system_clock().now();
  if (keys_->follow()) {
    fences_->use_keys(keys_->now().fingerprints);
    sessions_->keys_changed(keys_->now().fingerprints);
    forgetting_.keys_changed(now);
  }
  if (!forgetting_.due(now, control_ == nullptr || control_->registered())) return;
  if (const std::size_t forgotten = fences_->forget_useless(); forgotten > 0) {
    spdlog::info("event=fences_forgotten count={} left={}", forgotten, fences_->size());
  }
}

// While it hangs, what clients have asked of it is not answered, and I/O threads may be in the
// kernel for ever: only the end of their connections sends clients to other copies.
void DataServer::watch_disk() {
  DiskWatch& folder = chain_->directory().watch();
  if (const auto waited = stall_watch_->look()) {
    folder.failed({Errc::kTimedOut, fmt::format("the disk of its folder has not answered for {} s",
                                                waited->count())});
    if (std::exchange(cut_, true)) return;
    spdlog::error("event=disk_hangs seconds={}", waited->count());
    for (const auto& listener : listeners_) listener->cut();
    if (rdma_ != nullptr) rdma_->cut();
  } else if (cut_ && folder.check() && gate_->lease().held()) {
    cut_ = false;
    spdlog::info("event=disk_answers");
    for (const auto& listener : listeners_) listener->go_on();
    if (rdma_ != nullptr) rdma_->go_on();
  }
}

// Memory that targets had which died, as long as a device for RDMA has it, too.
Result<> DataServer::check_memory() const {
  const std::size_t lost = pool_.arena() == nullptr ? 0 : pool_.arena()->lost_bytes();
  if (lost <= config_.memory_limit_bytes / kMostLost) return {};
  return fail(Errc::kBusy,
              fmt::format("{} MiB of memory cannot be used any more: targets died that had it. A "
                          "new start has all of server.memory_limit",
                          lost >> 20));
}

// What this process has in memory is of the store as it was: a new one registers with what it
// finds.
Result<> DataServer::check_target() const {
  if (!chain_->refused()) return {};
  return fail(Errc::kStale,
              "the store of its target was rolled back, or is an old copy: a new start has it "
              "reviewed");
}

Result<> DataServer::tick() {
  follow_keys();
  watch_disk();
  if (auto enough = check_memory(); !enough) return enough;
  if (auto good = check_target(); !good) return good;
  sessions_->expire();
  if (give_up_ && chain_->give_up({.target = *give_up_})) give_up_.reset();
  if (control_ != nullptr && !joining_) {
    join_when_able();
    return {};
  }
  // Not before there is a lease: a client that is told to wait waits for 15 s.
  if (may_serve_.load() && !listening_ && gate_->lease().held()) {
    if (auto listened = listen(); !listened) return listened;
  }
  listen_by_rdma();
  if (control_ == nullptr || control_->registered()) {
    ticks_unregistered_ = 0;
  } else if (++ticks_unregistered_ % kTicksForOneMds == 0 && config_.mds.size() > 1) {
    next_mds();
  }
  return {};
}

void DataServer::next_mds() {
  mds_index_ = (mds_index_ + 1) % config_.mds.size();
  control_->use(config_.mds[mds_index_]);
}

// True when no request is left that could still touch the store.
bool DataServer::drain_requests() {
  auto drained = std::make_shared<std::promise<void>>();
  auto over = drained->get_future();
  sessions_->drain([drained] { drained->set_value(); });
  const auto limit = config_.drain + kCloseConnections;
  const bool in_time = over.wait_for(limit) == std::future_status::ready;
  return in_time && counters_->total().running == 0;
}

bool DataServer::quiet() {
  return threads_->wait_until_quiet([this] { return chain_->workers_idle(); }, kQuiet);
}

Result<> DataServer::stop() {
  if (std::exchange(stopped_, true)) return {};
  watchdog_.reset();
  for (const auto& listener : listeners_) listener->stop();
  if (rdma_ != nullptr) rdma_->stop();
  if (local_ != nullptr) local_->stop();
  if (resyncs_ != nullptr) static_cast<void>(resyncs_->stop(std::chrono::seconds(1)));
  if (read_ahead_ != nullptr) read_ahead_->stop();
  if (lease_wait_ != nullptr) lease_wait_->give_up();
  const bool drained = sessions_ == nullptr || drain_requests();
  const bool owed = duplicator_ != nullptr && !duplicator_->stop(config_.drain);
  if (owed) spdlog::error("event=mirror_stop owed_bytes={}", duplicator_->counts().pending_bytes);
  // The sessions with other data servers are gone: no job waits for an answer any more.
  const bool resyncing = resyncs_ != nullptr && !resyncs_->stop(kQuiet);
  if (control_ != nullptr) control_->stop();
  metrics_.reset();
  // What is left is the store's own: a rebuild, a sweep, connections to targets.
  const bool done = drained && !owed && !resyncing;
  if (done && chain_ != nullptr) chain_->disconnect();
  if (threads_ != nullptr && (!done || !quiet())) {
    spdlog::error("event=stop clean=false reason=\"requests did not end in time\"");
    return fail(Errc::kTimedOut, "requests did not end in time");
  }
  if (threads_ != nullptr) threads_->stop();
  return chain_ != nullptr ? chain_->close() : Result<>{};
}

void DataServer::reload(const DsConfig& next) {
  config_.log_level = next.log_level;
  config_.drain = next.drain;
  config_.parity_rebuild_rate = next.parity_rebuild_rate;
  config_.parity_scrub_every = next.parity_scrub_every;
  config_.parity_scrub_rate = next.parity_scrub_rate;
  chain_->reload(next);
  if (control_ != nullptr) control_->tell_options(config_values(config_));
}

std::string DataServer::status() const {
  if (control_ == nullptr) return "serves alone";
  if (!joining_) return "waits for its store";
  const HostPort& mds = config_.mds[mds_index_];
  const std::string why = control_->away();
  if (!why.empty()) {
    return fmt::format("{} without metadata server {}:{}: {}",
                       listening_ ? "serves" : "does not serve", mds.host, mds.port, why);
  }
  if (listening_) return "serves";
  return fmt::format("waits for the metadata server {}:{}", mds.host, mds.port);
}

std::vector<std::uint16_t> DataServer::ports() const {
  if (!listening_) return {};
  std::vector<std::uint16_t> ports;
  for (const auto& listener : listeners_) ports.push_back(listener->port());
  return ports;
}

MetricsSample DataServer::metrics() const {
  const FileStore* folder = chain_->folder();
  static const rpc::rdma::Counts kNoRdma;
  const rpc::rdma::Counts& rdma = rdma_ == nullptr ? kNoRdma : rdma_->counts();
  const rpc::rdma::Counts& partners = dialer_ == nullptr ? kNoRdma : dialer_->counts();
  const rpc::rdma::Counts& targets = target_dialer_ == nullptr ? kNoRdma : target_dialer_->counts();
  return {.operations = counters_->total(),
          .times = counters_->times(),
          .sessions = sessions_->counts(),
          .shared_in_bytes = local_counts_->to_server.load(),
          .shared_out_bytes = local_counts_->to_client.load(),
          .rdma_configured = rdma_ != nullptr,
          .rdma_listening = rdma_ == nullptr ? 0 : rdma_->listening(),
          .rdma_in_bytes = rdma.bytes_in.load(),
          .rdma_out_bytes = rdma.bytes_out.load(),
          .partner_rdma_connections = partners.connections.load(),
          .partner_rdma_calls = partners.calls.load(),
          .partner_rdma_in_bytes = partners.bytes_in.load(),
          .partner_rdma_out_bytes = partners.bytes_out.load(),
          .targets_by_rdma = target_dialer_ != nullptr,
          .target_rdma_connections = targets.connections.load(),
          .target_rdma_calls = targets.calls.load(),
          .target_rdma_in_bytes = targets.bytes_in.load(),
          .target_rdma_out_bytes = targets.bytes_out.load(),
          .run_queues = load_->run_queues(),
          .lease_waiting = lease_wait_->waiting(),
          .fences = fences_->size(),
          .fence_log_bytes = fences_->log_bytes(),
          .memory_bytes = pool_.in_use_bytes(),
          .store = chain_->store().usage().value_or(StoreStat{}),
          .open_files = folder == nullptr ? 0 : folder->open_files(),
          .descriptor_waits = folder == nullptr ? 0 : folder->descriptor_waits(),
          .registered = control_ != nullptr && control_->registered(),
          .read_ahead =
              read_ahead_ == nullptr ? std::optional<ReadAhead::Counts>() : read_ahead_->counts(),
          .mirror = duplicator_->counts(),
          .mirror_window_bytes = config_.mirror.window_bytes};
}

}  // namespace weft::ds
