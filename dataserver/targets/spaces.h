// The stores a target serves: one for each data server, apart from each other.
//
//   <root>/<uuid>/   a store as a data server has it itself (store_directory.h); the folder's name
//                    is the uuid of the data server's own store; `state` (state_file.h) in it is
//                    what that data server noted last
//
// Objects are named by file, and all data servers of a file name its object alike; so two that
// share a target must not share its objects: each has a name space. A space is made when its data
// server comes for the first time, and opened when it is asked for, on a worker; it stays open.
//
// With checksums (dataserver/sums) each space keeps them, in the place where parity groups keep
// theirs: the stores of parity groups' data servers are refused then.
//
// All spaces share one cache, if there is one. Nobody but the space's data server, whose earlier
// operations have ended, changes what is in its store (target_server.h).
//
// Threading: find() and note() from any I/O thread that has an IoRing, where they complete.
// stop() and close() from one thread; close() when no operation is in flight and none will come,
// usage() neither. No mutex is held while a store is opened, closed or asked.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dataserver/store/cached_store.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "dataserver/store/state_file.h"
#include "dataserver/sums/sum_view.h"
#include "dataserver/sums/summed_store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct OpenSpace {
  Store* store = nullptr;
  FileStore* files = nullptr;  // the same store, if there is nothing over its files
  Uuid uuid{};                 // of the store
  bool checked = false;        // by checksums
  StoreState noted{};          // the state that its data server noted last
};

class Spaces {
 public:
  struct Options {
    FileStoreOptions base;  // of each store; its path is the root, which exists unless base.create
    std::size_t max_spaces = 0;
    bool checksums = false;
    EmulatedDiskOptions emulated{};  // one disk for all spaces, if it is on
  };
  // `cache`: null, none.
  Spaces(Options options, BufferPool& pool, std::unique_ptr<BlockCache> cache);
  ~Spaces();

  // kBusy beyond max_spaces, or when another process has the store; errors of FileStore::open() and
  // begin_checksums().
  void find(const Uuid& space, Store::Done<OpenSpace> done);
  // Durable when it is done. kInvalid unless its generation is greater than that noted last.
  void note(const Uuid& space, const StoreState& state, Store::Done<void> done);
  // Nothing is done in the background any more. Before the I/O threads end.
  void stop();
  // Closes all clean; the first error.
  [[nodiscard]] Result<> close();

  // The disk does not answer: usage() says so of each until it takes writes again.
  void disk_failed(const Error& why);
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] Result<StoreStat> usage() const;
  [[nodiscard]] bool workers_idle() const;
  // Null without a cache.
  [[nodiscard]] const CacheView* cache() const {
    return cache_ == nullptr ? nullptr : &cache_->view();
  }
  // Null without an emulated disk.
  [[nodiscard]] const EmulatedDisk* emulated() const { return disk_.get(); }
  // Of all spaces together; nullopt without checksums.
  [[nodiscard]] std::optional<SumCounts> checksums() const;

 private:
  struct Space {
    std::unique_ptr<FileStore> store;
    std::unique_ptr<EmulatedStore> emulated;  // over it; null without an emulated disk
    std::unique_ptr<SummedStore> summed;      // over these; null without checksums
    std::unique_ptr<CachedStore> cached;      // over all that; null without a cache
    StoreState noted;                         // only the worker changes it
    [[nodiscard]] OpenSpace get() const;
  };
  // Runs work(ring) on the worker, and `done` with its result back on this thread.
  template <class T, class Work>
  void on_worker(Work work, Store::Done<T> done);
  // Waits for the disk, and for work that it gives to the ring.
  [[nodiscard]] Result<OpenSpace> open(const Uuid& space, IoRing& ring);
  [[nodiscard]] Result<Space> make(const Uuid& space, IoRing& ring);
  [[nodiscard]] Result<> write_note(const Uuid& space, const StoreState& state);

  const Options options_;
  BufferPool& pool_;
  std::unique_ptr<EmulatedDisk> disk_;
  const std::unique_ptr<BlockCache> cache_;
  mutable Mutex mutex_;
  std::map<Uuid, Space> stores_ WEFT_GUARDED_BY(mutex_);
  boost::asio::thread_pool worker_{1};  // opening one, and a note, wait for the disk
};

}  // namespace weft::ds
