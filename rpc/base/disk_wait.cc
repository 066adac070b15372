#include "rpc/base/disk_wait.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "rpc/base/buffer.h"

namespace weft {

bool waits_for_disk(pid_t thread) {
  const OwnedFd file(
      ::open(fmt::format("/proc/self/task/{}/stat", thread).c_str(), O_RDONLY | O_CLOEXEC));
  char text[256] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return false;
  const char* const name_ends = std::strrchr(text, ')');  // a name may have any characters
  return name_ends != nullptr && std::string_view(name_ends).starts_with(") D");
}

bool any_thread_waits_for_disk() {
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc/self/task", failed), end; !failed && at != end;
       at.increment(failed)) {
    const int thread = std::atoi(at->path().filename().c_str());
    if (thread > 0 && waits_for_disk(thread)) return true;
  }
  return false;
}

}  // namespace weft
