// For tests on a real device, Soft-RoCE for one: a server of RPC over RDMA and its services, in
// this process. Without a device these tests are skipped; with one, WEFT_RDMA_ADDRESS is a numeric
// address that it has.
//
// Threading: the test's; services run on the server's threads.
#pragma once

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/shared_memory.h"
#include "rpc/transport/rdma/devices.h"
#include "rpc/transport/rdma/rdma_server.h"

namespace weft::rpc::rdma::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::uint16_t kTestPort = 20149;

template <class Happened>
bool wait(Happened happened) {
  for (int i = 0; i < 3000 && !happened(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return happened();
}

// Answers a call with its number and, if it says so, with so many bytes of `data`.
struct Service final : ChannelUser {
  explicit Service(BufferPool& of) : pool(of) {}
  void on_record(ReceivedRecord record) override {
    std::vector<Buffer>& parts = record.apart.lent;
    xdr::Decoder in(record.bytes.span());
    Message out;
    out.bytes().u32(in.u32());
    out.bytes().u32(1);
    static_cast<void>(in.u32());
    const std::uint32_t wanted = in.remaining() >= 4 && parts.empty() ? in.u32() : 0;
    if (!parts.empty()) last = std::move(parts.front());
    if (wanted > 0 && last.size() >= wanted) {
      Payload payload;
      payload.append(last.share(0, wanted).value());
      out.splice(std::move(payload));
      for (std::size_t at = wanted; at % 4 != 0; ++at) out.bytes().raw(std::array{std::byte{}});
    }
    channel->send(std::move(out));
  }
  void on_closed(const Error& why) override {
    let_go();
    closed = why.code;
    ended = true;
  }
  void let_go() {
    last.reset();
    channel.reset();
  }
  BufferPool& pool;
  std::shared_ptr<Channel> channel;
  Buffer last;
  std::optional<Errc> closed;
  std::atomic<bool> ended = false;
};

struct Rig {
  explicit Rig(const char* at) : address(at) {
    pool.arena()->pin();
    threads.start();
    ServerOptions options;
    options.addresses.push_back({.ip = address, .port = kTestPort});
    options.admission.standing = options.limits.standing = Standing::kServer;
    server = std::make_unique<Server>(threads, pool, std::move(options),
                                      [this](std::shared_ptr<Channel> channel) {
                                        auto service = std::make_shared<Service>(pool);
                                        service->channel = channel;
                                        channel->start(service);
                                        const std::lock_guard lock(mutex);
                                        services.push_back(std::move(service));
                                      });
    const auto listening = server->listen();
    INFO((listening ? "" : listening.error().describe()));
    REQUIRE(listening);
    REQUIRE(server->listening() == 1);
  }
  ~Rig() {
    server.reset();
    threads.stop();
    for (const auto& service : services) service->let_go();  // who was not told that it is over
  }
  std::shared_ptr<Service> service(std::size_t index) {
    std::shared_ptr<Service> found;
    REQUIRE(wait([&] {
      const std::lock_guard lock(mutex);
      if (services.size() > index) found = services[index];
      return found != nullptr;
    }));
    return found;
  }
  std::string address;
  BufferPool pool{16 * kMebibyte,
                  std::make_shared<Arena>(SharedMemory::create(32 * kMebibyte, "test").value())};
  IoThreads threads{2, false};
  std::unique_ptr<Server> server;
  std::mutex mutex;
  std::vector<std::shared_ptr<Service>> services;
};

inline const char* device_address() {
  const char* address = std::getenv("WEFT_RDMA_ADDRESS");
  if (address == nullptr || !Devices::any()) {
    SKIP("needs an RDMA device, and its address in WEFT_RDMA_ADDRESS");
  }
  return address;
}

}  // namespace weft::rpc::rdma::test
