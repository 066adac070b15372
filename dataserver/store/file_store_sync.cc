#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>

#include "dataserver/store/disk.h"
#include "dataserver/store/file_store_internal.h"

namespace weft::ds {

namespace {

// Brings a waiter's call back to the thread that asked.
ObjectFile::Waiter on_this_thread(ObjectFile::Waiter waiter) {
  auto guard = boost::asio::make_work_guard(this_ring().context());
  return [waiter = std::move(waiter), guard = std::move(guard),
          ring = IoRing::current()](const Result<>& result) mutable {
    if (IoRing::current() == ring) return waiter(result);
    boost::asio::post(guard.get_executor(),
                      [waiter = std::move(waiter), result]() mutable { waiter(result); });
  };
}

}  // namespace

void FileStore::commit(const layout::ObjectId& object, Done<WriteVerifier> done) {
  auto synced = [this, done = std::move(done)](const Result<>& result) mutable {
    if (!result) return done(std::unexpected(result.error()));
    done(verifier_.load());
  };
  FilePtr open;
  const bool clean = files_.synced(object, open);
  if (!writers_.load()) {
    if (clean) return synced(Result<>{});
    if (open != nullptr) return sync(open, std::move(synced));
  }
  with_file(object, false, [this, synced = std::move(synced)](Result<FilePtr> file) mutable {
    if (!file && file.error() == Errc::kNotFound) return synced(Result<>{});
    if (!file) return synced(pass(file));
    (*file)->unsynced.store(true);  // for all that is known here
    sync(*file, std::move(synced));
  });
}

// Makes everything stable that was written to the file before this call. The waiter runs on this
// thread.
void FileStore::sync(const FilePtr& file, ObjectFile::Waiter waiter) {
  bool nothing_to_do = false;
  {
    const MutexLock lock(file->mutex);
    if (!file->sync_running && file->clean()) {
      nothing_to_do = true;
    } else {
      file->next_sync.push_back(on_this_thread(std::move(waiter)));
      if (file->sync_running) return;
      file->sync_running = true;
    }
  }
  if (nothing_to_do) return waiter(Result<>{});
  run_sync(file);
}

// The same, for who cannot look at the verifier: a sync that failed since the file had so many
// losses is an error too. It may have failed with what was written since, which the kernel then
// takes for clean.
void FileStore::sync_since(std::uint32_t losses, const FilePtr& file, ObjectFile::Waiter waiter) {
  sync(file, [file, losses, waiter = std::move(waiter)](const Result<>& synced) mutable {
    if (!synced || file->losses.load() == losses) return waiter(synced);
    waiter(fail(Errc::kIo, "an earlier sync may have lost what was written"));
  });
}

void FileStore::run_sync(FilePtr file) {
  std::vector<ObjectFile::Waiter> waiters;
  {
    const MutexLock lock(file->mutex);
    waiters.swap(file->next_sync);
  }
  file->unsynced.store(false);
  const int fd = file->buffered.get();
  auto on_result = [this, file, waiters = std::move(waiters)](int result) mutable {
    if (result == 0 && options_.faults != nullptr) result = -options_.faults->sync_error(file->id);
    if (result < 0) {
      file->losses.fetch_add(1);
      auto failed = disk_failed(-result, "fdatasync " + layout::to_string(file->id));
      // The data may be lost, for whatever reason.
      if (failed.error() == Errc::kBusy) failed.error().code = Errc::kIo;
      return finish_sync(file, std::move(waiters), failed);
    }
    const bool entry = file->entry_unsynced.load() || file->entry_uncertain.load();
    if (!entry || file->removed.load()) {
      return finish_sync(file, std::move(waiters), {});
    }
    on_worker<void>([this, file] { return sync_entry(*file); },
                    [this, file, waiters = std::move(waiters)](Result<> synced) mutable {
                      finish_sync(file, std::move(waiters), std::move(synced));
                    });
  };
  this_ring().fdatasync(fd, std::move(on_result));
}

// On a worker thread.
Result<> FileStore::sync_entry(ObjectFile& file) {
  auto synced = files_.sync_folder(object_folder(file.id));
  if (synced && options_.faults != nullptr) {
    const int error = options_.faults->entry_sync_error(file.id);
    if (error != 0) synced = fail_file(error, "fsync of a directory");
  }
  if (synced) {
    file.entry_unsynced.store(false);
    file.entry_uncertain.store(false);
  }
  return synced;
}

void FileStore::finish_sync(FilePtr file, std::vector<ObjectFile::Waiter> waiters,
                            Result<> result) {
  // Before anyone waiting for a later sync can be answered: see the class's invariant 1. Without a
  // descriptor to sync the entry by, nothing is lost: that is still to be done.
  if (!result && !(result.error() == Errc::kBusy))
    lost_data("object=" + layout::to_string(file->id), result.error());
  // What has come as far as the disk's own memory is read as if it were stable, and is when a later
  // flush succeeds: there must be one, before it is taken for equal to what others have.
  file->owes_sync.store(!result);
  bool again = false;
  {
    const MutexLock lock(file->mutex);
    again = !file->next_sync.empty();
    file->sync_running = again;
  }
  if (again) run_sync(file);
  for (ObjectFile::Waiter& waiter : waiters) waiter(result);
}

void FileStore::lost_data(const std::string& what, const Error& error) {
  WriteVerifier next = options_.random->u64();
  const WriteVerifier old = verifier_.load();
  if (next == old) ++next;
  verifier_.store(next);
  spdlog::error("event=data_lost {} error=\"{}\" verifier={:016x} was={:016x}", what,
                error.describe(), next, old);
}

void FileStore::writer_left(Done<void> done) {
  if (!writers_.load()) return done(Result<>{});
  // The file system remembers for this descriptor what failed since it was opened, of any file.
  auto work = [this]() -> Result<> {
    if (::syncfs(directory_->root()) != 0) return disk_failed(errno, "syncfs " + options_.path);
    const int error = options_.faults != nullptr ? options_.faults->past_sync_error() : 0;
    if (error != 0) return disk_failed(error, "syncfs " + options_.path);
    return {};
  };
  on_worker<void>(work, [this, done = std::move(done)](Result<> synced) mutable {
    if (!synced) lost_data("object=unknown", synced.error());
    done(std::move(synced));
  });
}

// For close(): on the calling thread, all that is not stable yet.
Result<> FileStore::sync_all() {
  const auto sync_now = [this](const ObjectFile& file) -> Result<> {
    if (::fdatasync(file.buffered.get()) != 0) {
      return fail_file(errno, "fdatasync " + layout::to_string(file.id));
    }
    return files_.sync_folder(object_folder(file.id));
  };
  for (const layout::ObjectId& object : files_.owed()) {
    auto file = files_.open(object, false);
    if (!file) return pass(file);
    if (auto synced = sync_now(**file); !synced) return synced;
  }
  for (const FilePtr& file : files_.unsynced()) {
    if (auto synced = sync_now(*file); !synced) return synced;
  }
  return {};
}

void FileStore::sync_for_eviction() {
  for (const FilePtr& file : files_.take_to_sync()) {
    sync(file, [](const Result<>&) {});  // an error shows in the verifier
  }
}

}  // namespace weft::ds
