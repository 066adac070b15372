#include "ganesha-fsal/glue/exports.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ganesha-fsal/glue/clients.h"
#include "ganesha-fsal/glue/log.h"
#include "ganesha-fsal/glue/module.h"
#include "ganesha-fsal/glue/server_options.h"
#include "ganesha-fsal/glue/start_check.h"
#include "ganesha-fsal/glue/watchdog.h"
#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/server/before_start.h"
#include "rpc/base/process_clock.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kLongestClose{60};
constexpr std::chrono::seconds kLongestLogLine{3};

thread_local bool may_end_here = false;

// With one last line in the log, which may be on a disk that does not answer.
[[noreturn]] void end(int status, const std::function<void()>& log) {
  std::thread([status] {
    std::this_thread::sleep_for(kLongestLogLine);
    ::_exit(status);
  }).detach();
  log();
  ::_exit(status);
}

// Nothing can be promised any more, and nothing that was is lost: whoever supervises us starts us
// again. Clients wait for that as for any restart; answers would be errors at applications.
[[noreturn]] void end_without_store(const Error& error) {
  end(kExitFailed, [&error] {
    spdlog::critical("event=metadata_store_failed error=\"{}\": ganesha.nfsd ends",
                     error.describe());
  });
}

// Whether a store that is there may be opened later: its disk is full or failed.
bool may_pass(const Error& error, const std::string& path) {
  const bool disk = error.code == Errc::kNoSpace || error.code == Errc::kIo;
  return disk && ::access((path + "/CURRENT").c_str(), F_OK) == 0;
}

// Of all stores. Never destroyed, as Exports.
weft::Clock& process_clock() {
  static ProcessClock& instance = *new ProcessClock(system_clock());
  return instance;
}

Environment environment_of(ServedStore& store) {
  return {.clock = process_clock(),
          .random = system_random(),
          .lease = std::chrono::seconds(nfs_param.nfsv4_param.lease_lifetime),
          .grace = std::chrono::seconds(nfs_param.nfsv4_param.grace_period),
          .grace_left = [] { return std::chrono::milliseconds(nfs_grace_left_ms()); },
          .clients = &nfs_clients,
          .client_refused = &nfs4_add_clid_error,
          .places = &nfs_places,
          .is_open =
              [&store](FileId file, std::optional<ClientId> client) {
                return store.open_files.is_open(file, client);
              },
          .recaller = store.recaller,
          .invalidate_attributes =
              [&store](FileId file) { store.recaller.invalidate_attributes(file); },
          .find_path = [](std::string_view path) { return exports().find_path(path); },
          .copies = [&store] { return exports().copies_of(store); },
          .config = [&store] { return exports().config_of(store); },
          .fsal_id = kFsalId,
          .events = &log_events()};
}

Result<> check_same(const ServerOptions& opened, const ServerOptions& options) {
  if (options.control_address != opened.control_address) {
    return fail(Errc::kInvalid,
                "Control_Address differs from that of another export with the same "
                "Metadata_Path");
  }
  if (options.key_file != opened.key_file) {
    return fail(Errc::kInvalid,
                "Key_File differs from that of another export with the same Metadata_Path");
  }
  return {};
}

}  // namespace

Exports& exports() {
  static Exports& instance = *new Exports;
  return instance;
}

class Exports::Opening {
 public:
  Opening(Exports& exports, const std::string& path) : exports_(exports), path_(path) {}
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  ~Opening() {
    if (!done_) exports_.forget(path_);
  }
  void done() { done_ = true; }

 private:
  Exports& exports_;
  const std::string path_;
  bool done_ = false;
};

Result<std::shared_ptr<ServedStore>> Exports::find_or_begin(const std::string& path) {
  std::shared_ptr<ServedStore> shared;
  MutexLock lock(mutex_);
  const bool settled = closed_.wait_for(mutex_, kLongestClose, [&]() WEFT_REQUIRES(mutex_) {
    const auto it = by_path_.find(path);
    if (it == by_path_.end()) return true;
    shared = it->second.store.lock();
    return shared != nullptr;
  });
  if (!settled) {
    return fail(Errc::kBusy,
                "Metadata_Path: the store is still being opened or closed, try again later");
  }
  if (!shared) by_path_[path] = {.number = ++last_number_};
  return shared;
}

Result<std::shared_ptr<ServedStore>> Exports::open(const weft_options& options) {
  const std::string path = options.metadata_path;
  auto shared = find_or_begin(path);
  if (!shared) return shared;
  if (*shared) {
    auto same = check_same((*shared)->server->options(), server_options(options));
    if (!same) return pass(same);
    return shared;
  }
  Opening opening(*this, path);
  std::uint64_t number = 0;
  bool alone = false;
  {
    const MutexLock lock(mutex_);
    number = by_path_[path].number;
    alone = by_path_.size() == 1;
  }
  auto made = make(options, number, alone);
  if (!made) return pass(made);
  std::shared_ptr<ServedStore> opened(made->release(),
                                      [this](ServedStore* store) { close(store); });
  opening.done();
  const MutexLock lock(mutex_);
  by_path_[path].store = opened;
  closed_.notify_all();
  return opened;
}

