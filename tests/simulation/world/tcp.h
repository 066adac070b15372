// How the simulated network is made: machines, connections, sockets. Internal to world/.
//
// A Connection is what both ends and the bytes between them are. Its sockets own it, and so do
// events that are under way: what was sent before close(2) still arrives.
//
// Threading: as scheduler.h.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/world/descriptors.h"
#include "tests/simulation/world/network.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim::tcp {

class Socket;
class Connection;

struct Address {
  std::uint32_t ip = 0;  // in the machine's byte order
  std::uint16_t port = 0;
};

// --- Machines and what is between them (network.cc)
// -------------------------------------------------

struct Host {
  bool alive = true;
  bool isolated = false;
  std::uint16_t next_port = 32768;
  std::map<std::uint16_t, std::weak_ptr<Socket>> bound;

  // The next port that no socket is bound to.
  [[nodiscard]] std::uint16_t free_port();
};
[[nodiscard]] Host& host(unsigned node);
[[nodiscard]] std::uint32_t ip_of(unsigned node);
// The machine that `ip` means to a thread of machine `from`.
[[nodiscard]] unsigned node_of(std::uint32_t ip, unsigned from);
// No cut between them, one way; both are on.
[[nodiscard]] bool reaches(unsigned from, unsigned to);
// What the next piece takes.
[[nodiscard]] Ns travel_time(unsigned from, unsigned to);
[[nodiscard]] network::Totals& counts();

// All of them, in the order in which they came to be.
[[nodiscard]] std::map<std::uint64_t, Connection*>& all_connections();

// --- Connections (tcp_connection.cc)
// ----------------------------------------------------------------

struct KeepAlive {
  bool on = false;
  Ns idle = 7200 * kSecond;
  Ns interval = 75 * kSecond;
  int probes = 9;
  Ns user_timeout = 0;  // 0: the system's
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Segment {
    std::vector<std::byte> bytes;
    bool fin = false;
    Ns arrives = 0;
  };
  struct Side {
    unsigned node = 0;
    Address address;
    std::weak_ptr<Socket> socket;
    KeepAlive keep_alive;

    bool closed = false;    // by its program
    bool dead = false;      // reset, given up, or its machine was off
    bool vanished = false;  // the last of these
    int error = 0;          // to be told once
    bool shut_read = false;
    bool shut_write = false;

    // What it sends: up to `capacity` bytes that the other side has not acknowledged.
    std::deque<Segment> in_flight;
    std::size_t capacity = 0;
    std::size_t unacknowledged = 0;
    std::size_t acks_owed = 0;  // for bytes that arrived, but the way back is cut
    mutable bool wants_room = false;
    Ns delivery_at = kNever;
    bool stalled = false;
    std::uint64_t progress = 0;

    // What it received and its program has not read.
    ByteQueue arrived;
    bool fin_arrived = false;
    bool window_shut = false;  // more waits until there is room
    Ns heard_at = 0;
  };

  // From side 0 to side 1.
  Connection(unsigned from, Address from_address, unsigned to, Address to_address);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  [[nodiscard]] Side& side(unsigned s) { return sides_[s]; }
  [[nodiscard]] std::uint32_t ready(unsigned s, std::size_t low_water) const;
  // Room for bytes of side s; 0: it is told (EPOLLOUT) when there is.
  [[nodiscard]] std::size_t room(unsigned s);
  void send(unsigned s, std::vector<std::byte> bytes);
  // The program has read: room for more.
  void was_read(unsigned s);
  void shut_write(unsigned s);
  // The program's last number is closed. `abort`: with a reset.
  void close(unsigned s, bool abort);
  // Side s is told that the connection has ended.
  void fail(unsigned s, int error);
  // Its machine is off.
  void vanish(unsigned s);
  // The way may be open again: what is stalled is sent again after a while.
  void retry();
  void start_keep_alive(unsigned s);

 private:
  [[nodiscard]] bool way_open(unsigned s) const {
    return reaches(sides_[s].node, sides_[1 - s].node);
  }
  [[nodiscard]] bool writable(const Side& side) const;
  void deliver(unsigned s);
  [[nodiscard]] bool deliver_one(unsigned s);
  void deliver_at(unsigned s, Ns time);
  void acknowledge(unsigned s, std::size_t size);
  void stall(unsigned s);
  void moved_on(unsigned s);
  void answer_with_reset(unsigned s);  // side s sent something to an end that is not there
  void keep_alive(unsigned s);
  void tell(unsigned s, std::uint32_t edge);

  const std::uint64_t id_;
  std::array<Side, 2> sides_;
};

// --- Sockets (tcp_socket.cc)
// ------------------------------------------------------------------------

class Socket final : public Descriptor {
 public:
  Socket();

  int bind(Address address);
  int listen(int backlog);
  int connect(Address to);
  // The next connection, as a socket that has no number yet, or -errno.
  int accept(std::shared_ptr<Socket>& out);
  int shutdown(int how);
  [[nodiscard]] Address local() const;
  int peer(Address& out) const;
  // -errno, or 0 and the value.
  int option(int level, int name, int& value);
  int set_option(int level, int name, const void* value, std::size_t size);

  ssize_t receive(const iovec* into, int count, bool peek, bool wait);
  ssize_t send(const iovec* from, int count, bool wait);
  // For splice(2) and sendfile(2).
  ssize_t receive_piece(std::vector<std::byte>& out, std::size_t most, bool wait);
  ssize_t room_to_send(bool wait);
  void send_piece(std::vector<std::byte> bytes);

  ssize_t readv(const iovec* into, int count) override {
    return receive(into, count, false, !nonblocking);
  }
  ssize_t writev(const iovec* from, int count) override { return send(from, count, !nonblocking); }
  [[nodiscard]] std::uint32_t ready() const override;
  void closed() override;
  int control(unsigned long request, void* argument) override;

  // For connections and the network.
  void tell(std::uint32_t edge) { changed(edge); }
  void vanish();
  [[nodiscard]] bool takes_connections() const;
  void queue_connection(std::shared_ptr<Connection> connection);
  [[nodiscard]] bool gone() const;  // its machine was switched off since it was made

 private:
  enum class State { kFresh, kListening, kConnecting, kConnected };

  void send_syn(unsigned tries);
  void syn_arrives(unsigned tries);
  void refuse(int error, Ns after_time);
  void connected(std::shared_ptr<Connection> connection);
  int try_receive(std::size_t& available);
  int take_error();

  const unsigned life_;
  State state_ = State::kFresh;
  Address local_;
  Address remote_;
  int error_ = 0;
  std::uint64_t attempt_ = 0;
  std::shared_ptr<Connection> connection_;
  unsigned side_ = 0;
  std::size_t backlog_ = 0;
  std::deque<std::shared_ptr<Connection>> queue_;  // side 1 of each is to be accepted
  std::size_t low_water_ = 1;
  bool reset_on_close_ = false;  // SO_LINGER with no time
  KeepAlive keep_alive_;
  std::map<std::pair<int, int>, int> options_;
};

}  // namespace weft::sim::tcp
