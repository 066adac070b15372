#include "ganesha-fsal/files/layout_service.h"

#include <catch2/catch_test_macros.hpp>
#include <ctime>
#include <map>
#include <string>

#include "rpc/base/log_limit.h"
#include "tests/ganesha-fsal/files/give_back.h"
#include "tests/rpc/log_lines.h"

namespace weft::mds {
namespace {

using layout::Access;
using std::chrono::seconds;

struct FakeRecaller : Recaller {
  struct Call {
    FileId file;
    ClientId client;
    std::optional<Access> only;
    std::function<void()> none;
  };
  std::vector<Call> calls;
  void recall(FileId file, ClientId client, std::optional<Access> only,
              std::function<void()> none) override {
    calls.push_back({file, client, only, std::move(none)});
  }
  struct Unused {
    ClientId client;
    std::function<void(bool)> answered;
  };
  std::vector<Unused> unused;
  void recall_unused(ClientId client, std::function<void(bool)> answered) override {
    unused.push_back({client, std::move(answered)});
  }
};

struct FakeFencer : Fencer {
  struct Call {
    FileId file;
    ClientId client;
    std::function<void(Result<>)> done;
  };
  std::vector<Call> calls;
  void fence(FileId file, ClientId client, std::function<void(Result<>)> done) override {
    calls.push_back({file, client, std::move(done)});
  }
};

struct Fixture {
  FileTable files{system_clock()};
  FakeRecaller recaller;
  FakeFencer fencer;
  Clock::time_point now{};
  std::vector<FileId> gone;
  LayoutService service{files,
                        recaller,
                        fencer,
                        {.recall_timeout = seconds(10), .fence_retry = seconds(2)},
                        [this] { return now; },
                        [this](FileId file) { gone.push_back(file); }};
};

TEST_CASE("a client with many layouts fills no log") {
  rpc::test::LogLines log;
  Fixture f;
  constexpr FileId kFiles = 500;
  for (FileId file = 1; file <= kFiles; ++file) {
    REQUIRE(f.service.grant(file, 5, Access::kReadWrite));
    f.service.recall(file, "test");
    f.service.revoke(file, 5, "test");
    f.fencer.calls.back().done(fail(Errc::kUnreachable, "test"));
    f.fencer.calls.back().done({});
  }
  std::map<std::string, std::size_t> lines;
  for (const std::string& line : log.take()) ++lines[line.substr(0, line.find(" file="))];
  CHECK(lines.size() == 4);
  for (const auto& [kind, count] : lines) {
    INFO(kind);
    CHECK(count <= LogLimit::kAtOnce + 10);  // a few a second
  }
  CHECK(f.service.counters().revoked == kFiles);
}

TEST_CASE("files whose client is being fenced cost nobody else anything") {
  const rpc::test::LogLines log;  // a hundred of them
  Fixture f;
  constexpr FileId kFiles = 30'000;
  constexpr FileId kRounds = 10'000;
  const std::clock_t begun = std::clock();  // of the processor, which others use as well
  for (FileId file = 1; file <= kFiles; ++file) {
    REQUIRE(f.service.grant(file, 1, Access::kReadWrite));
  }
  for (FileId file = 1; file <= kFiles; ++file) f.service.revoke(file, 1, "lease expired");
  for (FileId file = kFiles + 1; file <= kFiles + kRounds; ++file) {
    f.service.tick();
    REQUIRE_FALSE(f.service.blocked(file));
    REQUIRE(f.service.grant(file, 2, Access::kRead));
  }
  const auto took_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  CHECK(f.fencer.calls.size() == kFiles);  // each once
  CHECK(f.service.counters().out == kRounds);
  CHECK(took_s < 5);  // looking at all of them each time takes longer
}

TEST_CASE("a client that returns in time is not fenced") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  CHECK(f.service.held_for_write(7));
  CHECK(f.service.recall(7, "moved") == 1);
  REQUIRE(f.recaller.calls.size() == 1);
  CHECK(f.service.grant(7, 2, Access::kRead).error() == Errc::kRecallConflict);

