// A whole data server in this process, and clients that speak NFSv4.1 to it over TCP.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "dataserver/main/data_server.h"
#include "rpc/peer/keys.h"
#include "rpc/session/cluster_session.h"
#include "rpc/session/session_client.h"
#include "rpc/transport/tcp_dialer.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::test {

constexpr layout::ObjectId kServedObject{.fileid = 21, .generation = 1, .fsid = 1};

// A client with a thread of its own; every call waits for its answer.
class DsClient {
 public:
  // With a key it shows that it is a server.
  explicit DsClient(std::uint16_t port, const std::string& owner = "test-client",
                    std::optional<rpc::peer::ClusterKey> key = std::nullopt)
      : guard_(context_.get_executor()), thread_([this] { context_.run(); }) {
    rpc::SessionClientOptions options;
    options.owner = owner;
    options.verifier = 1;
    options.flags = rpc::nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    if (key) {
      options.domain = [key = *key, owner] {
        return rpc::server_domain(key, std::as_bytes(std::span(owner)), 1);
      };
    }
    session_ = std::make_unique<rpc::SessionClient>(
        context_, rpc::tcp_dialer(context_, pool_, "127.0.0.1", port), options);
  }
  ~DsClient() {
    std::promise<void> closed;
    session_->close([&] { closed.set_value(); });
    closed.get_future().wait_for(std::chrono::seconds(5));
    guard_.reset();
    context_.stop();
    thread_.join();
    session_.reset();
  }

  // PUTFH and one operation.
  Result<rpc::nfs4::CompoundResult> call(std::span<const std::byte> handle, rpc::nfs4::OpArgs op,
                                         std::chrono::seconds deadline = std::chrono::seconds(10)) {
    std::vector<rpc::nfs4::OpArgs> ops;
    ops.push_back({rpc::nfs4::Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(handle)}});
    ops.push_back(std::move(op));
    std::promise<Result<rpc::nfs4::CompoundResult>> promise;
    auto answer = promise.get_future();
    session_->call(
        std::move(ops), {.deadline = deadline, .idempotent = true},
        [&](Result<rpc::nfs4::CompoundResult> result) { promise.set_value(std::move(result)); });
    return answer.get();
  }
  // WRITE; the result's status, and the reply in *ok unless null.
  rpc::nfs4::Status write(std::span<const std::byte> handle, std::uint64_t offset,
                          const std::string& bytes, rpc::nfs4::WriteOk* ok = nullptr,
                          rpc::nfs4::StableHow stable = rpc::nfs4::StableHow::UNSTABLE4) {
    rpc::nfs4::WriteArgs args{.offset = offset, .stable = stable};
    auto buffer = pool_.allocate(bytes.size()).value();
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    args.data.push_back(std::move(buffer));
    auto result = call(handle, {rpc::nfs4::Op::OP_WRITE, std::move(args)});
    if (!result) throw std::runtime_error(result.error().describe());
    if (auto* got = result->get<rpc::nfs4::WriteOk>(1); got != nullptr && ok != nullptr) *ok = *got;
    return result->status;
  }
  struct Got {
    rpc::nfs4::Status status;
    std::string text;
    bool eof = false;
  };
  Got read(std::span<const std::byte> handle, std::uint64_t offset, std::uint32_t count) {
    auto result = call(
        handle, {rpc::nfs4::Op::OP_READ, rpc::nfs4::ReadArgs{.offset = offset, .count = count}});
    if (!result) throw std::runtime_error(result.error().describe());
    auto* ok = result->get<rpc::nfs4::ReadOk>(1);
    if (ok == nullptr) return {result->status, {}};
    const auto bytes = ok->data.flatten().value();
    return {result->status, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            ok->eof};
  }
  std::optional<rpc::nfs4::Verifier> commit(std::span<const std::byte> handle) {
    auto result = call(handle, {rpc::nfs4::Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
    if (!result) throw std::runtime_error(result.error().describe());
    auto* ok = result->get<rpc::nfs4::CommitOk>(1);
    if (ok == nullptr) return std::nullopt;
    return ok->verifier;
  }
  rpc::nfs4::ExchangeIdOk server() const { return session_->server(); }

 private:
  boost::asio::io_context context_{1};
  BufferPool pool_{std::size_t{256} << 20};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::unique_ptr<rpc::SessionClient> session_;
  std::thread thread_;
};

// The folder and configuration of a data server that can be started many times.
class ServerRig {
 public:
  ServerRig() {
    key = rpc::peer::create_cluster_key(folder_.path() + "/key").value();
    config.listen = {layout::make_address("127.0.0.1", 0).value()};
    config.key_file = folder_.path() + "/key";
    config.store.path = folder_.path() + "/store";
    config.threads = 2;
    config.pin_threads = false;
    config.memory_limit_bytes = std::size_t{64} << 20;
    config.name = "rig";
  }

  [[nodiscard]] std::unique_ptr<ds::DataServer> start(std::uint32_t ds_id = 7) const {
    return std::move(ds::DataServer::open(config, ds::DataServer::Standalone{ds_id}).value());
  }
  [[nodiscard]] layout::SealedHandle handle(
      std::uint32_t ds_id = 7, std::uint32_t epoch = 0,
      layout::Access access = layout::Access::kReadWrite) const {
    return layout::seal({.access = access,
                         .key_id = rpc::peer::kHandleKeyId,
                         .ds_id = ds_id,
                         .object = kServedObject,
                         .client_id = 1,
                         .object_epoch = epoch},
                        rpc::peer::handle_key(key));
  }

  ds::DsConfig config;
  rpc::peer::ClusterKey key;

 private:
  TempFolder folder_;
};

}  // namespace weft::test
