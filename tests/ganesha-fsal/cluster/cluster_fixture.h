// A cluster whose data servers are real control clients on loopback, without disks.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/cluster.h"
#include "tests/ganesha-fsal/cluster/fake_server.h"
#include "tests/ganesha-fsal/meta/memory_kv.h"

namespace weft::mds {

using namespace std::chrono_literals;

struct Sizes : FileSizes {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> ends;
  std::size_t batches = 0;

  Result<std::uint64_t> size_of(const layout::ObjectId& object) override {
    const std::lock_guard lock(mutex);
    const auto found = ends.find(object.fileid);
    if (found == ends.end()) return fail(Errc::kStale, "no such file");
    return found->second;
  }
  Result<> grow(std::span<const control::ReportSize> reports) override {
    const std::lock_guard lock(mutex);
    ++batches;
    for (const auto& report : reports) {
      auto& end = ends[report.object.fileid];
      end = std::max(end, report.end);
    }
    return {};
  }
  bool written_again(const control::ReportSize& /*report*/) override {
    asked += 1;
    return again;
  }
  std::shared_ptr<void> arrived(control::ReportSize& /*report*/) override { return nullptr; }
  std::atomic<bool> again = false;
  std::atomic<int> asked = 0;
};

struct ClusterFixture {
  std::atomic<std::chrono::seconds> later{0s};  // of the registry's clock
  std::uint64_t boot = 0;
  MemoryKv store;
  Sizes sizes;
  std::unique_ptr<Cluster> cluster = start();
  std::vector<std::unique_ptr<FakeServer>> servers;

  std::unique_ptr<Cluster> start(std::uint16_t port = 0) {
    Cluster::Config config;
    config.listen = layout::make_address("127.0.0.1", port).value();
    config.keys = std::make_shared<rpc::peer::Keyring>(test_key());
    config.registry.cluster.fill(std::byte{1});
    config.registry.boot = boot;
    config.registry.heartbeat_ms = 50;
    config.registry.now = [this] { return Registry::Clock::now() + later.load(); };
    config.call_timeout = 5s;
    auto started = Cluster::start(config, store, sizes);
    REQUIRE(started);
    return std::move(*started);
  }
  bool await_up(std::uint32_t ds_id) {
    for (int i = 0; i < 2000; ++i) {
      if (cluster->registry().reach(ds_id) == Reach::kHere) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  // Servers 1 to `count`, registered one after the other so that ids are known.
  void run(std::uint32_t count) {
    for (std::uint32_t id = 1; id <= count; ++id) {
      servers.push_back(
          std::make_unique<FakeServer>(static_cast<std::uint8_t>(id), cluster->address().port));
      REQUIRE(await_up(id));
    }
  }
};

// The outcome of a change of objects.
inline Result<> await_change(const std::function<void(Finished<void>)>& start) {
  return await_with<void, Failures>([&](Finished<void> done) { start(std::move(done)); }).first;
}

inline layout::LayoutMap map_over(std::vector<std::uint32_t> ids) {
  layout::LayoutMap map;
  map.stripe_unit = 1024;
  map.copies = {{layout::CopyState::kCurrent, 0, std::move(ids)}};
  return map;
}

inline constexpr layout::ObjectId kObject{7, 1, 1};

}  // namespace weft::mds