Result<std::unique_ptr<ServedStore>> Exports::make(const weft_options& options,
                                                   std::uint64_t number, bool alone) {
  auto made = std::make_unique<ServedStore>();
  made->path = options.metadata_path;
  made->number = number;
  made->options = option_reports(options, OptionsOf::kServer);
  if (auto good = check_before_store(server_options(options)); !good) return pass(good);
  auto kv = open_rocks_kv({.path = made->path,
                           .sync = options.sync_metadata,
                           .block_cache_bytes = std::size_t{options.metadata_cache} << 20,
                           .write_buffer_bytes = std::size_t{options.metadata_buffer} << 20,
                           .stall_limit = std::chrono::seconds(options.metadata_timeout),
                           .on_failure = [](const Error& error) { end_without_store(error); },
                           .clock = process_clock(),
                           .on_waits = [&waits = made->waits](bool now) { waits = now; }});
  if (!kv) {
    // While others are served, it is the administrator's turn.
    if (may_pass(kv.error(), made->path) && alone) end_without_store(kv.error());
    return fail(kv.error().code, "Metadata_Path: " + kv.error().describe());
  }
  made->kv = std::move(*kv);
  log_events().keep(made->path + "/events");
  auto server = MetadataServer::start(server_options(options), environment_of(*made), *made->kv);
  if (!server) return pass(server);
  made->server = std::move(*server);
  made->server->start_background();
  made->alive = signs_of_life().add(
      {.ask = [&cluster = made->server->cluster()](
                  std::function<void()> give) { sign_of(cluster, std::move(give)); },
       .store_waits = [&waits = made->waits] { return waits.load(); }});
  return made;
}

void Exports::close(ServedStore* store) {
  const auto end = [this, store] {
    const std::string path = store->path;
    delete store;
    forget(path);
  };
  if (!may_end_here && !UpcallRecaller::in_upcall()) return end();
  const MutexLock lock(mutex_);
  closers_.emplace_back(end);
}

void Exports::forget(const std::string& path) {
  const MutexLock lock(mutex_);
  by_path_.erase(path);
  closed_.notify_all();
}

void Exports::end_start(const std::string& why, int status) {
  end(status, [&why] { LogCrit(COMPONENT_CONFIG, "%s", why.c_str()); });
}

void Exports::wait_closed() {
  std::vector<std::thread> closers;
  {
    const MutexLock lock(mutex_);
    closers.swap(closers_);
  }
  for (std::thread& closer : closers) closer.join();
}

Exports::MayEnd::MayEnd() { may_end_here = true; }
Exports::MayEnd::~MayEnd() { may_end_here = false; }

std::shared_ptr<ServedStore> Exports::store_of(std::uint16_t export_id) {
  const MutexLock lock(mutex_);
  const auto it = by_id_.find(export_id);
  return it == by_id_.end() ? nullptr : it->second.store.lock();
}

std::shared_ptr<ServedStore> Exports::store_numbered(std::uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find(by_path_, number, [](const auto& one) { return one.second.number; });
  return found == by_path_.end() ? nullptr : found->second.store.lock();
}

void Exports::add(std::uint16_t export_id, const fsal_export* whose,
                  const std::shared_ptr<ServedStore>& store, std::string pseudo_path, FileId root,
                  const layout::PlacementPolicy& policy, std::vector<OptionReport> options) {
  const MutexLock lock(mutex_);
  by_id_[export_id] = {whose, store, std::move(pseudo_path), root, policy, std::move(options)};
}

void Exports::change(std::uint16_t export_id, const layout::PlacementPolicy& policy,
                     std::vector<OptionReport> options) {
  const MutexLock lock(mutex_);
  const auto it = by_id_.find(export_id);
  if (it == by_id_.end()) return;
  it->second.policy = policy;
  it->second.options = std::move(options);
}

void Exports::change_server(ServedStore& store, const std::vector<OptionReport>& options,
                            bool (*holds)(std::string_view name)) {
  const MutexLock lock(mutex_);
  for (OptionReport& one : store.options) {
    if (!holds(one.name)) continue;
    const auto found = std::ranges::find(options, one.name, &OptionReport::name);
    if (found != options.end()) one.value = found->value;
  }
}

void Exports::remove(std::uint16_t export_id, const fsal_export* whose) {
  const MutexLock lock(mutex_);
  const auto it = by_id_.find(export_id);
  if (it != by_id_.end() && it->second.whose == whose) by_id_.erase(it);
}

std::set<std::uint32_t> Exports::copies_of(const ServedStore& store) {
  const MutexLock lock(mutex_);
  std::set<std::uint32_t> copies;
  for (const auto& [id, exported] : by_id_) {
    // Whoever asks has it: it is not destroyed here.
    if (exported.store.lock().get() == &store) copies.insert(exported.policy.copies);
  }
  return copies;
}

ConfigReport Exports::config_of(const ServedStore& store) {
  const MutexLock lock(mutex_);
  ConfigReport report{.options = store.options, .exports = {}};
  const auto& nfs = nfs_param.nfsv4_param;
  report.options.push_back({"Lease_Lifetime", std::to_string(nfs.lease_lifetime),
                            std::to_string(LEASE_LIFETIME_DEFAULT)});
  report.options.push_back(
      {"Grace_Period", std::to_string(nfs.grace_period), std::to_string(GRACE_PERIOD_DEFAULT)});
  for (const auto& [id, exported] : by_id_) {
    // Whoever asks has it: it is not destroyed here.
    if (exported.store.lock().get() != &store) continue;
    report.exports.push_back({id, exported.pseudo_path, exported.options});
  }
  return report;
}

std::optional<PathInExport> Exports::find_path(std::string_view path) {
  const MutexLock lock(mutex_);
  std::optional<PathInExport> best;
  for (const auto& [id, exported] : by_id_) {
    std::string_view root = exported.pseudo_path;
    while (root.ends_with('/')) root.remove_suffix(1);
    if (!path.starts_with(root)) continue;
    const std::string_view rest = path.substr(root.size());
    if (!rest.empty() && rest.front() != '/') continue;
    if (!best || rest.size() < best->path.size()) {
      best = PathInExport{id, rest.empty() ? "/" : std::string(rest), std::string(root),
                          exported.root, exported.policy};
    }
  }
  return best;
}

}  // namespace weft::mds