  f.now += seconds(9);
  f.service.tick();
  f.service.returned(7, 1, Access::kReadWrite);
  f.now += seconds(60);
  f.service.tick();
  CHECK(f.fencer.calls.empty());
  CHECK(f.gone == std::vector<FileId>{7});
  CHECK(f.service.grant(7, 2, Access::kRead).value());
  CHECK_FALSE(f.service.grant(7, 3, Access::kRead).value());
}

TEST_CASE("a layout for reading does not hide one for writing, and gives no right to write") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  CHECK_FALSE(f.service.may_write(7, 1));
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  CHECK(f.service.may_write(7, 1));
  CHECK_FALSE(f.service.may_write(7, 2));
  f.service.returned(7, 1, Access::kReadWrite);
  CHECK_FALSE(f.service.may_write(7, 1));
}

TEST_CASE("a client that does not return is fenced, and the file waits for it") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  f.service.recall(7, "moved");
  f.now += seconds(10);
  f.service.tick();
  f.service.tick();
  REQUIRE(f.fencer.calls.size() == 1);
  CHECK(f.service.blocked(7));
  CHECK_FALSE(f.service.idle(7));
  CHECK(f.service.grant(7, 2, Access::kRead).error() == Errc::kBusy);
  CHECK(f.service.grant(8, 2, Access::kRead));
  CHECK(f.gone.empty());

  f.fencer.calls[0].done({});
  CHECK_FALSE(f.service.blocked(7));
  CHECK(f.gone == std::vector<FileId>{7});
  CHECK(f.service.grant(7, 2, Access::kRead));
}

TEST_CASE("a client has its time from when it is asked, and a recall ends though it never is") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  f.service.recall(7, "moved");
  f.service.waits(8, 1, std::nullopt);  // of which nobody knows
  CHECK(f.files.size() == 1);
  const auto after = [&](int time, std::optional<Access> waiting) {
    f.now += seconds(time);
    f.service.tick();
    f.service.waits(7, 1, waiting);
  };
  SECTION("asked") {
    after(8, std::nullopt);
    f.now += seconds(9);
    f.service.tick();
    CHECK(f.fencer.calls.empty());
    test::give_back(f.service, 7, 1);
    f.now += seconds(10);
    f.service.tick();
    CHECK(f.fencer.calls.empty());
  }
  SECTION("asked, and not returned") {
    after(8, std::nullopt);
    f.now += seconds(10);
    f.service.tick();
    CHECK(f.fencer.calls.size() == 1);
  }
  SECTION("asked for one mode") {
    after(8, Access::kRead);
    f.now += seconds(2);
    f.service.tick();
    CHECK(f.fencer.calls.size() == 1);
  }
  SECTION("never asked") {
    for (int second = 1; second < 20; ++second) after(1, std::nullopt);
    CHECK(f.fencer.calls.empty());
    f.now += seconds(1);
    f.service.tick();
    CHECK(f.fencer.calls.size() == 1);
  }
  SECTION("not recalled") {
    test::give_back(f.service, 7, 1);
    REQUIRE(f.service.grant(7, 1, Access::kRead));
    after(8, std::nullopt);
    f.now += seconds(60);
    f.service.tick();
    CHECK(f.fencer.calls.empty());
  }
}

TEST_CASE("a failed fence is tried again, not forgotten") {
  Fixture f;
  f.service.revoke(7, 1, "lease expired");
  REQUIRE(f.fencer.calls.size() == 1);
  f.fencer.calls[0].done(fail(Errc::kUnreachable, "ds 3"));
  CHECK(f.service.blocked(7));
  f.now += seconds(1);
  f.service.tick();
  CHECK(f.fencer.calls.size() == 1);
  f.now += seconds(1);
  f.service.tick();
  f.service.tick();
  REQUIRE(f.fencer.calls.size() == 2);
  f.fencer.calls[1].done({});
  CHECK_FALSE(f.service.blocked(7));
  CHECK(f.service.counters().fence_failures == 1);
}

