#include "dataserver/targets/spaces.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "dataserver/sums/folder_sums.h"

namespace weft::ds {

Spaces::Spaces(Options options, BufferPool& pool, std::unique_ptr<BlockCache> cache)
    : options_(std::move(options)), pool_(pool), cache_(std::move(cache)) {
  if (!options_.emulated.on()) return;
  disk_ = std::make_unique<EmulatedDisk>(options_.emulated, system_clock());
}

Spaces::~Spaces() { worker_.join(); }

OpenSpace Spaces::Space::get() const {
  Store* top = store.get();
  if (emulated != nullptr) top = emulated.get();
  if (summed != nullptr) top = summed.get();
  if (cached != nullptr) top = cached.get();
  return {.store = top,
          .files = top == store.get() ? store.get() : nullptr,
          .uuid = store->identity().uuid,
          .checked = summed != nullptr,
          .noted = noted};
}

template <class T, class Work>
void Spaces::on_worker(Work work, Store::Done<T> done) {
  IoRing* ring = IoRing::current();
  boost::asio::post(worker_, [ring, work = std::move(work), done = std::move(done)]() mutable {
    Result<T> result = work(*ring);
    ring->post([result = std::move(result), done = std::move(done)]() mutable {
      done(std::move(result));
    });
  });
}

void Spaces::find(const Uuid& space, Store::Done<OpenSpace> done) {
  on_worker<OpenSpace>([this, space](IoRing& ring) { return open(space, ring); }, std::move(done));
}

void Spaces::note(const Uuid& space, const StoreState& state, Store::Done<void> done) {
  on_worker<void>([this, space, state](IoRing&) { return write_note(space, state); },
                  std::move(done));
}

Result<> Spaces::write_note(const Uuid& space, const StoreState& state) {
  MutexLock lock(mutex_);
  const auto found = stores_.find(space);
  if (found == stores_.end()) return fail(Errc::kNotFound, "no such space");
  Space& one = found->second;         // open until close(), which waits for the worker
  if (state == one.noted) return {};  // asked again, over another connection
  if (state.generation <= one.noted.generation) {
    return fail(Errc::kInvalid, "a state that is not newer than that noted last");
  }
  lock.unlock();  // over the write: nobody else changes it
  if (auto written = write_state(one.store->directory().root(), state); !written) return written;
  lock.lock();
  one.noted = state;
  return {};
}

Result<OpenSpace> Spaces::open(const Uuid& space, IoRing& ring) {
  {
    const MutexLock lock(mutex_);
    const auto found = stores_.find(space);
    if (found != stores_.end()) return found->second.get();
    if (stores_.size() >= options_.max_spaces) return fail(Errc::kBusy, "too many data servers");
  }
  auto opened = make(space, ring);
  if (!opened) return pass(opened);
  const MutexLock lock(mutex_);
  return stores_.emplace(space, std::move(*opened)).first->second.get();
}

Result<Spaces::Space> Spaces::make(const Uuid& space, IoRing& ring) {
  FileStoreOptions options = options_.base;
  if (options.create && ::mkdir(options.path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(errno, "make " + options.path);
  }
  options.path += "/" + to_string(space);
  if (cache_ != nullptr) options.zero_copy_min_bytes = SIZE_MAX;  // a cache wants the bytes
  auto store = FileStore::open(std::move(options), pool_);
  if (!store) return pass(store);
  StoreDirectory& directory = (*store)->directory();
  spdlog::info("event=space_open space={} clean={}", to_string(space), directory.was_clean());
  auto noted = read_state(directory.root());
  if (!noted) {
    static_cast<void>((*store)->close());
    return pass(noted);
  }
  Space opened{
      .store = std::move(*store), .emulated = {}, .summed = {}, .cached = {}, .noted = *noted};
  if (disk_ != nullptr) {
    opened.emulated = std::make_unique<EmulatedStore>(*opened.store, *disk_, system_clock());
  }
  Store& objects = *opened.get().store;
  if (options_.checksums) {
    opened.summed = std::make_unique<SummedStore>(objects, pool_, SummedStore::Options{});
  }
  if (auto begun = begin_checksums(opened.summed.get(), objects, directory, ring); !begun) {
    opened.summed.reset();
    static_cast<void>(opened.store->close());
    return pass(begun);
  }
  if (cache_ != nullptr) {
    opened.cached = std::make_unique<CachedStore>(*opened.get().store, *cache_);
  }
  return opened;
}

void Spaces::stop() {
  const MutexLock lock(mutex_);
  for (const auto& [space, one] : stores_) {
    if (one.summed != nullptr) one.summed->stop();
  }
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
    one.summed.reset();
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
  std::vector<const Store*> stores;  // open until close()
  {
    const MutexLock lock(mutex_);
    for (const auto& [space, one] : stores_) stores.push_back(one.get().store);
  }
  StoreStat sum;
  for (const Store* store : stores) {
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
    if (one.summed != nullptr && !one.summed->idle()) return false;
  }
  return true;
}

std::optional<SumCounts> Spaces::checksums() const {
  if (!options_.checksums) return {};
  SumCounts sum;
  const MutexLock lock(mutex_);
  for (const auto& [space, one] : stores_) sum += one.summed->view();
  return sum;
}

}  // namespace weft::ds
