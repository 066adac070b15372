#include "dataserver/store/object_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <spdlog/fmt/fmt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataserver/store/disk.h"
#include "dataserver/store/store_directory.h"

namespace weft::ds {

namespace {

constexpr std::size_t kMaxToSync = 8;     // files a shard hands out for syncing at a time
constexpr std::size_t kMaxToLookAt = 16;  // for one that can be closed, at each open

std::uint64_t mix(const layout::ObjectId& object) {
  std::uint64_t h = std::hash<layout::ObjectId>{}(object);
  h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93ULL;
  return h ^ h >> 32;
}

std::string folder_name(std::uint32_t folder) { return fmt::format("{:03x}", folder); }

// Calls each(name) for all entries of a folder of objects but hidden ones.
Result<> for_each_entry(int objects, unsigned folder,
                        const std::function<void(const char*)>& each) {
  return for_each_name(objects, folder_name(folder), [&each](const char* name) {
    if (name[0] != '.') each(name);
  });
}

// glibc 2.36 has no wrapper for openat2(2).
int open_cached(int directory, const char* path) {
  open_how how{};
  how.flags = O_RDWR | O_CLOEXEC;
  how.resolve = RESOLVE_CACHED;
  return static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof how));
}

}  // namespace

std::uint32_t object_folder(const layout::ObjectId& object) {
  return static_cast<std::uint32_t>(mix(object) % kObjectFolders);
}

std::string object_path(const layout::ObjectId& object) {
  return folder_name(object_folder(object)) + "/" + layout::to_string(object);
}

ObjectFiles::ObjectFiles(int objects, std::size_t max_open, bool direct, bool was_clean)
    : objects_(objects),
      max_open_(max_open),
      max_in_shard_(std::max<std::size_t>(1, max_open / kShards)),
      direct_(direct),
      was_clean_(was_clean),
      count_(kObjectFolders) {}

ObjectFiles::Shard& ObjectFiles::shard_of(const layout::ObjectId& object) {
  return shards_[mix(object) / kObjectFolders % kShards];
}

ObjectFiles::FilePtr ObjectFiles::find(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.by_id.find(object);
  return found == shard.by_id.end() ? nullptr : use(shard, found->second);
}

bool ObjectFiles::synced(const layout::ObjectId& object, FilePtr& file) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto found = shard.by_id.find(object);
  if (found == shard.by_id.end()) return !shard.owed.contains(object);
  file = use(shard, found->second);
  return false;
}

ObjectFiles::Files::iterator ObjectFiles::forget(Shard& shard, Files::iterator at) {
  const ObjectFile& file = **at;
  if (file.owes_sync.load() && !file.removed.load()) shard.owed.insert(file.id);
  open_count_.fetch_sub(1, std::memory_order_relaxed);
  shard.by_id.erase((*at)->id);
  return shard.files.erase(at);
}

ObjectFiles::Before ObjectFiles::look(Shard& shard) {
  const MutexLock lock(shard.mutex);
  return {shard.removals, shard.creations};
}

