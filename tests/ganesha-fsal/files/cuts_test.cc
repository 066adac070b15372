// Changes of size that meet others of the same file: nothing is cut that was written later.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <future>
#include <thread>

#include "ganesha-fsal/files/cluster_links.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

using layout::Access;

constexpr ClientId kOwn = 5;
constexpr ClientId kOther = 6;

// A file of 5000 bytes with one copy, at two data servers whose disks may be slow to cut.
struct CutsTest : ServerTest {
  CutsTest() {
    options.journal_linger = 0s;
    start();
    f = file(kRootFileId, "f");
    for (std::uint8_t id = 1; id <= 2; ++id) {
      servers.push_back(std::make_unique<FakeServer>(id, port()));
      await_up(id);
    }
    REQUIRE(grant(f, kOwn, Access::kReadWrite));
    const auto map = names->layout(f);
    const layout::Copy& copy = (*map)->copies[0];
    holder = servers[copy.ds_ids[copy.first_index % copy.ds_ids.size()] - 1].get();
    write_under_layout(5000);
    REQUIRE(server->data().commit({.id = f, .end = 5000}, kOwn));
    give_back(kOwn);
  }
  ~CutsTest() {
    for (const auto& one : servers) {
      while (one->cuts_held() > 0) one->let_go(0);
    }
    servers.clear();
    stop();
  }
  void write_under_layout(std::uint64_t end) { holder->hold(f, end); }
  void give_back(ClientId client) {
    server->data().layout_ended(f, client, Access::kReadWrite, false);
  }
  void hold_cuts(bool hold) {
    const std::lock_guard lock(holder->mutex);
    holder->hold_cuts = hold;
  }
  void break_disk(std::optional<Errc> fault) {
    const std::lock_guard lock(holder->mutex);
    holder->fault = fault;
  }
  std::uint64_t at_server() {
    const std::lock_guard lock(holder->mutex);
    return holder->sizes.at(f);
  }
  Result<InodeAttributes> truncate(std::uint64_t size, ClientId client) {
    AttributeChange change;
    change.size = size;
    return server->data().set_attributes(kSuperuser, f, change, client);
  }
  // What a data server tells of a stable write.
  Result<> report(std::uint64_t end) {
    const control::ReportSize told{names->object_of(f, **names->layout(f)), end, 0};
    return await<void>([&](Done<void> done) { holder->client().call(told, 5s, std::move(done)); });
  }
  // The client has been told to try again, and the cut is still to be made.
  void fail_to_cut(std::uint64_t size, ClientId client) {
    break_disk(Errc::kBusy);
    REQUIRE_FALSE(truncate(size, client));
    break_disk(std::nullopt);
    REQUIRE(at_server() == 5000);
  }
  void sweep_journal() {
    server->data().settle_due(true);
    REQUIRE(names->written_files(0, 10)->empty());
    REQUIRE(store.wait_durable(store.commits()));
  }
  // The metadata server dies and comes back, and its clients have had their time.
  void restart_all() {
    restart();
    for (std::uint32_t id = 1; id <= 2; ++id) await_up(id);
    server->data().settle_due(true);
  }
  template <class Call>
  auto begin(Call call) {
    return std::async(std::launch::async, call);
  }
  // Until `count` truncates wait at the disk, or `other` has ended without another one.
  template <class T>
  void await_cuts(std::size_t count, const std::future<T>& other) {
    for (int i = 0; i < 5000 && holder->cuts_held() < count; ++i) {
      if (other.wait_for(1ms) == std::future_status::ready) return;
    }
  }
  void await_cut() {
    for (int i = 0; i < 5000 && holder->cuts_held() == 0; ++i) {
      std::this_thread::sleep_for(1ms);
    }
    REQUIRE(holder->cuts_held() == 1);
  }

  FileId f = 0;
  std::vector<std::unique_ptr<FakeServer>> servers;
  FakeServer* holder = nullptr;  // that with the file's first bytes
};

}  // namespace

TEST_CASE_METHOD(CutsTest, "a cut that is made good twice at once cuts nothing written later") {
  fail_to_cut(10, kOwn);
  hold_cuts(true);
  auto mender = begin([&] { server->data().catch_up(); });
  await_cut();
  auto granted = begin([&] { return grant(f, kOther, Access::kReadWrite).has_value(); });
  await_cuts(2, granted);
  if (holder->cuts_held() == 2) holder->let_go(1);  // the later is the faster
  const bool wrote = granted.get();
  if (wrote) write_under_layout(3000);
  holder->let_go(0);
  mender.get();
  CHECK_FALSE(wrote);  // it was to ask again
  CHECK(at_server() == (wrote ? 3000 : 10));
  CHECK(grant(f, kOther, Access::kReadWrite));
}

