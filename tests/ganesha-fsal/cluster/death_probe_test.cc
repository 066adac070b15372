// A machine that refuses connections says that its data server's process is gone.
#include "ganesha-fsal/cluster/death_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

using namespace std::chrono_literals;

// A port of the loopback address that listens until it is closed.
struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(at);
    REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&at), length) == 0);
    REQUIRE(::listen(socket, 1) == 0);
    REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &length) == 0);
    address = layout::make_address("127.0.0.1", ntohs(at.sin_port)).value();
  }
  ~Listener() { close(); }
  void close() {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
  int socket;
  layout::NetAddress address;
};

}  // namespace

TEST_CASE("a process that is gone is told from one that listens") {
  Listener one;
  Listener other;
  const layout::NetAddress both[] = {one.address, other.address};
  CHECK_FALSE(refuses(both, 200ms));
  one.close();
  CHECK_FALSE(refuses(both, 200ms));  // it listens at the other address still
  other.close();
  CHECK(refuses(both, 200ms));
  CHECK_FALSE(refuses({}, 200ms));
}

}  // namespace weft::mds
