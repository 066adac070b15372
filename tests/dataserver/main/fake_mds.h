// A metadata server's end of the control protocol, over TCP, that remembers what it was told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rpc/control/heartbeat.h"
#include "rpc/control/server.h"
#include "rpc/control/transports.h"
#include "tests/dataserver/main/server_rig.h"

namespace weft::test {

namespace control = rpc::control;
using namespace std::chrono_literals;

class FakeMds final : public control::ServerEvents {
 public:
  static constexpr std::uint32_t kId = 3;

  explicit FakeMds(const rpc::peer::ClusterKey& key)
      : server_({.listen = layout::make_address("127.0.0.1", 0).value(),
                 .keys = std::make_shared<rpc::peer::Keyring>(key)},
                *this, requests()) {
    if (!server_.start()) throw std::runtime_error("control server does not start");
  }
  ~FakeMds() override { server_.stop(); }
  control::Server& server() { return server_; }
  std::mutex& mutex() { return mutex_; }

  void on_register(const layout::NetAddress& /*from*/, control::Register request,
                   control::Done<control::Registered> done) override {
    control::Registered answer{.cluster = {std::byte{0xC1}}, .ds_id = kId, .heartbeat_ms = 50};
    answer.mds_boot = boot;
    {
      const std::lock_guard lock(mutex_);
      answer.fences = fences_at_registration;
      registrations.push_back(std::move(request));
    }
    changed_.notify_all();
    if (refuses) return done(fail(Errc::kStale, "an old copy of a store that is there"));
    done(answer);
  }
  void on_connected(std::uint32_t /*ds_id*/) override {}
  void on_disconnected(std::uint32_t /*ds_id*/, const Error& /*why*/) override {}
  rpc::peer::Table<std::uint32_t> requests() {
    rpc::peer::Table<std::uint32_t> table;
    table.on<control::Heartbeat>(
        [this](std::uint32_t, control::Heartbeat heartbeat, control::Done<control::Lease> done) {
          const std::lock_guard lock(mutex_);
          last_heartbeat = std::move(heartbeat);
          changed_.notify_all();
          done(control::Lease{60});
        });
    table.on<control::QuerySize>(
        [this](std::uint32_t, control::QuerySize, control::Done<control::FileSize> done) {
          done(control::FileSize{file_size.load()});
        });
    table.on<control::ReportSize>(
        [this](std::uint32_t, control::ReportSize report, control::Done<void> done) {
          reported_end = report.end;
          done({});
        });
    table.on<control::TellTransports>(
        [this](std::uint32_t, control::TellTransports told, control::Done<void> done) {
          const std::lock_guard lock(mutex_);
          transports.push_back(std::move(told));
          changed_.notify_all();
          if (older) return done(fail(Errc::kNotSupported, "an older metadata server"));
          done({});
        });
    table.on<control::TellGroup>(
        [this](std::uint32_t, control::TellGroup told, control::Done<void> done) {
          const std::lock_guard lock(mutex_);
          group = told;
          changed_.notify_all();
          done({});
        });
    return table;
  }

  template <class Condition>
  bool wait(Condition condition, std::chrono::seconds longest = 10s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, condition);
  }
  // Calls the data server and waits for its answer.
  template <class T, class Start>
  Result<T> ask(Start start) {
    std::promise<Result<T>> promise;
    start([&](Result<T> result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }
  Result<> fence(std::vector<control::Fence> fences) {
    return ask<void>([&](auto done) {
      server_.call(kId, control::FenceRequest{std::move(fences)}, 5s, std::move(done));
    });
  }

  std::atomic<std::uint64_t> boot = 0;                 // what this run is called
  std::vector<control::Register> registrations;        // protected by mutex_
  std::vector<control::Fence> fences_at_registration;  // protected by mutex_
  std::optional<control::Heartbeat> last_heartbeat;    // protected by mutex_
  std::vector<control::TellTransports> transports;     // likewise: each time it was told
  control::TellGroup group;                            // likewise: the last
  std::atomic<bool> older{false};                      // it does not know that request
  std::atomic<bool> refuses{false};                    // whoever registers
  std::atomic<std::uint64_t> file_size{0};
  std::atomic<std::uint64_t> reported_end{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  control::Server server_;
};

// Only once it is registered does a data server listen.
inline std::unique_ptr<ds::DataServer> start_registered(ServerRig& rig, FakeMds& mds) {
  rig.config.mds = {{"127.0.0.1", mds.server().address().port}};
  rig.config.advertise = {layout::make_address("192.0.2.1", 2051).value()};
  auto server = std::move(ds::DataServer::open(rig.config, std::nullopt).value());
  // Its target makes a folder of 1024 for it first, which a busy disk takes its time for.
  for (int i = 0; i < 6000 && server->ports().empty(); ++i) {
    REQUIRE(server->tick());
    std::this_thread::sleep_for(10ms);
  }
  REQUIRE_FALSE(server->ports().empty());
  return server;
}

}  // namespace weft::test
