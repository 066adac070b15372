// What the metadata server does by itself as time passes. Each thread is there so that what it does
// need not wait for the others:
//
//   timer    once a second, and when a data server comes up: deadlines of recalls, the cluster
//            key, removals and repairs that have become possible
//   mender   what waits for data servers: cuts, sizes, files whose writers died
//   watcher  four times a second: who is gone; clients wait for what it finds
//   keeper   twenty times a second: kept layouts that are to come back; asking a client may wait
//            for its backchannel
//
// Threading: server_up() from any thread, also before start(); the others from the owner's.
//
// Ownership: the server's parts are there from start() until stop() has returned, which joins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

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

 private:
  void run_timer();
  void run_mender();
  void run_watcher();
  void run_keeper();
  void reclaim_orphans();
  [[nodiscard]] std::set<std::uint32_t> servers_away();

  MetadataServer& server_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;            // guarded by mutex_, as below
  std::set<std::uint32_t> came_up_;  // data servers that the timer has not seen to yet
  bool moved_ = false;               // one of them has new addresses
  bool mend_now_ = false;            // the mender has not seen to them
  std::map<std::uint32_t, std::uint32_t> generations_;  // of data servers' addresses
  bool orphans_reclaimed_ = false;                      // the timer's
  std::vector<std::thread> threads_;
};

}  // namespace weft::mds
