// Bytes of files: reading and writing at an offset, syncs, sizes, space, mappings.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/shared_mappings.h"

namespace weft::sim::disk {

namespace {

using NodePtr = std::shared_ptr<Node>;

// Whether a power failure may bring it back, so that what changes matters.
bool kept(const NodePtr& node) { return !node->life->over && node->life->nodes.contains(node->id); }

int resize(const NodePtr& node, int fd, off_t size) {
  if (node == nullptr || !kept(node)) return WEFT_REAL(ftruncate)(fd, size);
  preempt();
  before_resize(node, static_cast<std::uint64_t>(size));
  const int result = WEFT_REAL(ftruncate)(fd, size);
  after_write(*node);
  note(static_cast<std::uint64_t>(size));
  return result;
}

// Space is only counted: the real file system would have to fill it with zeros.
int reserve(const NodePtr& node, int fd, int mode, std::uint64_t end) {
  const std::uint64_t more = end > node->used ? end - node->used : 0;
  if (more > space_of(*node->life).free) return ENOSPC;
  node->reserved = std::max(node->reserved, (end + kPage - 1) / kPage * kPage);
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && end > node->size) {
    if (WEFT_REAL(ftruncate)(fd, static_cast<off_t>(end)) != 0) broken("extend a file");
  }
  after_write(*node);
  return 0;
}
int punch(const NodePtr& node, int fd, int mode, std::uint64_t begin, std::uint64_t end) {
  before_write(*node, begin, std::min(end, node->size));
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (WEFT_REAL(fallocate)(fd, kPunch, static_cast<off_t>(begin),
                           static_cast<off_t>(end - begin)) != 0) {
    return errno;
  }
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && end > node->size &&
      WEFT_REAL(ftruncate)(fd, static_cast<off_t>(end)) != 0) {
    return errno;
  }
  node->reserved = std::min(node->reserved, begin);
  after_write(*node);
  return 0;
}

// 0 or an error's number.
int allocate(const NodePtr& node, int fd, int mode, off_t offset, off_t length) {
  if (offset < 0 || length <= 0) return EINVAL;
  const auto begin = static_cast<std::uint64_t>(offset);
  const std::uint64_t end = begin + static_cast<std::uint64_t>(length);
  note(end);
  if (const int error = take_time(*node->life, Work::kWrite); error != 0) return error;
  if (!kept(node)) return 0;
  if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
    return punch(node, fd, mode, begin, end);
  }
  return (mode & ~FALLOC_FL_KEEP_SIZE) == 0 ? reserve(node, fd, mode, end) : EOPNOTSUPP;
}

int sync_all(int fd) {
  const auto node = node_of(fd);
  if (node == nullptr) return WEFT_REAL(syncfs)(fd);
  Life& life = *node->life;
  const int error = take_time(life, Work::kSync);
  if (!life.over) {
    if (error == 0) commit(life);
    const auto ids = life.unsynced;
    for (const std::uint64_t id : ids) {
      const auto found = life.nodes.find(id);
      if (found == life.nodes.end()) continue;
      const auto file = found->second;
      written_back(file, true, error != 0);
    }
  }
  note(life.next_id);
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace

}  // namespace weft::sim::disk

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pread)(fd, into, bytes, offset);
  const iovec vector{into, bytes};
  return sim::disk::preadv(fd, &vector, 1, offset, 0);
}
ssize_t pread64(int fd, void* into, size_t bytes, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pread64)(fd, into, bytes, offset);
  return pread(fd, into, bytes, offset);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pwrite)(fd, from, bytes, offset);
  const iovec vector{const_cast<void*>(from), bytes};  // NOLINT: iovec's way
  return sim::disk::pwritev(fd, &vector, 1, offset, 0);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pwrite64)(fd, from, bytes, offset);
  return pwrite(fd, from, bytes, offset);
}
ssize_t preadv(int fd, const iovec* into, int count, off_t offset) {
  if (!sim::active()) return WEFT_REAL(preadv)(fd, into, count, offset);
  return sim::disk::preadv(fd, into, count, offset, 0);
}
ssize_t preadv64(int fd, const iovec* into, int count, off_t offset) {
  if (!sim::active()) return WEFT_REAL(preadv64)(fd, into, count, offset);
  return sim::disk::preadv(fd, into, count, offset, 0);
}
ssize_t preadv2(int fd, const iovec* into, int count, off_t offset, int flags) {
  if (!sim::active()) return WEFT_REAL(preadv2)(fd, into, count, offset, flags);
  return sim::disk::preadv(fd, into, count, offset, flags);
}
ssize_t preadv64v2(int fd, const iovec* into, int count, off_t offset, int flags) {
  if (!sim::active()) return WEFT_REAL(preadv64v2)(fd, into, count, offset, flags);
  return sim::disk::preadv(fd, into, count, offset, flags);
}
ssize_t pwritev(int fd, const iovec* from, int count, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pwritev)(fd, from, count, offset);
  return sim::disk::pwritev(fd, from, count, offset, 0);
}
ssize_t pwritev64(int fd, const iovec* from, int count, off_t offset) {
  if (!sim::active()) return WEFT_REAL(pwritev64)(fd, from, count, offset);
  return sim::disk::pwritev(fd, from, count, offset, 0);
}
ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) {
  if (!sim::active()) return WEFT_REAL(pwritev2)(fd, from, count, offset, flags);
  return sim::disk::pwritev(fd, from, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const iovec* from, int count, off_t offset, int flags) {
  if (!sim::active()) return WEFT_REAL(pwritev64v2)(fd, from, count, offset, flags);
  return sim::disk::pwritev(fd, from, count, offset, flags);
}

int fsync(int fd) {
  if (!sim::active()) return WEFT_REAL(fsync)(fd);
  return sim::disk::sync(fd, false);
}
int fdatasync(int fd) {
  if (!sim::active()) return WEFT_REAL(fdatasync)(fd);
  return sim::disk::sync(fd, true);
}
int syncfs(int fd) { return sim::active() ? sim::disk::sync_all(fd) : WEFT_REAL(syncfs)(fd); }
// Starts writing, promises nothing.
int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  return sim::active() ? 0 : WEFT_REAL(sync_file_range)(fd, offset, bytes, flags);
}

