// What programs of one machine share: sockets of the Unix family, descriptors, memory.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>
#include <string>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/shm/greeting.h"
#include "tests/simulation/world/disk_folder.h"
#include "tests/simulation/world/fork.h"
#include "tests/simulation/world/network.h"

namespace weft::sim {
namespace {

sockaddr_un at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}
template <class Call>
int with(Call call, int fd, const std::string& path) {
  const sockaddr_un address = at(path);
  return call(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}
int stream() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// Node 1 listens at the path, and node 0 has connected to it.
struct Ends {
  explicit Ends(const std::string& path) {
    enter_node(1);
    listener = stream();
    SIM_CHECK(with(::bind, listener, path) == 0);
    SIM_CHECK(::listen(listener, 1) == 0);
    enter_node(0);
    near = stream();
    SIM_CHECK(with(::connect, near, path) == 0);
    enter_node(1);
    far = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    SIM_CHECK(far >= 0);
    enter_node(0);
  }
  int listener = -1;
  int near = -1;
  int far = -1;
};

TEST_CASE("what is sent through a Unix socket is there, and its end") {
  const DiskFolder folder;
  const Outcome outcome = in_simulation(1, [&] {
    const Ends ends(folder.disk());
    SIM_CHECK(::send(ends.near, "abc", 3, 0) == 3);
    char got[8];
    SIM_CHECK(::recv(ends.far, got, 2, 0) == 2 && std::memcmp(got, "ab", 2) == 0);
    SIM_CHECK(::recv(ends.far, got, sizeof got, 0) == 1 && got[0] == 'c');
    SIM_CHECK(::recv(ends.far, got, sizeof got, 0) == -1 && errno == EAGAIN);
    ::close(ends.near);
    SIM_CHECK(::recv(ends.far, got, sizeof got, 0) == 0);
    SIM_CHECK(::send(ends.far, got, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("a path that nobody serves any more is refused") {
  const DiskFolder folder;
  const Outcome outcome = in_simulation(1, [&] {
    const Ends ends(folder.disk());
    network::kill(1);
    const int late = stream();
    SIM_CHECK(with(::connect, late, folder.disk()) == -1 && errno == ECONNREFUSED);
    SIM_CHECK(with(::connect, late, folder.disk(1)) == -1 && errno == ENOENT);
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("a descriptor that is handed over is the same one") {
  const Outcome outcome = in_simulation(1, [] {
    auto pair = rpc::make_handing_pair();
    SIM_CHECK(pair.has_value());
    const OwnedFd bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    SIM_CHECK(rpc::take_handed(pair->far.get()).error() == Errc::kNotFound);
    SIM_CHECK(rpc::hand_over(pair->near.get(), bell.get()));
    const auto taken = rpc::take_handed(pair->far.get());
    SIM_CHECK(taken.has_value() && taken->get() != bell.get());
    std::uint64_t count = 7;
    SIM_CHECK(::write(bell.get(), &count, sizeof count) == sizeof count);
    count = 0;
    SIM_CHECK(::read(taken->get(), &count, sizeof count) == sizeof count && count == 7);
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("a program that has died writes into no memory that another one has") {
  const DiskFolder folder;
  const Outcome outcome = in_simulation(1, [&] {
    const Ends ends(folder.disk());
    const auto own = SharedMemory::create(SharedMemory::kPage, "test");
    SIM_CHECK(own.has_value());
    enter_node(1);
    const auto shared = SharedMemory::adopt(OwnedFd(::dup((*own)->fd())), SharedMemory::kPage);
    SIM_CHECK(shared.has_value());
    *(*shared)->base() = std::byte{1};
    SIM_CHECK(*(*own)->base() == std::byte{1});
    network::kill(1);
    *(*shared)->base() = std::byte{2};
    SIM_CHECK(*(*own)->base() == std::byte{1});
    enter_node(0);
    char got = 0;
    SIM_CHECK(::recv(ends.near, &got, 1, 0) == 0);
  });
  CHECK(outcome.status == 0);
}

}  // namespace
}  // namespace weft::sim
