// File descriptors that the simulation makes up: sockets, epoll sets, event and timer descriptors,
// rings. Each has a real number (of a descriptor that does nothing), so numbers are never used
// twice; what read(2), write(2), close(2), poll(2), dup(2), fcntl(2) and the like do with it is its
// Descriptor's. Every other number is a file or a pipe of the real system, and goes to disk.h's
// functions or straight through.
//
// Threading: as scheduler.h.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::sim {

class Descriptor : public std::enable_shared_from_this<Descriptor> {
 public:
  virtual ~Descriptor() = default;
  // As readv(2) and writev(2): bytes moved, or -errno.
  virtual ssize_t readv(const iovec* into, int count);
  virtual ssize_t writev(const iovec* from, int count);
  // EPOLLIN, EPOLLOUT, ... as of now.
  [[nodiscard]] virtual std::uint32_t ready() const { return 0; }
  // The last number of it was closed.
  virtual void closed() {}

  bool nonblocking = false;
  unsigned node = 0;  // of the thread that made it

 protected:
  // What ready() says may have changed: epoll sets and polls that watch it look again. `edge`: new
  // bytes or room came, so edge-triggered watchers are told even when ready() is what it was.
  void changed(std::uint32_t edge);

 private:
  friend class Watchers;
  std::vector<std::weak_ptr<void>> watchers_;
};

// A number for it. -1 and errno when there are no more.
[[nodiscard]] int install(std::shared_ptr<Descriptor> descriptor);
// Null: the number is a real one.
[[nodiscard]] std::shared_ptr<Descriptor> find(int fd);
template <class T>
[[nodiscard]] std::shared_ptr<T> find_as(int fd) {
  return std::dynamic_pointer_cast<T>(find(fd));
}

}  // namespace weft::sim
