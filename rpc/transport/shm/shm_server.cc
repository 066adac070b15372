#include "rpc/transport/shm/shm_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <boost/asio/post.hpp>
#include <map>

#include "rpc/base/log_limit.h"
#include "rpc/base/machine.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/listener.h"
#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_channel.h"

namespace weft::rpc {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

namespace {

// What connections keep of their server; nothing here belongs to an io_context.
struct Admission {
  Admission(BufferPool& buffer_pool, ShmServerOptions server_options, ShmServer::Accept on_accept)
      : pool(buffer_pool), options(std::move(server_options)), accept(std::move(on_accept)) {}

  [[nodiscard]] bool admit() {
    if (open_count.fetch_add(1) < options.max_connections) return true;
    leave();
    return false;
  }
  void leave() { open_count.fetch_sub(1); }
  // The mapping there is of this memory, or a new one.
  [[nodiscard]] Result<std::shared_ptr<SharedMemory>> map_arena(OwnedFd fd, std::size_t bytes);

  BufferPool& pool;
  const ShmServerOptions options;
  const ShmServer::Accept accept;
  std::atomic<std::size_t> open_count{0};
  std::atomic<std::uint64_t> refused{0};
  LogLimit refused_log;

 private:
  Mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<SharedMemory>> arenas_ WEFT_GUARDED_BY(mutex_);
};

Result<std::shared_ptr<SharedMemory>> Admission::map_arena(OwnedFd fd, std::size_t bytes) {
  if (bytes > options.max_arena_bytes) return fail(Errc::kTooLarge, "an arena beyond the limit");
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return fail_errno(errno, "fstat of an arena");
  const MutexLock lock(mutex_);
  std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<SharedMemory>& known = arenas_[{found.st_dev, found.st_ino}];
  if (auto arena = known.lock(); arena != nullptr && arena->size() == bytes) return arena;
  auto arena = SharedMemory::adopt(std::move(fd), bytes);
  if (arena) known = *arena;
  return arena;
}

// A peer that has connected and not yet introduced itself. Its pending operations own it.
struct Introduction : std::enable_shared_from_this<Introduction> {
  Introduction(std::shared_ptr<Admission> admission, stream_protocol::socket connected)
      : rules(std::move(admission)), socket(std::move(connected)), timer(socket.get_executor()) {}
  ~Introduction() {
    if (!welcome) rules->leave();
  }

  void start();
  [[nodiscard]] Result<ShmConnection> receive();
  void introduced();

  const std::shared_ptr<Admission> rules;
  stream_protocol::socket socket;
  boost::asio::steady_timer timer;
  bool welcome = false;
};

void Introduction::start() {
  timer.expires_after(rules->options.limits.connect_deadline);
  timer.async_wait([self = shared_from_this()](const error_code& cancelled) {
    error_code ignored;
    if (!cancelled) self->socket.close(ignored);
  });
  socket.async_wait(stream_protocol::socket::wait_read,
                    [self = shared_from_this()](const error_code& failed) {
                      self->timer.cancel();
                      if (!failed) self->introduced();
                    });
}

Result<ShmConnection> Introduction::receive() {
  const int fd = socket.native_handle();
  auto received = receive_greeting(fd);
  if (!received) return pass(received);
  const std::uint64_t capacity = received->greeting.ring_capacity;
  if (!std::has_single_bit(capacity) || capacity < SharedMemory::kPage ||
      capacity > rules->options.max_ring_capacity) {
    return fail(Errc::kProtocol, "a ring of a size that cannot be");
  }
  auto rings = SharedMemory::adopt(std::move(received->rings), rings_bytes(capacity));
  if (!rings) return pass(rings);
  auto arena = rules->map_arena(std::move(received->arena), received->greeting.arena_bytes);
  if (!arena) return pass(arena);
  auto bell = Bell::make();
  if (!bell) return pass(bell);
  if (auto sent = send_welcome(fd, bell->get()); !sent) return pass(sent);
  return ShmConnection{.socket = std::move(socket),
                       .rings = std::move(*rings),
                       .ring_capacity = capacity,
                       .arena = std::move(*arena),
                       .handing = std::move(received->handing),
                       .bell = std::move(*bell),
                       .peer_bell = std::move(received->bell),
                       .lender = false,
                       .peer = "unix:" + rules->options.path};
}

void Introduction::introduced() {
  auto connection = receive();
  if (!connection) {
    rules->refused.fetch_add(1);
    rules->refused_log.warn("event=connection_refused peer=unix why=\"{}\"",
                            connection.error().describe());
    return;
  }
  welcome = true;
  rules->accept(std::make_shared<ShmChannel>(std::move(*connection), rules->pool,
                                             rules->options.limits,
                                             [kept = rules] { kept->leave(); }));
}

// Removes a socket that nobody listens on.
Result<> clear_path(boost::asio::io_context& context, const std::string& path) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) return fail(Errc::kInvalid, path + " is not a socket");
  stream_protocol::socket probe(context);
  error_code error;
  probe.connect(stream_protocol::endpoint(path), error);
  if (!error) return fail(Errc::kBusy, "somebody listens on " + path);
  if (::unlink(path.c_str()) != 0) return fail_errno(errno, "remove " + path);
  return {};
}

