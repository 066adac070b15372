// Files whose writers died: fenced, and as long as the data servers say.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>
#include <thread>

#include "ganesha-fsal/cluster/await.h"
#include "layout/flex_layout.h"
#include "tests/ganesha-fsal/files/give_back.h"
#include "tests/ganesha-fsal/meta/held_sync.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

struct Fixture : ServerTest {
  Fixture() {
    start();
    f = file(kRootFileId, "f");
    for (std::uint8_t id = 1; id <= 2; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, port()));
      await_up(id);
    }
  }
  ~Fixture() {
    servers.clear();
    stop();
  }
  // The metadata server dies and comes back; its data servers are up.
  void restart() {
    ServerTest::restart();
    for (std::uint32_t id = 1; id <= 2; ++id) await_up(id);
  }
  std::uint32_t epoch_at(std::size_t server) {
    const std::lock_guard lock(servers[server]->mutex);
    return servers[server]->epochs[f];
  }
  std::uint64_t size() { return attributes(f).size; }

  FileId f = 0;
  std::vector<std::unique_ptr<FakeServer>> servers;
};

// The file has two copies, which clients write themselves.
struct FlexFixture : Fixture {
  FlexFixture() {
    policy.type = layout::LayoutType::kFlexFiles;
    policy.stripe_count = 1;
    policy.copies = 2;
    policy.duplication = layout::Duplication::kClientSync;
  }
  // How many data servers the client's layout for writing names; 0: it gets none.
  std::size_t written_at(ClientId client) {
    const auto granted = grant(f, client, layout::Access::kReadWrite);
    return granted ? layout::decode_flex_layout(granted->body).value().mirrors.size() : 0;
  }
  int jobs() { return servers[0]->jobs() + servers[1]->jobs(); }
  void settle() {
    REQUIRE(await_that([&] {
      server->data().settle_due(true);
      return !server->journal().unsettled(f);
    }));
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a writer that dies with the metadata server loses no bytes") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  const std::uint32_t before = (*names->layout(f))->object_epoch;
  restart();
  server->data().settle_due(false);  // clients may still come back
  CHECK(size() == 0);
  CHECK(epoch_at(0) == 0);
  const std::int64_t mtime = attributes(f).mtime_ns;
  now_ns += 10;
  server->data().settle_due(true);
  CHECK(size() == 2000);
  CHECK(attributes(f).mtime_ns > mtime);
  CHECK(epoch_at(0) == before + 1);
  CHECK(epoch_at(1) == before + 1);
  CHECK((*names->layout(f))->object_epoch == before + 1);
  check_clean();
}

// A data server has the lease of before, and what that run sent may be under way there: it would be
// carried out over what is written under a layout of this run.
TEST_CASE_METHOD(Fixture, "one copy is not written before what an earlier run sent has ended") {
  policy.stripe_count = 2;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  server->layouts().returned(f, 5, layout::Access::kReadWrite);
  for (auto& one : servers) {
    const std::lock_guard lock(one->mutex);
    one->hold_fences = true;
  }
  ServerTest::restart();
  for (auto& one : servers) REQUIRE(await_that([&] { return one->holds_fences(); }));
  const auto refused = [this] {
    const auto granted = grant(f, 5, layout::Access::kReadWrite);
    return !granted && granted.error() == Errc::kLayoutTryLater;
  };
  CHECK(refused());
  CHECK_FALSE(server->layouts().held_for_write(f));
  CHECK(grant(f, 6, layout::Access::kRead));
  servers[0]->let_fences_go();
  await_up(1);
  CHECK(refused());
  servers[1]->let_fences_go();
  await_up(2);
  CHECK(grant(f, 5, layout::Access::kReadWrite));
}

TEST_CASE_METHOD(Fixture, "a cut of an earlier run is over before anything is written here") {
  policy.stripe_count = 1;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  server->layouts().returned(f, 5, layout::Access::kReadWrite);
  const std::uint32_t at = (*names->layout(f))->copies[0].ds_ids[0];
  FakeServer& disk = *servers[at - 1];
  const auto set_size = [this](std::uint64_t size) {
    AttributeChange change;
    change.size = size;
    return server->data().set_attributes(kSuperuser, f, change, 5);
  };
  REQUIRE(set_size(5000));
  {
    const std::lock_guard lock(disk.mutex);
    disk.hold_cuts = true;
    disk.hold_fences = true;
  }
  CHECK_FALSE(set_size(100));  // it is not answered in time, and is not over
  REQUIRE(disk.cuts_held() == 1);
  ServerTest::restart();
  await_up(3 - at);
  const auto refused = [this] { return !grant(f, 5, layout::Access::kReadWrite); };
  REQUIRE(await_that([&] { return disk.holds_fences(); }));
  CHECK(refused());
  CHECK_FALSE(set_size(50));
  server->data().catch_up();
  CHECK(disk.cuts_held() == 1);  // nor is it asked for once more
  CHECK(refused());
  {
    const std::lock_guard lock(disk.mutex);
    disk.hold_cuts = false;
  }
  disk.let_go(0);
  disk.let_fences_go();
  await_up(at);
  CHECK(grant(f, 5, layout::Access::kReadWrite));
  CHECK(names->pending_truncates(10)->empty());
  CHECK(disk.sizes[f] == 100);
}

// What it writes meanwhile could reach one copy before the hole and another after it.
TEST_CASE_METHOD(Fixture, "a writer of before is fenced before a hole is made in several copies") {
  policy.stripe_count = 1;
  policy.copies = 2;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  restart();
  for (auto& one : servers) one->hold_fences = true;
  auto hole = std::async(std::launch::async, [&] { return server->data().punch(f, 0, 10); });
  CHECK(await_that([&] { return servers[0]->holds_fences() && servers[1]->holds_fences(); }));
  for (auto& one : servers) {
    const std::lock_guard lock(one->mutex);
    CHECK(one->ranges.empty());
  }
  for (auto& one : servers) one->let_fences_go();
  REQUIRE(hole.get());
  for (std::size_t i = 0; i < servers.size(); ++i) {
    CHECK(epoch_at(i) == (*names->layout(f))->object_epoch);
    CHECK(servers[i]->ranges.size() == 1);
  }
}

TEST_CASE_METHOD(Fixture, "how far a writer of before came is asked for before a size is told") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  restart();
  CHECK(server->data().size_doubtful(f));
  CHECK(server->data().size_known(f));
  CHECK(size() == 2000);
  CHECK_FALSE(server->data().size_doubtful(f));  // once: then it is as any file being written
  servers[1]->hold(f, 3000);
  CHECK(server->data().size_known(f));
  CHECK(size() == 2000);
  server->data().settle_due(true);
  CHECK(size() == 3000);
  CHECK(epoch_at(1) == 2);
}

