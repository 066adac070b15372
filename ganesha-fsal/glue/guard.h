// No exception crosses a C frame: every function that Ganesha calls is wrapped by guarded<>.
//
//   ops->lookup = guarded<&lookup>;
//
// A quarter of Ganesha's workers at most wait for data servers at one time within these functions
// (wait_limit.h). READ, WRITE and COMMIT wait without a worker (io_ops.cc).
//
// What is caught is a bug or a lack of memory; it becomes the operation's own kind of "server
// fault" and a log line. Operations that answer through a callback (read2, write2, commit_async)
// also catch by themselves, since the callback has to be called.
#pragma once

#include "ganesha-fsal/cluster/wait_limit.h"
#include "ganesha-fsal/glue/ganesha.h"

namespace weft::mds {

[[nodiscard]] WaitLimit& workers_that_wait();

// Logs the exception in flight. Only within a catch block.
void log_escaped_exception(const char* where) noexcept;

template <class R>
[[nodiscard]] R server_fault() noexcept {
  if constexpr (std::is_same_v<R, fsal_status_t>) {
    return fsalstat(ERR_FSAL_SERVERFAULT, 0);
  } else if constexpr (std::is_same_v<R, nfsstat4>) {
    return NFS4ERR_SERVERFAULT;
  } else {
    return R{};
  }
}

template <auto function>
struct Guarded;

template <class R, class... A, R (*function)(A...)>
struct Guarded<function> {
  static R call(A... args) noexcept {
    const WaitLimit::Scope scope(workers_that_wait());
    try {
      return function(args...);
    } catch (...) {
      log_escaped_exception(__PRETTY_FUNCTION__);
      if constexpr (!std::is_void_v<R>) return server_fault<R>();
    }
  }
};

template <auto function>
inline constexpr auto guarded = &Guarded<function>::call;

}  // namespace weft::mds
