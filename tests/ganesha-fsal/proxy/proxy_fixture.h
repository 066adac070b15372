// A proxy and the data servers of one file.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <set>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/proxy/proxy_io.h"
#include "rpc/base/shared_memory.h"
#include "tests/ganesha-fsal/cluster/fake_nfs.h"
#include "tests/ganesha-fsal/meta/memory_kv.h"

namespace weft::mds {

using namespace std::chrono_literals;

inline constexpr std::uint32_t kUnit = 64 * 1024;

// A file over `stripes` data servers for each of its copies: server 1 is the first of copy 0,
// server stripes + 1 the first of copy 1, and so on.
struct ProxyFixture {
  static constexpr std::uint32_t kBootEpoch = 7;
  // near: all on one machine. boot: of the metadata server; 0: nothing says which run this is.
  explicit ProxyFixture(std::uint32_t stripes, std::uint32_t copies = 1,
                        std::chrono::milliseconds call_timeout = 5s, bool near_by = false,
                        std::uint64_t boot = 0)
      : near(near_by), pool(256U << 20, near ? shared_arena() : nullptr) {
    threads.start();
    RegistryOptions options;
    options.cluster.fill(std::byte{1});
    options.boot = boot;
    options.now = [] { return system_clock().now(); };
    registry = std::move(*Registry::open(store, options));
    file.map.copies.resize(copies);
    for (std::uint32_t id = 1; id <= stripes * copies; ++id) {
      servers.push_back(std::make_unique<FakeNfs>(id, threads, pool, peers));
      peers[id] = &servers.back()->objects;
      add(id);
      file.map.copies[(id - 1) / stripes].ds_ids.push_back(id);
    }
    file.object = {42, 1, 1};
    file.map.stripe_unit = kUnit;
    if (copies > 1) {
      file.map.duplication = layout::Duplication::kServerSync;
      file.map.reads = layout::ReadPolicy::kAllCopies;
      file.leads.assign(stripes, 0);
    }
    proxy = std::make_unique<ProxyIo>(config(call_timeout), *registry, pool);
  }
  ProxyIo::Config config(std::chrono::milliseconds call_timeout) {
    ProxyIo::Config config{.clock = system_clock(), .random = system_random()};
    config.owner = "test-mds";
    config.keys = std::make_shared<rpc::peer::Keyring>(kNfsClusterKey);
    config.boot_epoch = kBootEpoch;
    config.call_timeout = call_timeout;
    config.copy_timeout = 1500ms;
    config.is_gone = [this](std::uint32_t id) {
      const std::lock_guard lock(gone_mutex);
      return gone.contains(id);
    };
    return config;
  }
  ~ProxyFixture() {
    proxy.reset();
    for (const auto& server : servers) server->stop();
    threads.stop();
    std::filesystem::remove_all(folder);
  }
  static std::shared_ptr<Arena> shared_arena() {
    return std::make_shared<Arena>(SharedMemory::create(std::size_t{512} << 20, "test").value());
  }
  control::Register registration(std::uint32_t id) const {
    control::Register request;
    request.store.fill(static_cast<std::byte>(id));
    request.boot = id;
    request.addresses = {layout::make_address("127.0.0.1", servers[id - 1]->tcp.port()).value()};
    return request;
  }
  void add(std::uint32_t id) {
    control::Register request = registration(id);
    if (near) {
      std::filesystem::create_directories(folder);
      request.local = {.machine = this_machine(),
                       .user = ::geteuid(),
                       .socket = folder + "/" + std::to_string(id)};
      servers[id - 1]->listen(request.local.socket, request.store);
    }
    REQUIRE(registry->register_server(request.addresses[0], request)->ds_id == id);
  }
  void set_size(std::uint64_t to) {
    size = std::max(size, to);
    for (const auto& server : servers) {
      const std::lock_guard lock(server->objects.mutex);
      server->objects.file_size = size;
    }
  }
  Result<ProxyIo::WriteResult> write(std::uint64_t offset, std::span<const std::byte> data,
                                     ProxyIo::Stability wanted = ProxyIo::Stability::kUnstable) {
    auto [result, failed] = await_with<ProxyIo::WriteResult, Failures>(
        [&](auto done) { proxy->write(file, offset, {&data, 1}, wanted, std::move(done)); });
    failures = std::move(failed);
    if (result) set_size(offset + data.size());
    return std::move(result);
  }
  // A write that data server 1 has and does not answer in time. It holds the answer back.
  void give_up_a_write(std::span<const std::byte> data) {
    set_silent(1, true);
    CHECK(write(0, data).error() == Errc::kTimedOut);
    CHECK(proxy->unsettled(file.object, file.map));
    set_silent(1, false);
  }
  void set_silent(std::uint32_t id, bool silent) {
    const std::lock_guard lock(objects(id).mutex);
    objects(id).silent = silent;
  }
  Result<ProxyIo::ReadResult> read(std::uint64_t offset, std::uint32_t count) {
    ProxyIo::File any = file;
    if (!read_leads) any.leads.clear();
    return await<ProxyIo::ReadResult>(
        [&](auto done) { proxy->read(any, size, offset, count, std::move(done)); });
  }
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint32_t count) {
    auto result = read(offset, count);
    REQUIRE(result);
    return result->data.flatten().value();
  }
  Result<std::uint64_t> commit() {
    auto [result, failed] = await_with<std::uint64_t, Failures>(
        [&](auto done) { proxy->commit(file, std::move(done)); });
    failures = std::move(failed);
    return std::move(result);
  }
  FakeObjects& objects(std::uint32_t id) { return servers[id - 1]->objects; }
  // Its process dies, and the metadata server takes notice.
  void kill(std::uint32_t id) {
    servers[id - 1]->stop();
    lose(id);
  }
  void lose(std::uint32_t id) {
    const std::lock_guard lock(gone_mutex);
    gone.insert(id);
  }

  const bool near;
  const std::string folder = "/tmp/weft-proxy-test-" + std::to_string(::getpid());
  BufferPool pool;
  rpc::IoThreads threads{1, false};
  MemoryKv store;
  std::unique_ptr<Registry> registry;
  FakeObjects::Peers peers;
  std::vector<std::unique_ptr<FakeNfs>> servers;
  ProxyIo::File file;
  std::uint64_t size = 0;
  bool read_leads = false;
  Failures failures;  // of the last write or commit
  std::mutex gone_mutex;
  std::set<std::uint32_t> gone;
  std::unique_ptr<ProxyIo> proxy;
};

}  // namespace weft::mds
