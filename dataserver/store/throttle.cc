#include "dataserver/store/throttle.h"

#include <sys/resource.h>

namespace weft::ds {

std::int64_t waits_of_this_thread() {
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  return usage.ru_nvcsw;
}

}  // namespace weft::ds
