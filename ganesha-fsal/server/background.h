// What the metadata server does by itself as time passes. Each thread is there so that what it does
// need not wait for the others:
//
//   timer    once a second, and when a data server comes up: deadlines of recalls, the cluster
//            key, removals and repairs that have become possible, whether the store is busy
//   mender   what waits for data servers: cuts, sizes, files whose writers died
//   watcher  four times a second: who is gone; clients wait for what it finds
//   keeper   twenty times a second: kept layouts that are to come back; asking a client may wait
//            for its backchannel
//   writer   once a second: what happened (events.h) goes to its file, whose disk may hang
//   restorer of a store that came back from a backup: compares files with their objects that nobody
//            has asked for, and tells which were written since, which goes through all names
//
// Threading: server_up() from any thread, also before start(); the others from the owner's.
//
// Ownership: the server's parts are there from start() until stop() has returned, which joins.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "ganesha-fsal/files/busy_watch.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class MetadataServer;

class Background {
 public:
  explicit Background(MetadataServer& server) : server_(server) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() { stop(); }
  void start();
  void stop();

  // A data server has registered, and has its fences.
  void server_up(std::uint32_t ds_id);
  // A file without a name that nobody holds could not be removed: it is tried again. Any thread.
  void reclaim_again() { orphans_reclaimed_.store(false); }

 private:
  void run_timer();
  void run_mender();
  void run_watcher();
  void run_keeper();
  void run_writer();
  void run_restorer();
  [[nodiscard]] bool look_at_restored();
  [[nodiscard]] bool stops();
  void reclaim_orphans();
  void look_at_load();
  void recall_moved(const std::set<std::uint32_t>& moved);
  void look_at_grace();
  void look_at_clients();
  [[nodiscard]] std::set<std::uint32_t> servers_away();

  MetadataServer& server_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  // Data servers that the timer has not seen to yet.
  std::set<std::uint32_t> came_up_ WEFT_GUARDED_BY(mutex_);
  std::set<std::uint32_t> moved_ WEFT_GUARDED_BY(mutex_);  // of these, who has new addresses
  bool mend_now_ WEFT_GUARDED_BY(mutex_) = false;          // the mender has not seen to them
  // Of data servers' addresses.
  std::map<std::uint32_t, std::uint32_t> generations_ WEFT_GUARDED_BY(mutex_);
  std::atomic<bool> orphans_reclaimed_{false};
  unsigned reclaim_rest_ = 0;  // ticks, before the next attempt; the timer's, as the next
  bool grace_ = false;
  unsigned ticks_ = 0;  // since the last look at clients
  BusyWatch load_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::mds
