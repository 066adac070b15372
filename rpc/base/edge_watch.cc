#include "rpc/base/edge_watch.h"

#include <boost/asio/detail/reactor.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/version.hpp>
#include <type_traits>
#include <utility>

#include "rpc/base/assert.h"

namespace weft {

namespace detail = boost::asio::detail;
using boost::system::error_code;
using Reactor = detail::reactor;

static_assert(std::is_same_v<Reactor, detail::epoll_reactor>, "a descriptor is watched by epoll");
// What is used of boost::asio::detail has no promise of its own. With another Boost: read its
// epoll_reactor, or wait with asio::posix::stream_descriptor, which costs a system call more an
// event.
static_assert(BOOST_VERSION / 100 == 1081 || BOOST_VERSION / 100 == 1083,
              "written for the reactors of Boost 1.81 and 1.83");

// What the reactor knows the descriptor by. The operation may be gone before the watch, and after.
struct EdgeWatch::Watched {
  Reactor& reactor;
  int descriptor;
  Reactor::per_descriptor_data data = nullptr;
};

class EdgeWatch::Operation : public detail::reactor_op {
 public:
  Operation(std::shared_ptr<Watched> watched, std::move_only_function<void()> told)
      : reactor_op(error_code(), &Operation::perform, &Operation::complete),
        watched_(std::move(watched)),
        told_(std::move(told)) {}

  // Gives itself to the reactor, which queues it. No system call.
  void start() {
    starting_ = true;
    watched_->reactor.start_op(Reactor::read_op, watched_->descriptor, watched_->data, this, false,
                               true);
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
    if (owner == nullptr || self->ec_) {  // the context is destroyed, or the watch has stopped
      delete self;
      return;
    }
    self->start();  // first: told() may stop the watch
    self->told_();
  }

  const std::shared_ptr<Watched> watched_;
  std::move_only_function<void()> told_;
  bool starting_ = false;
};

Result<> EdgeWatch::start(boost::asio::execution_context& context, int descriptor,
                          std::move_only_function<void()> told) {
  WEFT_ASSERT(watched_ == nullptr);
  auto& reactor = boost::asio::use_service<Reactor>(context);
  reactor.init_task();
  auto watched = std::make_shared<Watched>(reactor, descriptor);
  if (const int error = reactor.register_descriptor(descriptor, watched->data); error != 0) {
    reactor.cleanup_descriptor_data(watched->data);
    return fail_errno(error, "watch a descriptor");
  }
  watched_ = watched;
  (new Operation(std::move(watched), std::move(told)))->start();
  return {};
}

void EdgeWatch::stop() {
  const auto watched = std::exchange(watched_, nullptr);
  if (watched == nullptr) return;
  // The operation is completed as aborted later, on the context's thread.
  watched->reactor.deregister_descriptor(watched->descriptor, watched->data, false);
  watched->reactor.cleanup_descriptor_data(watched->data);
}

}  // namespace weft