TEST_CASE_METHOD(CutsTest, "a size whose cut has to wait is told to who asks") {
  REQUIRE(grant(f, kOwn, Access::kReadWrite));
  give_back(kOwn);
  {
    const std::lock_guard lock(mutex);
    invalidated.clear();
  }
  fail_to_cut(10, kOwn);
  CHECK(names->getattr(f)->size == 10);
  const std::lock_guard lock(mutex);
  CHECK(std::ranges::find(invalidated, f) != invalidated.end());
}

TEST_CASE_METHOD(CutsTest, "cuts that a data server does not answer keep nobody else waiting") {
  std::vector<FileId> files{f};
  for (const char* name : {"g", "h"}) {
    files.push_back(file(kRootFileId, name));
    REQUIRE(grant(files.back(), kOwn, Access::kReadWrite));
    server->data().layout_ended(files.back(), kOwn, Access::kReadWrite, false);
  }
  break_disk(Errc::kBusy);
  AttributeChange change;
  change.size = 10;
  for (const FileId one : files) {
    REQUIRE_FALSE(server->data().set_attributes(kSuperuser, one, change, kOwn));
  }
  break_disk(std::nullopt);
  hold_cuts(true);
  server->data().catch_up();
  CHECK(holder->cuts_held() == 1);  // of one file: the others come with later rounds
}

TEST_CASE_METHOD(CutsTest, "of two truncates at once one comes after the other") {
  REQUIRE(grant(f, kOwn, Access::kReadWrite));
  hold_cuts(true);
  auto first = begin([&] { return truncate(10, kOwn).has_value(); });
  await_cut();
  auto second = begin([&] { return truncate(20, kOwn).has_value(); });
  await_cuts(2, second);
  if (holder->cuts_held() == 2) {
    holder->let_go(1);
    if (second.get()) write_under_layout(3000);  // its client goes on under its layout
    holder->let_go(0);
    first.get();
    CHECK(at_server() == 3000);
    return;
  }
  CHECK_FALSE(second.get());
  holder->let_go(0);
  CHECK(first.get());
  hold_cuts(false);
  CHECK(truncate(20, kOwn));
  CHECK(attributes(f).size == 20);
}

TEST_CASE_METHOD(CutsTest, "what failed to be cut is cut when nobody has a layout to write") {
  REQUIRE(grant(f, kOwn, Access::kReadWrite));
  fail_to_cut(10, kOwn);
  server->data().catch_up();
  CHECK(at_server() == 5000);
  CHECK(server->layouts().grants_of(f).at(0).state == GrantState::kRecalled);
  SECTION("and what its client says of it meanwhile counts after the cut") {
    const auto committed = server->data().commit({.id = f, .end = 5000}, kOwn);
    REQUIRE(committed);
    CHECK(*committed == 10);
    give_back(kOwn);
    CHECK(server->data().size_known(f));
    CHECK(attributes(f).size == 10);
  }
  SECTION("") { give_back(kOwn); }
  server->data().catch_up();
  CHECK(at_server() == 10);
  CHECK(server->data().size_known(f));
  CHECK(attributes(f).size == 10);
  CHECK(grant(f, kOther, Access::kReadWrite));
}

TEST_CASE_METHOD(CutsTest, "an object that is not cut yet does not say how long the file is") {
  fail_to_cut(10, kOwn);
  REQUIRE(server->data().doubt_size(f));
  CHECK(server->data().size_known(f));
  CHECK_FALSE(server->data().learn_end(f));
  CHECK(attributes(f).size == 10);
  SECTION("nor while it is cut for another size") {
    hold_cuts(true);
    auto mender = begin([&] { server->data().catch_up(); });
    await_cut();
    CHECK_FALSE(truncate(20, kOwn));
    CHECK(attributes(f).size == 10);
    hold_cuts(false);
    holder->let_go(0);
    mender.get();
  }
  REQUIRE(truncate(20, kOwn));
  CHECK(attributes(f).size == 20);
}

