// Who is read, and layouts for reading that are renewed when others come to use a server.
#include "tests/ganesha-fsal/files/mirrors_fixture.h"

namespace weft::mds {
namespace {

using Ids = std::vector<std::uint32_t>;

// Links of 100 bytes a second each.
struct ReadSharesTest : MirrorsTest {
  ReadSharesTest() {
    REQUIRE(names->ensure_layout(f, make()));
    for (auto& [id, load] : loads) load.network.max = 100;
  }
  // As FileData grants a layout for reading.
  Ids read_by(ClientId client) {
    REQUIRE(layouts.grant(f, client, Access::kRead));
    const auto servers = mirrors->servers_for(f, *mirrors->look(f), Access::kRead, 58);
    REQUIRE(servers);
    return servers->ds_ids;
  }
  // Others use so much of a server's link.
  void others_use(std::uint32_t ds_id, std::uint64_t bytes) {
    loads[ds_id].network.used = served[ds_id] + bytes;
  }
  std::size_t recalled() {
    mirrors->tick();
    return recalls.calls.size();
  }
};

}  // namespace

TEST_CASE_METHOD(ReadSharesTest, "each copy is read in proportion to what it has to spare") {
  CHECK(read_by(5) == Ids{1, 4, 3, 2});
  others_use(1, 100);
  CHECK(read_by(6) == Ids{3, 4, 3, 2});
  others_use(1, 50);
  const Ids shared = read_by(7);
  CHECK(std::ranges::count(shared, 3U) == 3 * std::ranges::count(shared, 1U));
  CHECK(std::ranges::count(shared, 2U) + std::ranges::count(shared, 4U) ==
        std::ranges::count(shared, 1U) + std::ranges::count(shared, 3U));
}

TEST_CASE_METHOD(ReadSharesTest, "what clients read themselves is no reason to read elsewhere") {
  served[1] = 90;
  others_use(1, 0);
  CHECK(read_by(5) == Ids{1, 4, 3, 2});
  CHECK(recalled() == 0);
}

TEST_CASE_METHOD(ReadSharesTest, "long readers are asked back when others come to use a server") {
  CHECK(read_by(5) == Ids{1, 4, 3, 2});
  CHECK(recalled() == 0);
  served[1] = served[3] = 20;
  others_use(1, 75);
  REQUIRE(recalled() == 1);
  CHECK(recalls.calls[0].client == 5);
  CHECK(recalls.calls[0].only == Access::kRead);
  // Others are granted layouts meanwhile, and it is not asked twice.
  CHECK(layouts.grant(f, 6, Access::kRead));
  layouts.returned(f, 6, Access::kRead);
  CHECK(recalled() == 1);
  layouts.returned(f, 5, Access::kRead);
  CHECK(std::ranges::count(read_by(5), 1U) == 0);
  CHECK(recalled() == 1);  // what it has is right
  SECTION("and back when those are gone, but not at once") {
    others_use(1, 0);
    CHECK(recalled() == 1);
    CHECK(FileTable::Looking(files, f)->reads.not_before > Clock::now());
    FileTable::Changing(files, f)->reads.not_before = {};
    CHECK(recalled() == 2);
    CHECK(FileTable::Looking(files, f)->reads.pause == 10s);
    layouts.returned(f, 5, Access::kRead);
    FileTable::Changing(files, f)->reads.not_before = {};
    mirrors->tick();
    CHECK(FileTable::Looking(files, f)->reads.idle());
  }
  SECTION("a writer does not wait for that, nor is it asked") {
    grant_write(9);
    CHECK(recalled() == 1);
  }
}

TEST_CASE_METHOD(ReadSharesTest, "a file whose holder does not answer is not looked at for ever") {
  read_by(5);
  others_use(1, 100);
  REQUIRE(recalled() == 1);
  FileTable::Changing(files, f)->reads.not_before = {};
  CHECK(recalled() == 1);
  CHECK(files.due(Due::kReads, Clock::time_point::max(), 10).empty());
}

TEST_CASE_METHOD(ReadSharesTest, "what clients only keep goes as soon as it is wrong") {
  wrong_for = 1h;
  start();
  const std::vector<std::uint32_t> all{1, 2, 3, 4};
  REQUIRE(layouts.grant(f, 4, Access::kRead));
  static_cast<void>(layouts.keep(f, 4, all));
  layouts.look_at_kept({});  // asks the client whether it can be asked
  layouts.look_at_kept({});
  layouts.returned(f, 4, Access::kRead);
  read_by(4);
  REQUIRE(layouts.keep(f, 4, all));
  others_use(1, 100);
  CHECK(recalled() == 0);  // it has the file open
  closed = {4};
  SECTION("at once") {
    CHECK(recalled() == 1);
    CHECK(FileTable::Looking(files, f)->reads.pause == 0s);
  }
  SECTION("but not of who has the file open") {
    read_by(5);
    CHECK(recalled() == 0);
  }
  SECTION("nor beside a data server that is away, for which it is asked in another way") {
    reach[2] = Reach::kGone;
    CHECK(recalled() == 0);
  }
}

TEST_CASE_METHOD(ReadSharesTest, "a moment's use by others, or a little, recalls nothing") {
  SECTION("a moment's") {
    wrong_for = 1h;
    start();
    read_by(5);
    others_use(1, 100);
    CHECK(recalled() == 0);
    CHECK(FileTable::Looking(files, f)->reads.wrong_since);
    others_use(1, 0);
    CHECK(recalled() == 0);
    CHECK_FALSE(FileTable::Looking(files, f)->reads.wrong_since);
  }
  SECTION("a little") {
    read_by(5);
    others_use(1, 10);
    CHECK(recalled() == 0);
  }
  SECTION("everywhere") {
    read_by(5);
    for (const std::uint32_t id : {1U, 2U, 3U, 4U}) others_use(id, 80);
    CHECK(recalled() == 0);
  }
}

TEST_CASE_METHOD(ReadSharesTest, "layouts that are back are not looked at") {
  read_by(5);
  layouts.returned(f, 5, Access::kRead);
  others_use(1, 100);
  CHECK(recalled() == 0);
  CHECK(files.due(Due::kReads, Clock::time_point::max(), 10).empty());
  // Right for one, wrong for another: the oldest that is out counts, too.
  read_by(6);
  others_use(1, 0);
  read_by(7);
  CHECK(recalled() == 2);
}

TEST_CASE_METHOD(ReadSharesTest, "what does not fit in memory is read from disks") {
  for (auto& [id, load] : loads) load.disk.max = 100;
  loads[1].disk.used = 100;
  loads[1].memory_free = 1 << 20;
  CHECK(read_by(5) == Ids{1, 4, 3, 2});
  REQUIRE(names->grow_size({.id = f, .end = 4 << 20}));  // 2 MiB of it at each
  const Ids shared = read_by(6);
  CHECK(std::ranges::count(shared, 1U) == 0);
}

}  // namespace weft::mds
