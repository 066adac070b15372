#include "layout/room.h"

#include <algorithm>
#include <functional>

#include "rpc/base/assert.h"

namespace weft::layout {

// It is the largest T for which the sum of min(place, T) is at least copies * T: no place has
// more than one copy of a byte. A place larger than all others could ever fill up to has a copy of
// everything; what is left is to hold one copy less.
std::uint64_t room_for(std::vector<std::uint64_t> places, unsigned copies) {
  WEFT_ASSERT(copies > 0);
  if (places.size() < copies) return 0;
  std::ranges::sort(places, std::greater<>());
  std::uint64_t rest = 0;  // saturating: what servers say of their disks is theirs
  for (const std::uint64_t bytes : places) {
    rest = bytes > UINT64_MAX - rest ? UINT64_MAX : rest + bytes;
  }
  for (const std::uint64_t largest : places) {
    if (copies == 1 || largest <= rest / copies) break;
    rest -= std::min(rest, largest);
    --copies;
  }
  return rest / copies;
}

}  // namespace weft::layout
