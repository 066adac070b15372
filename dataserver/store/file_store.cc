#include "dataserver/store/file_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <limits>

#include "dataserver/store/disk.h"
#include "dataserver/store/file_store_internal.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();
constexpr std::chrono::nanoseconds kDescriptorWait = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kUsedWait{20};
constexpr std::size_t kCloseAtOnce = 64;
constexpr std::int64_t kWarnEvery = 60;  // seconds

Result<ObjectStat> stat_fd(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) return fail_file(errno, "fstat of an object");
  return ObjectStat{
      .size = static_cast<std::uint64_t>(found.st_size),
      .allocated = static_cast<std::uint64_t>(found.st_blocks) * 512,
      .mtime_ns = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

Result<> check_range(std::uint64_t offset, std::uint64_t size) {
  if (size > kMaxOffset || offset > kMaxOffset - size) {
    return fail(Errc::kFileTooLarge, "a range beyond what a file can hold");
  }
  return {};
}

}  // namespace

struct FileStore::Opening {
  layout::ObjectId object;
  bool create = false;
  Done<FilePtr> then;
  std::int64_t until = 0;
};

Result<std::unique_ptr<FileStore>> FileStore::open(FileStoreOptions options, BufferPool& pool) {
  auto directory = StoreDirectory::open(options.path, options.create, *options.random);
  if (!directory) return pass(directory);
  std::unique_ptr<FileStore> store(new FileStore(std::move(options), pool, std::move(*directory)));
  if (!store->directory_->is_new()) {
    if (auto whole = store->directory_->check_folders(); !whole) return pass(whole);
    const FileStoreOptions& asked = store->options_;
    store->files_.count_objects(asked.count_wait, asked.counting);
  }
  // What a process before this one left in the page cache nobody here would sync.
  if (!store->directory_->was_clean() && ::syncfs(store->directory_->root()) != 0) {
    return fail_file(errno, "syncfs " + store->options_.path);
  }
  spdlog::info("event=store_open path={} uuid={} ds_id={} clean={}", store->options_.path,
               to_string(store->identity().uuid), store->identity().ds_id,
               store->directory_->was_clean());
  return store;
}

FileStore::FileStore(FileStoreOptions options, BufferPool& pool,
                     std::unique_ptr<StoreDirectory> directory)
    : options_(std::move(options)),
      pool_(pool),
      directory_(std::move(directory)),
      files_(directory_->objects(), options_.max_open_files, options_.mode == IoMode::kDirect,
             directory_->was_clean()),
      verifier_(directory_->verifier()),
      workers_(options_.worker_threads),
      removals_({.unlink = [this](const layout::ObjectId& object) { return files_.unlink(object); },
                 .sync = [this](std::uint32_t folder) { return files_.sync_folder(folder); },
                 .folder_of = object_folder}) {}

FileStore::~FileStore() {
  workers_.join();
  removals_.join();
}

Result<> FileStore::close() {
  workers_.join();
  removals_.join();
  if (std::exchange(closed_, true)) return {};
  auto closed = sync_all();
  if (closed && writers_.load()) {
    spdlog::info("event=store_closed path={} clean=false why=\"it was written by others as well\"",
                 options_.path);
    return {};
  }
  if (closed) closed = directory_->close_clean(verifier_.load());
  if (closed) {
    spdlog::info("event=store_closed path={} clean=true", options_.path);
  } else {
    spdlog::error("event=store_closed path={} clean=false error=\"{}\"", options_.path,
                  closed.error().describe());
  }
  return closed;
}

void FileStore::with_file(const layout::ObjectId& object, bool create, Done<FilePtr> then) {
  if (FilePtr file = files_.find(object)) return then(std::move(file));
  if (!files_.crowded()) {
    auto opened = files_.open_resident(object);
    if (opened) {
      sync_for_eviction();
      return then(std::move(*opened));
    }
    if (opened.error() == Errc::kNotFound && !create) return then(pass(opened));
  }
  Opening opening{.object = object,
                  .create = create,
                  .then = std::move(then),
                  .until = steady_now_ns() + kDescriptorWait.count()};
  if (!files_.crowded()) return open_file(std::move(opening));
  make_room([this, opening = std::move(opening)]() mutable { open_file(std::move(opening)); });
}

