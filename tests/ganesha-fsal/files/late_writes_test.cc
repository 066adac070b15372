// What the metadata server has sent to data servers and given up, and may be carried out late.
#include <catch2/generators/catch_generators.hpp>
#include <future>

#include "tests/ganesha-fsal/files/file_io_fixture.h"

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kRecall{10};

struct LateWrite : FileIoTest {
  // Whoever writes waits for longer than a recall takes.
  LateWrite() : FileIoTest(Waits{.proxy_timeout = 1s, .recall_timeout = kRecall}) {
    policy.copies = 1;
    REQUIRE(write(0, pattern(100, 1)));
    at = map().copies[0].ds_ids[0];
  }
  ~LateWrite() {
    if (late.valid()) late.wait();
  }
  // A write that its data server does not answer, but may yet.
  void begin() {
    hang(at);
    late = std::async(std::launch::async, [this] { return write_at(f, 0, pattern(100, 2)); });
    await_held(at);
  }
  [[nodiscard]] bool is_late() {
    return server->proxy().unsettled(names->object_of(f, map()), map());
  }
  [[nodiscard]] bool ends_within(std::chrono::milliseconds time) {
    return late.wait_for(time) == std::future_status::ready;
  }

  std::uint32_t at = 0;
  std::future<Result<ProxyIo::WriteResult>> late;
};

// A hole or a cut that its data server does not answer; nor a fence, until the test says so.
struct LateChange : FileIoTest {
  explicit LateChange(std::uint32_t copies = 1) : FileIoTest(Waits{.proxy_timeout = 1s}) {
    policy.copies = copies;
    REQUIRE(write(0, pattern(100, 1)));
    at = map().copies[0].ds_ids[0];
    if (copies > 1) at = 3 - leader();
    FakeServer& server = *control[at - 1];
    const std::lock_guard lock(server.mutex);
    server.silent = true;
    server.hold_cuts = true;
    server.hold_fences = true;
  }
  ~LateChange() {
    if (late.valid()) late.wait();
  }
  void begin(std::function<Result<>()> change) {
    late = std::async(std::launch::async, std::move(change));
  }
  void begin_hole() {
    begin([this] { return server->data().punch(f, 0, 50); });
    REQUIRE(await_that([&] { return control[at - 1]->holds_range(); }));
  }
  void begin_cut() {
    begin([this]() -> Result<> {
      if (auto cut = truncate(10, 5); !cut) return fail(cut.error().code, cut.error().text);
      return {};
    });
    REQUIRE(await_that([&] { return control[at - 1]->cuts_held() == 1; }));
  }
  // The data server has ended what was sent before.
  void settle() {
    {
      FakeServer& server = *control[at - 1];
      const std::lock_guard lock(server.mutex);
      server.silent = false;
      server.hold_cuts = false;
      server.hold_fences = false;
    }
    control[at - 1]->let_fences_go();
    REQUIRE(await_that([&] { return !is_late(); }));
  }
  [[nodiscard]] bool is_late() {
    return server->proxy().unsettled(names->object_of(f, map()), map());
  }
  [[nodiscard]] bool ends_within(std::chrono::milliseconds time) {
    return late.wait_for(time) == std::future_status::ready;
  }

  std::uint32_t at = 0;
  std::future<Result<>> late;
};

// Of a file with two copies, at the one that does not lead.
struct LateAtOne : LateChange {
  LateAtOne() : LateChange(2) {
    begin_hole();
    REQUIRE(ends_within(15s));
    CHECK(late.get().error() == Errc::kTimedOut);
    REQUIRE(is_late());
  }
  int jobs() { return control[0]->jobs() + control[1]->jobs(); }
};

}  // namespace

TEST_CASE_METHOD(LateWrite, "layouts that are out when a write may come late are ended first") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  REQUIRE(grant(f, 6, layout::Access::kRead));
  begin();
  REQUIRE(await_that([&] { return is_late(); }));
  REQUIRE(await_that([&] { return server->layouts().recalled(f, 5, layout::Access::kReadWrite); }));
  CHECK_FALSE(server->layouts().recalled(f, 6, layout::Access::kRead));
  CHECK(grant(f, 7, layout::Access::kRead));
  // Who is told of the failure could have newer bytes written under the layout.
  CHECK_FALSE(ends_within(300ms));
  SECTION("by their holders") { server->layouts().returned(f, 5, layout::Access::kReadWrite); }
  SECTION("by a fence, when they are not returned in time") {
    later = kRecall;
    server->layouts().tick();
    CHECK(server->layouts().counters().revoked > 0);
  }
  SECTION("or the late write is settled before") {
    nfs[at - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
  }
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
}