TEST_CASE_METHOD(Fixture, "files are settled side by side, and none waits for all before it") {
  std::vector<FileId> files;
  for (int i = 0; i < 12; ++i) {
    files.push_back(file(kRootFileId, "many" + std::to_string(i)));
    REQUIRE(grant(files.back(), 5, layout::Access::kReadWrite));
    for (auto& one : servers) one->hold(files.back(), 1000);
  }
  restart();
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->hold_stats = true;
  }
  std::thread settling([&] { server->data().settle_due(true); });
  for (int i = 0; i < 2000 && servers[0]->stats_held() < 8; ++i) {
    std::this_thread::sleep_for(1ms);
  }
  CHECK(servers[0]->stats_held() >= 8);
  servers[0]->answer_stats();
  settling.join();
  for (const FileId one : files) CHECK(attributes(one).size == 1000);
  check_clean();
}

TEST_CASE_METHOD(Fixture, "all sizes in doubt are asked for before an answer is waited for") {
  std::vector<FileId> files;
  for (const char* name : {"first", "second", "third"}) {
    files.push_back(file(kRootFileId, name));
    REQUIRE(grant(files.back(), 5, layout::Access::kReadWrite));
    for (auto& one : servers) one->hold(files.back(), 1000);
  }
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->hold_stats = true;
  }
  for (const FileId one : files) {
    server->data().layout_ended(one, 5, layout::Access::kReadWrite, true);
  }
  const auto begun = std::chrono::steady_clock::now();
  server->data().catch_up();
  CHECK(std::chrono::steady_clock::now() - begun < 3s);
  for (int i = 0; i < 2000 && servers[0]->stats_held() < files.size(); ++i) {
    std::this_thread::sleep_for(1ms);
  }
  CHECK(servers[0]->stats_held() == files.size());
  servers[0]->answer_stats();
  const auto learned = [&](FileId one) { return attributes(one).size == 1000; };
  CHECK(await_that([&] {
    server->data().catch_up();
    return std::ranges::all_of(files, learned);
  }));
}

TEST_CASE_METHOD(Fixture, "layouts granted since the restart are not fenced with those of before") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  restart();
  REQUIRE(grant(f, 6, layout::Access::kRead));
  const std::uint32_t sealed = (*names->layout(f))->object_epoch;
  CHECK(sealed == 2);
  server->data().settle_due(true);
  CHECK(epoch_at(0) == sealed);
  CHECK((*names->layout(f))->object_epoch == sealed);
}