TEST_CASE("a second revocation joins the fence under way") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  f.service.revoke(7, 1, "lease expired");
  f.service.revoke(7, 1, "backchannel");
  CHECK(f.fencer.calls.size() == 1);
  CHECK(f.service.counters().revoked == 1);
}

TEST_CASE("a recall for a layout nobody has ends the grant without a fence") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  f.service.recall(7, "moved");
  f.recaller.calls[0].none();
  CHECK(f.service.idle(7));
  CHECK(f.gone == std::vector<FileId>{7});
  CHECK(f.fencer.calls.empty());
}

TEST_CASE("a truncate recalls the other writers, not its own client") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  REQUIRE(f.service.grant(7, 2, Access::kReadWrite));
  CHECK(f.service.held_for_write(7, 1));
  CHECK(f.service.recall(7, "truncate", {.except = 1}) == 1);
  REQUIRE(f.recaller.calls.size() == 1);
  CHECK(f.recaller.calls[0].client == 2);
  f.service.returned(7, 2, Access::kReadWrite);
  CHECK_FALSE(f.service.held_for_write(7, 1));
  CHECK(f.service.held_for_write(7));
}

TEST_CASE("layouts for reading are recalled apart, and others may go on") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  REQUIRE(f.service.grant(7, 2, Access::kReadWrite));
  CHECK_FALSE(f.service.returning(7, Access::kRead));
  CHECK(f.service.recall(7, "gone", {.only = Access::kRead, .others_wait = false}) == 1);
  REQUIRE(f.recaller.calls.size() == 1);
  CHECK(f.recaller.calls[0].client == 1);
  CHECK(f.recaller.calls[0].only == Access::kRead);
  CHECK(f.service.returning(7, Access::kRead));
  CHECK_FALSE(f.service.returning(7, Access::kReadWrite));
  CHECK(f.service.returning(7, std::nullopt));

  CHECK(f.service.grant(7, 3, Access::kRead));
  CHECK(f.service.grant(7, 1, Access::kReadWrite));
  CHECK(f.service.grant(7, 1, Access::kRead).error() == Errc::kRecallConflict);

  SECTION("returned") {
    f.service.returned(7, 1, Access::kRead);
    CHECK_FALSE(f.service.returning(7, std::nullopt));
    CHECK(f.service.may_write(7, 1));
    f.now += seconds(60);
    f.service.tick();
    CHECK(f.fencer.calls.empty());
  }
  SECTION("not known to the protocol's side") {
    f.recaller.calls[0].none();
    CHECK_FALSE(f.service.returning(7, std::nullopt));
    CHECK(f.service.may_write(7, 1));
  }
  SECTION("then all of them for something that conflicts") {
    CHECK(f.service.recall(7, "truncate") == 3);  // 1 for its other mode only
    CHECK(f.recaller.calls[1].only == Access::kReadWrite);
    CHECK(f.service.grant(7, 4, Access::kRead).error() == Errc::kRecallConflict);
  }
  SECTION("not returned in time: fenced once, and held off until that holds") {
    f.service.recall(7, "truncate", {.except = 2});
    f.now += seconds(10);
    f.service.tick();
    CHECK(f.fencer.calls.size() == 2);  // clients 1 and 3
    CHECK_FALSE(f.service.known(7, 1));
    CHECK(f.service.returning(7, Access::kRead));
    for (auto& call : f.fencer.calls) call.done({});
    CHECK_FALSE(f.service.returning(7, std::nullopt));
    CHECK(f.service.may_write(7, 2));
  }
}

TEST_CASE("both modes of a client are asked for at once") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  CHECK(f.service.recall(7, "moved") == 1);
  CHECK(f.recaller.calls[0].only == std::nullopt);
}

