#include "ganesha-fsal/server/background.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "ganesha-fsal/cluster/death_probe.h"
#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/server/metadata_server.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kTick{1};
constexpr unsigned kReclaimRest = 10;  // ticks
constexpr std::chrono::milliseconds kWatch{250};
// An unmount beside a data server that has just died waits for minutes until this has passed.
constexpr std::chrono::milliseconds kLookAtKept{50};
constexpr unsigned kLookAtClients = 60;  // ticks
constexpr std::size_t kRestored = 256;   // files of a page
constexpr std::size_t kAtOnce = 8;

}  // namespace

void Background::start() {
  threads_.emplace_back([this] { run_timer(); });
  threads_.emplace_back([this] { run_mender(); });
  threads_.emplace_back([this] { run_watcher(); });
  threads_.emplace_back([this] { run_keeper(); });
  if (server_.environment().events != nullptr) threads_.emplace_back([this] { run_writer(); });
  if (server_.names().restore()) threads_.emplace_back([this] { run_restorer(); });
}

void Background::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// Runs on a worker of the cluster, possibly before the rest of the server is made: it leaves
// everything to the timer.
void Background::server_up(std::uint32_t ds_id) {
  const auto view = server_.cluster().registry().find(ds_id);
  {
    const MutexLock lock(mutex_);
    came_up_.insert(ds_id);
    if (view) {
      const auto [it, fresh] = generations_.try_emplace(ds_id, view->record.address_generation);
      if (it->second != view->record.address_generation) moved_.insert(ds_id);
      it->second = view->record.address_generation;
    }
  }
  wake_.notify_all();
}

void Background::run_timer() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(mutex_, kTick,
                   [this]() WEFT_REQUIRES(mutex_) { return stopping_ || !came_up_.empty(); });
    if (stopping_) return;
    const auto moved = std::exchange(moved_, {});
    const auto back = std::exchange(came_up_, {});
    mend_now_ = mend_now_ || !back.empty();
    lock.unlock();
    server_.keys().follow();
    for (const std::uint32_t ds_id : back) {
      server_.repairs().repairer().server_up(ds_id);
      server_.prefetcher().server_up(ds_id);
    }
    if (!back.empty()) {
      server_.removals().kick();
      server_.repairs().mover().look_now();
    }
    recall_moved(moved);
    server_.layouts().tick();
    reclaim_orphans();
    look_at_grace();
    look_at_clients();
    look_at_load();
    lock.lock();
  }
}

// Handles stay good, and new layouts name the new addresses: nobody need wait for who does not
// answer.
void Background::recall_moved(const std::set<std::uint32_t>& moved) {
  for (const std::uint32_t ds_id : moved) {
    const auto view = server_.cluster().registry().find(ds_id);
    if (!view) continue;
    const AddressesOf now{.ds_id = ds_id, .generation = view->record.address_generation};
    server_.layouts().recall_all("a data server has new addresses",
                                 {.moved = now, .others_wait = false});
  }
}

void Background::run_mender() {
  FileData& data = server_.data();
  bool more = false;
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!more)
      wake_.wait_for(mutex_, kTick,
                     [this]() WEFT_REQUIRES(mutex_) { return stopping_ || mend_now_; });
    if (stopping_) return;
    const bool came_up = std::exchange(mend_now_, false);
    lock.unlock();
    server_.backups().look();  // before what may wait: the store may be full
    if (came_up) data.retry_settling();
    data.catch_up();
    data.commit_left();
    // Asked for each time: grace may end early, when all clients have come back, and begin anew.
    more = data.settle_due(server_.environment().grace_left().count() == 0);
    more = data.duplicate_left() || more;
    lock.lock();
  }
}

