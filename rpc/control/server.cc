#include "rpc/control/server.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <map>
#include <set>

#include "rpc/control/io_thread.h"
#include "rpc/control/typed.h"

namespace weft::rpc::control {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

Key random_key() {
  Key key;
  WEFT_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), kKeyBytes) == 1);
  return key;
}

// How long accepting pauses after it failed (no descriptors left, say).
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Config config, ServerEvents& events)
      : config_(std::move(config)),
        events_(events),
        acceptor_(io_->context()),
        pause_(io_->context()) {}

  Result<> start();
  void stop();
  [[nodiscard]] layout::NetAddress address() const { return address_; }

  // Sends a call on the data server's connection, from any thread.
  void call(std::uint32_t ds_id, Proc proc, Bytes arguments, Timeout timeout, Done<Bytes> done);
  void disconnect(std::uint32_t ds_id);

 private:
  // A connection and what is known of who is behind it.
  struct Peer {
    std::shared_ptr<Connection> connection;
    layout::NetAddress from;
    bool registering = false;
    std::uint32_t ds_id = 0;  // 0 until registered
  };
  using PeerPtr = std::shared_ptr<Peer>;

  void accept();
  void on_accepted(tcp::socket socket);
  void on_call(const PeerPtr& peer, Proc proc, const Bytes& arguments,
               Connection::Responder respond);
  void on_register(const PeerPtr& peer, const Bytes& arguments, Connection::Responder respond);
  void on_answered(const PeerPtr& peer, Result<Registered> answer, Connection::Responder respond);
  void serve(const PeerPtr& peer, Proc proc, const Bytes& arguments, Connection::Responder respond);
  void on_closed(const PeerPtr& peer, const Error& why);
  // Closes a connection under another key than the one in use.
  [[nodiscard]] bool outlives_key(const PeerPtr& peer);

  const Config config_;
  ServerEvents& events_;
  const std::shared_ptr<IoThread> io_ = std::make_shared<IoThread>();
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  layout::NetAddress address_;
  // Used on the thread only.
  bool stopping_ = false;
  std::set<PeerPtr> peers_;
  std::map<std::uint32_t, PeerPtr> registered_;
};

Result<> Server::Impl::start() {
  const tcp::endpoint endpoint = to_endpoint(config_.listen);
  error_code error;
  const auto step = [&](std::string_view doing) -> Result<> {
    if (!error) return {};
    return fail_errno(error.value(), std::string(doing) + " " + to_string(config_.listen));
  };
  acceptor_.open(endpoint.protocol(), error);
  if (auto done = step("open a socket for"); !done) return done;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (auto done = step("set up a socket for"); !done) return done;
  acceptor_.bind(endpoint, error);
  if (auto done = step("bind"); !done) return done;
  acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (auto done = step("listen on"); !done) return done;
  address_ = from_endpoint(acceptor_.local_endpoint(error));
  accept();
  io_->start();
  return {};
}

void Server::Impl::stop() {
  io_->stop([this] {
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    // Closing a connection takes it out of peers_ later, by on_closed.
    for (const PeerPtr& peer : peers_) peer->connection->close({Errc::kClosed, "shutting down"});
  });
}

void Server::Impl::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (stopping_) return;
    if (!error) {
      on_accepted(std::move(socket));
      return accept();
    }
    spdlog::warn("event=control_accept_failed error=\"{}\"", error.message());
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code&) {
      if (!stopping_) accept();
    });
  });
}

void Server::Impl::on_accepted(tcp::socket socket) {
  error_code gone;
  const auto from = socket.remote_endpoint(gone);
  if (gone) return;
  if (peers_.size() >= config_.max_connections) {
    spdlog::warn("event=control_refused from={} why=\"too many connections\"",
                 to_string(from_endpoint(from)));
    return;
  }
  auto peer = std::make_shared<Peer>();
  peer->from = from_endpoint(from);
  peer->connection = std::make_shared<Connection>(
      io_, std::move(socket),
      SecureChannel(SecureChannel::Role::kAccepting, config_.keys->now().cluster, random_key()),
      Connection::Limits{.max_calls = config_.max_calls,
                         .handshake = config_.handshake_timeout,
                         .silence = config_.silence_timeout});
  peers_.insert(peer);
  peer->connection->start(
      {.on_established = [] {},
       .on_call =
           [this, peer](Proc proc, const Bytes& arguments, Connection::Responder respond) {
             on_call(peer, proc, arguments, std::move(respond));
           },
       .on_closed = [this, peer](const Error& why) { on_closed(peer, why); }});
}