Result<ObjectFiles::FilePtr> ObjectFiles::adopt(const layout::ObjectId& object, OwnedFd fd) {
  auto file = std::make_shared<ObjectFile>(object, std::move(fd));
  file->entry_uncertain.store(!was_clean_);
  if (direct_) {
    const std::string path = object_path(object);
    file->direct = OwnedFd(::openat(objects_, path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!file->direct) return fail_file(errno, "open for direct I/O: " + path);
  }
  return file;
}

Result<ObjectFiles::FilePtr> ObjectFiles::open_resident(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const Before before = look(shard);
  const std::string path = object_path(object);
  OwnedFd fd(open_cached(objects_, path.c_str()));
  if (!fd) {
    // ENOENT comes from a negative directory entry in the kernel's cache, which is authoritative.
    if (errno == ENOENT) return fail(Errc::kNotFound);
    return fail(Errc::kBusy);
  }
  auto file = adopt(object, std::move(fd));
  if (!file) return fail(Errc::kBusy);
  FilePtr kept = insert(shard, std::move(*file), before);
  if (kept == nullptr) return fail(Errc::kBusy);
  return kept;
}

// That a file may be created in a shard, from begin() until whoever creates it has it open.
class ObjectFiles::Creation {
 public:
  explicit Creation(Shard& shard) : shard_(shard) {}
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;
  ~Creation() {
    if (!begun_) return;
    const MutexLock lock(shard_.mutex);
    --shard_.creating;
  }
  void begin() {
    const MutexLock lock(shard_.mutex);
    ++shard_.creations;
    if (!std::exchange(begun_, true)) ++shard_.creating;
  }

 private:
  Shard& shard_;
  bool begun_ = false;
};

OwnedFd ObjectFiles::create_file(const layout::ObjectId& object) {
  const std::string path = object_path(object);
  OwnedFd fd;
  int error = 0;
  count_.change(object_folder(object), 1, [&] {
    fd = OwnedFd(::openat(objects_, path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    error = errno;
    return static_cast<bool>(fd);
  });
  errno = error;
  return fd;
}

Result<ObjectFiles::FilePtr> ObjectFiles::open(const layout::ObjectId& object, bool create) {
  const std::string path = object_path(object);
  Shard& shard = shard_of(object);
  Creation creation(shard);
  for (;;) {
    if (FilePtr cached = find(object)) return cached;
    const Before before = look(shard);
    OwnedFd fd(::openat(objects_, path.c_str(), O_RDWR | O_CLOEXEC));
    const bool make = !fd && errno == ENOENT && create;
    if (make) {
      creation.begin();
      fd = create_file(object);
      if (!fd && errno == EEXIST) continue;
    }
    if (!fd) return fail_file(errno, "open " + path);
    auto file = adopt(object, std::move(fd));
    if (!file && make) {  // whoever opens it next finds it there, and its entry is not synced
      const MutexLock lock(shard.mutex);
      shard.owed.insert(object);
    }
    FilePtr kept = file ? insert(shard, *file, before) : nullptr;
    if (kept != nullptr) return kept;
    // Something of the shard was unlinked in between: once more.
    if (!file && !(file.error() == Errc::kNotFound)) return pass(file);
  }
}

ObjectFiles::FilePtr ObjectFiles::insert(Shard& shard, FilePtr opened, Before before) {
  const MutexLock lock(shard.mutex);
  if (shard.removals != before.removals) return nullptr;
  const auto found = shard.by_id.find(opened->id);
  const bool inserted = found == shard.by_id.end();
  if (inserted) {
    shard.files.push_back(opened);
    shard.by_id.emplace(opened->id, std::prev(shard.files.end()));
    open_count_.fetch_add(1, std::memory_order_relaxed);
    if (shard.owed.erase(opened->id) > 0) {
      opened->owes_sync.store(true);
      opened->entry_unsynced.store(true);
    }
  }
  FilePtr kept = inserted ? std::move(opened) : use(shard, found->second);
  if (shard.creating > 0 || shard.creations != before.creations) kept->entry_unsynced.store(true);
  if (inserted) evict(shard);
  return kept;
}

// Evicts least recently used files that nobody uses and that may be closed, down to the limit.
// `shard` is locked: a use_count of 1 is the list's own, and no one else can get another. Few are
// looked at, however many are open: those that have to stay are as good as just used.
void ObjectFiles::evict(Shard& shard) {
  for (std::size_t looked = 0; looked < kMaxToLookAt && shard.files.size() > max_in_shard_;
       ++looked) {
    const auto oldest = shard.files.begin();
    const bool free = oldest->use_count() == 1;
    if (free && (*oldest)->closable()) {
      forget(shard, oldest);
      continue;
    }
    const FilePtr kept = use(shard, oldest);
    if (!free) continue;
    if (shard.to_sync.size() < kMaxToSync) shard.to_sync.push_back(kept);
    sync_wanted_.store(true);
  }
}

std::vector<ObjectFiles::FilePtr> ObjectFiles::take_to_sync() {
  std::vector<FilePtr> all;
  if (!sync_wanted_.load(std::memory_order_relaxed)) return all;
  sync_wanted_.store(false);
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    std::ranges::move(shard.to_sync, std::back_inserter(all));
    shard.to_sync.clear();
  }
  return all;
}

std::size_t ObjectFiles::close_idle(std::size_t most) {
  std::size_t closed = 0;
  const std::size_t of_each = most / kShards + 1;
  for (Shard& shard : shards_) {
    std::vector<FilePtr> idle;  // closed when the mutex is free again
    const MutexLock lock(shard.mutex);
    for (auto at = shard.files.begin(); at != shard.files.end() && idle.size() < of_each;) {
      const bool free = at->use_count() == 1 && (*at)->closable();
      if (free) idle.push_back(*at);
      at = free ? forget(shard, at) : std::next(at);
    }
    closed += idle.size();
  }
  return closed;
}

std::vector<ObjectFiles::FilePtr> ObjectFiles::idle_unsynced(std::size_t most) {
  std::vector<FilePtr> all;
  const std::size_t of_each = most / kShards + 1;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    std::size_t taken = 0;
    for (const FilePtr& file : shard.files) {
      if (taken == of_each) break;
      if (file.use_count() > 1 || file->closable()) continue;
      all.push_back(file);
      ++taken;
    }
  }
  return all;
}

std::vector<ObjectFiles::FilePtr> ObjectFiles::unsynced() {
  std::vector<FilePtr> all;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const FilePtr& file : shard.files) {
      if (!file->clean()) all.push_back(file);
    }
  }
  return all;
}

