// What the system says of files and file systems, and the streams of stdio, which open and close
// files past the functions that others call.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "tests/simulation/world/bare_folders.h"
#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/files.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"
#include "tests/simulation/world/times.h"

namespace weft::sim {

namespace {

constexpr unsigned kMajor = 259;  // as disks have in /proc/diskstats

// Numbers and times that are the same in each run, and links without the simulation's own.
void tell(const disk::Node& node, struct stat* found) {
  found->st_dev = makedev(kMajor, node.life->disk);
  found->st_ino = node.id + 1;
  if (!node.folder) {
    found->st_nlink = node.links;
    found->st_blocks = static_cast<blkcnt_t>(node.used / disk::kSector);
  }
  const timespec time{kRealStart / kSecond, 0};
  found->st_atim = found->st_mtim = found->st_ctim = time;
}
void tell_bare(const disk::Node& node, struct stat* found) {
  *found = {};
  found->st_mode = S_IFDIR | 0700;
  found->st_nlink = 2;
  found->st_blksize = disk::kPage;
  tell(node, found);
}

// What the real system has said of a name, or of a descriptor: `path` null.
int tell(int result, int folder, const char* path, struct stat* found) {
  if (result != 0) {
    const int error = errno;
    const auto bare = path != nullptr && error == ENOENT ? disk::node_at(folder, path) : nullptr;
    errno = error;
    if (bare == nullptr) return result;
    tell_bare(*bare, found);
    return 0;
  }
  if (path == nullptr) {
    if (const auto bare = disk::bare_of(folder); bare != nullptr) {
      tell_bare(*bare, found);
      return 0;
    }
  }
  if (const auto node = disk::find_node(*found); node != nullptr) tell(*node, found);
  return 0;
}
int tell(int result, int folder, const char* path, struct stat64* found) {
  static_assert(sizeof(struct stat) == sizeof(struct stat64));
  return tell(result, folder, path, reinterpret_cast<struct stat*>(found));
}
int tell_access(int result, int folder, const char* path) {
  if (result == 0 || errno != ENOENT) return result;
  const bool bare = disk::node_at(folder, path) != nullptr;
  errno = ENOENT;
  return bare ? 0 : result;
}

int tell_space(const std::shared_ptr<disk::Node>& node, struct statvfs* out) {
  const disk::Space space = disk::space_of(*node->life);
  *out = {};
  out->f_bsize = out->f_frsize = disk::kPage;
  out->f_blocks = space.capacity / disk::kPage;
  out->f_bfree = out->f_bavail = space.free / disk::kPage;
  out->f_files = out->f_ffree = out->f_favail = 1'000'000;
  out->f_namemax = NAME_MAX;
  return 0;
}

FILE* open_stream(const char* path, const char* mode) {
  const bool more = std::strchr(mode, '+') != nullptr;
  int flags = more ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
  if (*mode == 'a') flags |= O_CREAT | O_APPEND;
  const int fd = open_file(AT_FDCWD, path, flags | O_CLOEXEC, 0666);
  if (fd < 0) return nullptr;
  return ::fdopen(fd, mode);
}

}  // namespace

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

int stat(const char* path, struct stat* out) {
  const int result = WEFT_REAL(stat)(path, out);
  return sim::active() ? sim::tell(result, AT_FDCWD, path, out) : result;
}
int stat64(const char* path, struct stat64* out) {
  const int result = WEFT_REAL(stat64)(path, out);
  return sim::active() ? sim::tell(result, AT_FDCWD, path, out) : result;
}
int lstat(const char* path, struct stat* out) {
  const int result = WEFT_REAL(lstat)(path, out);
  return sim::active() ? sim::tell(result, AT_FDCWD, path, out) : result;
}
int lstat64(const char* path, struct stat64* out) {
  const int result = WEFT_REAL(lstat64)(path, out);
  return sim::active() ? sim::tell(result, AT_FDCWD, path, out) : result;
}
int fstat(int fd, struct stat* out) {
  const int result = WEFT_REAL(fstat)(fd, out);
  return sim::active() ? sim::tell(result, fd, nullptr, out) : result;
}
int fstat64(int fd, struct stat64* out) {
  const int result = WEFT_REAL(fstat64)(fd, out);
  return sim::active() ? sim::tell(result, fd, nullptr, out) : result;
}
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  if (sim::active()) sim::disk::make_real(folder);
  const int result = WEFT_REAL(fstatat)(folder, path, out, flags);
  return sim::active() ? sim::tell(result, folder, path, out) : result;
}
int fstatat64(int folder, const char* path, struct stat64* out, int flags) {
  if (sim::active()) sim::disk::make_real(folder);
  const int result = WEFT_REAL(fstatat64)(folder, path, out, flags);
  return sim::active() ? sim::tell(result, folder, path, out) : result;
}

int access(const char* path, int mode) noexcept {
  const int result = WEFT_REAL(access)(path, mode);
  return sim::active() ? sim::tell_access(result, AT_FDCWD, path) : result;
}
int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  if (sim::active()) sim::disk::make_real(folder);
  const int result = WEFT_REAL(faccessat)(folder, path, mode, flags);
  return sim::active() ? sim::tell_access(result, folder, path) : result;
}

int statvfs(const char* path, struct statvfs* out) {
  const auto node = sim::active() ? sim::disk::node_at(AT_FDCWD, path) : nullptr;
  return node == nullptr ? WEFT_REAL(statvfs)(path, out) : sim::tell_space(node, out);
}
int fstatvfs(int fd, struct statvfs* out) {
  const auto node = sim::active() ? sim::disk::node_of(fd) : nullptr;
  return node == nullptr ? WEFT_REAL(fstatvfs)(fd, out) : sim::tell_space(node, out);
}

FILE* fopen(const char* path, const char* mode) {
  if (!sim::active()) return WEFT_REAL(fopen)(path, mode);
  FILE* stream = sim::open_stream(path, mode);
  // stdio would write past the disk. libstdc++, which opens by fopen64, writes by itself.
  if (stream != nullptr && std::strpbrk(mode, "wa+") != nullptr &&
      sim::disk::node_of(::fileno(stream)) != nullptr) {
    sim::disk::broken(std::string("fopen for writing: ") + path);
  }
  return stream;
}
FILE* fopen64(const char* path, const char* mode) {
  return sim::active() ? sim::open_stream(path, mode) : WEFT_REAL(fopen64)(path, mode);
}
int fclose(FILE* stream) {
  if (sim::active()) sim::disk::forget(::fileno(stream));
  return WEFT_REAL(fclose)(stream);
}

}  // extern "C"
