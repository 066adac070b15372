#include "rpc/transport/shm/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace weft::rpc {

Result<OwnedFd> Bell::make() {
  OwnedFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "make an eventfd");
  return fd;
}

bool Bell::ring(int bell) {
  const std::uint64_t one = 1;
  return ::write(bell, &one, sizeof one) == sizeof one;
}

Result<> Bell::listen(boost::asio::execution_context& context,
                      std::move_only_function<void()> rung) {
  if (!fd_) return {};
  return watch_.start(context, fd_.get(), std::move(rung));
}

}  // namespace weft::rpc
