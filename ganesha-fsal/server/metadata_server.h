// The metadata server as a whole: the namespace in its store, layouts, data servers, reading and
// writing for clients without layouts, repair, and what an administrator is told. What it needs of
// the NFS protocol's side is its Environment.
//
// Ownership: the store and what the environment refers to outlive it. Its parts are made in the
// order of its members, and all that works by itself is stopped before any of them goes.
//
// Threading: any thread, but that it is ended by a thread that is none of its own.
//
// Invariants:
//  1. Nothing begins by itself before start_background().
//  2. When it ends, every read and write that was begun is answered.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/server.h"
#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/cluster/removal_queue.h"
#include "ganesha-fsal/files/client_traffic.h"
#include "ganesha-fsal/files/cluster_links.h"
#include "ganesha-fsal/files/ds_fencer.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/files/mirrors.h"
#include "ganesha-fsal/files/prefetcher.h"
#include "ganesha-fsal/files/writer_journal.h"
#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/proxy/proxy_io.h"
#include "ganesha-fsal/server/background.h"
#include "ganesha-fsal/server/backups.h"
#include "ganesha-fsal/server/environment.h"
#include "ganesha-fsal/server/operation_times.h"
#include "ganesha-fsal/server/repairs.h"
#include "ganesha-fsal/server/server_options.h"
#include "ganesha-fsal/server/status_page.h"
#include "layout/placement.h"
#include "rpc/base/metrics.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// For statfs: what fits on the data servers that take new files, and the namespace's files.
struct FsSpace {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t free_files = 0;
};

struct Warning {
  std::string code;  // of `weft health`
  std::string text;
};

class MetadataServer {
 public:
  // Serves data servers and administrators from then on. The error's text names the option that is
  // wrong.
  [[nodiscard]] static Result<std::unique_ptr<MetadataServer>> start(ServerOptions options,
                                                                     Environment environment,
                                                                     KvStore& store);
  ~MetadataServer();
  MetadataServer(const MetadataServer&) = delete;
  MetadataServer& operator=(const MetadataServer&) = delete;

  // Deadlines, repair, removal and the like begin. Apart from start(), since tests of what they do
  // call that themselves, at the moment that the test is about. Once.
  void start_background();

  [[nodiscard]] const ServerOptions& options() const { return options_; }
  [[nodiscard]] const Environment& environment() const { return environment_; }
  [[nodiscard]] Namespace& names() { return *names_; }
  [[nodiscard]] Cluster& cluster() { return *cluster_; }
  [[nodiscard]] ProxyIo& proxy() { return *proxy_; }
  [[nodiscard]] RemovalQueue& removals() { return *removals_; }
  [[nodiscard]] LayoutService& layouts() { return *layouts_; }
  [[nodiscard]] WriterJournal& journal() { return *journal_; }
  [[nodiscard]] Mirrors& mirrors() { return *mirrors_; }
  [[nodiscard]] FileTable& files() { return files_; }
  [[nodiscard]] FileData& data() { return *data_; }
  [[nodiscard]] Prefetcher& prefetcher() { return *prefetcher_; }
  [[nodiscard]] ClientTraffic& traffic() { return traffic_; }
  [[nodiscard]] OperationTimes& times() { return times_; }
  [[nodiscard]] Repairs& repairs() { return *repairs_; }
  [[nodiscard]] Backups& backups() { return backups_; }
  [[nodiscard]] rpc::peer::Keyring& keys() { return *keys_; }
  [[nodiscard]] std::uint32_t fsid() const { return names_->superblock().fsid; }
  // Tells handles of this store from those of one made anew.
  [[nodiscard]] std::uint64_t store_id() const { return store_id_; }

  // Gives up one hold of the namespace on a file. Failure is logged: the inode then stays an
  // orphan until the next start.
  void release(FileId file);
  // A file lost its last name while it is held. Layouts that nobody has open are recalled, so
  // that its objects can go.
  void orphaned(FileId file);

  // Of files with so many copies.
  [[nodiscard]] FsSpace space(std::uint32_t copies);
  // Changes whenever data written through this server without being stable may have been lost.
  [[nodiscard]] std::uint64_t write_verifier() const { return proxy_->verifier(); }
  // How long it has been there, by the environment's clock.
  [[nodiscard]] Clock::duration uptime() const { return environment_.clock.now() - started_; }
  // What an administrator had better change, a sentence each: of the mirror groups that files are
  // placed on, of data servers that are not told apart, and of clients' leases.
  [[nodiscard]] std::vector<Warning> warnings() const;
  // Data servers that files are placed on, or could be: all but those that are being left.
  [[nodiscard]] std::vector<layout::GroupServer> group_servers() const;
  [[nodiscard]] StoreHealth store_health() const { return store_.health(); }

  void count_layout_errors(std::uint64_t count);
  [[nodiscard]] std::uint64_t layout_errors() const { return layout_errors_; }
  // When the last of them came, if there was one.
  [[nodiscard]] Clock::time_point layout_error_at() const { return layout_error_at_; }

 private:
  MetadataServer(ServerOptions options, Environment environment, KvStore& store);
  [[nodiscard]] Result<> start_parts();
  [[nodiscard]] Result<> open_names();
  [[nodiscard]] Result<> start_cluster();
  void make_proxy();
  void make_removals();
  void make_layouts();
  void make_prefetcher();
  // Of the data servers that are there, and the mirror groups that files were placed on.
  [[nodiscard]] std::vector<std::string> placement_warnings() const;
  [[nodiscard]] Mirrors::Parts mirror_parts();
  [[nodiscard]] Result<> start_admin();

  const ServerOptions options_;
  const Environment environment_;
  KvStore& store_;
  const Clock::time_point started_ = environment_.clock.now();
  Background background_{*this};
  Backups backups_{store_, environment_.clock};
  FileTable files_{environment_.clock};
  ClientTraffic traffic_;
  OperationTimes times_;
  std::shared_ptr<rpc::peer::Keyring> keys_;
  std::unique_ptr<Namespace> names_;
  std::uint64_t store_id_ = 0;
  std::unique_ptr<WriterJournal> journal_;
  std::unique_ptr<NamespaceSizes> sizes_;
  std::unique_ptr<NamespaceRemovals> removal_source_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ProxyIo> proxy_;
  std::unique_ptr<RemovalQueue> removals_;
  std::unique_ptr<layout::Placement> placement_;
  std::unique_ptr<DsFencer> fencer_;
  std::unique_ptr<LayoutService> layouts_;
  std::unique_ptr<Mirrors> mirrors_;
  std::unique_ptr<FileData> data_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<Repairs> repairs_;
  admin::Table admin_table_;
  std::unique_ptr<admin::Server> admin_;
  std::unique_ptr<MetricsPage> metrics_;
  std::unique_ptr<StatusPage> status_page_;

  std::atomic<std::uint64_t> layout_errors_{0};
  std::atomic<Clock::time_point> layout_error_at_{};
};

}  // namespace weft::mds
