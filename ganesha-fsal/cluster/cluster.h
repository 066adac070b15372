// The metadata server's hold on its data servers: the control server, the registry, and what is
// asked of all the data servers of a file at once.
//
// Calls about a file's objects go to its data servers at the same time (object_calls.h says to
// which copies); they succeed when all have answered so. Each has a deadline
// (Config::call_timeout), so each completes; one that failed may have been carried out at some of
// them and is to be made again, which is safe: every request has the same effect done twice.
//
// Threading: any thread. Completions run on a thread of the cluster and must not block on another
// of its calls; await.h turns a call into a blocking one for threads that may.
//
// Ownership: `store` and `files` outlive the cluster. stop(), or destruction, completes everything
// that is under way and joins all threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ganesha-fsal/cluster/data_servers.h"
#include "ganesha-fsal/cluster/failures.h"
#include "ganesha-fsal/cluster/refusals.h"
#include "ganesha-fsal/cluster/registry.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"
#include "rpc/control/server.h"
#include "rpc/peer/keys.h"

namespace weft::mds {

class ObjectCalls;

// What data servers ask and tell about files. Called on worker threads; may block on the store.
class FileSizes {
 public:
  FileSizes() = default;
  FileSizes(const FileSizes&) = delete;
  FileSizes& operator=(const FileSizes&) = delete;
  virtual ~FileSizes() = default;

  // The logical size of the file an object belongs to. kStale when it is gone.
  [[nodiscard]] virtual Result<std::uint64_t> size_of(const layout::ObjectId& object) = 0;
  // Stable writes ended there: each file is at least that long, durably on success. A file that is
  // gone is no error. One outcome for all.
  [[nodiscard]] virtual Result<> grow(std::span<const control::ReportSize> reports) = 0;
  // Nothing of grow() is to be done for it. On any thread; does not wait.
  [[nodiscard]] virtual bool written_again(const control::ReportSize& report) = 0;
  // It has come, and waits for grow(). Its file is not cut before what is returned is gone. The end
  // of a file that is just being cut, or is to be, is taken out of the report: it may be of bytes
  // that are cut, and how far the file goes is learned later. On any thread; does not wait.
  [[nodiscard]] virtual std::shared_ptr<void> arrived(control::ReportSize& report) = 0;
};

// Where it is kept which copies missed writes. Called on worker threads; may block on the store.
class MissedCopies {
 public:
  MissedCopies() = default;
  MissedCopies(const MissedCopies&) = delete;
  MissedCopies& operator=(const MissedCopies&) = delete;
  virtual ~MissedCopies() = default;

  // Data server `reporter` is about to acknowledge a write that the copy at missed.ds_id does not
  // have, or not all of; or that copy is its own, whose disk failed, and nothing is acknowledged.
  // Success: the copy is marked stale there, durably. An error keeps the write from being
  // acknowledged: kStale when the file is gone, kFenced when it is the reporter's own copy that is
  // stale, or the epoch is older than the file's; kNotFound when its own is the last that is
  // current and here; kBusy and the like: it asks again.
  [[nodiscard]] virtual Result<> copy_missed(std::uint32_t reporter,
                                             const control::CopyMissed& missed) = 0;
  // The data server is back and has its fences, and does not serve before this returns. It may have
  // lost objects meanwhile, which the next write would make anew: copies of files that may be
  // written are left out that have none.
  virtual void returning(std::uint32_t /*ds_id*/) {}
};

class Cluster final : public DataServers {
 public:
  struct Config {
    layout::NetAddress listen;  // port 0: any that is free
    std::shared_ptr<const rpc::peer::Keyring> keys;
    RegistryOptions registry;
    std::chrono::milliseconds call_timeout{10'000};
    unsigned workers = 4;              // threads for size queries and the like
    std::size_t max_waiting = 65'536;  // size queries and reports waiting for a worker
  };

  // Opens the registry and listens.
  [[nodiscard]] static Result<std::unique_ptr<Cluster>> start(Config config, KvStore& store,
                                                              FileSizes& files);
  ~Cluster() override;
  void stop();

  [[nodiscard]] Registry& registry();
  [[nodiscard]] const Refusals& refusals() const;
  [[nodiscard]] layout::NetAddress address() const;
  // What data-server handles are sealed with: the first.
  [[nodiscard]] const rpc::peer::Keyring& keys() const;

  // Registry::remove_server(), and closes its connection.
  [[nodiscard]] Result<> remove_server(std::uint32_t ds_id);

  // Called, from a worker thread, when a data server has registered and its fences are in force.
  // Set before data servers can register: right after start(), from the same thread.
  void on_server_up(std::function<void(std::uint32_t ds_id)> notice);

  // Who keeps what data servers tell of missed copies; it outlives the cluster. While there is
  // nobody, such writes are refused. Set as on_server_up().
  void keep_missed_copies(MissedCopies& keeper);

  // Closes a data server's connection, if it has one: it has to connect anew.
  void disconnect(std::uint32_t ds_id);

  // What is asked of data servers about a file's objects.
  [[nodiscard]] ObjectCalls& objects() const;

  void fence(std::span<const std::uint32_t> ds_ids, std::vector<control::Fence> fences,
             Done<void> done) override;

 private:
  void send(std::uint32_t ds_id, std::uint32_t verb, rpc::peer::Bytes arguments,
            Done<rpc::peer::Bytes> done) override;

  class Impl;
  explicit Cluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// All ids of a map's data servers, each once.
[[nodiscard]] std::vector<std::uint32_t> servers_of(const layout::LayoutMap& map);

}  // namespace weft::mds
