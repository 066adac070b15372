// How two processes on one machine come to share memory: over a Unix socket, once.
//
// The connecting side sends a Greeting with four descriptors: the rings' memory, the arena, the far
// end of a socket pair through which descriptors are handed to it, and its bell (bell.h). The
// accepting side looks at who it is (SO_PEERCRED), checks and maps both memories (shared_memory.h),
// and answers with a Welcome and its own bell.
//
// A descriptor of a greeting that is of anything but memory, a Unix socket or an eventfd is
// refused, and closed by a thread that nobody waits for (late_close.h): it may be of a file system
// that does not answer. While too many of these are not closed, only root and our own user are
// heard. What else a user who is admitted by name sends, through that socket later or in the queue
// of another one, the kernel closes on our threads.
//
// Each side rings the other's bell only if the other's user is root or its own; who is admitted by
// name gets a byte through the socket instead (shm_channel.h). Both listen to both.
//
// Threading: plain functions on descriptors that do not block.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "rpc/base/shared_memory.h"

namespace weft::rpc {

constexpr std::uint64_t kGreetingMagic = 0x334d'4853'5446'4557;  // "WEFTSHM3"

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
  OwnedFd bell;  // the peer's, as receive_welcome() gives it
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
                                     int handing, int bell);
// kProtocol for anything but a whole greeting of ours with its four descriptors; kBusy: too many
// that came before are not closed.
[[nodiscard]] Result<ReceivedGreeting> receive_greeting(int socket);
[[nodiscard]] Result<> send_welcome(int socket, int bell);
// The peer's bell; none where it is to be woken through the socket. kProtocol: it is no eventfd.
[[nodiscard]] Result<OwnedFd> receive_welcome(int socket);

[[nodiscard]] Result<HandingPair> make_handing_pair();
// Channel::hand_over() and take_handed(). The kernel bounds how many are on their way.
[[nodiscard]] bool hand_over(int handing, int descriptor);
[[nodiscard]] Result<OwnedFd> take_handed(int handing);

}  // namespace weft::rpc
