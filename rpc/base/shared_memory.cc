#include "rpc/base/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rpc/base/assert.h"

namespace weft {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// So many bytes, whole pages, from a multiple of a huge page on, if there is one's worth. Null if
// there is no room. To be mapped over.
std::byte* reserve(std::size_t bytes) {
  const std::size_t slack = bytes < kHugePage ? 0 : kHugePage - SharedMemory::kPage;
  void* const found =
      ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(found);
  const std::size_t front = -reinterpret_cast<std::uintptr_t>(found) % kHugePage;
  if (slack == 0) return first;
  if (front > 0) ::munmap(first, front);
  if (front < slack) ::munmap(first + front + bytes, slack - front);
  return first + front;
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(std::size_t bytes, const char* name) {
  const std::size_t size = (bytes + kPage - 1) & ~(kPage - 1);
  OwnedFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno(errno, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return fail_errno(errno, "size of shared memory");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return fail_errno(errno, "seal shared memory");
  return map(std::move(fd), size);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::adopt(OwnedFd fd, std::size_t bytes) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(Errc::kProtocol, "shared memory that is not sealed against shrinking");
  }
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return fail_errno(errno, "fstat of shared memory");
  // Huge pages that are missing kill whoever touches them.
  struct statfs system{};
  if (::fstatfs(fd.get(), &system) != 0 || system.f_type == HUGETLBFS_MAGIC) {
    return fail(Errc::kProtocol, "shared memory of huge pages");
  }
  if (bytes == 0 || bytes % kPage != 0 || static_cast<std::size_t>(found.st_size) != bytes) {
    return fail(Errc::kProtocol, "shared memory of another size than was said");
  }
  return map(std::move(fd), bytes);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(OwnedFd fd, std::size_t bytes) {
  std::byte* const base = reserve(bytes);
  if (base == nullptr) return fail_errno(errno, "room for shared memory");
  if (::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), 0) ==
      MAP_FAILED) {
    const int error = errno;
    ::munmap(base, bytes);
    return fail_errno(error, "map shared memory");
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(fd), base, bytes));
}

SharedMemory::~SharedMemory() { ::munmap(base_, size_); }

bool SharedMemory::contains(std::span<const std::byte> bytes) const {
  return bytes.data() >= base_ && bytes.data() <= base_ + size_ &&
         bytes.size() <= static_cast<std::size_t>(base_ + size_ - bytes.data());
}

Arena::Arena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {
  free_.emplace(0, memory_->size());
}

Result<std::shared_ptr<Arena>> Arena::create(std::size_t bytes, bool pinned) {
  // Pinned memory is there from the start: it may as well be of huge pages, whole ones.
  const std::size_t size = pinned ? (2 * bytes + kHugePage - 1) / kHugePage * kHugePage : 2 * bytes;
  auto memory = SharedMemory::create(size, "weft-arena");
  if (!memory) return pass(memory);
  // A kernel that has none, or does not want to, gives small ones.
  if (pinned) static_cast<void>(::madvise((*memory)->base(), size, MADV_HUGEPAGE));
  auto arena = std::make_shared<Arena>(std::move(*memory));
  if (pinned) arena->pin();
  return arena;
}

std::byte* Arena::take(std::size_t size) {
  WEFT_ASSERT(size > 0 && size % SharedMemory::kPage == 0);
  const MutexLock lock(mutex_);
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second < size) continue;
    const auto [offset, length] = *run;
    free_.erase(run);
    if (length > size) free_.emplace(offset + size, length - size);
    return memory_->base() + offset;
  }
  return nullptr;
}

void Arena::retire(std::span<const std::byte> bytes) {
  WEFT_ASSERT(memory_->contains(bytes));
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_->base());
  const MutexLock lock(mutex_);
  std::size_t& end = retired_[offset];
  end = std::max(end, offset + bytes.size());
  any_retired_.store(true);
}

bool Arena::is_retired(const std::byte* run, std::size_t size) const {
  if (!any_retired_.load()) return false;
  const auto offset = static_cast<std::size_t>(run - memory_->base());
  const MutexLock lock(mutex_);
  // Bytes lie in one run, so those of this one begin in it.
  const auto found = retired_.lower_bound(offset);
  return found != retired_.end() && found->first < offset + size;
}

void Arena::give(std::byte* run, std::size_t size) {
  const bool removed = !pinned_.load() && ::madvise(run, size, MADV_REMOVE) == 0;
  const MutexLock lock(mutex_);
  auto offset = static_cast<std::size_t>(run - memory_->base());
  const auto first = retired_.lower_bound(offset);
  const auto last = retired_.lower_bound(offset + size);
  const bool retired = first != last;
  retired_.erase(first, last);
  any_retired_.store(!retired_.empty());
  // Pages that stay are used again by the next who takes them.
  if (retired && !removed) {
    lost_ += size;
    return;
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    WEFT_ASSERT(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

}  // namespace weft