TEST_CASE("recalling everything asks each holder of each file") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  REQUIRE(f.service.grant(7, 2, Access::kRead));
  REQUIRE(f.service.grant(9, 1, Access::kReadWrite));
  CHECK(f.service.recall_all("device changed", {}) == 3);
  CHECK(f.service.recall_all("device changed", {}) == 0);
}

TEST_CASE("layouts are recalled that name addresses of before, and others wait for nobody") {
  Fixture f;
  const auto device = [](std::uint32_t ds_id, std::uint32_t generation) {
    layout::Device made{.number = ds_id};
    made.members.push_back({.ds_id = ds_id, .address_generation = generation});
    return std::make_shared<const layout::Device>(made);
  };
  for (const ClientId client : {1, 2, 3}) REQUIRE(f.service.grant(7, client, Access::kRead));
  REQUIRE(f.service.grant(9, 1, Access::kReadWrite));  // nobody knows what it names
  f.service.names(7, 1, Access::kRead, device(4, 1));
  f.service.names(7, 2, Access::kRead, device(4, 2));
  f.service.names(7, 3, Access::kRead, device(5, 1));
  const AddressesOf now{.ds_id = 4, .generation = 2};
  CHECK(f.service.recall_all("moved", {.moved = now, .others_wait = false}) == 2);
  CHECK(f.service.recalled(7, 1, Access::kRead));
  CHECK_FALSE(f.service.recalled(7, 2, Access::kRead));
  CHECK_FALSE(f.service.recalled(7, 3, Access::kRead));
  CHECK(f.service.recalled(9, 1, Access::kReadWrite));
  CHECK(f.service.grant(7, 4, Access::kReadWrite));
  CHECK(f.service.grant(9, 4, Access::kRead));
}

TEST_CASE("a recall that finds nothing drops what it was of, and nothing that was granted since") {
  Fixture f;
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  f.service.recall(7, "first");
  f.service.returned(7, 1, Access::kRead);
  REQUIRE(f.service.grant(7, 1, Access::kRead));
  f.recaller.calls[0].none();
  CHECK(f.service.known(7, 1));
  f.service.recall(7, "second");
  f.recaller.calls[0].none();
  CHECK(f.service.known(7, 1));
  f.recaller.calls[1].none();
  CHECK_FALSE(f.service.known(7, 1));
}

TEST_CASE("a client has a bounded number of layouts of a file") {
  Fixture f;
  for (int i = 0; i < 32; ++i) {
    REQUIRE(f.service.grant(7, 1, Access::kRead));
    REQUIRE(f.service.grant(7, 1, Access::kReadWrite));
  }
  CHECK(f.service.grant(7, 1, Access::kRead).error() == Errc::kLayoutTryLater);
  CHECK(f.service.grant(7, 2, Access::kRead));
  CHECK(f.service.grant(8, 1, Access::kRead));
  f.service.returned(7, 1, Access::kRead);
  CHECK(f.service.grant(7, 1, Access::kReadWrite));
}

TEST_CASE("layouts are counted, and there are not more than the limit") {
  Fixture f;
  LayoutService service{f.files,
                        f.recaller,
                        f.fencer,
                        {.recall_timeout = seconds(10), .most = 2},
                        [&] { return f.now; },
                        [](FileId) {}};
  REQUIRE(service.grant(7, 1, Access::kRead));
  REQUIRE(service.grant(8, 1, Access::kReadWrite));
  CHECK(service.counters().out == 2);
  CHECK(service.grant(9, 1, Access::kRead).error() == Errc::kLayoutTryLater);
  CHECK(service.files().size() == 2);
  CHECK_FALSE(service.oldest_recall());
  f.now += seconds(1);
  service.recall(8, "moved");
  f.now += seconds(1);
  service.recall(7, "moved");
  CHECK(service.counters().recalled == 2);
  CHECK(service.oldest_recall() == Clock::time_point{} + seconds(1));
  service.returned(8, 1, Access::kReadWrite);
  CHECK(service.counters().out == 1);
  CHECK(service.counters().recalled == 1);
  CHECK(service.grant(9, 1, Access::kRead));
  test::give_back(service, 7, 1);
  CHECK(service.counters().recalled == 0);
  test::give_back(service, 9, 1);
  CHECK(f.files.size() == 0);
}