void FileStore::open_file(Opening opening) {
  const auto open = [this, object = opening.object, create = opening.create] {
    return files_.open(object, create);
  };
  on_worker<FilePtr>(open, [this, opening = std::move(opening)](Result<FilePtr> file) mutable {
    sync_for_eviction();
    if (!file && file.error() != Errc::kNotFound) directory_->watch().doubt();
    const bool again = !file && file.error() == Errc::kBusy && steady_now_ns() < opening.until;
    if (!again) return opening.then(std::move(file));
    make_room([this, opening = std::move(opening)]() mutable { open_file(std::move(opening)); });
  });
}

void FileStore::make_room(std::move_only_function<void()> then) {
  descriptor_waits_.fetch_add(1);
  const std::int64_t now = steady_now_ns() / 1'000'000'000;
  std::int64_t last = warned_.load();
  if ((last == 0 || now - last >= kWarnEvery) && warned_.compare_exchange_strong(last, now)) {
    spdlog::warn("event=descriptors_short path={} open={} max_open_files={}", options_.path,
                 files_.open_count(), options_.max_open_files);
  }
  if (files_.close_idle(kCloseAtOnce) > 0) return then();
  auto unsynced = files_.idle_unsynced(kCloseAtOnce);
  if (unsynced.empty()) {  // all are in use
    auto timer = std::make_unique<boost::asio::steady_timer>(this_ring().context(), kUsedWait);
    boost::asio::steady_timer& waiting = *timer;
    jobs_.fetch_add(1);
    return waiting.async_wait(
        [this, timer = std::move(timer), then = std::move(then)](const auto&) mutable {
          then();
          jobs_.fetch_sub(1);
        });
  }
  struct Syncs {
    std::size_t left;
    std::move_only_function<void()> then;
  };
  auto syncs = std::make_shared<Syncs>(unsynced.size(), std::move(then));
  for (FilePtr& file : unsynced) {
    const FilePtr of = std::move(file);
    sync(of, [this, syncs](const Result<>&) {  // an error shows in the verifier
      if (--syncs->left > 0) return;
      files_.close_idle(kCloseAtOnce);
      syncs->then();
    });
  }
}

struct FileStore::Changed {
  FilePtr file;
  std::uint32_t losses = 0;  // of the file before
};

// Changes an object's file by `how` on a worker thread, and makes that stable. Without `create`,
// `done` has null when there is no object.
void FileStore::change(const layout::ObjectId& object, bool create,
                       std::move_only_function<Result<>(const ObjectFile&)> how,
                       Done<FilePtr> done) {
  auto work = [this, object, create, how = std::move(how)]() mutable -> Result<Changed> {
    auto file = files_.open(object, create);
    if (!file && file.error() == Errc::kNotFound && !create) return Changed{};
    if (!file) return pass(file);
    Changed changed{.file = std::move(*file), .losses = 0};
    changed.losses = changed.file->losses.load();
    if (auto result = how(*changed.file); !result) return pass(result);
    changed.file->unsynced.store(true);
    return changed;
  };
  on_worker<Changed>(std::move(work),
                     [this, done = std::move(done)](Result<Changed> changed) mutable {
                       if (!changed) return done(pass(changed));
                       FilePtr file = std::move(changed->file);
                       if (file == nullptr) return done(FilePtr());
                       sync_since(changed->losses, file,
                                  [file, done = std::move(done)](const Result<>& synced) mutable {
                                    if (!synced) return done(std::unexpected(synced.error()));
                                    done(std::move(file));
                                  });
                     });
}

void FileStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                         Done<ObjectStat> done) {
  if (auto fits = check_range(size, 0); !fits) return done(pass(fits));
  auto cut = [this, size](const ObjectFile& file) -> Result<> {
    if (::ftruncate(file.buffered.get(), static_cast<off_t>(size)) == 0) return {};
    const int error = errno;
    // The end of a file that is longer than its objects may be: there is nothing behind it.
    const auto now = stat_fd(file.buffered.get());
    if (error == EFBIG && now && now->size <= size) return {};
    return disk_failed(error, "truncate " + layout::to_string(file.id));
  };
  change(object, size > 0, cut, [done = std::move(done)](Result<FilePtr> file) mutable {
    if (!file) return done(pass(file));
    if (*file == nullptr) return done(ObjectStat{});
    done(stat_fd((*file)->buffered.get()));
  });
}

