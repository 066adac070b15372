#include "rpc/session/session_client.h"

#include "rpc/session/client_core.h"

namespace weft::rpc {

struct SessionClient::Impl : ClientCore {
  using ClientCore::ClientCore;
};

SessionClient::SessionClient(boost::asio::io_context& context, Dial dial,
                             SessionClientOptions options)
    : impl_(std::make_shared<Impl>(context, std::move(dial), std::move(options))) {
  impl_->post([](ClientCore& core) { core.start(); });
}

SessionClient::~SessionClient() {
  impl_->post([](ClientCore& core) { core.abandon(); });
}

void SessionClient::call(std::vector<nfs4::OpArgs> ops, CallOptions options, Done done) {
  auto request = make_request(impl_->options(), std::move(ops), options, std::move(done));
  impl_->post([request = std::move(request)](ClientCore& core) mutable {
    core.submit(std::move(request));
  });
}

void SessionClient::when_ready(std::chrono::milliseconds deadline,
                               std::move_only_function<void(Result<>)> done) {
  impl_->post([deadline, done = std::move(done)](ClientCore& core) mutable {
    core.when_ready(deadline, std::move(done));
  });
}

void SessionClient::renew_connections() {
  impl_->post([](ClientCore& core) { core.renew_connections(); });
}

void SessionClient::reconnect() {
  impl_->post([](ClientCore& core) { core.reconnect(); });
}

void SessionClient::close(std::move_only_function<void()> done) {
  impl_->post([done = std::move(done)](ClientCore& core) mutable { core.close(std::move(done)); });
}

SessionClient::State SessionClient::state() const { return impl_->state(); }
nfs4::ExchangeIdOk SessionClient::server() const { return impl_->server(); }

}  // namespace weft::rpc
