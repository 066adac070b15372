// The stores a target serves: one for each data server, apart from each other.
//
//   <root>/<uuid>/   a store as a data server has it itself (store_directory.h); the folder's name
//                    is the uuid of the data server's own store
//
// Objects are named by file, and all data servers of a file name its object alike; so two that
// share a target must not share its objects: each has a name space. A space is made when its data
// server comes for the first time, and opened when it is asked for, on a worker; it stays open.
//
// All spaces share one cache, if there is one. Nobody but the space's data server, whose earlier
// operations have ended, changes what is in its store (target_server.h).
//
// Threading: find() from any I/O thread that has an IoRing; its completion comes on that thread.
// close() from one thread, when no operation is in flight and none will come, usage() neither. No
// mutex is held while a store is opened, closed or asked.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <string>

#include "dataserver/store/cached_store.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct OpenSpace {
  Store* store = nullptr;
  Store* disk = nullptr;  // what is beneath its cache; the same store without one
  Uuid uuid{};            // of the store
};

class Spaces {
 public:
  // `base` is how each store is opened; its path is the root, which must exist unless base.create.
  // With `emulated` on, all spaces are on one emulated disk. `cache`: null, none.
  Spaces(FileStoreOptions base, std::size_t max_spaces, BufferPool& pool,
         const EmulatedDiskOptions& emulated = {}, std::unique_ptr<BlockCache> cache = nullptr);
  ~Spaces();

  // kBusy beyond max_spaces, or when another process has the store; errors of FileStore::open().
  void find(const Uuid& space, Store::Done<OpenSpace> done);
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

 private:
  struct Space {
    std::unique_ptr<FileStore> store;
    std::unique_ptr<EmulatedStore> emulated;  // over it; null without an emulated disk
    std::unique_ptr<CachedStore> cached;      // over these; null without a cache
    [[nodiscard]] OpenSpace get() const;
  };
  [[nodiscard]] Result<OpenSpace> open(const Uuid& space);

  const FileStoreOptions base_;
  const std::size_t max_spaces_;
  BufferPool& pool_;
  std::unique_ptr<EmulatedDisk> disk_;
  const std::unique_ptr<BlockCache> cache_;
  mutable Mutex mutex_;
  std::map<Uuid, Space> stores_ WEFT_GUARDED_BY(mutex_);
  boost::asio::thread_pool worker_{1};  // opening one waits for the disk
};

}  // namespace weft::ds
