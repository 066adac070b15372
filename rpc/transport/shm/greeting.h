// How two processes on one machine come to share memory: over a Unix socket, once.
//
// The connecting side sends a Greeting with three descriptors: the rings' memory, the arena, and
// the far end of a socket pair through which descriptors are handed to it. The accepting side looks
// at who it is (SO_PEERCRED), checks and maps both memories (shared_memory.h), and answers with a
// Welcome. From then on a byte through the socket is a bell (shm_channel.h).
//
// Threading: plain functions on descriptors that do not block.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "rpc/base/shared_memory.h"

namespace weft::rpc {

constexpr std::uint64_t kGreetingMagic = 0x324d'4853'5446'4557;  // "WEFTSHM2"

struct Greeting {
  std::uint64_t magic = kGreetingMagic;
  std::uint64_t ring_capacity = 0;
  std::uint64_t arena_bytes = 0;
};

struct Welcome {
  std::uint64_t magic = kGreetingMagic;
  std::uint64_t unused = 0;
};

struct ReceivedGreeting {
  Greeting greeting;
  OwnedFd rings;
  OwnedFd arena;
  OwnedFd handing;
};

struct HandingPair {
  OwnedFd near;
  OwnedFd far;
};

// Bytes of the rings' memory, both directions.
[[nodiscard]] std::size_t rings_bytes(std::size_t ring_capacity);
// kAccess unless the peer's user is root, our own or one of `users`.
[[nodiscard]] Result<> check_peer(int socket, std::span<const uid_t> users);

[[nodiscard]] Result<> send_greeting(int socket, const Greeting& greeting, int rings, int arena,
                                     int handing);
// kProtocol for anything but a whole greeting of ours with its three descriptors.
[[nodiscard]] Result<ReceivedGreeting> receive_greeting(int socket);
[[nodiscard]] Result<> send_welcome(int socket);
[[nodiscard]] Result<> receive_welcome(int socket);

[[nodiscard]] Result<HandingPair> make_handing_pair();
// Channel::hand_over() and take_handed(). The kernel bounds how many are on their way.
[[nodiscard]] bool hand_over(int handing, int descriptor);
[[nodiscard]] Result<OwnedFd> take_handed(int handing);

}  // namespace weft::rpc