int ftruncate(int fd, off_t size) {
  if (!sim::active()) return WEFT_REAL(ftruncate)(fd, size);
  return sim::disk::resize(sim::disk::node_of(fd), fd, size);
}
int ftruncate64(int fd, off_t size) {
  if (!sim::active()) return WEFT_REAL(ftruncate64)(fd, size);
  return sim::disk::resize(sim::disk::node_of(fd), fd, size);
}
int truncate(const char* path, off_t size) {
  if (!sim::active()) return WEFT_REAL(truncate)(path, size);
  const int fd = WEFT_REAL(open)(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const int result = sim::disk::resize(sim::disk::node_at(AT_FDCWD, path), fd, size);
  sim::disk::forget(fd);
  const sim::Real real;
  ::close(fd);
  return result;
}

int posix_fadvise(int fd, off_t offset, off_t length, int advice) {
  if (!sim::active()) return WEFT_REAL(posix_fadvise)(fd, offset, length, advice);
  const auto node = sim::disk::node_of(fd);
  if (node == nullptr || !sim::disk::kept(node) || advice != POSIX_FADV_DONTNEED) return 0;
  const auto from = static_cast<std::uint64_t>(offset);
  const std::uint64_t to = length == 0 ? node->size : from + static_cast<std::uint64_t>(length);
  sim::disk::drop_clean(*node, from, to);
  return 0;
}
int posix_fadvise64(int fd, off_t offset, off_t length, int advice) {
  if (!sim::active()) return WEFT_REAL(posix_fadvise64)(fd, offset, length, advice);
  return posix_fadvise(fd, offset, length, advice);
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
  const auto node = sim::active() ? sim::disk::node_of(fd) : nullptr;
  if (node == nullptr) return WEFT_REAL(fallocate)(fd, mode, offset, length);
  errno = sim::disk::allocate(node, fd, mode, offset, length);
  return errno == 0 ? 0 : -1;
}
int fallocate64(int fd, int mode, off_t offset, off_t length) {
  if (!sim::active()) return WEFT_REAL(fallocate64)(fd, mode, offset, length);
  return fallocate(fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
  const auto node = sim::active() ? sim::disk::node_of(fd) : nullptr;
  if (node == nullptr) return WEFT_REAL(posix_fallocate)(fd, offset, length);
  return sim::disk::allocate(node, fd, 0, offset, length);
}
int posix_fallocate64(int fd, off_t offset, off_t length) {
  if (!sim::active()) return WEFT_REAL(posix_fallocate64)(fd, offset, length);
  return posix_fallocate(fd, offset, length);
}
ssize_t readahead(int fd, off64_t offset, size_t bytes) {
  return sim::active() ? 0 : WEFT_REAL(readahead)(fd, offset, bytes);
}

// What is written through a mapping goes past everything here.
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (sim::active() && fd >= 0 && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0 &&
      sim::disk::node_of(fd) != nullptr) {
    sim::disk::broken("a file of a simulated disk is mapped for writing");
  }
  void* const made = WEFT_REAL(mmap)(address, bytes, protection, flags, fd, offset);
  if (sim::active() && fd >= 0 && made != MAP_FAILED && (flags & MAP_SHARED) != 0) {
    sim::mapped(made, bytes, protection, fd);
  }
  return made;
}
int munmap(void* address, size_t bytes) noexcept {
  if (sim::active()) sim::unmapped(address);
  return WEFT_REAL(munmap)(address, bytes);
}

}  // extern "C"
