#include "ganesha-fsal/files/ds_fencer.h"

#include <algorithm>
#include <future>

#include "ganesha-fsal/files/cluster_links.h"
#include "tests/ganesha-fsal/cluster/fake_server.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kLong{60};

// A store that syncs when it may. What is durable already waits for nothing.
class HeldStore final : public KvStore {
 public:
  std::unique_ptr<Transaction> begin() override { return store_.begin(); }
  const KvReader& latest() const override { return store_.latest(); }
  std::unique_ptr<KvReader> snapshot() const override { return store_.snapshot(); }
  Result<> wait_durable(CommitSeq seq) override {
    const MutexLock lock(mutex_);
    if (seq > synced_ && held_) {
      waiting_ = true;
      changed_.notify_all();
      changed_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return !held_; });
    }
    synced_ = std::max(synced_, seq);
    return store_.wait_durable(seq);
  }

  void hold(bool held) {
    const MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  // Whether somebody waits for a sync, in time.
  bool await_waiting() {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kLong, [this]() WEFT_REQUIRES(mutex_) { return waiting_; });
  }

 private:
  MemoryKv store_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ WEFT_GUARDED_BY(mutex_) = false;
  bool waiting_ WEFT_GUARDED_BY(mutex_) = false;  // somebody, for a sync
  CommitSeq synced_ WEFT_GUARDED_BY(mutex_) = 0;
};

struct Fixture {
  Fixture()
      : names(Namespace::open(store, {}).value()), sizes(*names, files, journal, [](FileId) {}) {
    Cluster::Config config;
    config.listen = layout::make_address("127.0.0.1", 0).value();
    config.keys = std::make_shared<rpc::peer::Keyring>(test_key());
    config.registry.now = [] { return system_clock().now(); };
    config.registry.cluster = names->superblock().cluster_uuid;
    cluster = Cluster::start(config, store, sizes).value();
    fencer.emplace(*names, *cluster, files);
    auto made = names->create(kSuperuser, kRootFileId, "f", {.mode = 0644});
    REQUIRE(made);
    file = made->attributes.id;
    REQUIRE(names->ensure_layout(file, NamespaceTest::striped({1})));
  }
  // Data servers 1 and 2, and a file with a copy at each, the second of which leads.
  FileId file_with_copies() {
    for (std::uint8_t id = 1; id <= 2; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, cluster->address().port));
      REQUIRE(await_that([&] { return cluster->registry().reach(id) == Reach::kHere; }));
    }
    const auto made = names->create(kSuperuser, kRootFileId, "copies", {.mode = 0644});
    REQUIRE(made);
    const FileId id = made->attributes.id;
    REQUIRE(names->ensure_layout(id, [](const InodeAttributes&) -> Result<layout::LayoutMap> {
      layout::LayoutMap map;
      map.stripe_unit = 1 << 20;
      map.copies = {{layout::CopyState::kCurrent, 0, {1}, {}},
                    {layout::CopyState::kCurrent, 0, {2}, {}}};
      return map;
    }));
    FileTable::Changing(files, id)->mirrors.leads = {1};
    return id;
  }
  static bool await_that(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool fenced(std::uint32_t ds_id) {
    const std::lock_guard lock(servers[ds_id - 1]->mutex);
    return servers[ds_id - 1]->client_epochs.contains(7);
  }

  HeldStore store;
  std::unique_ptr<Namespace> names;
  FileTable files{system_clock()};
  WriterJournal journal{{.files = files, .names = *names}};
  NamespaceSizes sizes;
  std::unique_ptr<Cluster> cluster;
  std::optional<DsFencer> fencer;
  FileId file = 0;
  std::vector<std::unique_ptr<FakeServer>> servers;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "while one client is fenced, others get their handles") {
  CHECK(fencer->epoch_for(7) == 1);
  CHECK(fencer->epoch_for(8) == 1);
  store.hold(true);
  auto fenced = std::async(std::launch::async, [&] { fencer->fence(file, 7, [](Result<>) {}); });
  REQUIRE(store.await_waiting());
  auto other = std::async(std::launch::async, [&] { return fencer->epoch_for(8); });
  auto same = std::async(std::launch::async, [&] { return fencer->epoch_for(7); });
  const bool answered = other.wait_for(kLong) == std::future_status::ready;
  store.hold(false);
  CHECK(answered);
  CHECK(other.get() == 1);
  CHECK(same.get() == 2);  // never one that the fence refuses
  fenced.get();
}

// A client that dies with many layouts is fenced for each of their files.
TEST_CASE_METHOD(Fixture, "fences of a client cost one epoch until it gets a handle again") {
  const auto made = names->create(kSuperuser, kRootFileId, "g", {.mode = 0644});
  REQUIRE(made);
  const FileId g = made->attributes.id;
  REQUIRE(names->ensure_layout(g, NamespaceTest::striped({1})));
  const auto fence_both = [&] {
    for (const FileId id : {file, g}) fencer->fence(id, 7, [](Result<>) {});
  };
  CHECK(fencer->epoch_for(7) == 1);
  fence_both();
  CHECK(names->client_epoch(7) == 2);
  fence_both();
  CHECK(names->client_epoch(7) == 2);
  CHECK(fencer->epoch_for(7) == 2);
  fence_both();
  CHECK(names->client_epoch(7) == 3);
}

// What one brings to the other meanwhile that one takes: none is told before another.
TEST_CASE_METHOD(Fixture, "a client is fenced when all copies have answered, in whatever order") {
  const FileId copies = file_with_copies();
  REQUIRE(fencer->epoch_for(7));
  FakeServer& leader = *servers[1];
  {
    const std::lock_guard lock(leader.mutex);
    leader.hold_fences = true;
  }
  std::promise<Result<>> told;
  fencer->fence(copies, 7, [&](Result<> outcome) { told.set_value(std::move(outcome)); });
  REQUIRE(await_that([&] { return leader.holds_fences(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(fenced(1));
  SECTION("it has ended what it was bringing to them") {
    leader.let_fences_go();
    CHECK(told.get_future().get());
    CHECK(fenced(2));
  }
  SECTION("or is lost") {
    leader.disconnect();
    CHECK(told.get_future().get().error() == Errc::kUnreachable);
  }
  CHECK(fenced(1));
}

}  // namespace weft::mds
