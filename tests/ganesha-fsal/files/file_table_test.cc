#include "ganesha-fsal/files/file_table.h"

#include <malloc.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>
#include <thread>

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

constexpr FileId kFile = 7;

}  // namespace

TEST_CASE("a record lasts as long as there is something in it") {
  FileTable table{system_clock()};
  CHECK(FileTable::Looking(table, kFile)->idle());
  CHECK(table.size() == 0);
  {
    const FileTable::Changing record(table, kFile);
  }
  CHECK(table.size() == 0);
  FileTable::Changing(table, kFile)->phase.uncut = true;
  CHECK(table.size() == 1);
  CHECK(FileTable::Looking(table, kFile)->phase.uncut);
  CHECK_FALSE(FileTable::Looking(table, kFile + 64)->phase.uncut);  // its neighbour in the shard
  FileTable::Changing(table, kFile)->phase.uncut = false;
  CHECK(table.size() == 0);
}

// Under a sanitizer malloc is not the library's, which then says nothing.
TEST_CASE("records and grants take no more memory than is told, nor much less") {
  FileTable table{system_clock()};
  constexpr FileId kFiles = 5000;
  const auto in_use = [] { return ::mallinfo2().uordblks; };
  const std::size_t before = in_use();
  const auto grant_all = [&](ClientId client) {
    for (FileId file = 1; file <= kFiles; ++file) {
      FileTable::Changing record(table, file);
      record->layouts.grants.add(client, layout::Access::kReadWrite, table.now());
    }
  };
  grant_all(1);
  const std::size_t with_one = in_use() - before;
  grant_all(2);
  const std::size_t with_two = in_use() - before;
  if (with_two == 0) SKIP("malloc does not say");
  const std::size_t of_grants = with_two - with_one;
  CHECK(of_grants <= kFiles * FileGrants::grant_bytes());
  CHECK(of_grants >= kFiles * FileGrants::grant_bytes() / 2);
  CHECK(with_one <= kFiles * (FileTable::record_bytes() + FileGrants::grant_bytes()));
  CHECK(with_one >= kFiles * (FileTable::record_bytes() + FileGrants::grant_bytes()) / 2);
}

TEST_CASE("what is due is found by its records alone") {
  FileTable table{system_clock()};
  for (FileId file = 1; file <= 200; ++file) {
    FileTable::Changing(table, file)->size.doubt = table.number();
  }
  FileTable::Changing(table, 5)->phase.uncut = true;
  CHECK(table.count(Due::kMend) == 200);
  CHECK(table.due(Due::kMend, table.now(), SIZE_MAX).size() == 200);
  CHECK(table.due(Due::kMend, table.now(), 10).size() == 10);
  for (FileId file = 1; file <= 200; ++file) FileTable::Changing(table, file)->size.doubt = 0;
  CHECK(table.due(Due::kMend, table.now(), SIZE_MAX) == std::vector<FileId>{5});
  FileTable::Changing(table, 5)->phase.uncut = false;
  CHECK(table.count(Due::kMend) == 0);
  CHECK(table.size() == 0);
}

TEST_CASE("files with layouts are found by a data server that their maps name") {
  using Files = std::set<FileId>;
  FileTable table{system_clock()};
  const auto map_of = [](std::vector<std::uint32_t> ds_ids) {
    layout::LayoutMap map;
    map.copies = {{layout::CopyState::kCurrent, 0, std::move(ds_ids), {}}};
    return map;
  };
  const auto at = [&](FileId file, std::vector<std::uint32_t> ds_ids) {
    const layout::LayoutMap map = map_of(std::move(ds_ids));
    table.map_changed(file, &map);
  };
  const auto grant = [&](FileId file) {
    FileTable::Changing(table, file)
        ->layouts.grants.add(1, layout::Access::kReadWrite, table.now());
  };
  const auto found = [&](std::optional<std::uint32_t> ds_id) {
    const auto files = table.with_layouts(ds_id);
    return Files(files.begin(), files.end());
  };
  for (const FileId file : Files{1, 2, 3, 65}) grant(file);
  CHECK(found(9) == Files{1, 2, 3, 65});  // of none the map is known
  at(1, {3, 9});
  at(65, {9, 3});  // in the same shard
  at(2, {1, 2});
  CHECK(found(9) == Files{1, 3, 65});
  CHECK(found(2) == Files{2, 3});
  table.keep_map(3, table.map(3).changes, map_of({0, 7}));
  CHECK(found(9) == Files{1, 65});
  CHECK(found(0).empty());
  CHECK(found({}) == Files{1, 2, 3, 65});

  FileTable::Changing(table, 4)->phase.uncut = true;  // no layout
  at(4, {9});
  CHECK(found(9) == Files{1, 65});
  grant(4);
  CHECK(found(9) == Files{1, 4, 65});
  at(1, {3, 8});  // it was moved
  table.map_changed(65, nullptr);
  CHECK(found(9) == Files{4, 65});
  CHECK(found(8) == Files{1, 65});
  for (const FileId file : Files{1, 2, 3, 4, 65}) {
    CHECK(FileTable::Changing(table, file)->layouts.grants.remove(1));
  }
  CHECK(found({}).empty());
  CHECK(table.size() == 1);
}

