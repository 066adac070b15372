// The object files of a store, and a bounded cache of open ones, shared by all threads.
//
// An object's file is objects/<folder>/<object id>, where the folder is a hash of the id: 1024
// folders, made when the store is formatted.
//
// Threading: all methods from any thread. The cache is split into shards with a mutex each, held
// for a lookup, never across I/O. find() and open_resident() do not block on the disk; the others
// may, and are for worker threads.
//
// Invariants:
//  1. At most one live ObjectFile for an object: a second opener finds the first's, or discards
//     its own.
//  2. An ObjectFile with something unsynced is not evicted (closing it could lose the kernel's
//     report of a failed write-back). A full shard hands such files out to be synced first. So
//     more than max_open may be open for a while; crowded() says when that is to wait. One whose
//     sync failed has had that report: it may be closed, and its id is kept until it is opened
//     again, as unsynced, or removed.
//  3. The cache never keeps a file that was unlinked: removals are counted, and an open that
//     overlaps one is done again.
//  4. A file whose directory entry may not be durable says so (entry_unsynced): creations are
//     counted too, and whoever opens a file while one goes on assumes it is that one.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dataserver/store/object_count.h"
#include "dataserver/store/object_file.h"
#include "dataserver/store/store.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class ObjectFiles {
 public:
  using FilePtr = std::shared_ptr<ObjectFile>;

  // `objects` is the open objects/ folder and outlives this. At most about max_open files stay
  // open beyond those in use. With `direct` every file is opened a second time, with O_DIRECT.
  // `was_clean`: everything found in the store is known to be stable.
  ObjectFiles(int objects, std::size_t max_open, bool direct, bool was_clean);

  // The open file, or null.
  [[nodiscard]] FilePtr find(const layout::ObjectId& object);
  // Whether nothing of it is to be synced. Otherwise it is open, and this is `file`, or has to be
  // opened for that.
  [[nodiscard]] bool synced(const layout::ObjectId& object, FilePtr& file);
  // Opens an existing object without waiting for the disk. kNotFound; kBusy when it would wait.
  [[nodiscard]] Result<FilePtr> open_resident(const layout::ObjectId& object);
  // Opens an object, creating its file if wanted. kNotFound, kNoSpace, kIo; kBusy without a free
  // descriptor.
  [[nodiscard]] Result<FilePtr> open(const layout::ObjectId& object, bool create);
  // Unlinks the object's file. Success when there is none. Durable once its folder is synced.
  [[nodiscard]] Result<> unlink(const layout::ObjectId& object);
  // Makes the directory entries of a folder (object_folder()) durable.
  [[nodiscard]] Result<> sync_folder(std::uint32_t folder);

  // Files that stand in the way of eviction because they are unsynced, a few at a time.
  [[nodiscard]] std::vector<FilePtr> take_to_sync();
  // All that are open and unsynced; and what is not open and has to be synced.
  [[nodiscard]] std::vector<FilePtr> unsynced();
  [[nodiscard]] std::vector<layout::ObjectId> owed();
  [[nodiscard]] std::size_t open_count() const { return open_count_.load(); }
  // Half as many again as max_open are open: make room before more are.
  [[nodiscard]] bool crowded() const { return open_count() > max_open_ + max_open_ / 2; }
  // Of files that nobody uses: closes at most about so many that may be closed, and says how many
  // it closed; or hands out as many that have to be synced first.
  std::size_t close_idle(std::size_t most);
  [[nodiscard]] std::vector<FilePtr> idle_unsynced(std::size_t most);
  // Object files in the store, as far as counted: count_objects() adds what was there at start.
  [[nodiscard]] std::uint64_t object_count() const { return count_.now(); }
  [[nodiscard]] bool all_counted() const { return count_.whole(); }
  // Reads all folders, in the background; at most `wait` is waited for that. Call it once, before
  // objects are created or removed. `reading` is called before each folder.
  void count_objects(std::chrono::milliseconds wait,
                     std::function<void(unsigned folder)> reading = {});
  // Store::list(): a page of the folders, of which few are read for one page.
  [[nodiscard]] Result<ObjectList> list(ListPlace from, std::uint32_t max) const;

 private:
  // In the order of their last use, the latest last.
  using Files = std::list<FilePtr>;
  struct Shard {
    Mutex mutex;
    Files files WEFT_GUARDED_BY(mutex);
    std::unordered_map<layout::ObjectId, Files::iterator> by_id WEFT_GUARDED_BY(mutex);
    std::uint64_t removals WEFT_GUARDED_BY(mutex) = 0;
    std::uint64_t creations WEFT_GUARDED_BY(mutex) = 0;  // begun
    unsigned creating WEFT_GUARDED_BY(mutex) = 0;        // going on
    std::vector<FilePtr> to_sync WEFT_GUARDED_BY(mutex);
    std::unordered_set<layout::ObjectId> owed WEFT_GUARDED_BY(mutex);  // closed with owes_sync
  };
  static constexpr std::size_t kShards = 64;

  // What a shard had seen before a file was opened.
  struct Before {
    std::uint64_t removals;
    std::uint64_t creations;
  };

  Shard& shard_of(const layout::ObjectId& object);
  [[nodiscard]] Before look(Shard& shard);
  class Creation;
  [[nodiscard]] OwnedFd create_file(const layout::ObjectId& object);
  // The cached file in place of `opened` if there is one; null when a removal came between.
  [[nodiscard]] FilePtr insert(Shard& shard, FilePtr opened, Before before);
  void evict(Shard& shard) WEFT_REQUIRES(shard.mutex);
  [[nodiscard]] static FilePtr use(Shard& shard, Files::iterator at) WEFT_REQUIRES(shard.mutex) {
    shard.files.splice(shard.files.end(), shard.files, at);
    return *at;
  }
  // The file after it.
  Files::iterator forget(Shard& shard, Files::iterator at) WEFT_REQUIRES(shard.mutex);
  [[nodiscard]] Result<FilePtr> adopt(const layout::ObjectId& object, OwnedFd fd);

  const int objects_;
  const std::size_t max_open_;
  const std::size_t max_in_shard_;
  const bool direct_;
  const bool was_clean_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> open_count_{0};
  std::atomic<bool> sync_wanted_{false};  // some shard has files to_sync
  ObjectCount count_;
};

// "1a3/3.00000000000001a4.1", of which the folder's number comes first.
[[nodiscard]] std::string object_path(const layout::ObjectId& object);
[[nodiscard]] std::uint32_t object_folder(const layout::ObjectId& object);

}  // namespace weft::ds
