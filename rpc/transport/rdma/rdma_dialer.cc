#include "rpc/transport/rdma/rdma_dialer.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <vector>

#include "rpc/transport/rdma/verbs_queue_pair.h"

namespace weft::rpc::rdma {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

// One attempt: address, route, connection. The kernel has its address until it is over; so it keeps
// itself so long.
class Attempt final : public ConnectionUser,
                      public CompletionUser,
                      public std::enable_shared_from_this<Attempt> {
 public:
  using Made = std::function<std::shared_ptr<Channel>(std::unique_ptr<QueuePair>)>;

  Attempt(std::shared_ptr<DeviceEvents> events, Endpoint endpoint, QueuePairOptions options,
          Milliseconds deadline, Made made, Done done)
      : events_(std::move(events)),
        endpoint_(std::move(endpoint)),
        options_(options),
        deadline_(deadline),
        timer_(events_->context()),
        made_(std::move(made)),
        done_(std::move(done)) {}

  void begin() {
    self_ = shared_from_this();
    events_->add(this);
    timer_.expires_after(deadline_);
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
      const auto self = weak.lock();
      if (cancelled || self == nullptr || !self->done_) return;
      self->finish(fail(Errc::kTimedOut, "connect to " + self->where() + " by RDMA"));
    });
    if (auto resolving = resolve(); !resolving) finish(pass(resolving));
  }

  void on_event(const ConnectionEvent& event) override {
    const auto self = shared_from_this();
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      if (::rdma_resolve_route(id_->get(), milliseconds()) != 0) return failed("a route");
    } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      if (auto asked = connect(); !asked) finish(pass(asked));
    } else {
      failed("a way", event.status < 0 ? -event.status : EHOSTUNREACH);
    }
  }
  void on_completions() override {}
  void on_events_closed() override { finish(fail(Errc::kClosed, "RDMA is shut down")); }

 private:
  [[nodiscard]] std::string where() const { return to_string(endpoint_); }
  [[nodiscard]] int milliseconds() const { return static_cast<int>(deadline_.count()); }

  [[nodiscard]] Result<> resolve() {
    auto address = socket_address(endpoint_);
    if (!address) return pass(address);
    rdma_cm_id* id = nullptr;
    if (::rdma_create_id(events_->connections(), &id, static_cast<ConnectionUser*>(this),
                         RDMA_PS_TCP) != 0) {
      return fail_errno(errno, "an RDMA identifier");
    }
    id_ = std::make_shared<ConnectionId>(id);
    if (::rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&*address), milliseconds()) ==
        0) {
      return {};
    }
    const auto why = fail_errno(errno, "a way to " + where() + " by RDMA");
    return fail(Errc::kUnreachable, why.error().text);
  }

  [[nodiscard]] Result<> connect() {
    auto memory = SharedMemory::create(kExposedBytes, "weft-rdma");
    if (!memory) return pass(memory);
    auto device = Device::open(id_->get()->verbs, std::move(*memory), Reach::kPeers);
    if (!device) return pass(device);
    auto pair = connect_queue_pair(events_, std::move(*device), id_, where(), options_,
                                   [this](Result<> connected) {
                                     if (!connected)
                                       return finish(std::unexpected(std::move(connected.error())));
                                     finish(made_(std::move(pair_)));
                                   });
    if (!pair) return pass(pair);
    pair_ = std::move(*pair);
    return {};
  }

  void failed(const char* what, int error = errno) {
    const auto why = fail_errno(error, std::string(what) + " to " + where() + " by RDMA");
    finish(fail(Errc::kUnreachable, why.error().text));
  }

  void finish(Result<std::shared_ptr<Channel>> result) {
    if (!done_) return;
    const auto self = std::exchange(self_, nullptr);
    timer_.cancel();
    events_->remove(this);
    pair_.reset();
    if (!result && id_ != nullptr) id_->destroy();
    std::exchange(done_, nullptr)(std::move(result));
  }

  const std::shared_ptr<DeviceEvents> events_;
  const Endpoint endpoint_;
  const QueuePairOptions options_;
  const Milliseconds deadline_;
  boost::asio::steady_timer timer_;
  const Made made_;
  Done done_;
  std::shared_ptr<Attempt> self_;
  std::shared_ptr<ConnectionId> id_;
  std::unique_ptr<QueuePair> pair_;
};

}  // namespace

struct Dialer::Impl {
  explicit Impl(IoThreads& io_threads) : threads(io_threads) {
    for (unsigned i = 0; i < threads.size(); ++i) {
      events.push_back(std::make_shared<DeviceEvents>(threads.context(i), i));
    }
  }
  // On the thread of `context`.
  [[nodiscard]] Result<std::shared_ptr<DeviceEvents>> ready(boost::asio::io_context& context) {
    if (!Devices::any()) return fail(Errc::kNotSupported, "this machine has no RDMA device");
    for (const auto& each : events) {
      if (&each->context() != &context) continue;
      if (each->connections() != nullptr) return each;
      if (auto opened = each->open(); !opened) return pass(opened);
      return each;
    }
    return fail(Errc::kInternal, "RDMA on a thread that is none of its");
  }

  IoThreads& threads;
  std::vector<std::shared_ptr<DeviceEvents>> events;
  const std::shared_ptr<Counts> counts = std::make_shared<Counts>();
};

Dialer::Dialer(IoThreads& threads) : impl_(std::make_shared<Impl>(threads)) {}

Dialer::~Dialer() { close(impl_->threads, impl_->events); }

Dial Dialer::to(boost::asio::io_context& context, BufferPool& pool, Endpoint endpoint,
                CallLimits limits, Milliseconds connect_deadline) {
  return [impl = impl_, &context, &pool, endpoint = std::move(endpoint), limits,
          connect_deadline](Done done) {
    auto events = impl->ready(context);
    if (!events) {
      boost::asio::post(context,
                        [done = std::move(done), why = std::move(events.error())]() mutable {
                          done(std::unexpected(std::move(why)));
                        });
      return;
    }
    const QueuePairOptions options{.receives = limits.credits,
                                   .work = 2 * limits.credits,
                                   .receive_bytes = limits.receive_bytes};
    auto made = [&context, &pool, limits, counts = impl->counts](std::unique_ptr<QueuePair> pair) {
      return call_over(context, pool, std::move(pair), limits, counts);
    };
    std::make_shared<Attempt>(std::move(*events), endpoint, options, connect_deadline,
                              std::move(made), std::move(done))
        ->begin();
  };
}

std::function<Dial(boost::asio::io_context&, const std::string&, std::uint16_t, Milliseconds)>
Dialer::by(BufferPool& pool) {
  return [this, &pool](boost::asio::io_context& context, const std::string& ip, std::uint16_t port,
                       Milliseconds within) {
    return to(context, pool, {.ip = ip, .port = port}, {}, within);
  };
}

const Counts& Dialer::counts() const { return *impl_->counts; }

}  // namespace weft::rpc::rdma
