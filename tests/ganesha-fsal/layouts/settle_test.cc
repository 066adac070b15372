// Files whose writers died: fenced, and as long as the data servers say.
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "ganesha-fsal/layouts/cluster_links.h"
#include "ganesha-fsal/layouts/file_data.h"
#include "tests/ganesha-fsal/cluster/fake_server.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

using namespace std::chrono_literals;

struct NoRecaller : Recaller {
  void recall(FileId, ClientId, std::function<void()>) override {}
};

// One run of the metadata server over a store.
class Run {
 public:
  Run(Namespace& names, KvStore& store, std::uint16_t port)
      : names_(names), sizes_(names, [](FileId) {}), cluster_(start(store, port)) {
    REQUIRE(data.open());
  }
  std::uint16_t port() const { return cluster_->address().port; }
  void await_up(std::uint32_t ds_id) {
    for (int i = 0; i < 2000 && !cluster_->registry().is_connected(ds_id); ++i) {
      std::this_thread::sleep_for(5ms);
    }
    REQUIRE(cluster_->registry().is_connected(ds_id));
  }
  Result<std::vector<std::byte>> grant(FileId file, ClientId client, layout::Access access) {
    layout::PlacementPolicy policy;
    policy.reserve_bytes = 0;
    policy.stripe_unit = 1024;
    return data.grant({.file = file, .client = client, .access = access, .max_bytes = 4096},
                      policy);
  }

 private:
  std::unique_ptr<Cluster> start(KvStore& store, std::uint16_t port) {
    Cluster::Config config;
    config.listen = layout::make_address("127.0.0.1", port).value();
    config.key = test_key();
    config.registry.cluster = names_.superblock().cluster_uuid;
    config.registry.heartbeat_ms = 50;
    config.call_timeout = 2s;
    auto started = Cluster::start(config, store, sizes_);
    REQUIRE(started);
    return std::move(*started);
  }

  Namespace& names_;
  NamespaceSizes sizes_;
  std::unique_ptr<Cluster> cluster_;
  BufferPool pool_{1 << 20};
  ProxyIo proxy_{{.owner = "test"}, cluster_->registry(), pool_};
  layout::RoundRobin placement_;
  NoRecaller recaller_;
  DsFencer fencer_{names_, *cluster_};

 public:
  LayoutService layouts{recaller_,
                        fencer_,
                        {},
                        [] { return Clock::now(); },
                        [](FileId) {},
                        [this](FileId file) { data.writer_fenced(file); }};
  WriterJournal journal{{.names = names_, .in_use = [this](FileId file) {
                           return layouts.held_for_write(file) || layouts.blocked(file);
                         }}};
  Mirrors mirrors{
      {.names = names_,
       .journal = journal,
       .layouts = layouts,
       .reach = [this](std::uint32_t id) { return cluster_->registry().reach(id); },
       .servers = [this] { return cluster_->registry().candidates(); },
       .fence = [this](std::span<const std::uint32_t> ds_ids, const control::Fence& fence,
                       Done<void> done) { cluster_->fence(ds_ids, {fence}, std::move(done)); },
       .grants_known = [] { return true; }}};
  FileData data{
      {names_, *cluster_, proxy_, layouts, fencer_, placement_, journal, mirrors, [](FileId) {}}};
};

struct Fixture : NamespaceTest {
  Fixture() : f(file(kRootFileId, "f")), run(std::make_unique<Run>(*names, store, 0)) {
    for (std::uint8_t id = 1; id <= 2; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, run->port()));
      run->await_up(id);
    }
  }
  ~Fixture() {
    servers.clear();
    run.reset();
  }
  // The metadata server dies and comes back; its data servers are up.
  void restart() {
    const std::uint16_t port = run->port();
    run.reset();
    names.reset();
    store.lose_power();
    open();
    run = std::make_unique<Run>(*names, store, port);
    for (std::uint32_t id = 1; id <= 2; ++id) run->await_up(id);
  }
  std::uint32_t epoch_at(std::size_t server) {
    const std::lock_guard lock(servers[server]->mutex);
    return servers[server]->epochs[f];
  }
  std::uint64_t size() { return attributes(f).size; }

  const FileId f;
  std::unique_ptr<Run> run;
  std::vector<std::unique_ptr<FakeServer>> servers;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a writer that dies with the metadata server loses no bytes") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  const std::uint32_t before = (*names->layout(f))->object_epoch;
  restart();
  run->data.settle_due(false);  // clients may still come back
  CHECK(size() == 0);
  CHECK(epoch_at(0) == 0);
  const std::int64_t mtime = attributes(f).mtime_ns;
  now_ns += 10;
  run->data.settle_due(true);
  CHECK(size() == 2000);
  CHECK(attributes(f).mtime_ns > mtime);
  CHECK(epoch_at(0) == before + 1);
  CHECK(epoch_at(1) == before + 1);
  CHECK((*names->layout(f))->object_epoch == before + 1);
  check_clean();
}

TEST_CASE_METHOD(Fixture, "layouts granted since the restart are not fenced with those of before") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  restart();
  REQUIRE(run->grant(f, 6, layout::Access::kRead));
  const std::uint32_t sealed = (*names->layout(f))->object_epoch;
  CHECK(sealed == 2);
  run->data.settle_due(true);
  CHECK(epoch_at(0) == sealed);
  CHECK((*names->layout(f))->object_epoch == sealed);
}

TEST_CASE_METHOD(Fixture, "a size that is set waits until the writers of before are fenced") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[0]->hold(f, 5000);
  restart();
  AttributeChange cut;
  cut.size = 100;
  SECTION("at once when the data servers answer") {
    REQUIRE(run->data.set_attributes(f, cut, 6));
    CHECK(epoch_at(0) == 2);
    CHECK(size() == 100);
    run->data.settle_due(true);
    CHECK(size() == 100);
  }
  SECTION("not without them") {
    servers[1]->disconnect();
    CHECK_FALSE(run->data.set_attributes(f, cut, 6));
    CHECK(size() == 0);
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "what was cut when the server died does not come back as data") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  REQUIRE(names->grow_size({.id = f, .end = 5000}));
  AttributeChange cut;
  cut.size = 100;
  REQUIRE(names->setattr(f, cut));  // and dies before it has told the data servers
  servers[0]->hold(f, 5000);
  restart();
  run->data.settle_due(true);
  CHECK(size() == 100);
}

TEST_CASE_METHOD(Fixture, "a file is settled when the last data server is back") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  servers[1]->disconnect();
  const std::uint16_t port = run->port();
  run.reset();
  open();
  run = std::make_unique<Run>(*names, store, port);
  run->await_up(1);
  run->data.settle_due(true);
  CHECK(size() == 0);
  servers[1]->connect(port);
  run->await_up(2);
  run->data.settle_due(true);
  CHECK(size() == 0);  // not yet again
  run->data.retry_settling();
  run->data.settle_due(true);
  CHECK(size() == 2000);
  CHECK(epoch_at(1) == 2);
}

TEST_CASE_METHOD(Fixture, "a writer that dies alone is fenced, and the data servers are asked") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 1500);
  run->layouts.revoke(f, 5, "lease");
  for (int i = 0; i < 1000 && run->layouts.blocked(f); ++i) std::this_thread::sleep_for(5ms);
  REQUIRE_FALSE(run->layouts.blocked(f));
  run->data.settle_due(false);
  CHECK(size() == 1500);
}

}  // namespace weft::mds