TEST_CASE_METHOD(CutsTest, "a size that is set while a cut is pending is the file's") {
  const std::uint64_t wanted = GENERATE(0, 5, 10, 4000);
  fail_to_cut(10, kOwn);
  SECTION("the pending cut is made first") { REQUIRE(truncate(wanted, kOwn)); }
  SECTION("or cannot be made yet") {
    break_disk(Errc::kBusy);
    CHECK_FALSE(truncate(wanted, kOwn));
    CHECK(attributes(f).size == 10);
    break_disk(std::nullopt);
    REQUIRE(truncate(wanted, kOwn));
  }
  SECTION("or another makes it") {
    hold_cuts(true);
    auto mender = begin([&] { server->data().catch_up(); });
    await_cut();
    auto second = begin([&] { return truncate(wanted, kOwn).has_value(); });
    hold_cuts(false);
    holder->let_go(0);
    mender.get();
    if (!second.get()) REQUIRE(truncate(wanted, kOwn));
  }
  SECTION("or this server was started anew") {
    restart_all();
    REQUIRE(truncate(wanted, kOwn));
  }
  SECTION("or it is made, and the later one is pending") {
    hold_cuts(true);
    auto second = begin([&] { return truncate(wanted, kOwn).has_value(); });
    await_cut();
    break_disk(Errc::kBusy);  // after the first
    hold_cuts(false);
    holder->let_go(0);
    CHECK_FALSE(second.get());
    CHECK(attributes(f).size == wanted);
    break_disk(std::nullopt);
    const bool restarted = GENERATE(false, true);
    if (restarted) restart_all();
    server->data().catch_up();
  }
  CHECK(attributes(f).size == wanted);
  CHECK(at_server() == std::min<std::uint64_t>(wanted, 10));  // between them are zeros
  REQUIRE(server->data().learn_end(f));
  CHECK(attributes(f).size == wanted);
  CHECK(names->pending_truncates(10)->empty());
}

TEST_CASE_METHOD(CutsTest, "a LAYOUTCOMMIT does not meet a truncate of its client in the middle") {
  REQUIRE(grant(f, kOwn, Access::kReadWrite));
  hold_cuts(true);
  auto cut = begin([&] { return truncate(10, kOwn).has_value(); });
  await_cut();
  CHECK(server->data().commit({.id = f, .end = 5000}, kOwn).error() == Errc::kBusy);
  hold_cuts(false);
  holder->let_go(0);
  REQUIRE(cut.get());
  REQUIRE(server->data().commit({.id = f, .end = 5000}, kOwn));
  CHECK(attributes(f).size == 10);
}

TEST_CASE_METHOD(CutsTest, "a report of a write does not make longer what is being cut") {
  SECTION("while it is cut") {
    hold_cuts(true);
    auto cut = begin([&] { return truncate(10, kOwn).has_value(); });
    await_cut();
    CHECK(report(5000));
    CHECK(attributes(f).size == 10);
    hold_cuts(false);
    holder->let_go(0);
    CHECK(cut.get());
  }
  SECTION("or when that has failed") {
    fail_to_cut(10, kOwn);
    CHECK(report(5000));
    CHECK(attributes(f).size == 10);
    server->data().catch_up();
  }
  CHECK(server->data().size_known(f));
  CHECK(attributes(f).size == 10);
}

TEST_CASE_METHOD(CutsTest, "what is written behind a cut, and reported before its end, counts") {
  hold_cuts(true);
  auto cut = begin([&] { return truncate(10, kOwn).has_value(); });
  await_cut();
  CHECK(report(3000));
  hold_cuts(false);
  holder->let_go(0);
  CHECK(cut.get());
  write_under_layout(3000);
  CHECK(server->data().size_known(f));
  CHECK(attributes(f).size == 3000);
}

TEST_CASE_METHOD(CutsTest, "what was reported during a cut counts after a restart, too") {
  sweep_journal();
  hold_cuts(true);
  auto cut = begin([&] { return truncate(10, kOwn).has_value(); });
  await_cut();
  CHECK(report(3000));
  hold_cuts(false);
  holder->let_go(0);
  CHECK(cut.get());
  write_under_layout(3000);
  restart_all();
  CHECK(attributes(f).size == 3000);
}

TEST_CASE_METHOD(CutsTest,
                 "a size that is doubted when no layout is out is learned after a restart") {
  sweep_journal();
  write_under_layout(7000);
  SECTION("a LAYOUTCOMMIT came after its layout was returned") {
    REQUIRE(server->data().doubt_size(f));
  }
  SECTION("or no data server has said whether it is right") {
    {
      const std::lock_guard lock(holder->mutex);
      holder->hold_stats = true;
    }
    CHECK_FALSE(server->data().commit({.id = f, .end = 7000}, kOwn));
    holder->answer_stats();
  }
  restart_all();
  CHECK(attributes(f).size == 7000);
}

TEST_CASE_METHOD(CutsTest, "a doubt costs no record where there are no bytes to doubt") {
  const FileId empty = file(kRootFileId, "empty");
  CHECK(server->data().doubt_size(empty));
  CHECK(server->data().size_known(empty));
  CHECK(names->written_files(0, 10)->size() == 1);  // f's
}

