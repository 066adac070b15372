#include "dataserver/targets/spaces.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace weft::ds {

Spaces::Spaces(FileStoreOptions base, std::size_t max_spaces, BufferPool& pool,
               const EmulatedDiskOptions& emulated, std::unique_ptr<BlockCache> cache)
    : base_(std::move(base)), max_spaces_(max_spaces), pool_(pool), cache_(std::move(cache)) {
  if (emulated.on()) disk_ = std::make_unique<EmulatedDisk>(emulated, system_clock());
}

Spaces::~Spaces() { worker_.join(); }

OpenSpace Spaces::Space::get() const {
  Store* disk = store.get();
  if (emulated != nullptr) disk = emulated.get();
  return {.store = cached != nullptr ? cached.get() : disk,
          .disk = disk,
          .uuid = store->identity().uuid};
}

void Spaces::find(const Uuid& space, Store::Done<OpenSpace> done) {
  IoRing* ring = IoRing::current();
  boost::asio::post(worker_, [this, space, ring, done = std::move(done)]() mutable {
    auto store = open(space);
    ring->post(
        [store = std::move(store), done = std::move(done)]() mutable { done(std::move(store)); });
  });
}

Result<OpenSpace> Spaces::open(const Uuid& space) {
  {
    const MutexLock lock(mutex_);
    const auto found = stores_.find(space);
    if (found != stores_.end()) return found->second.get();
    if (stores_.size() >= max_spaces_) return fail(Errc::kBusy, "too many data servers");
  }
  if (base_.create && ::mkdir(base_.path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(errno, "make " + base_.path);
  }
  FileStoreOptions options = base_;
  options.path += "/" + to_string(space);
  if (cache_ != nullptr) options.zero_copy_min_bytes = SIZE_MAX;  // a cache wants the bytes
  auto store = FileStore::open(std::move(options), pool_);
  if (!store) return pass(store);
  spdlog::info("event=space_open space={} clean={}", to_string(space),
               (*store)->directory().was_clean());
  Space opened{std::move(*store), nullptr, nullptr};
  if (disk_ != nullptr) {
    opened.emulated = std::make_unique<EmulatedStore>(*opened.store, *disk_, system_clock());
  }
  if (cache_ != nullptr) {
    opened.cached = std::make_unique<CachedStore>(*opened.get().disk, *cache_);
  }
  const MutexLock lock(mutex_);
  return stores_.emplace(space, std::move(opened)).first->second.get();
}

Result<> Spaces::close() {
  worker_.join();
  Result<> result;
  std::map<Uuid, Space> stores;
  {
    const MutexLock lock(mutex_);
    stores.swap(stores_);
  }
  for (auto& [space, one] : stores) {
    if (auto closed = one.store->close(); !closed && result) result = std::move(closed);
  }
  return result;
}

std::size_t Spaces::count() const {
  const MutexLock lock(mutex_);
  return stores_.size();
}

void Spaces::disk_failed(const Error& why) {
  const MutexLock lock(mutex_);
  for (const auto& [space, one] : stores_) one.store->directory().watch().failed(why);
}

Result<StoreStat> Spaces::usage() const {
  std::vector<const FileStore*> stores;  // open until close()
  {
    const MutexLock lock(mutex_);
    for (const auto& [space, one] : stores_) stores.push_back(one.store.get());
  }
  StoreStat sum;
  for (const FileStore* store : stores) {
    auto usage = store->usage();
    if (!usage) return usage;
    sum.capacity_bytes = usage->capacity_bytes;  // they are on one file system
    sum.free_bytes = usage->free_bytes;
    sum.objects += usage->objects;
  }
  return sum;
}

bool Spaces::workers_idle() const {
  const MutexLock lock(mutex_);
  for (const auto& [space, one] : stores_) {
    if (!one.store->workers_idle()) return false;
  }
  return true;
}

}  // namespace weft::ds
