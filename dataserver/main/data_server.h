// A data server, put together: store, I/O threads, NFS, control, metrics, and the order in which
// they come up and go down.
//
//   up     store and fences -> I/O threads, a ring each -> addresses bound -> control, registration
//          -> listening
//   down   no new connections -> resyncs, requests drained, connections closed -> what partners
//          are owed -> control -> I/O threads -> store closed clean
//
// Nothing is served before the first registration and lease: fences raised while this server was
// away come before, and serving without them would honour rights that were taken back. Nothing is
// registered before the addresses are ours: the metadata server would place files on it.
//
// Threading: open(), stop(), reload() and tick() from the program's main thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "dataserver/main/config.h"
#include "dataserver/main/control_link.h"
#include "dataserver/main/fence_forgetting.h"
#include "dataserver/main/metrics.h"
#include "dataserver/main/store_chain.h"
#include "dataserver/mirror/duplicator.h"
#include "dataserver/mirror/resync.h"
#include "dataserver/nfs/ds_handler.h"
#include "dataserver/nfs/patient_sizes.h"
#include "dataserver/process/stall_watch.h"
#include "dataserver/process/watchdog.h"
#include "dataserver/ring/ring_threads.h"
#include "rpc/session/session_server.h"
#include "rpc/transport/rdma/rdma_dialer.h"
#include "rpc/transport/rdma/rdma_server.h"
#include "rpc/transport/shm/bulk_channel.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_server.h"

namespace weft::ds {

class DataServer {
 public:
  // Without a metadata server, for tests: with this data server id and no size but the objects'.
  struct Standalone {
    std::uint32_t ds_id = 1;
    std::optional<std::uint32_t> give_up;  // a target, once its parity group waits for it
  };

  // kBusy: the store is in use; kNotFound, kAccess, kCorrupt: store or key file; kUnreachable,
  // kInvalid: an address cannot be listened on. `on_alive` is the watchdog's.
  [[nodiscard]] static Result<std::unique_ptr<DataServer>> open(
      DsConfig config, std::optional<Standalone> standalone, std::function<void()> on_alive = {});
  ~DataServer();

  // Call a few times a second: follows the key file, expires sessions, leaves clients alone while
  // the disk hangs, registers once the store has answered, listens once registered, tries the next
  // metadata server's address. An error is final.
  [[nodiscard]] Result<> tick();
  // Takes over what needs no restart: the time a shutdown waits, rates and intervals.
  void reload(const DsConfig& next);
  // Goes down in order. An error means that the store was not closed clean; if something hangs
  // (kTimedOut), the process should exit without destroying this.
  [[nodiscard]] Result<> stop();

  // Clients are served.
  [[nodiscard]] bool listening() const { return listening_; }
  // For an administrator: a line of what it does, or waits for.
  [[nodiscard]] std::string status() const;
  // Where it listens, once it does.
  [[nodiscard]] std::vector<std::uint16_t> ports() const;

 private:
  DataServer(DsConfig config, std::shared_ptr<Arena> arena)
      : config_(std::move(config)),
        pool_(config_.memory_limit_bytes, arena),
        receives_(config_.memory_limit_bytes / 4, std::move(arena)) {}

  [[nodiscard]] Result<> open_store();
  [[nodiscard]] Result<> start_threads();
  [[nodiscard]] bool quiet();
  [[nodiscard]] Result<> start_serving(std::optional<Standalone> standalone);
  [[nodiscard]] Result<> bind();
  [[nodiscard]] Result<> listen();
  [[nodiscard]] Result<> listen_locally();
  void make_stall_watch();
  void make_read_ahead();
  // By RDMA to targets, if one is named so; else none.
  [[nodiscard]] DialRdma dial_targets();
  void prepare_rdma();
  void listen_by_rdma();
  void tell_rdma();
  [[nodiscard]] Told told_now() const;
  void join_when_able();
  void next_mds();
  [[nodiscard]] std::function<bool()> out_of_touch();
  void start_mirroring(std::uint64_t boot);
  [[nodiscard]] rpc::Dial dial_partner(boost::asio::io_context& context,
                                       const rpc::control::Located& found,
                                       std::function<void()> better);
  [[nodiscard]] Result<> start_metrics();
  [[nodiscard]] rpc::SessionServerOptions session_options() const;
  [[nodiscard]] MetricsSample metrics() const;
  [[nodiscard]] bool drain_requests();
  void follow_keys();
  void watch_disk();
  [[nodiscard]] Result<> check_memory() const;
  [[nodiscard]] Result<> check_target() const;

  // In the order of construction; destroyed in the reverse.
  DsConfig config_;
  std::shared_ptr<rpc::peer::Keyring> keys_;
  BufferPool pool_;
  BufferPool receives_;  // of connections by RDMA, beside memory_limit
  std::unique_ptr<StoreChain> chain_;
  std::unique_ptr<FenceTable> fences_;
  StoreState store_state_;  // when it was opened
  std::unique_ptr<RingThreads> threads_;
  std::unique_ptr<rpc::rdma::Dialer> dialer_;         // to partners; null: no RDMA is configured
  std::unique_ptr<rpc::rdma::Dialer> target_dialer_;  // to targets; null: none is named by RDMA
  std::unique_ptr<HandleGate> gate_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<WritesInFlight> writes_;
  LocalSizes local_sizes_;
  NoPartners no_partners_;
  std::unique_ptr<KernelFiles> kernel_files_ = kernel_files();
  std::unique_ptr<SystemLoad> load_;
  std::unique_ptr<StallWatch> stall_watch_;
  std::unique_ptr<StoreWatch> store_watch_;
  std::unique_ptr<ReadAhead> read_ahead_;  // null: nothing is read ahead
  std::unique_ptr<ControlLink> control_;
  std::unique_ptr<Duplicator> duplicator_;
  std::unique_ptr<Resyncs> resyncs_;
  std::unique_ptr<PatientSizes> patient_sizes_;
  std::unique_ptr<LeaseWait> lease_wait_;
  std::unique_ptr<DsHandler> handler_;
  std::unique_ptr<rpc::SessionServer> sessions_;
  std::vector<std::unique_ptr<rpc::TcpServer>> listeners_;
  std::unique_ptr<rpc::rdma::Server> rdma_;  // null: none is configured
  std::unique_ptr<rpc::ShmServer> local_;    // null: no shared memory
  std::shared_ptr<rpc::BulkCounts> local_counts_ = std::make_shared<rpc::BulkCounts>();
  std::unique_ptr<MetricsPage> metrics_;
  std::function<void()> on_alive_;
  std::unique_ptr<Watchdog> watchdog_;

  std::atomic<bool> may_serve_{false};
  std::optional<std::uint32_t> give_up_;  // as Standalone's, until it is done
  // When fences of keys that are accepted no more are forgotten.
  FenceForgetting forgetting_;
  bool joining_ = false;
  bool listening_ = false;
  bool cut_ = false;  // from clients: the disk hangs
  bool stopped_ = false;
  std::size_t mds_index_ = 0;
  unsigned ticks_unregistered_ = 0;
  mutable Mutex told_mutex_;
  Told told_ WEFT_GUARDED_BY(told_mutex_) = told(config_, {});
};

}  // namespace weft::ds
