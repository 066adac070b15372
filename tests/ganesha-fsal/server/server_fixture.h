// A metadata server in a test: the real one, whole, over a store in memory that outlives it, with
// an environment that does what the test says. Nothing happens by itself unless the test calls
// start_background(), or starts one of the server's parts.
#pragma once

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "ganesha-fsal/server/metadata_server.h"
#include "tests/ganesha-fsal/cluster/fake_server.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {

using namespace std::chrono_literals;

// Goes as the system's, and `later` more; the time of day stands unless told.
struct TestClock final : weft::Clock {
  [[nodiscard]] TimePoint now() const override { return system_clock().now() + later.load(); }
  [[nodiscard]] std::int64_t wall_ns() const override { return now_ns; }
  std::atomic<std::chrono::seconds> later{0s};
  std::atomic<std::int64_t> now_ns{1'000};
};

// Clients that give nothing back.
struct NoRecaller : Recaller {
  void recall(FileId, ClientId, std::optional<layout::Access>, std::function<void()>) override {}
  void recall_unused(ClientId, std::function<void(bool)>) override {}
};

// Polls until it holds, with a deadline that only what never comes true reaches.
[[nodiscard]] inline bool await_that(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

struct ServerTest : NamespaceCalls<Namespace*> {
  ServerTest() {
    options.control_address = "127.0.0.1:0";
    options.key_file = folder.path("cluster.key");
    options.proxy_timeout = 3s;
    options.heartbeat = 50ms;
    options.owing_for = 0ms;
    write_key();
    policy.reserve_bytes = 0;
    policy.stripe_unit = 1024;
  }
  Environment environment() {
    return {.clock = clock,
            .random = random,
            .lease = lease,
            .grace = grace,
            .grace_left = [this] { return std::chrono::milliseconds(grace_left.load()); },
            .clients = [this] { return clients; },
            .client_refused = [this] { return client_refused; },
            .places = [this] { return places; },
            .is_open =
                [this](FileId file, std::optional<ClientId> client) {
                  const std::lock_guard lock(mutex);
                  return client ? opens.contains({file, *client})
                                : std::ranges::any_of(
                                      opens, [&](const auto& open) { return open.first == file; });
                },
            .recaller = recaller,
            .invalidate_attributes =
                [this](FileId file) {
                  const std::lock_guard lock(mutex);
                  invalidated.push_back(file);
                },
            .find_path = [this](std::string_view path) { return find_path(path); },
            .copies = [this] { return copies; },
            .config = [] { return ConfigReport{.options = {}, .exports = {{1, "/export", {}}}}; }};
  }
  void start() { start(store); }
  // Over another one, which is to outlive the server.
  void start(KvStore& over) {
    auto started = MetadataServer::start(options, environment(), over);
    REQUIRE(started);
    server = std::move(*started);
    names = &server->names();
    // The next one is where data servers look for it.
    options.control_address = "127.0.0.1:" + std::to_string(port());
  }
  void stop() {
    names = nullptr;
    server.reset();
  }
  // The metadata server dies, with all that was not durable, and comes back.
  void restart() {
    stop();
    store.lose_power();
    start();
  }
  [[nodiscard]] std::uint16_t port() { return server->cluster().address().port; }
  void await_up(std::uint32_t ds_id) {
    REQUIRE(await_that([&] { return server->cluster().registry().reach(ds_id) == Reach::kHere; }));
  }
  Result<FileData::Granted> grant(FileId file, ClientId client, layout::Access access) {
    return server->data().grant(
        {.file = file, .client = client, .access = access, .max_bytes = 4096, .type = policy.type},
        policy);
  }
  // Both steps, waiting in between.
  Result<FileData::Read> read_at(FileId file, std::uint64_t offset, std::uint32_t count) {
    std::promise<void> answered;
    auto begun = server->data().begin_read(file, offset, count, [&] { answered.set_value(); });
    if (!begun) return pass(begun);
    if ((*begun)->later) answered.get_future().wait();
    return server->data().end_read(**begun);
  }
  Result<ProxyIo::WriteResult> write_at(FileId file, std::uint64_t offset,
                                        std::span<const std::byte> bytes,
                                        ProxyIo::Stability wanted = ProxyIo::Stability::kUnstable) {
    const ProxyIo::Pieces pieces(&bytes, 1);
    std::promise<void> answered;
    auto begun = server->data().begin_write(file, offset, pieces, wanted, policy,
                                            [&] { answered.set_value(); });
    if (!begun) return pass(begun);
    if ((*begun)->later) answered.get_future().wait();
    return server->data().end_write(**begun, pieces);
  }
  Result<> sync_at(FileId file) {
    std::promise<void> answered;
    auto begun = server->data().begin_sync(file, [&] { answered.set_value(); });
    if (!begun) return pass(begun);
    if ((*begun)->later) answered.get_future().wait();
    return server->data().end_sync(**begun);
  }
  // All of the store is exported as "/export".
  std::optional<PathInExport> find_path(std::string_view path) const {
    constexpr std::string_view kPseudo = "/export";
    if (!path.starts_with(kPseudo)) return std::nullopt;
    const std::string_view rest = path.substr(kPseudo.size());
    return PathInExport{.export_id = 1,
                        .path = std::string(rest.empty() ? "/" : rest),
                        .pseudo_path = std::string(kPseudo),
                        .policy = policy};
  }

  // test_key()'s.
  void write_key() {
    std::ofstream out(options.key_file);
    for (std::size_t i = 0; i < rpc::peer::kKeyBytes; ++i) out << "2a";
    out.close();
    std::filesystem::permissions(
        options.key_file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  TempFolder folder;
  TestClock clock;
  std::atomic<std::int64_t>& now_ns = clock.now_ns;
  std::atomic<std::chrono::seconds>& later = clock.later;
  SeededRandom random{1};
  std::chrono::seconds lease{60};
  std::chrono::seconds grace{0};
  int client_refused = 0;
  NfsPlaces places;
  std::atomic<int> grace_left{0};  // milliseconds
  std::map<ClientId, NfsClient> clients;
  std::set<std::uint32_t> copies;  // that exports ask for
  NoRecaller recaller;
  std::mutex mutex;
  std::set<std::pair<FileId, ClientId>> opens;  // guarded by mutex
  std::vector<FileId> invalidated;              // the same
  ServerOptions options;
  layout::PlacementPolicy policy;
  std::unique_ptr<MetadataServer> server;
};

}  // namespace weft::mds
