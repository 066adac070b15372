#include "dataserver/store/page_cache.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace weft::ds {

namespace {

constexpr long kCachestatCall = 451;  // the same number on every architecture
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kProbeStep = std::size_t{64} << 10;

// struct cachestat_range and struct cachestat of linux/mman.h, absent from Debian 12's headers.
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

std::atomic<bool> have_cachestat{true};

bool probe(int fd, std::uint64_t offset, std::size_t size) {
  const std::uint64_t last = offset + size - 1;
  for (std::uint64_t at = offset;; at += kProbeStep) {
    if (at > last) at = last;
    std::byte byte{};
    const iovec vector{&byte, 1};
    if (::preadv2(fd, &vector, 1, static_cast<off_t>(at), RWF_NOWAIT) != 1) return false;
    if (at == last) return true;
  }
}

}  // namespace

bool is_resident(int fd, std::uint64_t offset, std::size_t size) {
  if (have_cachestat.load(std::memory_order_relaxed)) {
    const std::uint64_t first_page = offset / kPage;
    const std::uint64_t last_page = (offset + size - 1) / kPage;
    CachestatRange range{offset, size};
    Cachestat found{};
    if (::syscall(kCachestatCall, fd, &range, &found, 0) == 0) {
      return found.cached >= last_page - first_page + 1;
    }
    if (errno == ENOSYS || errno == EPERM) {
      have_cachestat.store(false, std::memory_order_relaxed);
    } else if (errno != EOPNOTSUPP) {
      return false;
    }
  }
  return probe(fd, offset, size);
}

std::size_t read_resident(int fd, std::uint64_t offset, std::span<std::byte> into) {
  const iovec vector{into.data(), into.size()};
  const ssize_t n = ::preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

}  // namespace weft::ds
