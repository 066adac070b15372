#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"
#include "tests/dataserver/store/store_model.h"

using namespace weft;
using namespace weft::test;
using ds::Stability;

namespace {

const layout::ObjectId kObject{.fileid = 7, .generation = 1};

}  // namespace

TEST_CASE("a parity group is a store like another", "[parity]") {
  for (const auto& [members, chunk] :
       {std::pair{2U, 4096U}, {3U, 4096U}, {4U, 8192U}, {5U, 65536U}}) {
    ParityRig rig(members, chunk);
    CHECK(behaves_like_strings(rig));
    for (std::uint64_t id = 1; id < 4; ++id) {
      CHECK(rig.bad_rows({.fileid = id, .generation = 1}) == 0);
    }
    CHECK(rig.view().put_out.load() == 0);
    CHECK(rig.view().corrupt_blocks.load() == 0);
  }
}

TEST_CASE("full stripes are written without reading", "[parity]") {
  ParityRig rig(4, 65536);
  REQUIRE(rig.write(kObject, 0, "x").has_value());
  std::uint64_t reads = 0;
  for (auto& one : rig.member) reads += one->reads;
  REQUIRE(rig.write(kObject, 3 * 65536, pattern(5 * 3 * 65536)).has_value());
  std::uint64_t after = 0;
  for (auto& one : rig.member) after += one->reads;
  CHECK(after == reads);
  CHECK(rig.text(kObject, 3 * 65536, 1 << 20) == pattern(5 * 3 * 65536));
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("a flipped bit is never returned, and mended", "[parity]") {
  ParityRig rig(3, 4096);
  const auto bytes = pattern(100'000);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.commit(kObject).value();
  for (unsigned m = 0; m < 3; ++m) {
    for (const auto& part : {kObject, ds::sums_of(kObject)}) {
      auto& now = rig.member[m]->files[part].now;
      for (std::size_t at = part == kObject ? 5000 : 4100; at < now.size(); at += 24'000) {
        now[at] = static_cast<char>(now[at] ^ 4);
      }
    }
    CHECK(rig.text(kObject, 0, 1 << 20) == bytes);
    REQUIRE(rig.write(kObject, 50'000, bytes.substr(50'000, 100)).has_value());
  }
  CHECK(rig.view().corrupt_blocks.load() > 0);
  CHECK(rig.view().lost_blocks.load() == 0);
  // Two of a row are lost, and said to be.
  rig.member[0]->files[kObject].now[4096 * 2] ^= 1;
  rig.member[1]->files[kObject].now[4096 * 2] ^= 1;
  const auto text = rig.text(kObject, 0, 1 << 20);
  CHECK(text.starts_with("error"));
  CHECK(rig.view().lost_blocks.load() > 0);
}

TEST_CASE("a member that is lost costs nobody an error", "[parity]") {
  ParityRig rig(4, 4096);
  const auto bytes = pattern(200'000);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  const auto verifier = rig.any().verifier();
  rig.member[2]->failing = true;
  CHECK(rig.text(kObject, 0, 1 << 20) == bytes);
  REQUIRE(rig.write(kObject, 1000, "hello").has_value());
  CHECK(rig.commit(kObject).value() == verifier);
  auto expected = bytes;
  expected.replace(1000, 5, "hello");
  CHECK(rig.text(kObject, 0, 1 << 20) == expected);
  CHECK(rig.view().out.load() == 2);

  rig.member[2]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.bad_rows(kObject) == 0);
  rig.member[0]->failing = true;
  CHECK(rig.text(kObject, 0, 1 << 20) == expected);
}

TEST_CASE("a member that loses unstable writes is rebuilt, and the verifier stays", "[parity]") {
  ParityRig rig(3, 4096);
  const auto verifier = [&] {
    REQUIRE(rig.write(kObject, 0, "begin").has_value());
    return rig.any().verifier();
  }();
  const auto bytes = pattern(150'000);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  rig.member[1]->crash();
  CHECK(rig.text(kObject, 0, 1 << 20) == bytes);
  CHECK(rig.commit(kObject).value() == verifier);
  REQUIRE(rig.whole());
  CHECK(rig.view().put_out.load() == 1);
  CHECK(rig.text(kObject, 0, 1 << 20) == bytes);
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("what was removed and cut without a member is so at it too", "[parity]") {
  ParityRig rig(3, 4096);
  const layout::ObjectId other{.fileid = 8, .generation = 1};
  REQUIRE(rig.write(kObject, 0, pattern(100'000)).has_value());
  REQUIRE(rig.write(other, 0, pattern(100'000)).has_value());
  rig.commit(kObject).value();
  rig.commit(other).value();
  rig.member[0]->failing = true;
  REQUIRE(rig.remove(other).has_value());
  REQUIRE(rig.truncate(kObject, 10'000).has_value());
  rig.member[0]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.bad_rows(kObject) == 0);
  CHECK(rig.member[0]->files[kObject].now.size() <= 8192);
  CHECK_FALSE(rig.member[0]->files.contains(other));
  CHECK(rig.text(kObject, 0, 1 << 20) == pattern(100'000).substr(0, 10'000));
}

TEST_CASE("two members at once are waited for, and nothing committed is lost", "[parity]") {
  ParityRig rig(3, 4096);
  const auto bytes = pattern(100'000);
  REQUIRE(rig.write(kObject, 0, bytes).has_value());
  const auto verifier = rig.commit(kObject).value();
  rig.options.patience = 50ms;
  rig.member[0]->failing = rig.member[1]->failing = true;
  CHECK(rig.write(kObject, 0, "lost").error() == Errc::kBusy);
  rig.member[0]->failing = rig.member[1]->failing = false;
  REQUIRE(rig.whole());
  CHECK(rig.any().verifier() != verifier);
  const auto now = rig.text(kObject, 0, 1 << 20);
  CHECK(now.substr(4) == bytes.substr(4));
  CHECK(rig.bad_rows(kObject) == 0);
}

TEST_CASE("allocating reserves, and extends", "[parity]") {
  ParityRig rig;
  REQUIRE(rig.allocate(kObject, 0, 50'000).has_value());
  CHECK(rig.stat(kObject)->size == 50'000);
  CHECK(rig.text(kObject, 0, 1 << 20) == std::string(50'000, '\0'));
}

TEST_CASE("a group lists its objects, each once, with a member out too", "[parity]") {
  ParityRig rig;
  std::set<layout::ObjectId> made;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    made.insert(object_of(id));
    REQUIRE(rig.write(object_of(id), 0, "some bytes").has_value());
  }
  for (const bool out : {false, true}) {
    rig.member[1]->failing = out;
    for (const std::uint32_t most : {1U, 7U, 1000U}) {
      std::multiset<layout::ObjectId> listed;
      ds::ObjectList page;
      do {
        auto next = rig.wait<ds::ObjectList>(
            [&](auto done) { rig.any().list(page.next, most, std::move(done)); });
        REQUIRE(next.has_value());
        page = std::move(*next);
        CHECK(page.objects.size() <= most);
        listed.insert(page.objects.begin(), page.objects.end());
      } while (page.more);
      CHECK(std::multiset<layout::ObjectId>(made.begin(), made.end()) == listed);
    }
  }
}

TEST_CASE("an operation that fails after the group was closed ends", "[parity]") {
  ParityRig rig(3, 4096);
  REQUIRE(rig.write(kObject, 0, pattern(4096)).has_value());
  rig.commit(kObject).value();
  for (auto& one : rig.member) {
    one->failing = true;
    one->turns = 10;
  }
  std::optional<Result<ds::ReadResult>> read;
  rig.any().read(kObject, 0, 4096, [&](Result<ds::ReadResult> r) { read.emplace(std::move(r)); });
  REQUIRE(rig.close());
  REQUIRE(read.has_value());
  CHECK(read->error() == Errc::kClosed);
}

TEST_CASE("a commit beside a removal leaves nothing of the object", "[parity]") {
  for (const bool first : {true, false}) {  // the first header of the object
    for (unsigned turns = 1; turns <= 12; ++turns) {
      for (const bool removal_first : {false, true}) {
        INFO("first " << first << " turns " << turns << " removal first " << removal_first);
        ParityRig rig(3, 4096);
        REQUIRE(rig.write(kObject, 0, pattern(20'000)).has_value());
        if (!first) {
          rig.commit(kObject).value();
          REQUIRE(rig.write(kObject, 20'000, pattern(20'000)).has_value());
        }
        for (auto& one : rig.member) one->turns = turns;
        unsigned ended = 0;
        const auto commit = [&] { rig.any().commit(kObject, [&](const auto&) { ++ended; }); };
        if (!removal_first) commit();
        rig.any().remove(kObject, [&](const Result<>& done) {
          CHECK(done.has_value());
          ++ended;
        });
        if (removal_first) commit();
        REQUIRE(rig.eventually([&] { return ended == 2; }));
        for (auto& one : rig.member) {
          CHECK_FALSE(one->files.contains(kObject));
          CHECK_FALSE(one->files.contains(ds::sums_of(kObject)));
        }
        rig.restart();
        CHECK(rig.text(kObject, 0, 10).starts_with("error: not found"));
      }
    }
  }
}
