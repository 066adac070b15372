// One open object: its descriptors, and what of it is not yet on stable storage.
//
// Threading: shared by all I/O threads through shared_ptr. The flags are atomic. mutex protects
// the sync state, is held for a few instructions and never across I/O.
//
// Invariants:
//  1. For one object there is at most one live ObjectFile in a process (object_files.h sees to it).
//     The kernel reports a failed write-back once per open file, so only then does nobody miss it.
//  2. unsynced is set after the kernel took a write's bytes and before the write is answered, and
//     cleared just before a sync begins: what was answered is unsynced or covered by that sync.
//  3. At most one sync runs at a time. Who wants one meanwhile waits for the next, which covers
//     whatever was written before it asked; so commits of many slots cost few fdatasyncs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/buffer.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct ObjectFile {
  using Waiter = std::move_only_function<void(const Result<>&)>;

  ObjectFile(layout::ObjectId object_id, OwnedFd buffered_fd)
      : id(object_id), buffered(std::move(buffered_fd)) {}

  const layout::ObjectId id;
  const OwnedFd buffered;
  OwnedFd direct;  // O_DIRECT; only in direct mode; set before the file is shared

  std::atomic<bool> unsynced{false};
  std::atomic<std::uint32_t> losses{0};     // how many syncs of its bytes have failed
  std::atomic<bool> entry_unsynced{false};  // its directory entry may not survive a crash
  // Found, after an unclean end, as a process before this one left it: its directory entry may not
  // survive a crash either, but nothing was promised of it yet.
  std::atomic<bool> entry_uncertain{false};
  // The last sync failed, and not all that it was for is given up: there must be another.
  std::atomic<bool> owes_sync{false};
  std::atomic<bool> removed{false};  // unlinked: nothing of it needs to be synced

  Mutex mutex;
  bool sync_running WEFT_GUARDED_BY(mutex) = false;
  std::vector<Waiter> next_sync WEFT_GUARDED_BY(mutex);  // want the sync after the running one

  [[nodiscard]] bool clean() const {
    return removed.load() || (!unsynced.load() && !entry_unsynced.load() && !owes_sync.load());
  }
  // It may be closed, when nobody uses it: no report of the kernel's is lost with it.
  [[nodiscard]] bool closable() const { return clean() || (owes_sync.load() && !unsynced.load()); }
};

// The descriptor as a payload piece holds it: it keeps the whole object open.
[[nodiscard]] inline std::shared_ptr<const OwnedFd> shared_descriptor(
    const std::shared_ptr<ObjectFile>& file) {
  return {file, &file->buffered};
}

}  // namespace weft::ds
