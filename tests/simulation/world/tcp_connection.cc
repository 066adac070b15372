#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/simulation/world/tcp.h"

namespace weft::sim::tcp {
namespace {

constexpr std::size_t kSendBuffer = std::size_t{256} << 10;
constexpr std::size_t kLeastSendBuffer = std::size_t{4} << 10;
constexpr std::size_t kWindow = std::size_t{1} << 20;

std::uint64_t next_id = 0;

}  // namespace

Connection::Connection(unsigned from, Address from_address, unsigned to, Address to_address)
    : id_(++next_id) {
  all_connections()[id_] = this;
  sides_[0].node = from;
  sides_[0].address = from_address;
  sides_[1].node = to;
  sides_[1].address = to_address;
  for (Side& side : sides_) {
    side.capacity = kSendBuffer;
    side.heard_at = now();
  }
}

Connection::~Connection() { all_connections().erase(id_); }

void Connection::tell(unsigned s, std::uint32_t edge) {
  if (const auto socket = sides_[s].socket.lock(); socket != nullptr) socket->tell(edge);
}

// As Linux has it: a sender that was stopped is told when a third of its buffer is free.
bool Connection::writable(const Side& side) const {
  return side.unacknowledged * 3 <= side.capacity * 2;
}

std::uint32_t Connection::ready(unsigned s, std::size_t low_water) const {
  const Side& side = sides_[s];
  const bool no_more = side.fin_arrived || side.shut_read || side.dead;
  std::uint32_t ready = 0;
  if (no_more) ready |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
  if (side.arrived.size() >= std::min(low_water, kWindow / 2)) ready |= EPOLLIN | EPOLLRDNORM;
  if (side.dead || side.shut_write || writable(side)) {
    ready |= EPOLLOUT | EPOLLWRNORM;
  } else {
    side.wants_room = true;
  }
  if (side.error != 0) ready |= EPOLLERR;
  if (side.dead || (no_more && side.shut_write)) ready |= EPOLLHUP;
  return ready;
}

std::size_t Connection::room(unsigned s) {
  Side& side = sides_[s];
  // The system gives a sender more memory or less: so there are writes that it takes in part.
  if (chance(20'000)) {
    side.capacity = kLeastSendBuffer << choose(7);
  }
  if (side.unacknowledged < side.capacity) return side.capacity - side.unacknowledged;
  side.wants_room = true;
  return 0;
}

void Connection::send(unsigned s, std::vector<std::byte> bytes) {
  Side& side = sides_[s];
  if (side.dead || bytes.empty()) return;
  if (side.unacknowledged + bytes.size() >= side.capacity) side.wants_room = true;
  side.unacknowledged += bytes.size();
  const Ns arrives = now() + travel_time(side.node, sides_[1 - s].node);
  if (bytes.size() > 1 && chance(150'000)) {
    // In two pieces: the receiver sees the first some time before the rest.
    const auto middle = static_cast<std::ptrdiff_t>(1 + choose(bytes.size() - 1));
    std::vector<std::byte> first(bytes.begin(), bytes.begin() + middle);
    bytes.erase(bytes.begin(), bytes.begin() + middle);
    side.in_flight.push_back({std::move(first), false, arrives});
    side.in_flight.push_back(
        {std::move(bytes), false, arrives + travel_time(side.node, sides_[1 - s].node)});
  } else {
    side.in_flight.push_back({std::move(bytes), false, arrives});
  }
  if (!side.stalled) deliver_at(s, side.in_flight.front().arrives);
}

void Connection::shut_write(unsigned s) {
  Side& side = sides_[s];
  if (side.dead || side.shut_write) return;
  side.shut_write = true;
  side.in_flight.push_back({{}, true, now() + travel_time(side.node, sides_[1 - s].node)});
  if (!side.stalled) deliver_at(s, side.in_flight.front().arrives);
}

void Connection::close(unsigned s, bool abort) {
  Side& side = sides_[s];
  side.closed = true;
  side.shut_read = true;
  if (side.dead) return;
  if (!abort && side.arrived.empty()) return shut_write(s);
  // Linux resets a connection that is closed with bytes nobody has read.
  side.dead = true;
  side.in_flight.clear();
  side.arrived.clear();
  answer_with_reset(1 - s);
}

void Connection::was_read(unsigned s) {
  Side& side = sides_[s];
  if (!side.window_shut || side.arrived.size() > kWindow / 2) return;
  side.window_shut = false;
  deliver_at(1 - s, now() + travel_time(side.node, sides_[1 - s].node));
}

// --- Delivery
// --------------------------------------------------------------------------------------

// One event at a time is under way for each direction: for the piece that is next.
void Connection::deliver_at(unsigned s, Ns time) {
  Side& from = sides_[s];
  time = std::max(time, now());
  if (from.delivery_at <= time) return;
  from.delivery_at = time;
  at(time, [self = shared_from_this(), s, time] {
    Side& side = self->sides_[s];
    if (side.delivery_at != time) return;
    side.delivery_at = kNever;
    self->deliver(s);
  });
}

void Connection::deliver(unsigned s) {
  Side& from = sides_[s];
  if (from.acks_owed > 0 && way_open(1 - s)) {
    acknowledge(s, std::exchange(from.acks_owed, 0));
  }
  while (!from.in_flight.empty()) {
    if (from.in_flight.front().arrives > now()) {
      return deliver_at(s, from.in_flight.front().arrives);
    }
    if (!deliver_one(s)) return;
  }
}

bool Connection::deliver_one(unsigned s) {
  Side& from = sides_[s];
  Side& to = sides_[1 - s];
  const bool arrives = from.vanished ? host(to.node).alive : way_open(s);
  if (!arrives) {
    stall(s);
    return false;
  }
  Segment& head = from.in_flight.front();
  if (to.dead || (to.closed && !head.bytes.empty())) {
    // Also the machine that is on again and knows nothing of this connection.
    from.in_flight.clear();
    from.unacknowledged = from.acks_owed = 0;
    if (!from.dead) answer_with_reset(s);
    return false;
  }
  if (to.arrived.size() >= kWindow && !head.bytes.empty()) {
    to.window_shut = true;
    return false;
  }
  moved_on(s);
  const std::size_t size = head.bytes.size();
  note((id_ << 32) ^ (static_cast<std::uint64_t>(s) << 31) ^ size);
  counts().bytes += size;
  to.heard_at = now();
  to.fin_arrived = to.fin_arrived || head.fin;
  if (!to.shut_read) to.arrived.push(std::move(head.bytes));
  from.in_flight.pop_front();
  if (size > 0) acknowledge(s, size);
  const auto socket = to.socket.lock();
  if (socket != nullptr && (socket->ready() & EPOLLIN) != 0) tell(1 - s, EPOLLIN | EPOLLRDNORM);
  return true;
}

void Connection::acknowledge(unsigned s, std::size_t size) {
  Side& from = sides_[s];
  if (from.dead) return;
  if (!way_open(1 - s)) {
    from.acks_owed += size;
    stall(s);
    return;
  }
  from.heard_at = now();
  from.unacknowledged -= size;
  moved_on(s);
  if (!from.wants_room || !writable(from)) return;
  from.wants_room = false;
  tell(s, EPOLLOUT | EPOLLWRNORM);
}

void Connection::moved_on(unsigned s) {
  sides_[s].stalled = false;
  ++sides_[s].progress;
}

// Sent again and again without an answer. retry() is when that may help.
void Connection::stall(unsigned s) {
  Side& from = sides_[s];
  if (from.vanished) return from.in_flight.clear();
  if (from.stalled || from.dead) return;
  from.stalled = true;
  const Ns patience = from.keep_alive.user_timeout > 0
                          ? from.keep_alive.user_timeout
                          : 60 * kSecond + static_cast<Ns>(choose(60 * kSecond));
  after(patience, [self = shared_from_this(), s, progress = ++from.progress] {
    Side& side = self->sides_[s];
    if (!side.stalled || side.progress != progress || side.dead) return;
    ++counts().timed_out;
    self->fail(s, ETIMEDOUT);
  });
}

void Connection::retry() {
  for (unsigned s : {0U, 1U}) {
    if (!sides_[s].stalled) continue;
    // The longer it was stalled, the longer are TCP's pauses. The seed draws one.
    static constexpr Ns kPauses[] = {kMillisecond, 200 * kMillisecond, 2 * kSecond, 8 * kSecond};
    deliver_at(s, now() + 1 + static_cast<Ns>(choose(kPauses[choose(4)])));
  }
}

// --- Ends
// ------------------------------------------------------------------------------------------

void Connection::answer_with_reset(unsigned s) {
  const unsigned from = sides_[1 - s].node;
  after(travel_time(from, sides_[s].node), [self = shared_from_this(), s, from] {
    // One that is lost is not sent again: the other end is half-open until it sends something.
    if (reaches(from, self->sides_[s].node)) self->fail(s, ECONNRESET);
  });
}

void Connection::fail(unsigned s, int error) {
  Side& side = sides_[s];
  if (side.dead) return;
  note((id_ << 32) ^ 0xdeadU ^ static_cast<unsigned>(error));
  if (error == ECONNRESET) ++counts().reset;
  side.dead = true;
  side.error = error;
  side.in_flight.clear();
  moved_on(s);
  tell(s, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP);
}

void Connection::vanish(unsigned s) {
  Side& side = sides_[s];
  // What is on its way still arrives, if it can now.
  if (!way_open(s) || side.stalled) side.in_flight.clear();
  side.vanished = true;
  side.dead = true;
  side.arrived.clear();
  side.stalled = false;
  ++side.progress;
  if (const auto socket = side.socket.lock(); socket != nullptr) socket->vanish();
}

void Connection::start_keep_alive(unsigned s) {
  Side& side = sides_[s];
  after(side.keep_alive.idle, [weak = weak_from_this(), s] {
    if (const auto self = weak.lock(); self != nullptr) self->keep_alive(s);
  });
}

void Connection::keep_alive(unsigned s) {
  Side& side = sides_[s];
  const KeepAlive& how = side.keep_alive;
  if (side.dead || side.closed || !how.on) return;
  Ns next = side.heard_at + how.idle;
  if (next <= now()) {
    next = now() + how.interval;
    const Ns patience = how.user_timeout > 0 ? std::max(how.user_timeout, how.idle + how.interval)
                                             : how.idle + how.interval * how.probes;
    if (way_open(s) && way_open(1 - s)) {
      if (sides_[1 - s].dead) return fail(s, ECONNRESET);
      side.heard_at = now();
      next = now() + how.idle;
    } else if (now() - side.heard_at >= patience) {
      ++counts().timed_out;
      return fail(s, ETIMEDOUT);
    }
  }
  at(next, [weak = weak_from_this(), s] {
    if (const auto self = weak.lock(); self != nullptr) self->keep_alive(s);
  });
}

}  // namespace weft::sim::tcp