TEST_CASE_METHOD(Fixture, "a size that is set waits until the writers of before are fenced") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[0]->hold(f, 5000);
  restart();
  AttributeChange cut;
  cut.size = 100;
  SECTION("at once when the data servers answer") {
    REQUIRE(server->data().set_attributes(kSuperuser, f, cut, 6));
    CHECK(epoch_at(0) == 2);
    CHECK(size() == 100);
    server->data().settle_due(true);
    CHECK(size() == 100);
  }
  SECTION("not without them") {
    servers[1]->disconnect();
    CHECK_FALSE(server->data().set_attributes(kSuperuser, f, cut, 6));
    CHECK(size() == 0);
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "what was cut when the server died does not come back as data") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  REQUIRE(names->grow_size({.id = f, .end = 5000}));
  AttributeChange cut;
  cut.size = 100;
  REQUIRE(names->setattr(kSuperuser, f, cut));  // and dies before it has told the data servers
  servers[0]->hold(f, 5000);
  restart();
  server->data().settle_due(true);
  CHECK(size() == 100);
}

TEST_CASE_METHOD(Fixture, "a file is in doubt until its copies have been compared") {
  policy.stripe_count = 1;
  policy.copies = 2;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  restart();
  AttributeChange cut;
  cut.size = 1000;
  REQUIRE(server->data().set_attributes(kSuperuser, f, cut, 6));  // nobody waits for it
  CHECK_FALSE(server->journal().inherited(f));
  REQUIRE(server->journal().unsettled(f));
  server->data().retry_settling();
  server->data().settle_due(true);
  CHECK(server->journal().unsettled(f));
  server->repairs().repairer().start();
  REQUIRE(await_that([&] {
    server->data().settle_due(true);
    return !server->journal().unsettled(f);
  }));
  CHECK(servers[0]->jobs() + servers[1]->jobs() == 1);
  CHECK(size() == 1000);
}

TEST_CASE_METHOD(Fixture, "what was doubted while copies were compared has them compared again") {
  policy.stripe_count = 1;
  policy.copies = 2;
  const auto jobs = [this] { return servers[0]->jobs() + servers[1]->jobs(); };
  for (const auto& one : servers) one->hold(f, 0);
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  server->journal().doubt(f);
  server->repairs().repairer().start();
  server->data().settle_due(true);
  REQUIRE(await_that([&] { return jobs() == 1; }));
  server->journal().doubt(f);
  REQUIRE(await_that([&] {
    server->data().settle_due(true);
    return !server->journal().unsettled(f);
  }));
  CHECK(jobs() == 2);
}

TEST_CASE_METHOD(Fixture, "a leader that has no object is left out for a copy that has") {
  policy.stripe_count = 1;
  policy.copies = 2;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  const auto view = server->mirrors().look(f);
  REQUIRE(view);
  const std::uint32_t leader = view->map.copies[view->leads[0]].ds_ids[0];
  FakeServer& other = *servers[leader == 1 ? 1 : 0];
  other.hold(f, 2000);
  server->journal().doubt(f);
  server->repairs().repairer().start();
  REQUIRE(await_that([&] {
    server->data().retry_settling();
    server->data().settle_due(true);
    return !server->journal().unsettled(f);
  }));
  CHECK(names->stale_counts() == std::map<std::uint32_t, std::uint64_t>{{leader, 1}});
  CHECK(other.jobs() == 0);
}

TEST_CASE_METHOD(Fixture, "a lost object is not made anew by the next writer of a file in doubt") {
  policy.stripe_count = 1;
  policy.copies = 2;
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  server->data().layout_ended(f, 5, layout::Access::kReadWrite, false);
  servers[1]->hold(f, 2000);
  server->journal().doubt(f);
  REQUIRE(await_that([&] { return grant(f, 6, layout::Access::kReadWrite).has_value(); }));
  CHECK(names->stale_counts() == std::map<std::uint32_t, std::uint64_t>{{1, 1}});
  const auto view = server->mirrors().look(f);
  REQUIRE(view);
  CHECK(view->map.copies[view->leads[0]].ds_ids[0] == 2);
}

