// The simulated network, by itself and as Asio uses it.
#include "tests/simulation/world/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulation/world/fork.h"

namespace weft::sim {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint16_t kPort = 2049;

sockaddr_in to_node(unsigned node) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(kPort);
  ::inet_pton(AF_INET, network::address(node).c_str(), &out.sin_addr);
  return out;
}

int listener() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(kPort);
  SIM_CHECK(::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  SIM_CHECK(::listen(fd, 16) == 0);
  return fd;
}

// Blocks; the socket or -errno.
int dial(unsigned node) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in to = to_node(node);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  const int error = errno;
  ::close(fd);
  return -error;
}

// A connection from machine 1 to machine 0.
struct Pair {
  Pair() {
    enter_node(0);
    accepting = listener();
    enter_node(1);
    near = dial(0);
    SIM_CHECK(near >= 0);
    enter_node(0);
    far = ::accept(accepting, nullptr, nullptr);
    SIM_CHECK(far >= 0);
  }
  int accepting = -1;
  int near = -1;
  int far = -1;
};

int error_of(ssize_t result) { return result < 0 ? errno : 0; }
bool readable(int fd, int timeout) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, timeout) == 1;
}

void require_all_seeds(std::uint64_t seeds, const std::function<void()>& body) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    const Outcome once = in_simulation(seed, body);
    REQUIRE(once.status == 0);
    if (seed % 8 == 0) REQUIRE(in_simulation(seed, body) == once);
  }
}

// --- Asio
// ------------------------------------------------------------------------------------------

struct EchoConnection : std::enable_shared_from_this<EchoConnection> {
  explicit EchoConnection(tcp::socket from) : socket(std::move(from)) {}
  void read() {
    socket.async_read_some(boost::asio::buffer(bytes), [self = shared_from_this()](
                                                           const error_code& error, std::size_t n) {
      if (error) return;
      boost::asio::async_write(self->socket, boost::asio::buffer(self->bytes, n),
                               [self](const error_code& failed, std::size_t) {
                                 if (!failed) self->read();
                               });
    });
  }
  tcp::socket socket;
  std::vector<char> bytes = std::vector<char>(20'000);
};

void accept_next(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](const error_code& error, tcp::socket socket) {
    if (error) return;
    std::make_shared<EchoConnection>(std::move(socket))->read();
    accept_next(acceptor);
  });
}

void echo_once(std::size_t size) {
  boost::asio::io_context context;
  tcp::socket socket(context);
  std::vector<char> sent(size);
  for (std::size_t i = 0; i < size; ++i) sent[i] = static_cast<char>(i * 7 >> 3);
  std::vector<char> got(size);
  bool done = false;
  socket.async_connect(
      tcp::endpoint(boost::asio::ip::make_address(network::address(0)), kPort),
      [&](const error_code& error) {
        SIM_CHECK(!error);
        boost::asio::async_write(socket, boost::asio::buffer(sent),
                                 [](auto failed, std::size_t) { SIM_CHECK(!failed); });
        boost::asio::async_read(socket, boost::asio::buffer(got), [&](auto failed, std::size_t) {
          SIM_CHECK(!failed);
          done = true;
        });
      });
  context.run();
  SIM_CHECK(done && got == sent);
}

TEST_CASE("Asio's sockets echo what they get, by every seed, and a seed repeats") {
  require_all_seeds(100, [] {
    enter_node(0);
    boost::asio::io_context context;
    tcp::acceptor acceptor(context, tcp::endpoint(tcp::v4(), kPort));
    accept_next(acceptor);
    std::thread server([&] { context.run(); });
    std::vector<std::thread> clients;
    for (unsigned i = 1; i <= 3; ++i) {
      enter_node(i);
      clients.emplace_back([i] { echo_once(std::size_t{100'000} * i); });
    }
    for (auto& client : clients) client.join();
    context.stop();
    server.join();
    SIM_CHECK(network::totals().connected == 3);
    SIM_CHECK(network::totals().bytes == 2 * 600'000);
  });
}

TEST_CASE("Asio's timers expire in their order and at their time") {
  require_all_seeds(20, [] {
    boost::asio::io_context context;
    std::vector<boost::asio::steady_timer> timers;
    std::vector<int> expired;
    const Ns begin = now();
    for (int i = 0; i < 20; ++i) {
      timers.emplace_back(context, std::chrono::milliseconds((i * 7 % 20) * 100 + 1));
      timers.back().async_wait([&, i](const error_code&) {
        SIM_CHECK(now() - begin >= ((i * 7 % 20) * 100 + 1) * kMillisecond);
        expired.push_back(i * 7 % 20);
      });
    }
    context.run();
    SIM_CHECK(expired.size() == 20 && std::ranges::is_sorted(expired));
    SIM_CHECK(now() - begin < 3 * kSecond);
  });
}

// --- Sockets
// ---------------------------------------------------------------------------------------

TEST_CASE("an edge is told once, a level until it is gone") {
  require_all_seeds(10, [] {
    const Pair pair;
    const int set = ::epoll_create1(0);
    epoll_event event{EPOLLIN | EPOLLET, {.fd = pair.far}};
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_ADD, pair.far, &event) == 0);
    epoll_event out[4];
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 0);
    SIM_CHECK(::send(pair.near, "a", 1, 0) == 1);
    SIM_CHECK(::epoll_wait(set, out, 4, -1) == 1 && out[0].data.fd == pair.far);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 0);
    SIM_CHECK(::send(pair.near, "b", 1, 0) == 1);
    SIM_CHECK(::epoll_wait(set, out, 4, -1) == 1);  // more bytes: another edge
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_MOD, pair.far, &event) == 0);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 1);  // armed anew, and readable
    event.events = EPOLLIN;
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_MOD, pair.far, &event) == 0);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 1);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 1);
    event.events = EPOLLIN | EPOLLONESHOT;
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_MOD, pair.far, &event) == 0);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 1);
    SIM_CHECK(::epoll_wait(set, out, 4, 50) == 0);
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_DEL, pair.far, nullptr) == 0);
    SIM_CHECK(::epoll_ctl(set, EPOLL_CTL_DEL, pair.far, nullptr) == -1 && errno == ENOENT);
  });
}

