#include "ganesha-fsal/admin/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <filesystem>

#include "ganesha-fsal/admin/protocol.h"
#include "rpc/base/machine.h"

namespace weft::mds::admin {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

std::string reply_to(const Table& table, const NamedRequest& request) {
  auto reply = table.serve(request.name, request.message);
  return reply ? reply_line(std::move(*reply), request.version)
               : error_line(reply.error(), request.version);
}

// For the log.
std::string why(const error_code& failed) {
  if (failed == asio::error::operation_aborted) return "the caller took too long";
  if (failed == asio::error::not_found) return "a request that is too long";
  return failed.message();
}

bool may_ask(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

// Makes way for a socket at `path`, where a server that died may have left its own.
Result<> make_way(const std::string& path) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return fail(Errc::kInvalid, "the socket's path is empty or longer than " +
                                    std::to_string(kMaxSocketPath) + ": " + path);
  }
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) return fail(Errc::kExists, path + " is not a socket");
  asio::io_context io;
  asio::local::stream_protocol::socket other(io);
  error_code failed;
  static_cast<void>(other.connect({path}, failed));
  if (failed != asio::error::connection_refused) {
    return fail(Errc::kExists, "somebody listens at " + path);
  }
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(Config config, const Table& table) {
  std::unique_ptr<Server> server(new Server(std::move(config), table));
  if (auto listening = server->listen(); !listening) return pass(listening);
  server->accept();
  server->thread_ = std::thread([io = &server->io_] { io->run(); });
  return server;
}

Server::Server(Config config, const Table& table) : config_(std::move(config)), table_(table) {}

Server::~Server() {
  if (!thread_.joinable()) return;
  // Whoever is being served is served, within the deadlines; then there is nothing left to run.
  asio::post(io_, [this] {
    error_code ignored;
    static_cast<void>(acceptor_.close(ignored));
  });
  thread_.join();
  ::unlink(config_.socket_path.c_str());
}

Result<> Server::listen() {
  const std::string& path = config_.socket_path;
  if (auto free = make_way(path); !free) return free;
  error_code failed;
  static_cast<void>(acceptor_.open({}, failed));
  if (failed) return fail_errno(failed.value(), "socket");
  static_cast<void>(acceptor_.bind({path}, failed));
  if (failed) return fail_errno(failed.value(), "bind " + path);
  // The mode is set before anybody could connect: listen comes after it.
  if (::chmod(path.c_str(), 0600) != 0) return fail_errno(errno, "chmod " + path);
  static_cast<void>(acceptor_.listen(16, failed));
  if (failed) return fail_errno(failed.value(), "listen " + path);
  return {};
}

// One connection and its request. The thread's, but for change().
class Server::Caller : public std::enable_shared_from_this<Caller> {
 public:
  Caller(Server& server, Protocol::socket peer)
      : server_(server), peer_(std::move(peer)), deadline_(server.io_) {
    ++server_.callers_;
  }
  ~Caller() {
    --server_.callers_;
    server_.accept();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void serve() {
    if (!may_ask(peer_.native_handle())) {
      return answer(error_line({Errc::kAccess, "only root may ask"}));
    }
    begin_deadline();
    asio::async_read_until(peer_, asio::dynamic_buffer(line_, kMaxRequestBytes), '\n',
                           [self = shared_from_this()](const error_code& failed, std::size_t size) {
                             if (!failed) return self->asked(self->line_.substr(0, size));
                             spdlog::warn("event=admin_request_lost error=\"{}\"", why(failed));
                           });
  }

 private:
  void asked(const std::string& line) {
    deadline_.cancel();
    auto request = read_request(line);
    if (!request) return answer(error_line(request.error()));
    if (!server_.table_.changes(request->name)) return answer(reply_to(server_.table_, *request));
    asio::post(server_.changes_, [self = shared_from_this(), request = std::move(*request),
                                  work = asio::make_work_guard(server_.io_)]() mutable {
      auto reply = reply_to(self->server_.table_, request);
      asio::post(self->server_.io_, [self = std::move(self), reply = std::move(reply)]() mutable {
        self->answer(std::move(reply));
      });
    });
  }

  void answer(std::string line) {
    line_ = std::move(line);
    begin_deadline();
    asio::async_write(peer_, asio::buffer(line_),
                      [self = shared_from_this()](const error_code& failed, std::size_t) {
                        self->deadline_.cancel();
                        if (!failed) return;
                        spdlog::warn("event=admin_reply_lost error=\"{}\"", why(failed));
                      });
  }

  void begin_deadline() {
    deadline_.expires_after(server_.config_.deadline);
    deadline_.async_wait([self = weak_from_this()](const error_code& cancelled) {
      const auto caller = self.lock();
      if (cancelled || caller == nullptr) return;
      error_code ignored;
      static_cast<void>(caller->peer_.cancel(ignored));
    });
  }

  Server& server_;
  Protocol::socket peer_;
  asio::steady_timer deadline_;
  std::string line_;  // the request, then the reply
};

void Server::accept() {
  if (accepting_ || callers_ == kMaxCallers || !acceptor_.is_open()) return;
  accepting_ = true;
  acceptor_.async_accept([this](const error_code& failed, Protocol::socket peer) {
    accepting_ = false;
    if (!acceptor_.is_open()) return;
    if (!failed) {
      std::make_shared<Caller>(*this, std::move(peer))->serve();
      return accept();
    }
    // Out of descriptors or memory: the caller stays in the queue; do not spin meanwhile.
    pause_.expires_after(std::chrono::milliseconds(200));
    pause_.async_wait([this](const error_code&) { accept(); });
  });
}

}  // namespace weft::mds::admin