void take(boost::asio::io_context& context, const std::shared_ptr<Admission>& rules,
          stream_protocol::socket socket) {
  if (auto may = check_peer(socket.native_handle(), rules->options.users); !may) {
    rules->refused.fetch_add(1);
    rules->refused_log.warn("event=connection_refused peer=unix why=\"{}\"",
                            may.error().describe());
    return;
  }
  if (!rules->admit()) {
    rules->refused.fetch_add(1);
    rules->refused_log.warn("event=connection_refused peer=unix why=limit");
    return;
  }
  // The socket belongs to the other thread's context already.
  boost::asio::post(context, [rules, taken = std::move(socket)]() mutable {
    std::make_shared<Introduction>(std::move(rules), std::move(taken))->start();
  });
}

}  // namespace

struct ShmServer::Impl {
  Impl(IoThreads& io_threads, std::shared_ptr<Admission> admission_rules)
      : threads(io_threads),
        admission(std::move(admission_rules)),
        listener(std::make_shared<Listener<stream_protocol>>(
            threads, admission->options.path, [] { return std::uint64_t{0}; },
            [&io_threads, rules = admission](stream_protocol::socket socket, unsigned thread,
                                             std::uint64_t /*mark*/) {
              take(io_threads.context(thread), rules, std::move(socket));
            })) {}

  IoThreads& threads;
  const std::shared_ptr<Admission> admission;
  const std::shared_ptr<Listener<stream_protocol>> listener;
};

ShmServer::ShmServer(IoThreads& threads, BufferPool& pool, ShmServerOptions options, Accept accept)
    : impl_(std::make_unique<Impl>(
          threads, std::make_shared<Admission>(pool, std::move(options), std::move(accept)))) {}

ShmServer::~ShmServer() { stop(); }

Result<> ShmServer::listen() {
  const std::string& path = impl_->admission->options.path;
  if (path.empty() || path.size() > kMaxSocketPath) {
    return fail(Errc::kInvalid, "not a path for a socket: '" + path + "'");
  }
  if (auto clear = clear_path(impl_->threads.context(0), path); !clear) return clear;
  const auto restrict_mode = [&]() -> Result<> {
    if (::chmod(path.c_str(), impl_->admission->options.mode) == 0) return {};
    return fail_errno(errno, "chmod " + path);
  };
  auto opened = impl_->listener->bind(stream_protocol::endpoint(path));
  if (opened) opened = restrict_mode();  // before anybody may connect
  if (opened) opened = impl_->listener->listen(128);
  if (opened) impl_->listener->start();
  return opened;
}

void ShmServer::stop() {
  impl_->listener->stop([path = impl_->admission->options.path] { ::unlink(path.c_str()); });
}

std::size_t ShmServer::connections() const { return impl_->admission->open_count; }
std::uint64_t ShmServer::refused() const { return impl_->admission->refused; }

}  // namespace weft::rpc
