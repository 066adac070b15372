#include "dataserver/targets/target.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <numeric>

#include "dataserver/store/cache_metrics.h"
#include "dataserver/sums/sum_metrics.h"
#include "dataserver/targets/rdma_records.h"
#include "rpc/base/process_metrics.h"
#include "rpc/base/shared_memory.h"

namespace weft::ds {

namespace {

constexpr std::chrono::seconds kQuiet{5};
constexpr std::chrono::seconds kWatchdogRound{1};
constexpr std::size_t kMaxStrangers = 1024;  // connections without a Hello
constexpr std::size_t kMaxHello = 512;
constexpr std::chrono::seconds kHelloDeadline{5};
constexpr std::size_t kPipeFrom = std::size_t{64} << 10;  // below, a copy costs less than a pipe

// The folder is made for the first data server that comes: whether it can be is said at the start.
// A disk that fails is not a mistake of the configuration, and data servers hear of it.
Result<> can_have_spaces(const FileStoreOptions& store) {
  struct stat found{};
  if (::stat(store.path.c_str(), &found) == 0) {
    if (!S_ISDIR(found.st_mode)) return fail_errno(ENOTDIR, store.path);
    if (::access(store.path.c_str(), W_OK | X_OK) == 0 || errno != EACCES) return {};
    return fail_errno(EACCES, store.path);
  }
  const int trouble = errno;
  const std::string& path = store.path;
  if (!store.create && trouble != ENOENT) return fail_errno(trouble, path);
  if (!store.create) {
    return fail(Errc::kNotFound,
                path + " is not there (is its disk mounted?), and store.create does not allow it");
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  if (trouble != ENOENT || ::access(parent.c_str(), W_OK | X_OK) == 0) return {};
  if (errno == EACCES) return fail_errno(EACCES, "make " + path);
  if (errno != ENOENT) return {};
  return fail(Errc::kNotFound, path + ": the folder that it is to be made in is not there");
}

Result<std::shared_ptr<Arena>> arena_for(const TargetConfig& config) {
  if (config.listen_rdma.empty()) return std::shared_ptr<Arena>{};
  return Arena::create(config.memory_limit_bytes, true);
}

void write_times(const TargetTimes& times, Metrics& out) {
  const auto took = [&](const char* op, TargetTimed which) {
    out.histogram("weft_target_operation_seconds", "From an operation's begin to its answer",
                  times[static_cast<std::size_t>(which)], {{"op", op}});
  };
  took("read", TargetTimed::kRead);
  took("write", TargetTimed::kWrite);
  took("commit", TargetTimed::kCommit);
}

}  // namespace

Result<std::unique_ptr<Target>> Target::open(TargetConfig config, std::function<void()> on_alive) {
  auto arena = arena_for(config);
  if (!arena) return pass(arena);
  std::unique_ptr<Target> target(new Target(std::move(config), std::move(*arena)));
  if (auto started = target->start(std::move(on_alive)); !started) return pass(started);
  return target;
}

Target::~Target() {
  if (!stopped_) static_cast<void>(stop());
}

Result<> Target::start(std::function<void()> on_alive) {
  auto keys = rpc::peer::Keyring::load(config_.key_file);
  if (!keys) return fail(keys.error().code, "cluster.key_file: " + keys.error().text);
  keys_ = std::move(*keys);
  tell_about();
  if (auto good = can_have_spaces(config_.store); !good) return good;
  std::unique_ptr<BlockCache> cache;
  if (config_.cache_bytes > 0) {
    auto made = BlockCache::create(config_.cache_bytes);
    if (!made) return pass(made);
    cache = std::move(*made);
  }
  spaces_ = std::make_unique<Spaces>(Spaces::Options{.base = config_.store,
                                                     .max_spaces = config_.max_spaces,
                                                     .checksums = config_.checksums,
                                                     .emulated = config_.emulated_disk},
                                     pool_, std::move(cache));
  if (config_.emulated_disk.on()) {
    spdlog::warn("event=emulated_disk note=\"answers are late on purpose, for a benchmark\"");
  }
  auto threads = RingThreads::start(config_.threads, config_.pin_threads);
  if (!threads) return pass(threads);
  threads_ = std::move(*threads);
  load_ = std::make_unique<SystemLoad>(LoadOptions{}, config_.store.path, *kernel_files_,
                                       system_clock());
  server_ =
      std::make_unique<TargetServer>(TargetServer::Parts{.spaces = *spaces_,
                                                         .keys = keys_,
                                                         .socket = config_.socket,
                                                         .machine = this_machine(),
                                                         .random = system_random(),
                                                         .about = [this] { return about(); }});
  stall_watch_ = std::make_unique<StallWatch>(StallWatch::Parts{
      .rings = threads_->list(),
      .clock = system_clock(),
      .moved = [this, device = kernel_files_->device_of(
                          config_.store.path)] { return bytes_moved(*kernel_files_, device); },
      .patience = config_.disk_patience});
  if (auto bound = bind(); !bound) return bound;
  if (config_.metrics) {
    auto page = MetricsPage::open(layout::to_string(*config_.metrics),
                                  [this](Metrics& out) { write_metrics(out); });
    if (!page) return pass(page);
    metrics_ = std::move(*page);
  }
  if (auto listening = listen(); !listening) return listening;
  if (config_.watchdog.count() > 0 || on_alive) {
    watchdog_ = std::make_unique<Watchdog>(threads_->list(),
                                           static_cast<unsigned>(config_.watchdog / kWatchdogRound),
                                           kWatchdogRound, end_hung_process, std::move(on_alive));
  }
  return {};
}

Result<> Target::bind() {
  const auto serve = [this](std::shared_ptr<rpc::Channel> channel) {
    server_->serve(std::move(channel));
  };
  if (!config_.socket.empty()) {
    rpc::ShmServerOptions options{.path = config_.socket, .mode = config_.socket_mode};
    options.users.assign(config_.users.begin(), config_.users.end());
    options.max_connections = max_connections(config_);
    local_ = std::make_unique<rpc::ShmServer>(threads_->threads(), pool_, options, serve);
  }
  for (const layout::NetAddress& address : config_.listen) {
    rpc::TcpServerOptions options;
    options.address = layout::ip_text(address);
    options.port = address.port;
    options.max_servers = max_connections(config_);
    options.max_strangers = kMaxStrangers;
    options.max_strangers_per_peer = kMaxStrangers / 4;
    options.limits.standing = Standing::kStranger;
    options.limits.max_stranger_bytes = kMaxHello;
    options.limits.stranger_deadline = kHelloDeadline;
    options.limits.max_record_bytes = kMaxTargetRecord;
    options.limits.locate_payload = locate_request;
    if (config_.store.mode == IoMode::kBuffered) options.limits.pipe_from = kPipeFrom;
    auto listener = std::make_unique<rpc::TcpServer>(threads_->threads(), pool_, options, serve);
    if (auto bound = listener->bind(); !bound) return bound;
    listeners_.push_back(std::move(listener));
  }
  bind_rdma();
  return {};
}

// As by TCP, but for the memory of each connection: receives are posted from its start.
void Target::bind_rdma() {
  if (config_.listen_rdma.empty()) return;
  rpc::rdma::ServerOptions options;
  for (const layout::NetAddress& address : config_.listen_rdma) {
    options.addresses.push_back({.ip = layout::ip_text(address), .port = address.port});
  }
  options.admission.max_servers = max_connections(config_);
  options.admission.max_strangers = kMaxStrangers / 8;
  options.admission.max_strangers_per_peer = kMaxStrangers / 32;
  options.limits.standing = options.admission.standing = Standing::kStranger;
  options.limits.max_stranger_bytes = kMaxHello;
  options.limits.stranger_deadline = kHelloDeadline;
  rdma_ = std::make_unique<rpc::rdma::Server>(threads_->threads(), pool_, std::move(options),
                                              [this](std::shared_ptr<rpc::Channel> channel) {
                                                server_->serve(answer_by_rdma(std::move(channel)));
                                              });
  rdma_->bind();
}

void Target::listen_by_rdma() {
  if (rdma_ != nullptr && !cut_) rdma_->look();
}

Result<> Target::listen() {
  if (local_ != nullptr) {
    if (auto listened = local_->listen(); !listened) return listened;
    spdlog::info("event=listening socket={}", config_.socket);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (auto listened = listeners_[i]->listen(); !listened) return listened;
    spdlog::info("event=listening address={} port={}", layout::ip_text(config_.listen[i]),
                 listeners_[i]->port());
  }
  listen_by_rdma();
  return {};
}

void Target::reload(const TargetConfig& next) {
  config_.drain = next.drain;
  config_.log_level = next.log_level;
  tell_about();
}

void Target::tell_about() {
  rpc::control::About about{.version = WEFT_VERSION, .options = target_options(config_)};
  const MutexLock lock(about_mutex_);
  about_ = std::move(about);
}

rpc::control::About Target::about() const {
  const MutexLock lock(about_mutex_);
  return about_;
}

Result<> Target::tick() {
  if (keys_->follow()) server_->keys_changed();
  watch_disk();
  listen_by_rdma();
  return {};
}

// I/O threads that wait for the disk are in the kernel, so it is not they who end connections.
void Target::watch_disk() {
  if (const auto waited = stall_watch_->look()) {
    spaces_->disk_failed({Errc::kTimedOut, fmt::format("the disk of the target has not answered "
                                                       "for {} s",
                                                       waited->count())});
    if (std::exchange(cut_, true)) return;
    spdlog::error("event=disk_hangs seconds={}", waited->count());
    for (const auto& listener : listeners_) listener->cut();
    if (rdma_ != nullptr) rdma_->cut();
  } else if (cut_ && spaces_->usage()) {
    cut_ = false;
    spdlog::info("event=disk_answers");
    for (const auto& listener : listeners_) listener->go_on();
    if (rdma_ != nullptr) rdma_->go_on();
  }
}

Result<> Target::stop() {
  if (std::exchange(stopped_, true)) return {};
  watchdog_.reset();
  if (local_ != nullptr) local_->stop();
  for (const auto& listener : listeners_) listener->stop();
  if (rdma_ != nullptr) rdma_->stop();
  metrics_.reset();
  const bool ended = server_ == nullptr || server_->stop(config_.drain + kQuiet);
  if (spaces_ != nullptr) spaces_->stop();
  const auto idle = [this] { return spaces_->workers_idle(); };
  if (threads_ != nullptr && (!ended || !threads_->wait_until_quiet(idle, kQuiet))) {
    spdlog::error("event=stop clean=false reason=\"requests did not end in time\"");
    return fail(Errc::kTimedOut, "requests did not end in time");
  }
  if (threads_ != nullptr) threads_->stop();
  return spaces_ != nullptr ? spaces_->close() : Result<>{};
}

std::vector<std::uint16_t> Target::ports() const {
  std::vector<std::uint16_t> ports;
  for (const auto& listener : listeners_) ports.push_back(listener->port());
  return ports;
}

void Target::write_connections(Metrics& out) const {
  const auto open = [&out](const char* transport, std::size_t count) {
    out.gauge("weft_target_connections", "Connections open", count, {{"transport", transport}});
  };
  std::size_t tcp = 0;
  for (const auto& listener : listeners_) tcp += listener->connections();
  open("shm", local_ != nullptr ? local_->connections() : 0);
  open("tcp", tcp);
  if (rdma_ == nullptr) return;
  open("rdma", rdma_->connections());
  const rpc::rdma::Counts& counts = rdma_->counts();
  out.gauge("weft_target_rdma_listening", "Addresses at which data servers can come by RDMA",
            rdma_->listening());
  out.counter("weft_target_rdma_calls_total", "Requests that came by RDMA", counts.calls.load());
  constexpr char kBytes[] = "weft_target_rdma_bytes_total";
  constexpr char kHelp[] = "Bulk data read from data servers' memory, and written to it";
  out.counter(kBytes, kHelp, counts.bytes_in.load(), {{"direction", "in"}});
  out.counter(kBytes, kHelp, counts.bytes_out.load(), {{"direction", "out"}});
}

void Target::write_metrics(Metrics& out) {
  write_program_metrics("weft-target", WEFT_VERSION, out);
  const TargetCounts now = counts();
  const auto operations = [&out](const char* op, std::uint64_t count) {
    out.counter("weft_target_operations_total", "Operations begun", count, {{"op", op}});
  };
  operations("read", now.reads);
  operations("write", now.writes);
  operations("commit", now.commits);
  write_times(times(), out);
  out.counter("weft_target_read_bytes_total", "Bytes read by data servers", now.read_bytes);
  out.counter("weft_target_write_bytes_total", "Bytes written by data servers", now.write_bytes);
  out.counter("weft_target_lent_bytes_total", "Bytes of those in shared memory", now.lent_bytes);
  out.counter("weft_target_readers_total",
              "Objects opened for a data server, which reads past the target what is in the page "
              "cache",
              now.readers);
  out.counter("weft_target_writers_total",
              "Objects opened for a data server, which writes past the target what need not be "
              "stable yet",
              now.writers);
  out.counter("weft_target_errors_total", "Operations answered with an error", now.errors);
  out.counter("weft_target_refused_total", "Connections refused or ended for what they sent",
              now.refused);
  out.gauge("weft_target_running", "Operations in progress", now.running);
  write_connections(out);
  out.gauge("weft_target_spaces", "Data servers with open stores", spaces_->count());
  out.gauge("weft_target_memory_bytes", "Memory of data in transit", pool_.in_use_bytes());
  const StoreStat usage = spaces_->usage().value_or(StoreStat{});
  out.gauge("weft_target_store_capacity_bytes", "Size of the store's file system",
            usage.capacity_bytes);
  out.gauge("weft_target_store_free_bytes", "Free in the store's file system", usage.free_bytes);
  out.gauge("weft_target_store_objects", "Objects in all stores", usage.objects);
  if (const CacheView* cache = spaces_->cache()) {
    write_cache_metrics(*cache, "weft_target", out);
  }
  if (const EmulatedDisk* disk = spaces_->emulated()) {
    write_emulated_metrics(*disk, "weft_target", out);
  }
  if (const auto checksums = spaces_->checksums()) {
    write_checksum_metrics(*checksums, "weft_target", out);
  }
  const layout::ServerLoad load =
      load_->sample({.streams = {}, .network = {.in = now.write_bytes, .out = now.read_bytes}});
  const auto& cpus = load.cpu_percent;
  const double busy = std::accumulate(cpus.begin(), cpus.end(), 0.0);
  out.gauge("weft_target_cpu_busy_ratio", "How busy the processors are, their mean",
            cpus.empty() ? 0 : busy / cpus.size() / 100);
  out.gauge("weft_target_run_queue", "Threads that run or want to", load.run_queue_milli / 1000.0);
  out.gauge("weft_target_disk_bytes_per_second", "Read and written at the store's disk",
            load.disk.used);
}

}  // namespace weft::ds