TEST_CASE_METHOD(LateWrite, "no layout for writing is granted while a write may come late") {
  begin();
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  REQUIRE(is_late());
  CHECK(grant(f, 5, layout::Access::kReadWrite).error() == Errc::kLayoutTryLater);
  CHECK_FALSE(server->layouts().held_for_write(f));
  nfs[at - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
  REQUIRE(await_that([&] { return !is_late(); }));
  CHECK(grant(f, 5, layout::Access::kReadWrite));
}

TEST_CASE_METHOD(LateWrite, "nothing is cut and no hole made before a write that may come late") {
  begin();
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  REQUIRE(is_late());
  SECTION("cut") {
    CHECK(truncate(10, 5).error() == Errc::kBusy);
    CHECK_FALSE(control[at - 1]->sizes.contains(f));
    nfs[at - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
    REQUIRE(await_that([&] { return !is_late(); }));
    REQUIRE(truncate(10, 5));
    CHECK(control[at - 1]->sizes[f] == 10);
  }
  SECTION("hole") {
    CHECK(server->data().punch(f, 0, 50).error() == Errc::kBusy);
    CHECK(control[at - 1]->ranges.empty());
    nfs[at - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
    REQUIRE(await_that([&] { return !is_late(); }));
    REQUIRE(server->data().punch(f, 0, 50));
    CHECK(control[at - 1]->ranges.size() == 1);
  }
}

TEST_CASE_METHOD(LateWrite, "a file is not unused while a write may come late") {
  begin();
  REQUIRE(await_that([&] { return is_late(); }));
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  CHECK(server->data().hold_unused(f, map()).error() == Errc::kBusy);
}

TEST_CASE_METHOD(LateWrite, "an object is not removed before a write that would make it anew") {
  const layout::ObjectId object = names->object_of(f, map());
  CHECK_FALSE(server->data().may_change(object, at));
  begin();
  CHECK_FALSE(server->data().may_change(object, at));  // it is written where the file's map says
  REQUIRE(names->remove(kSuperuser, kRootFileId, "f"));
  CHECK(server->data().may_change(object, at));
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  CHECK(server->data().may_change(object, at));  // and it may be carried out yet
  nfs[at - 1]->let_go(rpc::nfs4::Status::NFS4ERR_NOSPC);
  CHECK(await_that([&] { return !server->data().may_change(object, at); }));
}

TEST_CASE_METHOD(LateChange, "layouts that are out when a hole or a cut may come late are ended") {
  REQUIRE(grant(f, 5, layout::Access::kReadWrite));
  const bool by_holder = GENERATE(false, true);
  CAPTURE(by_holder);
  if (by_holder) {
    begin_cut();
  } else {
    begin_hole();
  }
  REQUIRE(await_that([&] { return is_late(); }));
  REQUIRE(await_that([&] { return server->layouts().recalled(f, 5, layout::Access::kReadWrite); }));
  // Who is told of the failure could have newer bytes written under the layout.
  CHECK_FALSE(ends_within(300ms));
  SECTION("by their holders") { server->layouts().returned(f, 5, layout::Access::kReadWrite); }
  SECTION("or it is settled before") { settle(); }
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
}

TEST_CASE_METHOD(LateChange, "while a hole may be made late nobody writes or changes the file") {
  begin_hole();
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  REQUIRE(is_late());
  CHECK(grant(f, 5, layout::Access::kReadWrite).error() == Errc::kLayoutTryLater);
  CHECK(write_at(f, 0, pattern(100, 2)).error() == Errc::kTimedOut);
  CHECK(server->data().punch(f, 0, 50).error() == Errc::kBusy);
  CHECK(server->data().allocate(f, 0, 50, policy).error() == Errc::kBusy);
  CHECK(server->data().hold_unused(f, map()).error() == Errc::kBusy);
  CHECK(read(0, 100) == pattern(100, 1));
  CHECK(truncate(10, 5).error() == Errc::kBusy);
  CHECK(control[at - 1]->cuts_held() == 0);
  settle();
  REQUIRE(truncate(10, 5));
  REQUIRE(write(0, pattern(100, 2)));
  CHECK(grant(f, 5, layout::Access::kReadWrite));
}

TEST_CASE_METHOD(LateChange, "a cut that may come late is not made again before it has") {
  begin_cut();
  REQUIRE(ends_within(15s));
  CHECK(late.get().error() == Errc::kTimedOut);
  REQUIRE(is_late());
  server->data().catch_up();
  CHECK(truncate(10, 5).error() == Errc::kBusy);
  CHECK(control[at - 1]->cuts_held() == 1);
  settle();
  REQUIRE(truncate(10, 5));
  CHECK(control[at - 1]->sizes[f] == 10);
}

TEST_CASE_METHOD(LateAtOne,
                 "copies are compared when what may come late at one of them has ended") {
  for (const auto& one : control) one->hold(f, 0);
  server->repairs().repairer().start();
  for (int i = 0; i < 20; ++i) {
    server->data().retry_settling();
    server->data().settle_due(true);
    std::this_thread::sleep_for(10ms);
  }
  CHECK(jobs() == 0);
  CHECK(server->journal().unsettled(f));
  settle();
  server->data().retry_settling();
  await_settled();
  CHECK(jobs() == 1);
}

TEST_CASE_METHOD(LateAtOne,
                 "a copy is left out whose server is gone before what is late has ended") {
  lose(at);
  REQUIRE(await_that([&] { return grant(f, 5, layout::Access::kReadWrite).has_value(); }));
  CHECK(state_at(at) == layout::CopyState::kStale);
}

}  // namespace weft::mds
