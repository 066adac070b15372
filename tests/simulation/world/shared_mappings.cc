#include "tests/simulation/world/shared_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim {
namespace {

struct Mapping {
  std::size_t bytes = 0;
  int protection = 0;
  int fd = -1;
  unsigned node = kNoNode;
};
std::map<void*, Mapping>& mappings() {
  static auto* const made = new std::map<void*, Mapping>;
  return *made;
}

}  // namespace

void mapped(void* address, std::size_t bytes, int protection, int fd) {
  const Real real;
  mappings()[address] = {bytes, protection, ::fcntl(fd, F_DUPFD_CLOEXEC, 0), node()};
}

void unmapped(void* address) {
  const auto found = mappings().find(address);
  if (found == mappings().end()) return;
  const Real real;
  ::close(found->second.fd);
  mappings().erase(found);
}

void part_mappings(unsigned node) {
  const Real real;
  for (const auto& [address, one] : mappings()) {
    if (one.node != node) continue;
    ::mmap(address, one.bytes, one.protection, MAP_PRIVATE | MAP_FIXED, one.fd, 0);
  }
}

}  // namespace weft::sim