TEST_CASE("who waits does so for as long as the table's clock says, whatever the machine's") {
  // Behind the machine's, as after a stop of the process; and ahead of it.
  const auto ahead = GENERATE(false, true);
  ManualClock clock;
  if (ahead) clock.advance(system_clock().now().time_since_epoch() + 1h);
  FileTable table(clock);
  std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    ++FileTable::Changing(table, 1)->progress;
  });
  const auto changed = [](const FileState& state) { return state.progress != 0; };
  CHECK(FileTable::Changing(table, 1).wait_until(table.now() + 60s, changed));
  CHECK_FALSE(FileTable::Changing(table, 2).wait_until(table.now() + 10ms, changed));
  CHECK_FALSE(FileTable::Changing(table, 2).wait_until(table.now(), changed));
}

TEST_CASE("a limit leaves nobody out for ever") {
  FileTable table{system_clock()};
  for (FileId file = 1; file <= 128; ++file) FileTable::Changing(table, file)->phase.uncut = true;
  std::set<FileId> seen;
  for (int turn = 0; turn < 64; ++turn) {
    for (const FileId file : table.due(Due::kMend, table.now(), 2)) seen.insert(file);
  }
  CHECK(seen.size() == 128);
}

TEST_CASE("phases: many write and learn, one is alone, and none of it beside") {
  FileTable table{system_clock()};
  {
    const auto writing = enter_writing(table, kFile);
    const auto second = enter_writing(table, kFile);
    const auto learning = enter_learning(table, kFile);
    REQUIRE(writing);
    REQUIRE(second);
    REQUIRE(learning);
    const auto alone = be_alone(table, kFile, Phase::Alone::kCutting, kDoNotWait);
    CHECK(alone.error().code == Errc::kBusy);
    CHECK(enter_writing(table, kFile));  // who wanted to be alone has given up
  }
  {
    const auto alone = be_alone(table, kFile, Phase::Alone::kMoving, kDoNotWait);
    REQUIRE(alone);
    CHECK(enter_writing(table, kFile).error().code == Errc::kBusy);
    CHECK(enter_learning(table, kFile).error().code == Errc::kBusy);
    CHECK(be_alone(table, kFile, Phase::Alone::kCutting, table.now() + 10s, IfAlone::kRefuse)
              .error()
              .code == Errc::kBusy);
    CHECK(be_alone(table, kFile, Phase::Alone::kCutting, table.now() + 1ms).error().code ==
          Errc::kBusy);
  }
  CHECK(table.size() == 0);
}

TEST_CASE("a cut that is pending keeps writers away, and not who is to make it") {
  FileTable table{system_clock()};
  FileTable::Changing(table, kFile)->phase.uncut = true;
  CHECK(enter_writing(table, kFile).error().code == Errc::kBusy);
  CHECK(enter_learning(table, kFile).error().code == Errc::kBusy);
  CHECK(be_alone(table, kFile, Phase::Alone::kCutting, kDoNotWait));
}

TEST_CASE("who waits to be alone goes on when the last writer ends, and nobody begins meanwhile") {
  FileTable table{system_clock()};
  auto writing = std::make_optional(enter_writing(table, kFile).value());
  std::atomic<bool> alone{false};
  std::thread waits([&] {
    const auto got = be_alone(table, kFile, Phase::Alone::kCutting, table.now() + 60s);
    alone = got.has_value();
  });
  while (!FileTable::Looking(table, kFile)->phase.is_alone()) std::this_thread::yield();
  CHECK(enter_writing(table, kFile).error().code == Errc::kBusy);
  CHECK_FALSE(alone);
  writing.reset();
  waits.join();
  CHECK(alone);
  CHECK(table.size() == 0);
}

TEST_CASE("nobody is beside who is alone, whatever many threads do") {
  FileTable table{system_clock()};
  constexpr FileId kFiles = 3;
  std::array<std::atomic<int>, kFiles> shared{};
  std::array<std::atomic<int>, kFiles> alone{};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::minstd_rand random(seed);
      for (int turn = 0; turn < 3000; ++turn) {
        const std::size_t file = random() % kFiles;
        if (random() % 4 == 0) {
          const auto got = be_alone(table, file, Phase::Alone::kCutting, table.now() + 1ms);
          if (!got) continue;
          if (++alone[file] != 1 || shared[file] != 0) ++wrong;
          --alone[file];
        } else {
          const auto got = enter_learning(table, file);
          if (!got) continue;
          ++shared[file];
          if (alone[file] != 0) ++wrong;
          --shared[file];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(table.size() == 0);
}
