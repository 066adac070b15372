#include "tests/simulation/world/local_sockets.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "tests/simulation/world/real.h"
#include "tests/simulation/world/tcp.h"

namespace weft::sim {
namespace {

// By when they were made, so that each run meets them in the same order.
std::map<std::uint64_t, LocalSocket*>& all_sockets() {
  static auto* const made = new std::map<std::uint64_t, LocalSocket*>;
  return *made;
}
std::map<std::string, std::weak_ptr<LocalSocket>>& bound() {
  static auto* const made = new std::map<std::string, std::weak_ptr<LocalSocket>>;
  return *made;
}

bool there(const std::string& path) {
  const Real real;
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0;
}

std::vector<int> take_descriptors(const msghdr& message) {
  std::vector<int> copies;
  auto& head = const_cast<msghdr&>(message);
  for (cmsghdr* part = CMSG_FIRSTHDR(&head); part != nullptr; part = CMSG_NXTHDR(&head, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      copies.push_back(::dup(fd));
    }
  }
  return copies;
}

void give_descriptors(msghdr& message, std::vector<int>& descriptors) {
  const std::size_t bytes = descriptors.size() * sizeof(int);
  if (descriptors.empty() || message.msg_controllen < CMSG_SPACE(bytes)) {
    if (!descriptors.empty()) message.msg_flags |= MSG_CTRUNC;
    for (const int fd : descriptors) ::close(fd);
    message.msg_controllen = 0;
    return descriptors.clear();
  }
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
  message.msg_controllen = CMSG_SPACE(bytes);
  descriptors.clear();
}

std::uint64_t number_of(const LocalSocket* socket) {
  for (const auto& [number, one] : all_sockets()) {
    if (one == socket) return number;
  }
  return 0;
}

}  // namespace

LocalSocket::LocalSocket(int type, unsigned of, unsigned life) : type_(type), life_(life) {
  node = of;
  static std::uint64_t made = 0;
  all_sockets()[++made] = this;
}

LocalSocket::~LocalSocket() {
  all_sockets().erase(number_of(this));
  drop_messages();
}

bool LocalSocket::gone() const { return !tcp::host(node).alive || life_of(node) != life_; }

void LocalSocket::pair(LocalSocket& one, LocalSocket& other) {
  one.peer_ = std::static_pointer_cast<LocalSocket>(other.shared_from_this());
  other.peer_ = std::static_pointer_cast<LocalSocket>(one.shared_from_this());
}

int LocalSocket::bind(const std::string& path) {
  if (gone()) return -ENETDOWN;
  if (there(path)) return -EADDRINUSE;
  const Real real;
  if (::mknod(path.c_str(), S_IFSOCK | 0600, 0) != 0) return -errno;
  bound()[path_ = path] = std::static_pointer_cast<LocalSocket>(shared_from_this());
  return 0;
}

int LocalSocket::listen(int backlog) {
  if (gone() || path_.empty()) return -EINVAL;
  listening_ = true;
  backlog_ = static_cast<std::size_t>(std::max(backlog, 1));
  return 0;
}

int LocalSocket::connect(const std::string& path) {
  if (gone()) return -ENETUNREACH;
  if (!there(path)) return -ENOENT;
  const auto found = bound().find(path);
  const auto listener = found == bound().end() ? nullptr : found->second.lock();
  const bool served = listener != nullptr && listener->listening_ && listener->numbers > 0;
  if (!served || listener->gone()) return -ECONNREFUSED;
  if (listener->waiting_.size() >= listener->backlog_) return -EAGAIN;
  auto other = std::make_shared<LocalSocket>(type_, listener->node, listener->life_);
  pair(*this, *other);
  listener->waiting_.push_back(std::move(other));
  listener->changed(EPOLLIN);
  changed(EPOLLOUT);
  return 0;
}

int LocalSocket::accept(std::shared_ptr<LocalSocket>& out) {
  if (!listening_) return -EINVAL;
  if (waiting_.empty()) return -EAGAIN;
  out = std::move(waiting_.front());
  waiting_.pop_front();
  return 0;
}

int LocalSocket::shutdown() {
  if (listening_) {
    listening_ = false;
    for (const auto& one : std::exchange(waiting_, {})) one->closed();
    changed(EPOLLIN | EPOLLHUP);
    return 0;
  }
  if (at_end()) return -ENOTCONN;
  closed();
  end();
  return 0;
}

void LocalSocket::end() {
  ended_ = true;
  changed(EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLRDHUP);
}

void LocalSocket::closed() {
  if (const auto found = bound().find(path_); found != bound().end()) {
    if (found->second.lock().get() == this) bound().erase(found);
  }
  for (const auto& one : std::exchange(waiting_, {})) one->closed();
  const auto peer = peer_.lock();
  peer_.reset();
  if (peer != nullptr && !gone()) peer->end();
}

void LocalSocket::drop_messages() {
  for (const Message& message : std::exchange(messages_, {})) {
    for (const int fd : message.descriptors) ::close(fd);
  }
}

ssize_t LocalSocket::send(const msghdr& message, bool wait) {
  for (;;) {
    const auto peer = peer_.lock();
    if (at_end() || peer == nullptr || peer->gone()) return -EPIPE;
    if (peer->messages_.size() < kMostMessages) {
      const auto count = static_cast<int>(message.msg_iovlen);
      const std::size_t size = total(message.msg_iov, count);
      peer->messages_.push_back({gather(message.msg_iov, count, size), 0, {}});
      peer->messages_.back().descriptors = take_descriptors(message);
      peer->changed(EPOLLIN);
      return static_cast<ssize_t>(size);
    }
    if (!wait) return -EAGAIN;
    static_cast<void>(wait_ready(*this, EPOLLOUT));
  }
}

ssize_t LocalSocket::receive(msghdr& message, bool wait) {
  message.msg_flags = 0;
  while (messages_.empty()) {
    message.msg_controllen = 0;
    if (gone()) return -ECONNRESET;
    if (ended_ || peer_.expired()) return 0;
    if (!wait) return -EAGAIN;
    static_cast<void>(wait_ready(*this, EPOLLIN));
  }
  Message& first = messages_.front();
  give_descriptors(message, first.descriptors);
  std::size_t done = 0;
  for (std::size_t i = 0; i < message.msg_iovlen && first.taken < first.bytes.size(); ++i) {
    const std::size_t part = std::min(message.msg_iov[i].iov_len, first.bytes.size() - first.taken);
    std::memcpy(message.msg_iov[i].iov_base, first.bytes.data() + first.taken, part);
    first.taken += part;
    done += part;
  }
  // What does not fit of a message that is kept apart is lost.
  if (first.taken == first.bytes.size() || type_ == SOCK_SEQPACKET) messages_.pop_front();
  if (const auto peer = peer_.lock(); peer != nullptr) peer->changed(EPOLLOUT);
  return static_cast<ssize_t>(done);
}

int LocalSocket::option(int name, void* value, std::size_t size) const {
  if (name == SO_PEERCRED) {
    const ucred peer{.pid = ::getpid(), .uid = ::geteuid(), .gid = ::getegid()};
    std::memcpy(value, &peer, std::min(size, sizeof peer));
    return sizeof peer;
  }
  const int number = name == SO_TYPE ? type_ : name == SO_DOMAIN ? AF_UNIX : 0;
  std::memset(value, 0, size);
  std::memcpy(value, &number, std::min(size, sizeof number));
  return sizeof number;
}

ssize_t LocalSocket::readv(const iovec* into, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(into);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return receive(message, !nonblocking);
}

ssize_t LocalSocket::writev(const iovec* from, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return send(message, !nonblocking);
}

std::uint32_t LocalSocket::ready() const {
  if (listening_) return waiting_.empty() ? 0U : EPOLLIN;
  const auto peer = peer_.lock();
  if (at_end() || peer == nullptr) return EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLRDHUP;
  return (messages_.empty() ? 0U : EPOLLIN) |
         (peer->messages_.size() < kMostMessages ? EPOLLOUT : 0U);
}

void LocalSocket::kill(unsigned node) {
  std::vector<std::shared_ptr<LocalSocket>> own;
  for (const auto& [number, socket] : all_sockets()) {
    if (socket->node != node) continue;
    if (auto held = socket->weak_from_this().lock()) {
      own.push_back(std::static_pointer_cast<LocalSocket>(std::move(held)));
    }
  }
  for (const auto& socket : own) {
    if (const auto peer = socket->peer_.lock(); peer != nullptr && peer->node != node) peer->end();
    socket->end();
  }
}

}  // namespace weft::sim
