// Files whose writers died: fenced, and as long as the data servers say.
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "ganesha-fsal/cluster/await.h"
#include "tests/ganesha-fsal/files/mds_run.h"
#include "tests/ganesha-fsal/meta/meta_fixture.h"

namespace weft::mds {
namespace {

struct Fixture : NamespaceTest {
  Fixture() : f(file(kRootFileId, "f")), run(std::make_unique<Run>(*names, store, 0, &later)) {
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
    run = std::make_unique<Run>(*names, store, port, &later);
    for (std::uint32_t id = 1; id <= 2; ++id) run->await_up(id);
  }
  std::uint32_t epoch_at(std::size_t server) {
    const std::lock_guard lock(servers[server]->mutex);
    return servers[server]->epochs[f];
  }
  std::uint64_t size() { return attributes(f).size; }

  Later later{0s};
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
    REQUIRE(run->data.set_attributes(kSuperuser, f, cut, 6));
    CHECK(epoch_at(0) == 2);
    CHECK(size() == 100);
    run->data.settle_due(true);
    CHECK(size() == 100);
  }
  SECTION("not without them") {
    servers[1]->disconnect();
    CHECK_FALSE(run->data.set_attributes(kSuperuser, f, cut, 6));
    CHECK(size() == 0);
  }
  check_clean();
}

TEST_CASE_METHOD(Fixture, "what was cut when the server died does not come back as data") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  REQUIRE(names->grow_size({.id = f, .end = 5000}));
  AttributeChange cut;
  cut.size = 100;
  REQUIRE(names->setattr(kSuperuser, f, cut));  // and dies before it has told the data servers
  servers[0]->hold(f, 5000);
  restart();
  run->data.settle_due(true);
  CHECK(size() == 100);
}

TEST_CASE_METHOD(Fixture, "a file is in doubt until its copies have been compared") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  restart();
  bool equal = false;
  int asked = 0;
  run->compare = [&](FileId file) -> Result<> {
    CHECK(file == f);
    ++asked;
    if (equal) return {};
    return fail(Errc::kBusy, "being compared");
  };
  AttributeChange cut;
  cut.size = 1000;
  REQUIRE(run->data.set_attributes(kSuperuser, f, cut, 6));  // nobody waits for it
  CHECK(asked == 1);
  CHECK_FALSE(run->journal.inherited(f));
  REQUIRE(run->journal.unsettled(f));
  run->data.settle_due(true);
  CHECK(asked == 1);  // not at once again
  run->data.retry_settling();
  run->data.settle_due(true);
  CHECK(asked == 2);
  CHECK(run->journal.unsettled(f));
  equal = true;
  run->data.retry_settling();
  run->data.settle_due(true);
  CHECK(asked == 3);
  CHECK_FALSE(run->journal.unsettled(f));
  CHECK(size() == 1000);
}

TEST_CASE_METHOD(Fixture, "a file is settled when the last data server is back") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 2000);
  servers[1]->disconnect();
  const std::uint16_t port = run->port();
  run.reset();
  open();
  run = std::make_unique<Run>(*names, store, port, &later);
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

TEST_CASE_METHOD(Fixture, "a reclaimed file's size is answered although a data server is lost") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[0]->hold(f, 900);
  servers[1]->hold(f, 2000);
  restart();
  servers[1]->disconnect();
  for (int i = 0; i < 2000 && run->cluster().registry().is_connected(2); ++i) {
    std::this_thread::sleep_for(5ms);
  }
  run->data.relearn_size(f);
  CHECK(run->data.size_known(f).error() == Errc::kBusy);  // it may be serving the client yet
  later = 70s;
  CHECK(run->data.size_known(f));
  CHECK(size() == 900);
  CHECK_FALSE(run->read(f, 0, 100));  // the rest of the file waits
  run->data.settle_due(true);
  CHECK(run->journal.unsettled(f));  // what it has is not forgotten
  servers[1]->connect(run->port());
  run->await_up(2);
  CHECK(run->data.size_known(f));
  CHECK(size() == 2000);
}

TEST_CASE_METHOD(Fixture, "a stable write changes the file by our clock, not the data server's") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  const layout::ObjectId object = names->object_of(f, **names->layout(f));
  std::uint64_t change = attributes(f).change;
  const std::int64_t now = now_ns.load();
  for (const std::int64_t theirs : {now + 60'000'000'000, std::int64_t{5}, now}) {
    const auto told = await<void>([&](Done<void> done) {
      servers[0]->client().report_size({object, 100, theirs}, 5s, std::move(done));
    });
    REQUIRE(told);
    CHECK(attributes(f).mtime_ns == now_ns);
    CHECK(attributes(f).change == ++change);
  }
}

TEST_CASE_METHOD(Fixture, "what a client does not commit of a layout it forgets is learned") {
  REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
  servers[1]->hold(f, 1500);
  SECTION("it asks for another one") {
    run->data.layout_ended(f, 5, layout::Access::kReadWrite, true);
    REQUIRE(run->grant(f, 5, layout::Access::kReadWrite));
    CHECK(size() == 1500);
  }
  SECTION("it is asked for it") {
    run->layouts.recall(f, "test");
    run->data.layout_ended(f, 5, layout::Access::kReadWrite, false);
    CHECK(run->data.size_known(f));
    CHECK(size() == 1500);
  }
  SECTION("it keeps another") {
    REQUIRE(run->grant(f, 6, layout::Access::kReadWrite));
    run->data.layout_ended(f, 6, layout::Access::kReadWrite, true);
    CHECK(run->data.size_known(f));
    CHECK(size() == 1500);
  }
  SECTION("it gives it back as it should") {  // having told how far it wrote
    run->data.layout_ended(f, 5, layout::Access::kReadWrite, false);
    CHECK(run->data.size_known(f));
    CHECK(size() == 0);
  }
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
