#include "ganesha-fsal/admin/server.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "ganesha-fsal/admin/protocol.h"
#include "ganesha-fsal/admin/socket.h"

namespace weft::mds::admin {
namespace {

template <class Report>
Bytes reply_of(const Result<Report>& report) {
  return report ? encode_reply(*report) : encode_reply(report.error());
}

Bytes answer(AdminSource& source, std::span<const std::byte> bytes) {
  auto request = decode_request(bytes);
  if (!request) return encode_reply(request.error());
  switch (request->operation) {
    case Operation::kStatus: return reply_of(source.status());
    case Operation::kDataServers: return reply_of(source.data_servers());
    case Operation::kFile: return reply_of(source.file(request->argument));
    case Operation::kPolicy: return reply_of(source.policy(request->argument));
    case Operation::kSetPolicy:
      return reply_of(source.set_policy(request->argument, request->value));
    case Operation::kMaintain: return reply_of(source.maintain(request->argument, request->value));
  }
  return encode_reply(Error{Errc::kInternal, "an operation without an answer"});
}

bool may_ask(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(Config config, AdminSource& source) {
  auto listener = listen_at(config.socket_path);
  if (!listener) return pass(listener);
  OwnedFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return fail_errno(errno, "eventfd");
  return std::unique_ptr<Server>(
      new Server(std::move(config), source, std::move(*listener), std::move(stop)));
}

Server::Server(Config config, AdminSource& source, OwnedFd listener, OwnedFd stop)
    : config_(std::move(config)),
      source_(source),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      thread_([this] { run(); }) {}

Server::~Server() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
  ::unlink(config_.socket_path.c_str());
}

void Server::run() {
  const std::array<int, 2> waited{stop_.get(), listener_.get()};
  for (;;) {
    auto ready = wait_readable(waited, after(std::chrono::hours(1)));
    if (!ready && ready.error() == Errc::kTimedOut) continue;
    if (!ready) {
      spdlog::error("event=admin_stopped error=\"{}\"", ready.error().describe());
      return;
    }
    if (*ready == stop_.get()) return;
    OwnedFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer) {
      serve(peer.get());
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      // The caller stays in the queue; do not spin while the process is out of descriptors.
      (void)wait_readable({waited.data(), 1}, after(std::chrono::milliseconds(200)));
    }
  }
}

void Server::serve(int fd) {
  if (!may_ask(fd)) {
    const Bytes refusal = encode_reply(Error{Errc::kAccess, "only root may ask"});
    (void)send_frame(fd, refusal, after(config_.deadline));
    return;
  }
  auto request = receive_frame(fd, kMaxRequestBytes, after(config_.deadline));
  if (!request) {
    spdlog::warn("event=admin_request_lost error=\"{}\"", request.error().describe());
    return;
  }
  const Bytes reply = answer(source_, *request);
  if (auto sent = send_frame(fd, reply, after(config_.deadline)); !sent) {
    spdlog::warn("event=admin_reply_lost error=\"{}\"", sent.error().describe());
  }
}

}  // namespace weft::mds::admin
