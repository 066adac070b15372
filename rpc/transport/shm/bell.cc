#include "rpc/transport/shm/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/detail/reactor.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/version.hpp>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::rpc {

namespace detail = boost::asio::detail;
using boost::system::error_code;
using Reactor = detail::reactor;

static_assert(std::is_same_v<Reactor, detail::epoll_reactor>, "a bell is watched by epoll");
// What is used of boost::asio::detail has no promise of its own. With another Boost: read its
// epoll_reactor, or watch the eventfd with asio::posix::stream_descriptor and read it each time,
// which costs a system call more a ring.
static_assert(BOOST_VERSION / 100 == 1081 || BOOST_VERSION / 100 == 1083,
              "a bell is written for the reactors of Boost 1.81 and 1.83");

// What the reactor knows the descriptor by. The operation may be gone before the Bell, and after.
struct Bell::Watch {
  Reactor& reactor;
  int fd;
  Reactor::per_descriptor_data data = nullptr;
};

class Bell::Operation : public detail::reactor_op {
 public:
  Operation(std::shared_ptr<Watch> watch, std::move_only_function<void()> rung)
      : reactor_op(error_code(), &Operation::perform, &Operation::complete),
        watch_(std::move(watch)),
        rung_(std::move(rung)) {}

  // Gives itself to the reactor, which queues it. No system call.
  void start() {
    starting_ = true;
    watch_->reactor.start_op(Reactor::read_op, watch_->fd, watch_->data, this, false, true);
    starting_ = false;
  }

 private:
  // Asked when epoll has reported the descriptor; and maybe by start(), when nothing is reported.
  // Done and exhausted: start() is not to ask again.
  static status perform(reactor_op* base) {
    return static_cast<Operation*>(base)->starting_ ? not_done : done_and_exhausted;
  }
  static void complete(void* owner, detail::operation* base, const error_code& /*ignored*/,
                       std::size_t /*bytes*/) {
    auto* self = static_cast<Operation*>(base);
    if (owner == nullptr || self->ec_) {  // the context is destroyed, or the Bell has stopped
      delete self;
      return;
    }
    self->start();  // first: rung() may stop the Bell
    self->rung_();
  }

  const std::shared_ptr<Watch> watch_;
  std::move_only_function<void()> rung_;
  bool starting_ = false;
};

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
  WEFT_ASSERT(watch_ == nullptr);
  if (!fd_) return {};
  auto& reactor = boost::asio::use_service<Reactor>(context);
  reactor.init_task();
  auto watch = std::make_shared<Watch>(reactor, fd_.get());
  if (const int error = reactor.register_descriptor(watch->fd, watch->data); error != 0) {
    reactor.cleanup_descriptor_data(watch->data);
    return fail_errno(error, "watch an eventfd");
  }
  watch_ = watch;
  (new Operation(std::move(watch), std::move(rung)))->start();
  return {};
}

void Bell::stop() {
  const auto watch = std::exchange(watch_, nullptr);
  if (watch == nullptr) return;
  // The operation is completed as aborted later, on the context's thread.
  watch->reactor.deregister_descriptor(watch->fd, watch->data, false);
  watch->reactor.cleanup_descriptor_data(watch->data);
}

}  // namespace weft::rpc
