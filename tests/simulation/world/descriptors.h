// File descriptors that the simulation makes up: sockets, pipes, epoll sets, event and timer
// descriptors, rings. Each has a real number (of a descriptor that does nothing), so numbers are
// never used twice; what read(2), write(2), close(2), poll(2), dup(2), fcntl(2) and the like do
// with it is its Descriptor's. Every other number is a file of the real system, and goes to
// disk.h's functions.
//
// Threading: as scheduler.h. Ownership: the table owns a Descriptor while a number means it; calls
// that wait own it meanwhile.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

// Who is told of a Descriptor's changes: an epoll set's entry, a poll. Must have been taken off
// when it goes.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Not from within a wait: it may wake threads, and nothing else.
  virtual void told(std::uint32_t edge) = 0;
};

class Descriptor : public std::enable_shared_from_this<Descriptor> {
 public:
  virtual ~Descriptor() = default;
  // As readv(2) and writev(2): bytes moved, or -errno. They wait if the descriptor blocks.
  virtual ssize_t readv(const iovec* into, int count);
  virtual ssize_t writev(const iovec* from, int count);
  // EPOLLIN, EPOLLOUT, ... as of now.
  [[nodiscard]] virtual std::uint32_t ready() const { return 0; }
  // What its link in /proc/self/fd says.
  [[nodiscard]] virtual const char* link() const { return "anon_inode:[simulation]"; }
  // The last number of it was closed.
  virtual void closed() {}
  // ioctl(2) and fcntl(2) that only this kind knows: the result, or -errno.
  virtual int control(unsigned long request, void* argument);
  virtual int set(int command, long argument);

  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }
  void unwatch(Watcher& watcher) { std::erase(watchers_, &watcher); }

  bool nonblocking = false;
  unsigned node = 0;     // of the thread that made it
  unsigned numbers = 0;  // that mean it

 protected:
  // What ready() says may have changed: epoll sets and polls that watch it look again. `edge`: new
  // bytes or room came, so edge-triggered watchers are told even when ready() is what it was; 0 for
  // whatever ready() says.
  void changed(std::uint32_t edge);

 private:
  std::vector<Watcher*> watchers_;
};

// A number for it. -1 and errno when there are no more.
[[nodiscard]] int install(std::shared_ptr<Descriptor> descriptor);
// Null: the number is a real one.
[[nodiscard]] std::shared_ptr<Descriptor> find(int fd);
template <class T>
[[nodiscard]] std::shared_ptr<T> find_as(int fd) {
  return std::dynamic_pointer_cast<T>(find(fd));
}

// Closes the number; false if it is a real one.
bool uninstall(int fd);

// The calling thread waits until ready() has some of `what`, an error or a hangup; false: the time
// came first. The caller holds a reference.
[[nodiscard]] bool wait_ready(Descriptor& descriptor, std::uint32_t what, Ns deadline = kNever);

// Bytes on their way: a queue of pieces, which move without being copied.
class ByteQueue {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t pieces() const { return pieces_.size() - first_; }
  void push(std::vector<std::byte> bytes);
  // Copies out as much as there is and fits; leaves it here if `peek`.
  std::size_t take(const iovec* into, int count, bool peek);
  // The next bytes, at most `most` of them, as one piece.
  [[nodiscard]] std::vector<std::byte> pop(std::size_t most);
  void clear();

 private:
  void drop(std::size_t size);
  std::vector<std::vector<std::byte>> pieces_;
  std::size_t first_ = 0;  // of the pieces that are not used up
  std::size_t start_ = 0;  // in the first
  std::size_t size_ = 0;
};

[[nodiscard]] inline std::size_t total(const iovec* parts, int count) {
  std::size_t sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i].iov_len;
  return sum;
}
// The first `size` bytes, which must be there.
[[nodiscard]] std::vector<std::byte> gather(const iovec* parts, int count, std::size_t size);

// What a system call's function returns: -errno becomes -1 and errno.
template <class T>
[[nodiscard]] T to_result(T value) {
  if (value >= 0) return value;
  errno = static_cast<int>(-value);
  return -1;
}

}  // namespace weft::sim