void Server::Impl::on_closed(const PeerPtr& peer, const Error& why) {
  peers_.erase(peer);
  const auto found = registered_.find(peer->ds_id);
  if (found != registered_.end() && found->second == peer) {
    registered_.erase(found);
    events_.on_disconnected(peer->ds_id, why);
  } else if (peer->ds_id == 0 && !stopping_) {
    spdlog::warn("event=control_dropped from={} why=\"{}\"", to_string(peer->from), why.describe());
  }
}

bool Server::Impl::outlives_key(const PeerPtr& peer) {
  if (peer->connection->key() == config_.keys->first()) return false;
  peer->connection->close({Errc::kAuth, "another cluster key is in use now"});
  return true;
}

void Server::Impl::on_call(const PeerPtr& peer, Proc proc, const Bytes& arguments,
                           Connection::Responder respond) {
  if (outlives_key(peer)) return;
  if (proc == Proc::kRegister) return on_register(peer, arguments, std::move(respond));
  if (peer->ds_id == 0) {
    return peer->connection->close({Errc::kProtocol, "a call before registering"});
  }
  serve(peer, proc, arguments, std::move(respond));
}

void Server::Impl::on_register(const PeerPtr& peer, const Bytes& arguments,
                               Connection::Responder respond) {
  if (std::exchange(peer->registering, true)) {
    return peer->connection->close({Errc::kProtocol, "registers twice"});
  }
  with_arguments<Register>(
      arguments, std::move(respond), [&](Register request, Connection::Responder answer) {
        events_.on_register(
            peer->from, std::move(request),
            // The event may answer on any thread; the rest is done on ours.
            [weak = weak_from_this(), peer,
             answer = std::move(answer)](Result<Registered> result) mutable {
              const auto self = weak.lock();
              if (self == nullptr) return;
              (void)self->io_->post([self = self.get(), peer, result = std::move(result),
                                     answer = std::move(answer)]() mutable {
                self->on_answered(peer, std::move(result), std::move(answer));
              });
            });
      });
}

void Server::Impl::on_answered(const PeerPtr& peer, Result<Registered> answer,
                               Connection::Responder respond) {
  if (!peer->connection->open()) return;
  if (!answer) return respond(std::unexpected(answer.error()));
  WEFT_ASSERT(answer->ds_id != 0);
  const std::uint32_t ds_id = answer->ds_id;
  if (const auto older = registered_.extract(ds_id)) {
    const Error why{Errc::kClosed, "connected again"};
    events_.on_disconnected(ds_id, why);
    older.mapped()->connection->close(why);
  }
  peer->ds_id = ds_id;
  registered_[ds_id] = peer;
  respond(to_bytes(*answer));
  events_.on_connected(ds_id);
}

void Server::Impl::serve(const PeerPtr& peer, Proc proc, const Bytes& arguments,
                         Connection::Responder respond) {
  const std::uint32_t ds_id = peer->ds_id;
  switch (proc) {
    case Proc::kHeartbeat:
      return with_arguments<Heartbeat>(arguments, std::move(respond),
                                       [&](const Heartbeat& beat, Connection::Responder answer) {
                                         answer(to_bytes(events_.on_heartbeat(ds_id, beat)));
                                       });
    case Proc::kQuerySize:
      return with_arguments<QuerySize>(
          arguments, std::move(respond), [&](const QuerySize& query, Connection::Responder answer) {
            events_.on_query_size(ds_id, query.object, answer_with<FileSize>(std::move(answer)));
          });
    case Proc::kReportSize:
      return with_arguments<ReportSize>(
          arguments, std::move(respond),
          [&](const ReportSize& report, Connection::Responder answer) {
            events_.on_report_size(ds_id, report, answer_with<void>(std::move(answer)));
          });
    case Proc::kLocate:
      return with_arguments<Locate>(
          arguments, std::move(respond), [&](const Locate& query, Connection::Responder answer) {
            events_.on_locate(ds_id, query.ds_id, answer_with<Located>(std::move(answer)));
          });
    case Proc::kCopyMissed:
      return with_arguments<CopyMissed>(
          arguments, std::move(respond),
          [&](const CopyMissed& missed, Connection::Responder answer) {
            events_.on_copy_missed(ds_id, missed, answer_with<void>(std::move(answer)));
          });
    default: return respond(fail(Errc::kNotSupported, "not a call to a metadata server"));
  }
}

void Server::Impl::call(std::uint32_t ds_id, Proc proc, Bytes arguments, Timeout timeout,
                        Done<Bytes> done) {
  // Shared so that it is still ours when the thread refuses the work.
  auto completion = std::make_shared<Done<Bytes>>(std::move(done));
  const bool posted = io_->post([this, ds_id, proc, arguments = std::move(arguments), timeout,
                                 completion]() mutable {
    const auto found = registered_.find(ds_id);
    if (stopping_) return (*completion)(fail(Errc::kClosed, "shutting down"));
    if (found == registered_.end()) {
      return (*completion)(
          fail(Errc::kUnreachable, "data server " + std::to_string(ds_id) + " is not connected"));
    }
    const PeerPtr peer = found->second;
    if (outlives_key(peer)) {
      return (*completion)(fail(Errc::kUnreachable, "it is to connect with the new cluster key"));
    }
    peer->connection->call(proc, std::move(arguments), timeout, std::move(*completion));
  });
  if (!posted) (*completion)(fail(Errc::kClosed, "shut down"));
}