void FileStore::remove(const layout::ObjectId& object, Done<void> done) {
  removals_.add(object, back_here<void>(std::move(done)));
}

void FileStore::list(ListPlace from, std::uint32_t max, Done<ObjectList> done) {
  on_worker<ObjectList>([this, from, max] { return files_.list(from, max); }, std::move(done));
}

void FileStore::stat(const layout::ObjectId& object, Done<ObjectStat> done) {
  with_file(object, false, [done = std::move(done)](Result<FilePtr> file) mutable {
    if (!file) return done(pass(file));
    done(stat_fd((*file)->buffered.get()));
  });
}

namespace {

// The file system says it, with what the page cache has to be written. One that keeps no holes says
// that all is data.
Result<DataRun> find_data(const ObjectFile& file, std::uint64_t offset) {
  constexpr std::uint64_t kGreatest = std::numeric_limits<off_t>::max();
  if (offset > kGreatest) return DataRun{};
  const int fd = file.buffered.get();
  const off_t begin = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return DataRun{};
  if (begin < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) return DataRun{.begin = offset};
  if (begin < 0) return fail_file(errno, "SEEK_DATA of an object");
  DataRun run{.begin = static_cast<std::uint64_t>(begin)};
  const off_t end = ::lseek(fd, begin, SEEK_HOLE);
  if (end > begin) run.end = static_cast<std::uint64_t>(end);  // otherwise it was just punched
  return run;
}

}  // namespace

void FileStore::next_data(const layout::ObjectId& object, std::uint64_t offset,
                          Done<DataRun> done) {
  with_file(object, false, [this, offset, done = std::move(done)](Result<FilePtr> file) mutable {
    if (!file) return done(pass(file));
    on_worker<DataRun>([file = *file, offset] { return find_data(*file, offset); },
                       std::move(done));
  });
}

void FileStore::change_range(const layout::ObjectId& object, int mode, std::uint64_t offset,
                             std::uint64_t size, Done<void> done) {
  if (auto fits = check_range(offset, size); !fits) return done(fits);
  if (size == 0) return done(Result<>{});
  auto how = [mode, offset, size](const ObjectFile& file) -> Result<> {
    int result = 0;
    do {
      result = ::fallocate(file.buffered.get(), mode, static_cast<off_t>(offset),
                           static_cast<off_t>(size));
    } while (result != 0 && errno == EINTR);
    if (result != 0) return fail_file(errno, "fallocate " + layout::to_string(file.id));
    return {};
  };
  const bool create = mode == 0;  // otherwise all is hole already
  change(object, create, how, [done = std::move(done)](const Result<FilePtr>& file) mutable {
    if (!file) return done(std::unexpected(file.error()));
    done(Result<>{});
  });
}

void FileStore::allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                         Done<void> done) {
  change_range(object, 0, offset, size, std::move(done));
}

void FileStore::punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                      Done<void> done) {
  change_range(object, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size, std::move(done));
}

std::unexpected<Error> FileStore::disk_failed(int err, std::string_view doing) {
  auto failed = fail_file(err, doing);
  if (failed.error() == Errc::kIo || failed.error() == Errc::kReadOnly) {
    directory_->watch().doubt();
  }
  return failed;
}

Result<StoreStat> FileStore::usage() const {
  if (auto takes = directory_->watch().check(); !takes) return pass(takes);
  struct statvfs found{};
  if (::fstatvfs(directory_->objects(), &found) != 0) {
    return fail_file(errno, "statvfs " + options_.path);
  }
  return StoreStat{.capacity_bytes = std::uint64_t{found.f_blocks} * found.f_frsize,
                   .free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize,
                   .objects = files_.object_count(),
                   .counted = files_.all_counted()};
}

}  // namespace weft::ds
