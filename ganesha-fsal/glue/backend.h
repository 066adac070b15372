// What exports of one metadata store share: the store, the namespace, layouts, data servers.
//
// Ownership: made by the first export that names its Metadata_Path, shared by the others, gone with
// the last. Its parts are made in the order of its members and stopped before any of them goes. A
// thread of its own may give up the last export (recaller.h): then another one stops it. The same
// path is opened again only when that is done.
//
// Threading: any thread.
#pragma once

#include <condition_variable>
#include <set>
#include <thread>

#include "ganesha-fsal/admin/server.h"
#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/cluster/death_probe.h"
#include "ganesha-fsal/cluster/removal_queue.h"
#include "ganesha-fsal/files/cluster_links.h"
#include "ganesha-fsal/files/ds_fencer.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/files/mirrors.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/open_files.h"
#include "ganesha-fsal/glue/options.h"
#include "ganesha-fsal/glue/recaller.h"
#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/proxy/proxy_io.h"
#include "ganesha-fsal/repair/auditor.h"
#include "ganesha-fsal/repair/mover.h"
#include "ganesha-fsal/repair/readmission.h"
#include "ganesha-fsal/repair/repairer.h"
#include "layout/placement_by_load.h"
#include "layout/policy.h"
#include "rpc/base/metrics.h"

namespace weft::mds {

// For statfs: the data servers' space, and the namespace's files.
struct FsSpace {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t free_files = 0;
};

class Backend {
 public:
  // Opens, or shares, the backend of options.metadata_path. The error's text names the option that
  // is wrong, or contradicts the export that opened it first.
  [[nodiscard]] static Result<std::shared_ptr<Backend>> open(const weft_options& options);
  // Waits for those that are being stopped. Before the library is unloaded.
  static void wait_closed();
  // The backend of an export, by its number; null when there is none.
  [[nodiscard]] static std::shared_ptr<Backend> of_export(std::uint16_t export_id);
  static void add_export(std::uint16_t export_id, const std::shared_ptr<Backend>& backend,
                         std::string pseudo_path, FileId root,
                         const layout::PlacementPolicy& policy);
  // What is left of a client's path below the pseudo path of one of our exports ("/export/a" gives
  // "/a" when "/export" is one), and which; nullopt when it is in none.
  struct PathInExport {
    std::uint16_t export_id = 0;
    std::string path;
    std::string pseudo_path;         // without a '/' at its end
    FileId root = kRootFileId;       // the directory that is exported
    layout::PlacementPolicy policy;  // the export's options
  };
  [[nodiscard]] static std::optional<PathInExport> find_path(std::string_view path);
  static void remove_export(std::uint16_t export_id);

  // While it lives on a thread of a backend's own, such as one that completes I/O, the backend may
  // lose its last owner there. Another thread then ends it, as it joins its own.
  class MayEnd {
   public:
    MayEnd();
    MayEnd(const MayEnd&) = delete;
    MayEnd& operator=(const MayEnd&) = delete;
    ~MayEnd();
  };

  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] Namespace& names() { return *names_; }
  [[nodiscard]] Cluster& cluster() { return *cluster_; }
  [[nodiscard]] ProxyIo::Route route(std::uint32_t ds_id) const { return proxy_->route(ds_id); }
  [[nodiscard]] LayoutService& layouts() { return *layouts_; }
  [[nodiscard]] FileData& data() { return *data_; }
  [[nodiscard]] Mirrors& mirrors() { return *mirrors_; }
  [[nodiscard]] Repairer& repairer() { return *repairer_; }
  [[nodiscard]] Mover& mover() { return *mover_; }
  [[nodiscard]] Readmission& readmission() { return *readmission_; }
  [[nodiscard]] Scrubber& scrubber() { return *scrubber_; }
  [[nodiscard]] Auditor& auditor() { return *auditor_; }
  [[nodiscard]] OpenFiles& open_files() { return open_files_; }
  [[nodiscard]] UpcallRecaller& recaller() { return *recaller_; }
  [[nodiscard]] std::uint32_t fsid() const { return names_->superblock().fsid; }
  // Tells handles of this store from those of one made anew.
  [[nodiscard]] std::uint64_t store_id() const { return store_id_; }

  // Gives up one hold of the namespace on a file. Failure is logged: the inode then stays an
  // orphan until the next start.
  void release(FileId file);
  // A file lost its last name while it is held. Layouts that nobody has open are recalled, so
  // that its objects can go.
  void orphaned(FileId file);
  // A file without names is held again: after a restart, by who had it open before.
  void remember_orphan(FileId file);
  // A file is gone whose objects may be there still.
  void removed() { removals_->kick(); }

