#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/simulation/world/tcp.h"

namespace weft::sim::tcp {
namespace {

constexpr unsigned kSynRetries = 6;  // then 127 s have passed

}  // namespace

Socket::Socket() : life_(sim::life()) { node = sim::node(); }

bool Socket::gone() const { return !host(node).alive || life_of(node) != life_; }

// --- Addresses, and who listens
// --------------------------------------------------------------------

int Socket::bind(Address address) {
  if (gone()) return -ENETDOWN;
  if (local_.port != 0 || state_ != State::kFresh) return -EINVAL;
  Host& own = host(node);
  if (address.port == 0) {
    address.port = own.free_port();
  } else if (const auto found = own.bound.find(address.port); found != own.bound.end()) {
    if (!found->second.expired()) return -EADDRINUSE;
  }
  local_ = address;
  own.bound[address.port] = std::static_pointer_cast<Socket>(shared_from_this());
  return 0;
}

int Socket::listen(int backlog) {
  if (gone()) return -ENETDOWN;
  if (state_ != State::kFresh && state_ != State::kListening) return -EINVAL;
  if (local_.port == 0) {
    if (const int failed = bind({}); failed < 0) return failed;
  }
  state_ = State::kListening;
  backlog_ = static_cast<std::size_t>(std::max(backlog, 1));
  return 0;
}

bool Socket::takes_connections() const {
  return state_ == State::kListening && numbers > 0 && queue_.size() < backlog_;
}

void Socket::queue_connection(std::shared_ptr<Connection> connection) {
  queue_.push_back(std::move(connection));
  changed(EPOLLIN | EPOLLRDNORM);
}

int Socket::accept(std::shared_ptr<Socket>& out) {
  if (state_ != State::kListening) return -EINVAL;
  if (queue_.empty()) return -EAGAIN;
  out = std::make_shared<Socket>();
  out->connection_ = std::move(queue_.front());
  queue_.pop_front();
  out->side_ = 1;
  out->state_ = State::kConnected;
  Connection::Side& side = out->connection_->side(1);
  side.socket = out;
  out->local_ = side.address;
  out->remote_ = out->connection_->side(0).address;
  return 0;
}

Address Socket::local() const { return local_; }

int Socket::peer(Address& out) const {
  const bool there = state_ == State::kConnected && !gone() && !connection_->side(side_).dead;
  if (!there) return -ENOTCONN;
  out = remote_;
  return 0;
}

// --- Connecting
// ------------------------------------------------------------------------------------

int Socket::connect(Address to) {
  if (gone()) return -ENETUNREACH;
  switch (state_) {
    case State::kListening: return -EINVAL;
    case State::kConnecting: return -EALREADY;
    case State::kConnected: return -EISCONN;
    case State::kFresh: break;
  }
  if (error_ != 0) return take_error();
  if (local_.port == 0) local_.port = host(node).free_port();
  const bool inside = (to.ip >> 24) == 127 || to.ip == 0;
  if (local_.ip == 0) local_.ip = inside ? 0x7f000001U : ip_of(node);
  if (to.ip == 0) to.ip = 0x7f000001U;
  remote_ = to;
  state_ = State::kConnecting;
  ++attempt_;
  send_syn(0);
  return -EINPROGRESS;
}

void Socket::send_syn(unsigned tries) {
  const Ns time = travel_time(node, node_of(remote_.ip, node));
  after(time, [weak = weak_from_this(), tries, attempt = attempt_] {
    const auto self = std::static_pointer_cast<Socket>(weak.lock());
    if (self == nullptr || self->state_ != State::kConnecting) return;
    if (self->attempt_ == attempt && self->numbers > 0) self->syn_arrives(tries);
  });
}

void Socket::syn_arrives(unsigned tries) {
  const unsigned there = node_of(remote_.ip, node);
  const Ns back = travel_time(there, node);
  if (!gone() && reaches(node, there) && reaches(there, node)) {
    const auto found = host(there).bound.find(remote_.port);
    const auto listener = found == host(there).bound.end() ? nullptr : found->second.lock();
    if (listener == nullptr || listener->state_ != State::kListening || listener->numbers == 0) {
      return refuse(ECONNREFUSED, back);
    }
    if (listener->takes_connections()) {
      auto made = std::make_shared<Connection>(node, local_, there, remote_);
      after(back, [self = std::static_pointer_cast<Socket>(shared_from_this()), made] {
        self->connected(made);
      });
      after(back + travel_time(node, there), [listener, made] {
        if (made->side(1).dead) return;
        if (listener->takes_connections()) return listener->queue_connection(made);
        made->close(1, true);
      });
      return;
    }
  }
  if (tries == kSynRetries) return refuse(ETIMEDOUT, 64 * kSecond);
  after(kSecond << tries, [weak = weak_from_this(), tries, attempt = attempt_] {
    const auto self = std::static_pointer_cast<Socket>(weak.lock());
    if (self != nullptr && self->attempt_ == attempt) self->send_syn(tries + 1);
  });
}

void Socket::refuse(int error, Ns after_time) {
  after(after_time, [weak = weak_from_this(), error, attempt = attempt_] {
    const auto self = std::static_pointer_cast<Socket>(weak.lock());
    if (self == nullptr || self->state_ != State::kConnecting || self->attempt_ != attempt) return;
    ++(error == ECONNREFUSED ? counts().refused : counts().timed_out);
    self->state_ = State::kFresh;
    self->error_ = error;
    self->changed(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
  });
}

void Socket::connected(std::shared_ptr<Connection> connection) {
  // Closed meanwhile, or off: the other end learns it when it sends something, or at once.
  if (state_ != State::kConnecting || numbers == 0 || gone()) return connection->close(0, true);
  ++counts().connected;
  connection_ = std::move(connection);
  Connection::Side& side = connection_->side(0);
  side.socket = std::static_pointer_cast<Socket>(shared_from_this());
  side.keep_alive = keep_alive_;
  if (keep_alive_.on) connection_->start_keep_alive(0);
  state_ = State::kConnected;
  changed(EPOLLOUT | EPOLLWRNORM);
}

// --- Bytes
// -----------------------------------------------------------------------------------------

int Socket::take_error() {
  if (gone()) return -ECONNRESET;
  if (state_ == State::kConnected) {
    return -std::exchange(connection_->side(side_).error, 0);
  }
  return -std::exchange(error_, 0);
}

// 1 when there are bytes, 0 at the stream's end, or -errno.
int Socket::try_receive(std::size_t& available) {
  if (gone()) return -ECONNRESET;
  if (state_ != State::kConnected) {
    const int failed = take_error();
    return failed != 0 ? failed : -ENOTCONN;
  }
  Connection::Side& side = connection_->side(side_);
  available = side.arrived.size();
  if (available > 0) return 1;
  if (side.error != 0) return take_error();
  return side.fin_arrived || side.shut_read || side.dead ? 0 : -EAGAIN;
}

ssize_t Socket::receive(const iovec* into, int count, bool peek, bool wait) {
  for (;;) {
    std::size_t available = 0;
    const int state = try_receive(available);
    if (state == -EAGAIN && wait) {
      static_cast<void>(wait_ready(*this, EPOLLIN));
      continue;
    }
    if (state <= 0) return state;
    const std::size_t taken = connection_->side(side_).arrived.take(into, count, peek);
    if (!peek) connection_->was_read(side_);
    return static_cast<ssize_t>(taken);
  }
}

ssize_t Socket::receive_piece(std::vector<std::byte>& out, std::size_t most, bool wait) {
  std::size_t available = 0;
  int state = try_receive(available);
  while (state == -EAGAIN && wait) {
    static_cast<void>(wait_ready(*this, EPOLLIN));
    state = try_receive(available);
  }
  if (state <= 0) return state;
  out = connection_->side(side_).arrived.pop(most);
  connection_->was_read(side_);
  return static_cast<ssize_t>(out.size());
}

ssize_t Socket::room_to_send(bool wait) {
  for (;;) {
    if (gone()) return -ECONNRESET;
    if (state_ == State::kConnecting) return -EAGAIN;
    if (state_ != State::kConnected) {
      const int failed = take_error();
      return failed != 0 ? failed : -ENOTCONN;
    }
    const Connection::Side& side = connection_->side(side_);
    if (side.error != 0) return take_error();
    if (side.dead || side.shut_write) return -EPIPE;
    const std::size_t room = connection_->room(side_);
    if (room > 0) return static_cast<ssize_t>(room);
    if (!wait) return -EAGAIN;
    static_cast<void>(wait_ready(*this, EPOLLOUT));
  }
}

void Socket::send_piece(std::vector<std::byte> bytes) {
  if (!gone() && state_ == State::kConnected) connection_->send(side_, std::move(bytes));
}

ssize_t Socket::send(const iovec* from, int count, bool wait) {
  const std::size_t size = total(from, count);
  // A socket that blocks takes all of it; one that does not what there is room for.
  std::size_t sent = 0;
  std::vector<std::byte> all;
  do {
    const ssize_t room = room_to_send(wait);
    if (room < 0) return sent > 0 ? static_cast<ssize_t>(sent) : room;
    const std::size_t part = std::min(size - sent, static_cast<std::size_t>(room));
    if (sent == 0) {
      all = gather(from, count, wait ? size : part);
      if (part == size) {
        send_piece(std::move(all));
        return static_cast<ssize_t>(size);
      }
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(sent);
    send_piece({begin, begin + static_cast<std::ptrdiff_t>(part)});
    sent += part;
  } while (wait && sent < size);
  // What did not fit is why the sender is told of room.
  if (sent < size && state_ == State::kConnected) connection_->side(side_).wants_room = true;
  return static_cast<ssize_t>(sent);
}

// --- State and options
// -----------------------------------------------------------------------------

std::uint32_t Socket::ready() const {
  if (gone()) {
    if (state_ == State::kListening) return 0;
    return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP;
  }
  switch (state_) {
    case State::kListening: return queue_.empty() ? 0U : EPOLLIN | EPOLLRDNORM;
    case State::kConnecting: return 0;
    case State::kConnected: return connection_->ready(side_, low_water_);
    case State::kFresh: break;
  }
  return error_ != 0 ? EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP : EPOLLOUT | EPOLLHUP;
}

int Socket::shutdown(int how) {
  if (gone()) return -ENOTCONN;
  if (state_ == State::kListening && how != SHUT_WR) {
    state_ = State::kFresh;  // still bound
    for (const auto& waiting : std::exchange(queue_, {})) waiting->close(1, true);
    changed(EPOLLIN | EPOLLOUT | EPOLLHUP);
    return 0;
  }
  if (state_ != State::kConnected || connection_->side(side_).dead) return -ENOTCONN;
  if (how == SHUT_RD || how == SHUT_RDWR) connection_->side(side_).shut_read = true;
  if (how == SHUT_WR || how == SHUT_RDWR) connection_->shut_write(side_);
  changed(0);
  return 0;
}

void Socket::closed() {
  if (local_.port != 0) {
    auto& bound = host(node).bound;
    const auto found = bound.find(local_.port);
    if (found != bound.end() && found->second.lock().get() == this) bound.erase(found);
  }
  ++attempt_;
  if (gone()) return;
  for (const auto& waiting : std::exchange(queue_, {})) waiting->close(1, true);
  if (state_ == State::kConnected) connection_->close(side_, reset_on_close_);
}

void Socket::vanish() {
  queue_.clear();
  changed(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP);
}

int Socket::control(unsigned long request, void* argument) {
  if (request == FIONREAD) {
    const bool open = state_ == State::kConnected && !gone();
    const std::size_t size = open ? connection_->side(side_).arrived.size() : 0;
    *static_cast<int*>(argument) = static_cast<int>(size);
    return 0;
  }
  return -ENOTTY;
}

int Socket::option(int level, int name, int& value) {
  value = 0;
  if (level != SOL_SOCKET) {
    value = options_[{level, name}];
    return 0;
  }
  switch (name) {
    case SO_ERROR: value = -take_error(); break;
    case SO_TYPE: value = SOCK_STREAM; break;
    case SO_DOMAIN: value = AF_INET; break;
    case SO_PROTOCOL: value = IPPROTO_TCP; break;
    case SO_ACCEPTCONN: value = state_ == State::kListening ? 1 : 0; break;
    default: value = options_[{level, name}]; break;
  }
  return 0;
}

int Socket::set_option(int level, int name, const void* value, std::size_t size) {
  if (level == SOL_SOCKET && name == SO_LINGER && size >= sizeof(linger)) {
    linger how{};
    std::memcpy(&how, value, sizeof how);
    reset_on_close_ = how.l_onoff != 0 && how.l_linger == 0;
    return 0;
  }
  int number = 0;
  std::memcpy(&number, value, std::min(size, sizeof number));
  options_[{level, name}] = number;
  KeepAlive& how = connection_ != nullptr ? connection_->side(side_).keep_alive : keep_alive_;
  if (level == SOL_SOCKET && name == SO_RCVLOWAT) {
    low_water_ = static_cast<std::size_t>(std::max(number, 1));
    if ((ready() & EPOLLIN) != 0) changed(EPOLLIN);
  } else if (level == SOL_SOCKET && name == SO_KEEPALIVE) {
    const bool starts = number != 0 && !how.on;
    how.on = number != 0;
    if (starts && connection_ != nullptr) connection_->start_keep_alive(side_);
  } else if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) {
    how.idle = number * kSecond;
  } else if (level == IPPROTO_TCP && name == TCP_KEEPINTVL) {
    how.interval = number * kSecond;
  } else if (level == IPPROTO_TCP && name == TCP_KEEPCNT) {
    how.probes = number;
  } else if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT) {
    how.user_timeout = number * kMillisecond;
  }
  return 0;
}

}  // namespace weft::sim::tcp