// It came before the fence of its client was answered, and so before what others do with the file.
TEST_CASE_METHOD(CutsTest, "a file is not cut between a report of it and that it is noted") {
  NamespaceSizes sizes(*names, server->files(), server->journal(), [](FileId) {});
  control::ReportSize told{names->object_of(f, **names->layout(f)), 7000, 0};
  auto uncut = sizes.arrived(told);
  CHECK(told.end == 7000);
  const auto alone = [&](Phase::Alone why) {
    return be_alone(server->files(), f, why, kDoNotWait).has_value();
  };
  CHECK_FALSE(alone(Phase::Alone::kCutting));
  CHECK(alone(Phase::Alone::kMoving));  // which is of no concern to it
  auto cut = begin([&] { return truncate(10, kOther).has_value(); });
  CHECK(cut.wait_for(100ms) == std::future_status::timeout);
  CHECK(sizes.grow(std::span(&told, 1)));
  CHECK(attributes(f).size == 7000);
  uncut.reset();
  CHECK(cut.get());
  CHECK(attributes(f).size == 10);
}

// It would under Ganesha's lock on the file's state, and recalls of other files behind it.
TEST_CASE_METHOD(CutsTest, "a LAYOUTCOMMIT does not wait for a data server that hangs") {
  REQUIRE(grant(f, kOwn, Access::kReadWrite));
  REQUIRE(truncate(10, kOwn));
  write_under_layout(3000);
  {
    const std::lock_guard lock(holder->mutex);
    holder->hold_stats = true;
  }
  for (int i = 0; i < 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    CHECK(server->data().commit({.id = f, .end = 3000}, kOwn).error() == Errc::kBusy);
    CHECK(std::chrono::steady_clock::now() - begun < 2s);
  }
  CHECK(attributes(f).size == 10);
  holder->answer_stats();
  Result<std::uint64_t> committed = fail(Errc::kBusy);
  for (int i = 0; i < 500 && !committed; ++i) {
    committed = server->data().commit({.id = f, .end = 3000}, kOwn);
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE(committed);
  CHECK(*committed == 3000);
  CHECK(attributes(f).size == 3000);
}

TEST_CASE_METHOD(CutsTest, "an OPEN that reclaims does not wait for a data server that hangs") {
  write_under_layout(7000);
  {
    const std::lock_guard lock(holder->mutex);
    holder->hold_stats = true;
  }
  for (int i = 0; i < 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    server->data().relearn_size(f);
    CHECK(std::chrono::steady_clock::now() - begun < 2s);
  }
  CHECK(attributes(f).size == 5000);
  holder->answer_stats();
  CHECK(await_that([&] { return server->data().size_known(f).has_value(); }));
  CHECK(attributes(f).size == 7000);
}

TEST_CASE_METHOD(CutsTest, "an OPEN that truncates does not wait for a data server that hangs") {
  const std::vector<std::uint32_t> groups{7};
  const Credentials who{.uid = attributes(f).uid, .gid = 1, .groups = groups};
  const auto open = [&] { return server->data().empty_soon(who, f, kOther); };
  hold_cuts(true);
  for (int i = 0; i < 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    CHECK(open().error() == Errc::kBusy);
    CHECK(std::chrono::steady_clock::now() - begun < 2s);
  }
  await_cut();
  hold_cuts(false);
  holder->let_go(0);
  Result<> opened = fail(Errc::kBusy);
  for (int i = 0; i < 500 && !opened; ++i) {
    opened = open();
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE(opened);
  CHECK(attributes(f).size == 0);
  CHECK(at_server() == 0);
  const Credentials stranger{.uid = attributes(f).uid + 1, .gid = 2};
  CHECK_FALSE(server->data().empty_soon(stranger, f, kOther));
}

TEST_CASE_METHOD(CutsTest, "nobody writes, allocates or punches between a cut that failed and it") {
  fail_to_cut(10, kOwn);
  break_disk(Errc::kBusy);
  const auto data = std::vector<std::byte>(100, std::byte{1});
  CHECK_FALSE(write_at(f, 0, data));
  CHECK_FALSE(server->data().allocate(f, 0, 100, policy));
  CHECK_FALSE(server->data().punch(f, 0, 100));
  CHECK_FALSE(server->data().begin_move(f, 1, 2));
  CHECK_FALSE(server->data().hold_unused(f, **names->layout(f)));
  CHECK(server->data().being_written(f));
  CHECK(holder->ranges.empty());
}

}  // namespace weft::mds
