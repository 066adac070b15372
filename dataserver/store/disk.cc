#include "dataserver/store/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace weft::ds {

std::unexpected<Error> fail_file(int err, std::string_view doing) {
  auto failed = fail_errno(err, doing);
  switch (failed.error().code) {
    case Errc::kAccess:
    case Errc::kPermission:
    case Errc::kStale:
    case Errc::kTimedOut:
    case Errc::kClosed:
    case Errc::kCancelled:
    case Errc::kUnreachable: failed.error().code = Errc::kIo; break;
    default: break;
  }
  return failed;
}

Result<OwnedFd> open_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail_errno(errno, "open " + path);
  return OwnedFd(fd);
}

Result<> ensure_directory(int parent, const char* name) {
  if (::mkdirat(parent, name, 0700) == 0 || errno == EEXIST) return {};
  return fail_errno(errno, std::string("mkdir ") + name);
}

Result<> for_each_name(int parent, const std::string& name,
                       const std::function<void(const char* name)>& each) {
  const int fd = ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fail_file(errno, "open folder " + name);
  DIR* listing = ::fdopendir(fd);
  if (listing == nullptr) {
    const int error = errno;
    ::close(fd);
    return fail_file(error, "list folder " + name);
  }
  errno = 0;
  while (const dirent* entry = ::readdir(listing)) {  // NOLINT: this thread's own stream
    each(entry->d_name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(listing);
  if (error != 0) return fail_file(error, "list folder " + name);
  return {};
}

Result<> sync_directory(int directory) {
  if (::fsync(directory) == 0) return {};
  return fail_errno(errno, "fsync of a directory");
}

Result<std::vector<std::byte>> read_small_file(int directory, const char* name, std::size_t max) {
  const OwnedFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno(errno, std::string("open ") + name);
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return fail_errno(errno, std::string("stat ") + name);
  if (static_cast<std::uint64_t>(found.st_size) > max) {
    return fail(Errc::kTooLarge, std::string(name) + " is larger than expected");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(found.st_size));
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n =
        ::pread(file.get(), bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, std::string("read ") + name);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  bytes.resize(size);
  return bytes;
}

Result<> write_fully(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "write");
    if (n == 0) return fail(Errc::kNoSpace, "write took nothing");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<> replace_file(int directory, const char* name, std::span<const std::byte> bytes) {
  const std::string temporary = std::string(name) + ".new";
  {
    const OwnedFd file(
        ::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return fail_errno(errno, "create " + temporary);
    if (auto written = write_fully(file.get(), bytes, 0); !written) return pass(written);
    if (::fsync(file.get()) != 0) return fail_errno(errno, "fsync " + temporary);
  }
  if (::renameat(directory, temporary.c_str(), directory, name) != 0) {
    return fail_errno(errno, "rename " + temporary);
  }
  return sync_directory(directory);
}

Result<> remove_file(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
    return fail_errno(errno, std::string("unlink ") + name);
  }
  return sync_directory(directory);
}

}  // namespace weft::ds
