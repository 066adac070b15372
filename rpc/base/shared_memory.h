// Memory that two processes map: a memfd that can never shrink, and an arena of page runs in one.
//
// SharedMemory is the mapping. create() makes one and seals it (F_SEAL_SHRINK, F_SEAL_GROW,
// F_SEAL_SEAL); adopt() maps one that another process made, after checking that it is so sealed
// (fcntl(2): only memory files can be) and as large as it was said to be. Without the seal a peer
// could truncate it, and any access beyond its end would kill this process with SIGBUS.
//
// Arena hands out runs of whole pages of a mapping, first fit, neighbours joined when they come
// back. It is what a BufferPool takes its blocks from when bulk data is to be shared: the pool
// keeps blocks for reuse, so that the arena is asked seldom.
//
// Pages that a process had which died, a disk may still write into on its behalf. retire() says
// which these are. A run with such pages goes back to the kernel before it is used again: what
// writes into it later writes into pages that nobody maps any more.
//
// A device that is to reach the memory has its pages: they must stay where they are (pin()).
//
// Threading: SharedMemory is constant once made. Arena: any thread.
//
// Invariants:
//  1. Runs that are out do not overlap, lie in the mapping, and begin and end at pages.
//  2. A page that was retired is in no run that take() returns: it has another in its place.
//  3. What the memory contains is the peer's to change at any instant, wherever it is shared.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "rpc/base/buffer.h"
#include "rpc/base/mutex.h"

namespace weft {

class SharedMemory {
 public:
  static constexpr std::size_t kPage = 4096;

  // kBusy without memory. `bytes` is rounded up to whole pages.
  [[nodiscard]] static Result<std::shared_ptr<SharedMemory>> create(std::size_t bytes,
                                                                    const char* name);
  // kProtocol when it is not sealed, not of whole pages, or not of `bytes` bytes.
  [[nodiscard]] static Result<std::shared_ptr<SharedMemory>> adopt(OwnedFd fd, std::size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Whether all of the bytes lie in it.
  [[nodiscard]] bool contains(std::span<const std::byte> bytes) const;

 private:
  SharedMemory(OwnedFd fd, std::byte* base, std::size_t size)
      : fd_(std::move(fd)), base_(base), size_(size) {}
  [[nodiscard]] static Result<std::shared_ptr<SharedMemory>> map(OwnedFd fd, std::size_t bytes);

  OwnedFd fd_;
  std::byte* base_;
  std::size_t size_;
};

class Arena {
 public:
  explicit Arena(std::shared_ptr<SharedMemory> memory);
  // Of new memory for `bytes` in use at a time, and as much for what is idle or does not fit
  // together. Pinned: a device is to be told of it.
  [[nodiscard]] static Result<std::shared_ptr<Arena>> create(std::size_t bytes, bool pinned);

  // Null when there is no run so long. Precondition: size is a multiple of a page, and not 0.
  [[nodiscard]] std::byte* take(std::size_t size);
  // Back, and its memory to the kernel, unless pinned. A run with retired pages that the kernel
  // does not take is not used again.
  void give(std::byte* run, std::size_t size);
  // Bytes in runs that are out, whose pages are not to be used for anything else.
  void retire(std::span<const std::byte> bytes);
  // Bytes that are not used again, since a device has their pages. For good.
  [[nodiscard]] std::size_t lost_bytes() const { return lost_.load(); }
  // Whether a run that is out has such pages.
  [[nodiscard]] bool is_retired(const std::byte* run, std::size_t size) const;

  // From now on pages stay with the mapping. For good, and before a device is told of them.
  void pin() { pinned_.store(true); }

  [[nodiscard]] const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

 private:
  const std::shared_ptr<SharedMemory> memory_;
  mutable Mutex mutex_;
  std::map<std::size_t, std::size_t> free_ WEFT_GUARDED_BY(mutex_);  // offset -> size
  // offset -> end; may overlap
  std::map<std::size_t, std::size_t> retired_ WEFT_GUARDED_BY(mutex_);
  std::atomic<bool> pinned_ = false;
  std::atomic<std::size_t> lost_ = 0;
  std::atomic<bool> any_retired_ = false;  // so that who asks needs no lock while there are none
};

}  // namespace weft