  [[nodiscard]] FsSpace space();
  // Changes whenever data written through this server without being stable may have been lost.
  [[nodiscard]] std::uint64_t write_verifier() const;
  [[nodiscard]] std::chrono::steady_clock::time_point started() const { return started_; }
  [[nodiscard]] std::uint64_t removal_backlog() const { return removals_->backlog(); }
  // What is wrong with the mirror groups that files were placed on.
  [[nodiscard]] std::vector<std::string> placement_warnings() const;
  [[nodiscard]] StoreHealth store_health() const { return store_->health(); }

  void count_layout_errors(std::uint64_t count) { layout_errors_ += count; }
  void count_layout_stats() { ++layout_stats_; }
  [[nodiscard]] std::uint64_t layout_errors() const { return layout_errors_; }

 private:
  Backend() = default;
  // What the last owner does: ends it, and then forgets the path.
  static void close(Backend* backend);
  [[nodiscard]] Result<> start(const weft_options& options);
  [[nodiscard]] Result<> open_store(const weft_options& options);
  [[nodiscard]] Result<> start_cluster(const weft_options& options);
  void start_layouts(const weft_options& options);
  [[nodiscard]] Mirrors::Parts mirror_parts();
  // backend_repair.cc
  void start_repair(const weft_options& options);
  [[nodiscard]] Result<PinnedFile> pin_writers(FileId file);
  [[nodiscard]] bool is_written(FileId file);
  void start_mover(const weft_options& options);
  void start_readmission();
  void start_auditor();
  [[nodiscard]] std::vector<Mover::Server> movable_servers();

  [[nodiscard]] Result<> start_admin(const weft_options& options);
  [[nodiscard]] Result<> check_same(const weft_options& options) const;
  void server_up(std::uint32_t ds_id);
  void run_timer();
  void tick();
  void run_mender();
  void run_watcher();
  void run_keeper();
  [[nodiscard]] std::set<std::uint32_t> servers_away();

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::string metadata_path_;
  std::string control_address_;
  std::string key_file_;
  std::shared_ptr<control::Keyring> keys_;
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<Namespace> names_;
  std::uint64_t store_id_ = 0;
  OpenFiles open_files_;
  std::unique_ptr<UpcallRecaller> recaller_;
  std::unique_ptr<NamespaceSizes> sizes_;
  std::unique_ptr<NamespaceRemovals> removal_source_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ProxyIo> proxy_;
  std::unique_ptr<RemovalQueue> removals_;
  std::unique_ptr<layout::ByLoad> placement_;
  std::unique_ptr<DsFencer> fencer_;
  std::unique_ptr<LayoutService> layouts_;
  std::unique_ptr<WriterJournal> journal_;
  std::unique_ptr<Mirrors> mirrors_;
  std::unique_ptr<FileData> data_;
  std::unique_ptr<ClusterCopyServers> copy_servers_;
  std::unique_ptr<Repairer> repairer_;
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<Readmission> readmission_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<Auditor> auditor_;
  std::unique_ptr<AdminSource> admin_source_;
  std::unique_ptr<admin::Server> admin_;
  std::unique_ptr<MetricsPage> metrics_;

  std::atomic<std::uint64_t> layout_errors_{0};
  std::atomic<std::uint64_t> layout_stats_{0};

  std::mutex orphans_mutex_;
  std::set<FileId> orphans_;  // guarded by orphans_mutex_

  std::mutex timer_mutex_;
  std::condition_variable timer_wake_;
  bool stopping_ = false;  // guarded by timer_mutex_, as below
  bool server_came_up_ = false;
  bool server_moved_ = false;
  std::set<std::uint32_t> came_up_;                     // whose copies may be mended
  std::map<std::uint32_t, std::uint32_t> generations_;  // of data servers' addresses
  bool orphans_reclaimed_ = false;                      // timer thread only
  std::thread timer_;
  bool mend_now_ = false;  // guarded by timer_mutex_: a data server came up
  std::thread mender_;     // what waits for data servers
  std::thread watcher_;    // who notices that one is gone
  std::thread keeper_;     // who asks clients for layouts that they keep
};

// What an export's options say about new files, as policy and as placement takes it.
[[nodiscard]] layout::Policy export_policy(const weft_options& options);
[[nodiscard]] layout::PlacementPolicy placement_policy(const weft_options& options);
[[nodiscard]] layout::LayoutType layout_type(const weft_options& options);

}  // namespace weft::mds