void Server::Impl::disconnect(std::uint32_t ds_id) {
  (void)io_->post([this, ds_id] {
    const auto found = registered_.find(ds_id);
    if (found != registered_.end()) {
      found->second->connection->close({Errc::kClosed, "disconnected by us"});
    }
  });
}

Server::Server(Config config, ServerEvents& events)
    : impl_(std::make_shared<Impl>(std::move(config), events)) {}
Server::~Server() { stop(); }

Result<> Server::start() { return impl_->start(); }
void Server::stop() { impl_->stop(); }
layout::NetAddress Server::address() const { return impl_->address(); }
void Server::disconnect(std::uint32_t ds_id) { impl_->disconnect(ds_id); }

void Server::fence(std::uint32_t ds_id, std::vector<Fence> fences, Timeout timeout,
                   Done<void> done) {
  impl_->call(ds_id, Proc::kFence, to_bytes(FenceRequest{std::move(fences)}), timeout,
              expect_nothing(std::move(done)));
}

void Server::truncate(std::uint32_t ds_id, const ObjectId& object, std::uint64_t size,
                      Timeout timeout, Done<ObjectStat> done) {
  impl_->call(ds_id, Proc::kTruncate, to_bytes(Truncate{object, size}), timeout,
              expect<ObjectStat>(std::move(done)));
}

void Server::remove(std::uint32_t ds_id, std::vector<ObjectId> objects, Timeout timeout,
                    Done<void> done) {
  impl_->call(ds_id, Proc::kRemove, to_bytes(Remove{std::move(objects)}), timeout,
              expect_nothing(std::move(done)));
}

void Server::stat(std::uint32_t ds_id, const ObjectId& object, Timeout timeout,
                  Done<ObjectStat> done) {
  impl_->call(ds_id, Proc::kStat, to_bytes(Stat{object}), timeout,
              expect<ObjectStat>(std::move(done)));
}

void Server::allocate(std::uint32_t ds_id, const Range& range, Timeout timeout, Done<void> done) {
  impl_->call(ds_id, Proc::kAllocate, to_bytes(range), timeout, expect_nothing(std::move(done)));
}

void Server::forget_missed(std::uint32_t ds_id, const ForgetMissed& forget, Timeout timeout,
                           Done<void> done) {
  impl_->call(ds_id, Proc::kForgetMissed, to_bytes(forget), timeout,
              expect_nothing(std::move(done)));
}

void Server::resync(std::uint32_t ds_id, const Resync& request, Timeout timeout, Done<void> done) {
  impl_->call(ds_id, Proc::kResync, to_bytes(request), timeout, expect_nothing(std::move(done)));
}

void Server::resync_status(std::uint32_t ds_id, std::uint64_t job, Timeout timeout,
                           Done<ResyncProgress> done) {
  impl_->call(ds_id, Proc::kResyncStatus, to_bytes(ResyncJob{job}), timeout,
              expect<ResyncProgress>(std::move(done)));
}

void Server::resync_cancel(std::uint32_t ds_id, std::uint64_t job, Timeout timeout,
                           Done<void> done) {
  impl_->call(ds_id, Proc::kResyncCancel, to_bytes(ResyncJob{job}), timeout,
              expect_nothing(std::move(done)));
}

void Server::scrub(std::uint32_t ds_id, const Scrub& request, Timeout timeout, Done<void> done) {
  impl_->call(ds_id, Proc::kScrub, to_bytes(request), timeout, expect_nothing(std::move(done)));
}

void Server::give_up(std::uint32_t ds_id, const GiveUp& request, Timeout timeout, Done<void> done) {
  impl_->call(ds_id, Proc::kGiveUp, to_bytes(request), timeout, expect_nothing(std::move(done)));
}

void Server::list(std::uint32_t ds_id, const ListFrom& from, Timeout timeout, Done<Listed> done) {
  impl_->call(ds_id, Proc::kList, to_bytes(from), timeout, expect<Listed>(std::move(done)));
}

void Server::punch(std::uint32_t ds_id, const Range& range, Timeout timeout, Done<void> done) {
  impl_->call(ds_id, Proc::kPunch, to_bytes(range), timeout, expect_nothing(std::move(done)));
}

}  // namespace weft::rpc::control