TEST_CASE("a sender is told of room when the receiver has read") {
  require_all_seeds(20, [] {
    const Pair pair;
    ::fcntl(pair.near, F_SETFL, O_NONBLOCK);
    const std::vector<char> some(100'000, 'x');
    std::size_t sent = 0;
    for (;;) {
      const ssize_t n = ::send(pair.near, some.data(), some.size(), 0);
      if (n >= 0) {
        sent += static_cast<std::size_t>(n);
        continue;
      }
      SIM_CHECK(errno == EAGAIN);
      pollfd one{pair.near, POLLOUT, 0};
      if (::poll(&one, 1, 2000) == 0) break;  // the window is shut
    }
    SIM_CHECK(sent > (1U << 20) && sent < (3U << 20));
    std::vector<char> into(sent);
    for (std::size_t got = 0; got < sent;) {
      const ssize_t n = ::recv(pair.far, into.data(), into.size(), 0);
      SIM_CHECK(n > 0);
      got += static_cast<std::size_t>(n);
    }
    pollfd one{pair.near, POLLOUT, 0};
    SIM_CHECK(::poll(&one, 1, 2000) == 1);
  });
}

TEST_CASE("an end of stream comes after the bytes, and a reset before those that nobody read") {
  require_all_seeds(10, [] {
    const Pair pair;
    char byte = 0;
    SIM_CHECK(::send(pair.near, "abc", 3, 0) == 3);
    SIM_CHECK(::shutdown(pair.near, SHUT_WR) == 0);
    SIM_CHECK(::recv(pair.far, &byte, 1, MSG_PEEK) == 1 && byte == 'a');
    for (int i = 0; i < 3; ++i) SIM_CHECK(::recv(pair.far, &byte, 1, 0) == 1 && byte == 'a' + i);
    SIM_CHECK(::recv(pair.far, &byte, 1, 0) == 0);
    SIM_CHECK(error_of(::send(pair.near, "x", 1, MSG_NOSIGNAL)) == EPIPE);
    // The other way is open still.
    SIM_CHECK(::send(pair.far, "d", 1, 0) == 1);
    SIM_CHECK(readable(pair.near, 1000));
    ::close(pair.near);  // with a byte unread
    sleep_until(now() + kSecond);
    SIM_CHECK(error_of(::send(pair.far, "x", 1, MSG_NOSIGNAL)) == ECONNRESET);
    SIM_CHECK(error_of(::send(pair.far, "x", 1, MSG_NOSIGNAL)) == EPIPE);
  });
}

TEST_CASE("connecting is refused, or times out, as there is nobody or no way") {
  require_all_seeds(5, [] {
    enter_node(1);
    SIM_CHECK(dial(0) == -ECONNREFUSED);
    enter_node(0);
    static_cast<void>(listener());
    network::cut(0, 1);
    enter_node(1);
    const Ns begin = now();
    SIM_CHECK(dial(0) == -ETIMEDOUT);
    SIM_CHECK(now() - begin > 120 * kSecond && now() - begin < 130 * kSecond);
    after(10 * kSecond, [] { network::heal(0, 1); });
    SIM_CHECK(dial(0) >= 0);
  });
}

TEST_CASE("what was sent into a cut arrives when it heals, once and in order") {
  require_all_seeds(20, [] {
    const Pair pair;
    network::cut(0, 1);
    SIM_CHECK(::send(pair.near, "a", 1, 0) == 1);
    sleep_until(now() + kSecond);
    SIM_CHECK(::send(pair.near, "b", 1, 0) == 1);
    SIM_CHECK(!readable(pair.far, 5'000));
    network::heal_all();
    char into[3];
    for (std::size_t got = 0; got < 2;) {
      const ssize_t n = ::recv(pair.far, into + got, sizeof into - got, 0);
      SIM_CHECK(n > 0);
      got += static_cast<std::size_t>(n);
    }
    SIM_CHECK(into[0] == 'a' && into[1] == 'b');
    SIM_CHECK(!readable(pair.far, 1000));
  });
}

TEST_CASE("a cut one way leaves the other, and the sender gives up at its time") {
  require_all_seeds(10, [] {
    const Pair pair;
    const int patience = 5'000;
    SIM_CHECK(::setsockopt(pair.near, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience) ==
              0);
    network::cut_one_way(0, 1);  // acknowledgements are lost
    SIM_CHECK(::send(pair.near, "a", 1, 0) == 1);
    SIM_CHECK(readable(pair.far, 1000));
    char byte = 0;
    const Ns begin = now();
    SIM_CHECK(error_of(::recv(pair.near, &byte, 1, 0)) == ETIMEDOUT);
    SIM_CHECK(now() - begin < 6 * kSecond);
    SIM_CHECK(network::totals().timed_out == 1);
    // This end does not know of it, until it sends something that arrives.
    SIM_CHECK(::recv(pair.far, &byte, 1, 0) == 1);
    network::heal_all();
    SIM_CHECK(!readable(pair.far, 5'000));
    SIM_CHECK(::send(pair.far, "x", 1, 0) == 1);
    SIM_CHECK(error_of(::recv(pair.far, &byte, 1, 0)) == ECONNRESET);
  });
}

TEST_CASE("who only receives learns by keep-alive that there is no way any more") {
  require_all_seeds(5, [] {
    const Pair pair;
    const auto set = [&](int level, int name, int value) {
      SIM_CHECK(::setsockopt(pair.far, level, name, &value, sizeof value) == 0);
    };
    set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 6);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    SIM_CHECK(!readable(pair.far, 400'000));
    network::isolate(1);
    SIM_CHECK(readable(pair.far, 200'000));
    char byte = 0;
    SIM_CHECK(error_of(::recv(pair.far, &byte, 1, 0)) == ETIMEDOUT);
  });
}

TEST_CASE("a machine that was off and is on again resets who sends to its old self") {
  require_all_seeds(10, [] {
    const Pair pair;
    network::kill(1);
    SIM_CHECK(error_of(::send(pair.near, "x", 1, MSG_NOSIGNAL)) == ECONNRESET);
    SIM_CHECK(dial(1) == -ETIMEDOUT);  // it does not even refuse
    SIM_CHECK(::send(pair.far, "x", 1, 0) == 1);
    SIM_CHECK(!readable(pair.far, 20'000));
    enter_node(1);
    SIM_CHECK(dial(0) == -ENETUNREACH);
    network::revive(1);
    char byte = 0;
    SIM_CHECK(error_of(::recv(pair.far, &byte, 1, 0)) == ECONNRESET);
    const int again = dial(0);
    SIM_CHECK(again >= 0);
    network::kill(0);
    network::revive(0);
    SIM_CHECK(dial(0) == -ECONNREFUSED);  // what listened is gone
    SIM_CHECK(error_of(::recv(pair.accepting, &byte, 1, 0)) == ECONNRESET);
  });
}

TEST_CASE("connections of a machine are reset at both ends") {
  require_all_seeds(5, [] {
    const Pair pair;
    network::reset_connections(1);
    char byte = 0;
    SIM_CHECK(error_of(::recv(pair.near, &byte, 1, 0)) == ECONNRESET);
    SIM_CHECK(error_of(::recv(pair.far, &byte, 1, 0)) == ECONNRESET);
    SIM_CHECK(::recv(pair.far, &byte, 1, 0) == 0);
    SIM_CHECK(network::totals().reset == 2);
  });
}

TEST_CASE("bytes go from a socket through a pipe") {
  require_all_seeds(10, [] {
    const Pair pair;
    int ends[2];
    SIM_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    SIM_CHECK(::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
    SIM_CHECK(::splice(pair.far, nullptr, ends[1], nullptr, 10, SPLICE_F_NONBLOCK) == -1);
    SIM_CHECK(errno == EAGAIN);
    std::string sent;
    for (int i = 0; i < 10'000; ++i) sent += std::to_string(i);
    SIM_CHECK(::send(pair.near, sent.data(), sent.size(), 0) == static_cast<ssize_t>(sent.size()));
    std::string got;
    while (got.size() < sent.size()) {
      SIM_CHECK(readable(pair.far, 1000));
      const ssize_t n = ::splice(pair.far, nullptr, ends[1], nullptr, 20'000, SPLICE_F_NONBLOCK);
      if (n < 0) continue;
      std::string part(static_cast<std::size_t>(n), ' ');
      int queued = 0;
      SIM_CHECK(::ioctl(ends[0], FIONREAD, &queued) == 0 && queued == n);
      SIM_CHECK(::read(ends[0], part.data(), part.size()) == n);
      got += part;
    }
    SIM_CHECK(got == sent);
    ::close(ends[1]);
    char byte = 0;
    SIM_CHECK(::read(ends[0], &byte, 1) == 0);
  });
}

}  // namespace
}  // namespace weft::sim
