// read, write, close, dup, fcntl and ioctl, for numbers that the simulation made up and for files.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "tests/simulation/world/bare_folders.h"
#include "tests/simulation/world/descriptors.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

void note_call(int fd, ssize_t result) {
  sim::note((static_cast<std::uint64_t>(static_cast<unsigned>(fd)) << 32) ^
            static_cast<std::uint64_t>(result));
}

ssize_t read_any(int fd, const iovec* into, int count) {
  const auto found = sim::find(fd);
  if (found == nullptr) return sim::disk::preadv(fd, into, count, -1, 0);
  sim::preempt();
  const ssize_t n = found->readv(into, count);
  note_call(fd, n);
  return sim::to_result(n);
}

ssize_t write_any(int fd, const iovec* from, int count) {
  const auto found = sim::find(fd);
  if (found == nullptr) return sim::disk::pwritev(fd, from, count, -1, 0);
  sim::preempt();
  const ssize_t n = found->writev(from, count);
  note_call(fd, n);
  return sim::to_result(n);
}

int duplicate(int fd, int least) {
  if (auto found = sim::find(fd); found != nullptr) return sim::install(std::move(found));
  sim::disk::make_real(fd);
  return WEFT_REAL(fcntl)(fd, F_DUPFD_CLOEXEC, least);
}

int control_descriptor(sim::Descriptor& descriptor, int fd, int command, long argument) {
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: return duplicate(fd, 0);
    case F_GETFD: return FD_CLOEXEC;
    case F_SETFD: return 0;
    case F_GETFL: return O_RDWR | (descriptor.nonblocking ? O_NONBLOCK : 0);
    case F_SETFL: descriptor.nonblocking = (argument & O_NONBLOCK) != 0; return 0;
    default: return sim::to_result(descriptor.set(command, argument));
  }
}

int any_fcntl(int fd, int command, void* argument) {
  if (const auto found = sim::find(fd); found != nullptr) {
    return control_descriptor(*found, fd, command, reinterpret_cast<long>(argument));
  }
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) sim::disk::make_real(fd);
  return WEFT_REAL(fcntl)(fd, command, argument);
}

}  // namespace

extern "C" {

ssize_t read(int fd, void* into, size_t size) {
  if (!sim::active()) return WEFT_REAL(read)(fd, into, size);
  const iovec one{into, size};
  return read_any(fd, &one, 1);
}
ssize_t __read_chk(int fd, void* into, size_t size, size_t /*room*/) {
  return read(fd, into, size);
}
ssize_t write(int fd, const void* from, size_t size) {
  if (!sim::active()) return WEFT_REAL(write)(fd, from, size);
  const iovec one{const_cast<void*>(from), size};
  return write_any(fd, &one, 1);
}
ssize_t readv(int fd, const iovec* into, int count) {
  if (!sim::active()) return WEFT_REAL(readv)(fd, into, count);
  return read_any(fd, into, count);
}
ssize_t writev(int fd, const iovec* from, int count) {
  if (!sim::active()) return WEFT_REAL(writev)(fd, from, count);
  return write_any(fd, from, count);
}

int close(int fd) {
  if (!sim::active()) return WEFT_REAL(close)(fd);
  if (sim::find(fd) != nullptr) {
    sim::preempt();
    sim::note(static_cast<std::uint64_t>(fd));
    if (!sim::uninstall(fd)) errno = EBADF;
    return 0;
  }
  sim::disk::forget(fd);
  return WEFT_REAL(close)(fd);
}

int dup(int fd) {
  if (!sim::active()) return WEFT_REAL(dup)(fd);
  return duplicate(fd, 0);
}
// Onto a number that is chosen: none that the simulation made up is needed there.
int dup3(int fd, int onto, int flags) {
  if (!sim::active()) return WEFT_REAL(dup3)(fd, onto, flags);
  if (sim::find(fd) != nullptr || sim::find(onto) != nullptr) {
    errno = EINVAL;
    return -1;
  }
  sim::disk::forget(onto);
  return WEFT_REAL(dup3)(fd, onto, flags);
}
int dup2(int fd, int onto) {
  if (!sim::active()) return WEFT_REAL(dup2)(fd, onto);
  return fd == onto ? onto : dup3(fd, onto, 0);
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (!sim::active()) return WEFT_REAL(fcntl)(fd, command, argument);
  return any_fcntl(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (!sim::active()) return WEFT_REAL(fcntl)(fd, command, argument);
  return any_fcntl(fd, command, argument);
}
int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const auto found = sim::active() ? sim::find(fd) : nullptr;
  if (found == nullptr) return WEFT_REAL(ioctl)(fd, request, argument);
  if (request == FIONBIO) {
    found->nonblocking = *static_cast<const int*>(argument) != 0;
    return 0;
  }
  return sim::to_result(found->control(request, argument));
}

ssize_t readlink(const char* path, char* into, size_t size) noexcept {
  constexpr std::string_view kOwn = "/proc/self/fd/";
  if (sim::active() && std::string_view(path).starts_with(kOwn)) {
    if (const auto found = sim::find(std::atoi(path + kOwn.size())); found != nullptr) {
      const std::string_view is = found->link();
      return static_cast<ssize_t>(is.copy(into, size));
    }
  }
  return WEFT_REAL(readlink)(path, into, size);
}

}  // extern "C"
