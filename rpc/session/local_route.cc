#include "rpc/session/local_route.h"

#include <spdlog/spdlog.h>

namespace weft::rpc {
namespace {

// One connection that ends so soon is a server that was killed; another right after it is not.
constexpr std::chrono::milliseconds kShort{1000};
constexpr unsigned kMostShort = 2;

}  // namespace

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::kNone: return "none";
    case Transport::kTcp: return "tcp";
    case Transport::kRdma: return "rdma";
    case Transport::kSharedMemory: return "shared memory";
  }
  return "unknown";
}

LocalRoute::~LocalRoute() {
  if (found_ != nullptr) found_->close({Errc::kCancelled, "nobody wants it any more"}, false);
}

Dial LocalRoute::dial() {
  return [self = shared_from_this()](Done done) {
    if (auto found = std::exchange(self->found_, nullptr)) {
      self->now_by(Transport::kSharedMemory);
      return done(std::move(found));
    }
    self->dial_shared([self, done = std::move(done)](auto made) mutable {
      if (!made) return self->dial_network(std::move(done));
      self->now_by(Transport::kSharedMemory);
      done(std::move(made));
    });
  };
}

void LocalRoute::now_by(Transport transport) {
  if (transport_.exchange(transport) == transport) return;
  spdlog::info("event=route server={} transport=\"{}\"", parts_.name, to_string(transport));
}

bool LocalRoute::may_share(const LocalEndpoint& endpoint) const {
  return parts_.pool.arena() != nullptr && !endpoint.socket.empty() &&
         parts_.now() >= banned_until_ && is_this_machine(endpoint.machine);
}

void LocalRoute::dial_shared(Done done) {
  const LocalEndpoint endpoint = parts_.where();
  if (!may_share(endpoint)) return done(fail(Errc::kUnreachable, "not by shared memory"));
  BulkDialOptions options;
  options.shm.path = endpoint.socket;
  options.shm.users = {endpoint.user};
  options.shm.limits.connect_deadline = parts_.connect_deadline;
  options.server = parts_.server;
  options.on_closed = [weak = weak_from_this(), made = parts_.now()](const Error& why) {
    if (const auto self = weak.lock()) self->ended(made, why);
  };
  bulk_dialer(parts_.context, parts_.pool, std::move(options),
              counts_)([self = shared_from_this(), done = std::move(done)](auto made) mutable {
    if (!made) self->failed(made.error());
    done(std::move(made));
  });
}

bool LocalRoute::by_network() const {
  return transport() == Transport::kTcp || transport() == Transport::kRdma;
}

void LocalRoute::dial_network(Done done) {
  parts_.network([self = shared_from_this(), done = std::move(done)](auto made) mutable {
    if (made) {
      self->now_by((*made)->by_rdma() ? Transport::kRdma : Transport::kTcp);
      self->next_look_ = self->parts_.now() + kLookEvery;
    }
    done(std::move(made));
  });
}

bool LocalRoute::wants_look() {
  if (!by_network() || parts_.pool.arena() == nullptr) return false;
  const auto now = parts_.now();
  auto next = next_look_.load(std::memory_order_relaxed);
  return now >= next && next_look_.compare_exchange_strong(next, now + kLookEvery);
}

void LocalRoute::look(std::function<void()> found) {
  if (!by_network()) return;
  dial_shared([self = shared_from_this(), found = std::move(found)](auto made) {
    if (!made) return;
    auto old = std::exchange(self->found_, std::move(*made));
    if (old != nullptr) old->close({Errc::kCancelled, "there is a newer one"}, false);
    found();
  });
}

// Nobody listens while a server is away, and that costs nothing to find out.
void LocalRoute::failed(const Error& why) {
  if (why.code != Errc::kUnreachable) ban(why);
}

void LocalRoute::ended(Clock::time_point made, const Error& why) {
  if (why.code == Errc::kCancelled) return;
  if (why.code != Errc::kClosed) return ban(why);
  short_ = parts_.now() - made < kShort ? short_ + 1 : 0;
  if (short_ < kMostShort) return;
  short_ = 0;
  ban(why);
}

void LocalRoute::ban(const Error& why) {
  banned_until_ = parts_.now() + kBan;
  if (std::string text = why.describe(); text != complaint_) {
    complaint_ = std::move(text);
    spdlog::warn("event=no_shared_memory server={} why=\"{}\"", parts_.name, complaint_);
  }
}

}  // namespace weft::rpc