TEST_CASE_METHOD(FlexFixture, "copies are compared when no client writes them itself") {
  for (const auto& one : servers) one->hold(f, 0);
  CHECK(written_at(5) == 2);
  CHECK(written_at(6) == 2);
  server->repairs().repairer().start();
  server->layouts().revoke(f, 5, "lease");
  REQUIRE(await_that([&] { return !server->layouts().blocked(f); }));
  CHECK(written_at(7) == 1);
  REQUIRE(await_that([&] {
    server->data().settle_due(true);
    return server->layouts().recalled(f, 6, layout::Access::kReadWrite);
  }));
  CHECK(jobs() == 0);
  for (const ClientId client : {6, 7}) {
    server->layouts().returned(f, client, layout::Access::kReadWrite);
  }
  CHECK(written_at(6) == 1);
  settle();
  CHECK(jobs() == 1);
  CHECK_FALSE(server->layouts().recalled(f, 6, layout::Access::kReadWrite));
  CHECK(written_at(7) == 2);
}

TEST_CASE_METHOD(FlexFixture, "copies that were to be compared before a restart are after it") {
  for (const auto& one : servers) one->hold(f, 0);
  CHECK(written_at(5) == 2);
  CHECK(written_at(6) == 2);
  const bool doubted = GENERATE(false, true);
  if (doubted) {
    server->layouts().revoke(f, 5, "lease");
    REQUIRE(await_that([&] { return !server->layouts().blocked(f); }));
    CHECK(written_at(7) == 1);
  }
  restart();
  CHECK(await_that([&] { return written_at(6) == 1; }));
  server->repairs().repairer().start();
  settle();
  CHECK(jobs() == 1);
  // Those of before are fenced, and those since name the leader: nobody is asked for his.
  CHECK(server->layouts().counters().recalls == 0);
  CHECK(epoch_at(0) == 2);
  CHECK(epoch_at(1) == 2);
  CHECK(written_at(7) == 2);
}

TEST_CASE_METHOD(Fixture, "a file is settled when the last data server is back") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  servers[1]->disconnect();
  stop();
  start();
  await_up(1);
  server->data().settle_due(true);
  CHECK(size() == 0);
  servers[1]->connect(port());
  await_up(2);
  server->data().settle_due(true);
  CHECK(size() == 0);  // not yet again
  server->data().retry_settling();
  server->data().settle_due(true);
  CHECK(size() == 2000);
  CHECK(epoch_at(1) == 2);
}

TEST_CASE_METHOD(Fixture, "a reclaimed file's size is answered although a data server is lost") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[0]->hold(f, 900);
  servers[1]->hold(f, 2000);
  restart();
  servers[1]->disconnect();
  REQUIRE(await_that([&] { return server->cluster().registry().reach(2) != Reach::kHere; }));
  server->data().relearn_size(f);
  CHECK(server->data().size_known(f).error() == Errc::kBusy);  // it may be serving the client yet
  later = 70s;
  CHECK(server->data().size_known(f));
  CHECK(size() == 900);
  CHECK_FALSE(read_at(f, 0, 100));  // the rest of the file waits
  server->data().settle_due(true);
  CHECK(server->journal().unsettled(f));  // what it has is not forgotten
  servers[1]->connect(port());
  await_up(2);
  CHECK(server->data().size_known(f));
  CHECK(size() == 2000);
}

TEST_CASE_METHOD(Fixture, "a stable write changes the file by our clock, not the data server's") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  const layout::ObjectId object = names->object_of(f, **names->layout(f));
  std::uint64_t change = attributes(f).change;
  const std::int64_t now = now_ns.load();
  for (const std::int64_t theirs : {now + 60'000'000'000, std::int64_t{5}, now}) {
    const auto told = await<void>([&](Done<void> done) {
      servers[0]->client().call(control::ReportSize{object, 100, theirs}, 5s, std::move(done));
    });
    REQUIRE(told);
    CHECK(attributes(f).mtime_ns == now_ns);
    CHECK(attributes(f).change == ++change);
  }
}

TEST_CASE_METHOD(Fixture, "of stable writes in place one is a change until somebody looks") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  const layout::ObjectId object = names->object_of(f, **names->layout(f));
  const auto write = [&](std::uint64_t end) {
    REQUIRE(await<void>([&](Done<void> done) {
      servers[0]->client().call(control::ReportSize{object, end, 0}, 5s, std::move(done));
    }));
  };
  write(100);
  const auto told = attributes(f);
  write(100);
  // Caches hear of the first, before it is answered, and of no other.
  CHECK(invalidated == std::vector{f, f});
  const auto commits = store.commits();
  for (int i = 0; i < 10; ++i) write(100);
  CHECK(store.commits() == commits);
  CHECK(invalidated.size() == 2);
  SECTION("who looks sees them") {
    CHECK(attributes(f).change == told.change + 1);
    write(100);
    CHECK(attributes(f).change == told.change + 2);
  }
  SECTION("a crash does not hide them") {
    restart();
    CHECK(attributes(f).change > told.change);
  }
  SECTION("a longer file is a change") {
    write(200);
    CHECK(store.commits() > commits);
    restart();
    CHECK(size() == 200);
  }
}

