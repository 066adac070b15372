// A storage target, put together: spaces, I/O threads, the sockets it listens on, metrics, and the
// order in which they come up and go down.
//
//   up     I/O threads, a ring each -> addresses bound -> metrics -> listening; a space is opened
//   when its data server comes down   no new connections -> those there are closed, their requests
//   ended -> I/O threads ->
//          spaces closed clean
//
// Metrics (Prometheus):
//   weft_build_info{program,version}, and what process_metrics.h has,
//   weft_target_operations_total{op="read|write|commit"}, weft_target_operation_seconds{op},
//   weft_target_read_bytes_total, weft_target_write_bytes_total, weft_target_lent_bytes_total,
//   weft_target_readers_total, weft_target_writers_total, weft_target_errors_total,
//   weft_target_refused_total, weft_target_running,
//   weft_target_connections{transport="shm|tcp|rdma"}, where RDMA is configured
//   weft_target_rdma_listening, weft_target_rdma_calls_total,
//   weft_target_rdma_bytes_total{direction="in|out"},
//   weft_target_spaces, weft_target_memory_bytes, weft_target_store_capacity_bytes,
//   weft_target_store_free_bytes, weft_target_store_objects, weft_target_cpu_busy_ratio (mean of
//   the processors), weft_target_run_queue, weft_target_disk_bytes_per_second; with a cache
//   weft_target_cache_* and with an emulated disk weft_target_emulated_*
//   (store/cache_metrics.h), with checksums weft_target_checksum_* (sums/sum_metrics.h)
//
// Without an RDMA device it serves by TCP, and looks again now and then whether there is one.
//
// A disk that hangs (stall_watch.h): data servers are told that it fails, and connections by TCP
// and RDMA end, and are refused, until it answers. Those by shared memory stay: what their end says
// of the memory that they lent would not be so while the disk may still write into it.
//
// Threading: open(), tick() and stop() from the program's main thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dataserver/process/stall_watch.h"
#include "dataserver/process/watchdog.h"
#include "dataserver/ring/ring_threads.h"
#include "dataserver/targets/target_config.h"
#include "dataserver/targets/target_server.h"
#include "rpc/base/metrics.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/rdma/rdma_server.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_server.h"

namespace weft::ds {

class Target {
 public:
  // kNotFound, kAccess: store or key file; kBusy, kInvalid: an address or socket.
  [[nodiscard]] static Result<std::unique_ptr<Target>> open(TargetConfig config,
                                                            std::function<void()> on_alive = {});
  ~Target();

  // Takes over what needs no restart.
  void reload(const TargetConfig& next);
  // Call a few times a second: follows the key file, and looks whether the disk answers. Never an
  // error.
  [[nodiscard]] Result<> tick();
  // An error means that not every space was closed clean; if something hangs (kTimedOut), the
  // process should exit without destroying this.
  [[nodiscard]] Result<> stop();

  // As a data server's: it listens from the start.
  [[nodiscard]] static bool listening() { return true; }
  [[nodiscard]] static std::string status() { return "serves"; }
  // Where it listens by TCP.
  [[nodiscard]] std::vector<std::uint16_t> ports() const;
  [[nodiscard]] TargetCounts counts() const { return server_->counts(); }
  [[nodiscard]] TargetTimes times() const { return server_->times(); }
  // Null without a cache.
  [[nodiscard]] const CacheView* cache() const { return spaces_->cache(); }
  // Nullopt without checksums.
  [[nodiscard]] std::optional<SumCounts> checksums() const { return spaces_->checksums(); }

 private:
  // `arena`: of its buffers, for devices to reach; null without RDMA.
  Target(TargetConfig config, std::shared_ptr<Arena> arena)
      : config_(std::move(config)), pool_(config_.memory_limit_bytes, std::move(arena)) {}
  [[nodiscard]] Result<> start(std::function<void()> on_alive);
  // The addresses are ours, and whoever connects is refused until listen().
  [[nodiscard]] Result<> bind();
  [[nodiscard]] Result<> listen();
  [[nodiscard]] rpc::control::About about() const;
  void tell_about();
  void bind_rdma();
  // Where it does not listen yet.
  void listen_by_rdma();
  void watch_disk();
  void write_metrics(Metrics& out);
  void write_connections(Metrics& out) const;

  TargetConfig config_;
  mutable Mutex about_mutex_;
  rpc::control::About about_ WEFT_GUARDED_BY(about_mutex_);
  std::shared_ptr<rpc::peer::Keyring> keys_;
  BufferPool pool_;
  std::unique_ptr<Spaces> spaces_;
  std::unique_ptr<RingThreads> threads_;
  std::unique_ptr<TargetServer> server_;
  std::unique_ptr<rpc::ShmServer> local_;
  std::vector<std::unique_ptr<rpc::TcpServer>> listeners_;
  std::unique_ptr<rpc::rdma::Server> rdma_;  // null: none is configured
  std::unique_ptr<KernelFiles> kernel_files_ = kernel_files();
  std::unique_ptr<SystemLoad> load_;  // asked by one scrape at a time
  std::unique_ptr<MetricsPage> metrics_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<StallWatch> stall_watch_;
  bool cut_ = false;  // the disk hangs
  bool stopped_ = false;
};

}  // namespace weft::ds