struct Keeper : Fixture {
  std::set<ClientId> open_by;
  LayoutService service{
      files,
      recaller,
      fencer,
      {.recall_timeout = seconds(10)},
      [this] { return now; },
      [](FileId) {},
      [](FileId) {},
      {.limits = {.per_client = 8, .time = seconds(60)},
       .in_use = [this](FileId, ClientId client) { return open_by.contains(client); }}};
  std::vector<std::uint32_t> servers{1, 2};

  Keeper() {
    grant(1, 1);
    service.look_at_kept({});
    REQUIRE(recaller.unused.size() == 1);
    recaller.unused[0].answered(true);
    service.look_at_kept({});
    service.returned(1, 1, Access::kReadWrite);
  }
  bool grant(FileId file, ClientId client, Access access = Access::kReadWrite) {
    REQUIRE(service.grant(file, client, access));
    return service.keep(file, client, servers);
  }
};

TEST_CASE("a client keeps all its layouts of a file or none") {
  Keeper f;
  CHECK(f.grant(7, 1));
  CHECK_FALSE(f.grant(8, 1));
  CHECK(f.grant(7, 1, Access::kRead));
  f.service.returned(7, 1, Access::kReadWrite);
  CHECK_FALSE(f.grant(9, 1));
  f.service.returned(7, 1, Access::kRead);
  CHECK_FALSE(f.service.keeps(7, 1));
  CHECK_FALSE(f.grant(8, 1, Access::kRead));  // the other ends with the file
  CHECK(f.grant(10, 1));
  f.service.revoke(10, 1, "lease expired");
  CHECK(f.grant(11, 1));
  test::give_back(f.service, 11, 1);
  CHECK(f.grant(12, 1));
}

TEST_CASE("what is kept for long is recalled, of this client alone, when it does not use it") {
  Keeper f;
  REQUIRE(f.grant(7, 1));
  REQUIRE(f.service.grant(7, 2, Access::kReadWrite));
  f.open_by = {1};
  f.now += seconds(60);
  f.service.look_at_kept({});
  CHECK(f.recaller.calls.empty());
  CHECK_FALSE(f.service.unused(7, 1));
  f.open_by.clear();
  CHECK(f.service.unused(7, 1));
  CHECK_FALSE(f.service.unused(7, 2));
  f.now += seconds(60);
  f.service.look_at_kept({});
  REQUIRE(f.recaller.calls.size() == 1);
  CHECK(f.recaller.calls[0].client == 1);
  CHECK(f.service.grant(7, 2, Access::kRead));  // nobody else waits
}

TEST_CASE("beside a data server that is away a client is asked before something is recalled") {
  Keeper f;
  REQUIRE(f.grant(7, 1));
  f.now += seconds(60);
  f.service.look_at_kept({2});
  CHECK(f.recaller.unused.size() == 2);
  CHECK(f.recaller.calls.empty());
  f.now += seconds(1);
  f.service.look_at_kept({2});
  CHECK(f.recaller.unused.size() == 2);
  CHECK(f.recaller.calls.size() == 1);
}

TEST_CASE("a client may answer when the service is gone") {
  FileTable files{system_clock()};
  FakeRecaller recaller;
  {
    FakeFencer fencer;
    LayoutService service{files,
                          recaller,
                          fencer,
                          {},
                          [] { return Clock::time_point{}; },
                          [](FileId) {},
                          [](FileId) {},
                          {.limits = {.per_client = 1}}};
    REQUIRE(service.grant(7, 1, Access::kRead));
    CHECK_FALSE(service.keep(7, 1, std::vector<std::uint32_t>{1}));
    service.look_at_kept({});
    REQUIRE(recaller.unused.size() == 1);
  }
  recaller.unused[0].answered(true);
}

}  // namespace
}  // namespace weft::mds