TEST_CASE_METHOD(Fixture, "what a client does not commit of a layout it forgets is learned") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 1500);
  SECTION("it asks for another one") {
    server->data().layout_ended(f, 5, layout::Access::kReadWrite, true);
    REQUIRE(grant(f, 5, layout::Access::kReadWrite));
    CHECK(size() == 1500);
  }
  SECTION("it is asked for it") {
    server->layouts().recall(f, "test");
    server->data().layout_ended(f, 5, layout::Access::kReadWrite, false);
    CHECK(server->data().size_known(f));
    CHECK(size() == 1500);
  }
  SECTION("it keeps another") {
    REQUIRE(grant(f, 6, layout::Access::kReadWrite));
    server->data().layout_ended(f, 6, layout::Access::kReadWrite, true);
    CHECK(server->data().size_known(f));
    CHECK(size() == 1500);
  }
  SECTION("it gives it back as it should") {  // having told how far it wrote
    server->data().layout_ended(f, 5, layout::Access::kReadWrite, false);
    CHECK(server->data().size_known(f));
    CHECK(size() == 0);
  }
}

TEST_CASE_METHOD(Fixture, "while a recalled layout is out a file is as long as was told") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[0]->hold(f, 1500);
  {
    const std::lock_guard lock(servers[0]->mutex);
    servers[0]->hold_stats = true;
  }
  server->layouts().recall(f, "test");
  REQUIRE(server->layouts().recalled(f, 5, layout::Access::kReadWrite));
  // Nobody waits for a data server, nor for the client.
  CHECK_FALSE(server->data().size_doubtful(f));
  CHECK(server->data().size_known(f));
  CHECK(size() == 0);
  CHECK(servers[0]->stats_held() == 0);
  REQUIRE(server->data().commit({.id = f, .end = 1000}, 5));
  CHECK(server->data().size_known(f));
  CHECK(size() == 1000);
  server->data().layout_ended(f, 5, layout::Access::kReadWrite, false);
  CHECK(server->data().size_doubtful(f));
  CHECK(server->data().size_known(f).error() == Errc::kBusy);
  servers[0]->answer_stats();
  REQUIRE(await_that([&] { return server->data().size_known(f).has_value(); }));
  CHECK(size() == 1500);
}

TEST_CASE_METHOD(Fixture, "a writer that dies alone is fenced, and the data servers are asked") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 1500);
  server->layouts().revoke(f, 5, "lease");
  REQUIRE(await_that([&] { return !server->layouts().blocked(f); }));
  server->data().settle_due(false);
  CHECK(size() == 1500);
}

TEST_CASE_METHOD(Fixture,
                 "the size of a file whose writer was fenced is not told before it is known") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 1500);
  server->layouts().revoke(f, 5, "lease");
  REQUIRE(await_that([&] { return !server->layouts().blocked(f); }));
  CHECK(server->data().size_known(f));
  CHECK(size() == 1500);
}

// The store's syncs can be held up.
struct HeldFixture : Fixture {
  HeldFixture() {
    stop();
    start(held);
    for (std::uint32_t id = 1; id <= 2; ++id) await_up(id);
  }
  ~HeldFixture() {
    held.let_go();
    servers.clear();
    stop();
  }
  HeldSync held{store};
};

TEST_CASE_METHOD(HeldFixture, "who loses his layouts while he gets one more does not get it") {
  const FileId g = file(kRootFileId, "g");
  REQUIRE(grant(f, 5, layout::Access::kRead));
  REQUIRE(grant(g, 5, layout::Access::kRead));
  test::give_back(server->layouts(), f, 5);
  const auto first = std::async(std::launch::async, [&] {
    held.hold_this_thread();
    server->layouts().revoke(g, 5, "late");  // counts his epoch up
  });
  CHECK(held.await_held());
  held.let_go_of_one();  // it has read the map
  CHECK(held.await_held(2));
  auto granting =
      std::async(std::launch::async, [&] { return grant(f, 5, layout::Access::kRead); });
  CHECK(await_that([&] { return server->layouts().known(f, 5); }));
  const auto second =
      std::async(std::launch::async, [&] { server->layouts().revoke(f, 5, "late"); });
  CHECK(await_that([&] { return !server->layouts().known(f, 5); }));
  held.let_go();
  const auto granted = granting.get();
  CHECK((!granted && granted.error() == Errc::kRecallConflict));
}

}  // namespace weft::mds
