#include "tests/simulation/world/descriptors.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/world/real.h"

namespace weft::sim {
namespace {

std::vector<std::shared_ptr<Descriptor>>& table() {
  static auto* const made = new std::vector<std::shared_ptr<Descriptor>>;
  return *made;
}

// The lowest number that the real system has free, as open(2) gives it.
int reserve_number() {
  const Real real;
  static const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  return ::fcntl(nothing, F_DUPFD_CLOEXEC, 0);
}

class Waiting : public Watcher {
 public:
  explicit Waiting(Descriptor& descriptor) : descriptor_(descriptor) { descriptor_.watch(*this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() override { descriptor_.unwatch(*this); }
  void told(std::uint32_t /*edge*/) override { wake_all(list_); }
  [[nodiscard]] bool wait(Ns deadline) { return wait_until(list_, deadline); }

 private:
  Descriptor& descriptor_;
  WaitList list_;
};

}  // namespace

ssize_t Descriptor::readv(const iovec* /*into*/, int /*count*/) { return -EINVAL; }
ssize_t Descriptor::writev(const iovec* /*from*/, int /*count*/) { return -EINVAL; }
int Descriptor::control(unsigned long /*request*/, void* /*argument*/) { return -ENOTTY; }
int Descriptor::set(int /*command*/, long /*argument*/) { return -EINVAL; }

void Descriptor::changed(std::uint32_t edge) {
  // Nobody comes or goes meanwhile: who is woken runs later.
  for (Watcher* watcher : watchers_) watcher->told(edge);
}

int install(std::shared_ptr<Descriptor> descriptor) {
  const int fd = reserve_number();
  if (fd < 0) return -1;
  ++descriptor->numbers;
  if (descriptor->numbers == 1) descriptor->node = node();
  auto& all = table();
  if (all.size() <= static_cast<std::size_t>(fd)) all.resize(static_cast<std::size_t>(fd) + 64);
  all[static_cast<std::size_t>(fd)] = std::move(descriptor);
  return fd;
}

std::shared_ptr<Descriptor> find(int fd) {
  const auto& all = table();
  if (fd < 0 || static_cast<std::size_t>(fd) >= all.size()) return nullptr;
  return all[static_cast<std::size_t>(fd)];
}

bool uninstall(int fd) {
  auto gone = find(fd);
  if (gone == nullptr) return false;
  table()[static_cast<std::size_t>(fd)] = nullptr;
  if (--gone->numbers == 0) gone->closed();
  const Real real;
  static_cast<void>(WEFT_REAL(close)(fd));
  return true;
}

bool wait_ready(Descriptor& descriptor, std::uint32_t what, Ns deadline) {
  Waiting waiting(descriptor);
  while ((descriptor.ready() & (what | EPOLLERR | EPOLLHUP)) == 0) {
    if (!waiting.wait(deadline)) return false;
  }
  return true;
}

// --- ByteQueue -----------------------------------------------------------------------------------

void ByteQueue::push(std::vector<std::byte> bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  pieces_.push_back(std::move(bytes));
}

std::size_t ByteQueue::take(const iovec* into, int count, bool peek) {
  std::size_t taken = 0;
  std::size_t piece = first_;
  std::size_t at = start_;
  for (int i = 0; i < count; ++i) {
    auto* out = static_cast<std::byte*>(into[i].iov_base);
    std::size_t left = into[i].iov_len;
    while (left > 0 && piece < pieces_.size()) {
      const std::size_t part = std::min(left, pieces_[piece].size() - at);
      std::memcpy(out, pieces_[piece].data() + at, part);
      out += part;
      left -= part;
      at += part;
      taken += part;
      if (at < pieces_[piece].size()) continue;
      ++piece;
      at = 0;
    }
  }
  if (!peek) drop(taken);
  return taken;
}

std::vector<std::byte> ByteQueue::pop(std::size_t most) {
  if (empty()) return {};
  std::vector<std::byte>& front = pieces_[first_];
  std::vector<std::byte> out;
  if (start_ == 0 && front.size() <= most) {
    out = std::move(front);
    front = {};
    size_ -= out.size();
    ++first_;
    drop(0);
    return out;
  }
  const std::size_t part = std::min(most, front.size() - start_);
  out.assign(front.data() + start_, front.data() + start_ + part);
  drop(part);
  return out;
}

void ByteQueue::drop(std::size_t size) {
  size_ -= size;
  while (size > 0) {
    const std::size_t part = std::min(size, pieces_[first_].size() - start_);
    start_ += part;
    size -= part;
    if (start_ < pieces_[first_].size()) break;
    pieces_[first_] = {};
    ++first_;
    start_ = 0;
  }
  if (first_ == pieces_.size() || first_ >= 64) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void ByteQueue::clear() {
  pieces_.clear();
  first_ = start_ = size_ = 0;
}

std::vector<std::byte> gather(const iovec* parts, int count, std::size_t size) {
  std::vector<std::byte> out;
  out.reserve(size);
  for (int i = 0; i < count && out.size() < size; ++i) {
    const auto* from = static_cast<const std::byte*>(parts[i].iov_base);
    out.insert(out.end(), from, from + std::min(parts[i].iov_len, size - out.size()));
  }
  return out;
}

}  // namespace weft::sim
