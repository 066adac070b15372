#include "rpc/transport/shm/shm_dialer.h"

#include <boost/asio/post.hpp>

#include "rpc/base/machine.h"
#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_channel.h"

namespace weft::rpc {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;
using Done = std::move_only_function<void(Result<std::shared_ptr<Channel>>)>;

// One attempt. Its pending operations own it.
struct Attempt : std::enable_shared_from_this<Attempt> {
  Attempt(boost::asio::io_context& context, BufferPool& buffer_pool, ShmDialerOptions dial_options,
          Done on_done)
      : pool(buffer_pool),
        options(std::move(dial_options)),
        socket(context),
        timer(context),
        done(std::move(on_done)) {}

  void start();
  void introduce();
  void welcomed();
  void finish(Result<std::shared_ptr<Channel>> result) {
    timer.cancel();
    if (done) std::exchange(done, nullptr)(std::move(result));
  }

  BufferPool& pool;
  const ShmDialerOptions options;
  stream_protocol::socket socket;
  boost::asio::steady_timer timer;
  std::shared_ptr<SharedMemory> rings;
  OwnedFd handing;
  OwnedFd bell;
  Done done;
};

void Attempt::start() {
  if (options.path.size() > kMaxSocketPath || pool.arena() == nullptr) {
    return boost::asio::post(socket.get_executor(), [self = shared_from_this()] {
      self->finish(fail(Errc::kInvalid, "no path of a socket, or no arena"));
    });
  }
  timer.expires_after(options.limits.connect_deadline);
  timer.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (cancelled || !self->done) return;
    error_code ignored;
    self->socket.close(ignored);
    self->finish(fail(Errc::kTimedOut, "connect to " + self->options.path));
  });
  socket.async_connect(stream_protocol::endpoint(options.path),
                       [self = shared_from_this()](const error_code& failed) {
                         if (!self->done) return;
                         if (!failed) return self->introduce();
                         self->finish(fail(Errc::kUnreachable, "connect to " + self->options.path +
                                                                   ": " + failed.message()));
                       });
}

void Attempt::introduce() {
  const int fd = socket.native_handle();
  if (auto trusted = check_peer(fd, options.users); !trusted) return finish(pass(trusted));
  auto memory = SharedMemory::create(rings_bytes(options.ring_capacity), "weft-rings");
  if (!memory) return finish(pass(memory));
  rings = std::move(*memory);
  auto pair = make_handing_pair();
  if (!pair) return finish(pass(pair));
  handing = std::move(pair->near);
  auto made = Bell::make();
  if (!made) return finish(pass(made));
  bell = std::move(*made);
  const auto& arena = pool.arena()->memory();
  const Greeting greeting{.ring_capacity = options.ring_capacity, .arena_bytes = arena->size()};
  auto sent = send_greeting(fd, greeting, rings->fd(), arena->fd(), pair->far.get(), bell.get());
  if (!sent) return finish(pass(sent));
  socket.async_wait(stream_protocol::socket::wait_read,
                    [self = shared_from_this()](const error_code& failed) {
                      if (!self->done) return;
                      if (!failed) return self->welcomed();
                      self->finish(fail(Errc::kUnreachable, failed.message()));
                    });
}

void Attempt::welcomed() {
  auto peer_bell = receive_welcome(socket.native_handle());
  if (!peer_bell) return finish(pass(peer_bell));
  ShmConnection connection{.socket = std::move(socket),
                           .rings = std::move(rings),
                           .ring_capacity = options.ring_capacity,
                           .arena = pool.arena()->memory(),
                           .handing = std::move(handing),
                           .bell = std::move(bell),
                           .peer_bell = std::move(*peer_bell),
                           .lender = true,
                           .peer = "unix:" + options.path};
  finish(std::make_shared<ShmChannel>(std::move(connection), pool, options.limits));
}

}  // namespace

Dial shm_dialer(boost::asio::io_context& context, BufferPool& pool, ShmDialerOptions options) {
  return [&context, &pool, options = std::move(options)](Done done) {
    std::make_shared<Attempt>(context, pool, options, std::move(done))->start();
  };
}

}  // namespace weft::rpc
