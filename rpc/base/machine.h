// Which machine this is: two processes that read the same here can share memory, if they reach each
// other's sockets.
//
// Threading: pure, but for this_machine(), which reads a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

using MachineId = std::array<std::byte, 16>;  // the kernel's, new with each boot of the machine

// This machine's, as it runs now; zeros where it cannot be known, which equals nobody's.
[[nodiscard]] MachineId this_machine();
// Whether `id` is this machine's.
[[nodiscard]] bool is_this_machine(const MachineId& id);

constexpr std::size_t kMaxSocketPath = 107;  // bytes of a Unix socket's path (unix(7))

// Where a process listens for others of its machine.
struct LocalEndpoint {
  MachineId machine{};
  std::uint32_t user = 0;  // the process's
  std::string socket;      // a path of at most kMaxSocketPath bytes; empty: nowhere
  friend bool operator==(const LocalEndpoint&, const LocalEndpoint&) = default;
};

}  // namespace weft
