#include "rpc/base/machine.h"

#include <fcntl.h>
#include <unistd.h>

#include "rpc/base/buffer.h"

namespace weft {

MachineId this_machine() {
  MachineId id{};
  const OwnedFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[36];
  if (!file || ::read(file.get(), text, sizeof text) != sizeof text) return id;
  std::size_t digits = 0;
  for (const char c : text) {
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0 || digits == 2 * id.size()) continue;
    id[digits / 2] = id[digits / 2] << 4 | static_cast<std::byte>(value);
    ++digits;
  }
  return id;
}

bool is_this_machine(const MachineId& id) { return id != MachineId{} && id == this_machine(); }

}  // namespace weft