std::vector<layout::ObjectId> ObjectFiles::owed() {
  std::vector<layout::ObjectId> all;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    all.insert(all.end(), shard.owed.begin(), shard.owed.end());
  }
  return all;
}

Result<> ObjectFiles::unlink(const layout::ObjectId& object) {
  const std::string path = object_path(object);
  int error = 0;
  count_.change(object_folder(object), -1, [&] {
    if (::unlinkat(objects_, path.c_str(), 0) != 0) error = errno;
    return error == 0;
  });
  if (error != 0 && error != ENOENT) return fail_file(error, "unlink " + path);
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  ++shard.removals;
  shard.owed.erase(object);
  if (const auto found = shard.by_id.find(object); found != shard.by_id.end()) {
    (*found->second)->removed.store(true);
    forget(shard, found->second);
  }
  return {};
}

Result<> ObjectFiles::sync_folder(std::uint32_t folder) {
  const std::string name = folder_name(folder);
  const OwnedFd directory(::openat(objects_, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) return sync_directory(directory.get());
  // What holds the descriptors can be closed only when it is synced.
  if (errno != EMFILE && errno != ENFILE) return fail_file(errno, "open folder " + name);
  if (::syncfs(objects_) != 0) return fail_file(errno, "syncfs");
  return {};
}

void ObjectFiles::count_objects(std::chrono::milliseconds wait,
                                std::function<void(unsigned folder)> reading) {
  count_.start([this, reading = std::move(reading)](unsigned folder) -> Result<std::uint64_t> {
    if (reading) reading(folder);
    std::uint64_t count = 0;
    auto read = for_each_entry(objects_, folder, [&count](const char* /*name*/) { ++count; });
    if (!read) return pass(read);
    return count;
  });
  count_.wait(wait);
}

Result<ObjectList> ObjectFiles::list(ListPlace from, std::uint32_t max) const {
  constexpr unsigned kFoldersInPage = 64;
  ObjectList page{.next = from};
  for (unsigned read = 0; read < kFoldersInPage && page.next.folder < kObjectFolders; ++read) {
    std::vector<layout::ObjectId> found;
    auto listed = for_each_entry(objects_, page.next.folder, [&](const char* name) {
      const auto object = layout::parse_object_id(name);
      // Other files, and those in the wrong folder, are no objects: nobody would find them.
      if (!object || object_folder(*object) != page.next.folder) return;
      if (*object > page.next.after) found.push_back(*object);
    });
    if (!listed) return pass(listed);
    std::ranges::sort(found);
    const std::size_t room = max - page.objects.size();
    const bool all = found.size() <= room;
    if (!all) found.resize(room);
    page.objects.insert(page.objects.end(), found.begin(), found.end());
    if (!all) {
      if (!found.empty()) page.next.after = found.back();
      break;
    }
    page.next = {.folder = page.next.folder + 1};
  }
  page.more = page.next.folder < kObjectFolders;
  return page;
}

}  // namespace weft::ds