void Background::run_watcher() {
  Cluster& cluster = server_.cluster();
  DeathProbe deaths(
      cluster.registry(), [&](std::uint32_t ds_id) { cluster.disconnect(ds_id); },
      server_.environment().clock);
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(mutex_, kWatch, [this]() WEFT_REQUIRES(mutex_) { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    static_cast<void>(server_.environment().clock.now());  // who asks it often keeps it going
    deaths.tick();
    server_.mirrors().tick();
    lock.lock();
  }
}

void Background::look_at_clients() {
  if (++ticks_ < kLookAtClients) return;
  ticks_ = 0;
  std::set<ClientId> alive;
  for (const auto& [id, client] : server_.environment().clients()) alive.insert(id);
  server_.traffic().look(alive);
}

std::set<std::uint32_t> Background::servers_away() {
  std::set<std::uint32_t> away;
  for (const std::uint32_t ds_id : server_.cluster().registry().ids()) {
    if (server_.mirrors().reach(ds_id) != Reach::kHere) away.insert(ds_id);
  }
  return away;
}

void Background::run_keeper() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(mutex_, kLookAtKept, [this]() WEFT_REQUIRES(mutex_) { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    server_.layouts().look_at_kept(servers_away());
    lock.lock();
  }
}

void Background::run_writer() {
  Events& events = *server_.environment().events;
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(mutex_, kTick, [this]() WEFT_REQUIRES(mutex_) { return stopping_; });
    lock.unlock();
    events.save();
    lock.lock();
  }
}

// Files of a backup that nobody has asked for yet. When all are looked at there is only to tell of
// what administrators accept; in a store that never came back from one there is nothing.
void Background::run_restorer() {
  if (!server_.names().restore()) return;
  bool done = false;
  MutexLock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(mutex_, kTick, [this]() WEFT_REQUIRES(mutex_) { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    done = done || look_at_restored();
    server_.data().changed_since_backup().tell([this] { return stops(); });
    lock.lock();
  }
}

// One round. Whether no file is left.
bool Background::look_at_restored() {
  Namespace& names = server_.names();
  bool done = true;
  FileId after = 0;
  for (;;) {
    const auto page = names.restored_files(after, kRestored);
    if (!page || page->empty()) return page && done;
    after = page->back().id;
    std::atomic<bool> left = false;
    in_parallel(page->size(), kAtOnce, [&](std::size_t at) {
      const Namespace::RestoredFile& file = (*page)[at];
      if (file.record.state != RestoredRecord::State::kUnchecked || stops()) return;
      const auto fit = server_.data().fit(file.id);
      // What is damaged has been looked at.
      if (!fit && fit.error() != Errc::kIo && fit.error() != Errc::kStale) left = true;
    });
    if (stops()) return false;
    if (left) done = false;
  }
}

bool Background::stops() {
  const MutexLock lock(mutex_);
  return stopping_;
}

// Beside a data server that is away a new file is better off in the store, however busy that is:
// it might wait for that one.
void Background::look_at_load() {
  load_.look(server_.store_health());
  const bool busy =
      load_.busy() && servers_away().empty() && !server_.cluster().registry().candidates().empty();
  if (busy == server_.data().busy()) return;
  spdlog::info("event=metadata_store_busy busy={}", busy);
  server_.data().set_busy(busy);
}

void Background::look_at_grace() {
  const bool grace = server_.environment().grace_left().count() > 0;
  if (std::exchange(grace_, grace) == grace) return;
  spdlog::info("event={}", grace ? "grace_begun" : "grace_ended");
}

// Once grace is over, whoever had an unlinked file open has opened it again, or never will. Later,
// of files whose last CLOSE came while the store could take nothing.
void Background::reclaim_orphans() {
  const Environment& environment = server_.environment();
  if (orphans_reclaimed_ || server_.uptime() <= environment.grace + environment.lease) return;
  if (environment.grace_left().count() > 0) return;  // it began when the last store was open
  if (reclaim_rest_ > 0 && --reclaim_rest_ > 0) return;
  orphans_reclaimed_ = true;
  const auto gone = server_.names().reclaim_orphans();
  if (!gone) {
    spdlog::warn("event=orphans_wait error=\"{}\"", gone.error().describe());
    orphans_reclaimed_ = false;
    reclaim_rest_ = kReclaimRest;
  } else if (*gone > 0) {
    spdlog::info("event=orphans_removed count={}", *gone);
  }
}

}  // namespace weft::mds
