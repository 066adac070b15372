// Scrub of a parity group: what is wrong at a member is found without anybody reading it.
#include <catch2/catch_test_macros.hpp>

#include "dataserver/parity/scrub_record.h"
#include "rpc/base/log_limit.h"
#include "tests/dataserver/parity/parity_rig.h"
#include "tests/rpc/log_lines.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::uint64_t kObjects = 9;

std::string content(std::uint64_t id) { return pattern(static_cast<std::size_t>(id * 13'111), id); }

void fill(ParityRig& rig) {
  for (std::uint64_t id = 1; id <= kObjects; ++id) {
    REQUIRE(rig.write(object_of(id), 0, content(id)).has_value());
    rig.commit(object_of(id)).value();
  }
}

using Held = std::vector<std::map<layout::ObjectId, std::string>>;

Held held(const ParityRig& rig) {
  Held all;
  for (const auto& member : rig.member) {
    auto& objects = all.emplace_back();
    for (const auto& [object, file] : member->files) objects[object] = file.durable;
  }
  return all;
}

void flip(ParityRig& rig, unsigned member, const layout::ObjectId& object, std::size_t at) {
  auto& file = rig.member[member]->files[object];
  if (file.now.size() <= at) return;
  file.now[at] = static_cast<char>(file.now[at] ^ 8);
  file.durable = file.now;
}

bool scrub(ParityRig& rig, bool only_tell = false) {
  const auto before = rig.view().scrub.rounds.load();
  if (!rig.group().begin_scrub(only_tell)) return false;
  return rig.eventually([&] { return rig.view().scrub.rounds.load() > before; });
}

}  // namespace

TEST_CASE("a scrub finds flipped bits in data, parity, checksums and headers, and mends them",
          "[parity][scrub]") {
  for (const auto& [members, chunk] :
       {std::pair{2U, 4096U}, {3U, 4096U}, {4U, 8192U}, {5U, 65536U}}) {
    ParityRig rig(members, chunk);
    fill(rig);
    const auto before = held(rig);
    for (unsigned m = 0; m < members; ++m) {
      const auto id = object_of(m + 4);
      flip(rig, m, id, 5);                       // of data or parity, as it comes
      flip(rig, m, id, chunk + 100);             // of another stripe: of parity at another member
      flip(rig, m, ds::sums_of(id), 4096 + 17);  // a checksum, of the third block
      flip(rig, m, ds::sums_of(id), 9);          // the header
    }
    CHECK(held(rig) != before);
    REQUIRE(scrub(rig));
    const auto& found = rig.view().scrub;
    CHECK(found.lost.load() == 0);
    CHECK(found.failed.load() == 0);
    CHECK(found.corrupt.load() >= std::uint64_t{2} * members);
    CHECK(found.objects.load() == kObjects);
    CHECK(found.permille.load() == 1000);
    CHECK(rig.view().corrupt_blocks.load() == found.corrupt.load());
    // The header's sequence goes on; all else is as it was.
    for (std::uint64_t id = 1; id <= kObjects; ++id) CHECK(rig.bad_rows(object_of(id)) == 0);
    REQUIRE(scrub(rig));
    CHECK(found.corrupt.load() == 0);
    auto after = held(rig);
    for (unsigned m = 0; m < members; ++m) {
      for (auto& [object, bytes] : after[m]) {
        const std::size_t from = ds::is_sums(object) ? ds::SumHeader::kBytes : 0;
        if (!before[m].contains(object)) {
          CHECK(bytes.empty());  // made by the test, which looked at it
          continue;
        }
        CHECK(bytes.substr(from) == before[m].at(object).substr(from));
      }
    }
    rig.restart();  // headers as they are on the disks
    rig.member[1]->failing = true;
    for (std::uint64_t id = 1; id <= kObjects; ++id) {
      CHECK(rig.text(object_of(id), 0, 1 << 20) == content(id));
    }
  }
}

TEST_CASE("a scrub brings back what a member lost of an object", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  const auto before = held(rig);
  rig.member[0]->files.erase(object_of(3));
  rig.member[1]->files.erase(ds::sums_of(object_of(4)));
  rig.member[2]->files.erase(object_of(5));
  rig.member[2]->files.erase(ds::sums_of(object_of(5)));
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.lost.load() == 0);
  for (std::uint64_t id = 1; id <= kObjects; ++id) CHECK(rig.bad_rows(object_of(id)) == 0);
  CHECK(held(rig)[0].at(object_of(3)) == before[0].at(object_of(3)));
  rig.member[0]->failing = true;
  for (std::uint64_t id = 1; id <= kObjects; ++id) {
    CHECK(rig.text(object_of(id), 0, 1 << 20) == content(id));
  }
}

TEST_CASE("what a member lost of an object is told in few lines", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  constexpr std::size_t kBlocks = 400;
  REQUIRE(rig.write(object_of(1), 0, pattern(kBlocks * 4096, 1)).has_value());
  rig.commit(object_of(1)).value();
  rig.member[0]->files.erase(object_of(1));
  rig.member[0]->files.erase(ds::sums_of(object_of(1)));
  rpc::test::LogLines log;
  REQUIRE(scrub(rig));
  const auto lines = log.take();
  CHECK(rig.view().scrub.corrupt.load() >= kBlocks / 2);
  CHECK(rig.bad_rows(object_of(1)) == 0);
  const auto found = std::ranges::count_if(
      lines, [](const auto& line) { return line.contains("event=parity_scrub_found"); });
  CHECK(found >= 1);
  CHECK(found <= static_cast<std::ptrdiff_t>(LogLimit::kAtOnce) + 10);  // a few a second
}

TEST_CASE("a scrub makes nothing of a block that may be a hole or be lost", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  const ds::ParityGeometry geometry{.members = 3, .chunk = 4096};
  // Behind its first two stripes a member has lost data and checksums, not the header.
  auto& member = rig.member[1]->files;
  for (const auto& [part, from] :
       {std::pair{object_of(6), 8192U}, {ds::sums_of(object_of(6)), 4112U}}) {
    auto& file = member[part];
    file.now.resize(from);
    file.durable = file.now;
  }
  const auto before = held(rig);
  std::uint64_t doubtful = 0;
  for (std::uint64_t stripe = 2; stripe * 8192 < 6 * 13'111; ++stripe) {
    if (geometry.parity_member(stripe) != 1) ++doubtful;
  }
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.lost.load() == doubtful);
  for (const unsigned m : {0U, 2U}) CHECK(held(rig)[m] == before[m]);
}

// As of a write that the parity's disk lost: block and checksum are of before.
TEST_CASE("parity that matches its checksum but not the data is computed anew", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  const ds::ParityGeometry geometry{.members = 3, .chunk = 4096};
  const auto id = object_of(6);
  const unsigned parity = geometry.parity_member(2);
  const auto before = held(rig);
  REQUIRE(rig.write(id, 2 * 8192, pattern(8192, 99), ds::Stability::kFileSync).has_value());
  rig.commit(id).value();
  auto& member = rig.member[parity]->files;
  for (const auto& part : {id, ds::sums_of(id)}) {
    member[part].now = member[part].durable = before[parity].at(part);
  }
  REQUIRE(rig.bad_rows(id) == 1);
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.parity.load() == 1);
  CHECK(rig.view().scrub.lost.load() == 0);
  CHECK(rig.bad_rows(id) == 0);
  rig.member[geometry.data_member(2, 0)]->failing = true;
  auto expected = content(6);
  expected.replace(2 * 8192, 8192, pattern(8192, 99));
  CHECK(rig.text(id, 0, 1 << 20) == expected);
}

TEST_CASE("two bad blocks of a row are counted and left as they are", "[parity][scrub]") {
  ParityRig rig(4, 4096);
  fill(rig);
  flip(rig, 0, object_of(5), 4096);
  flip(rig, 1, object_of(5), 4096 + 77);
  flip(rig, 2, object_of(5), 1);  // of another row
  const auto before = held(rig);
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.lost.load() == 2);
  CHECK(rig.view().scrub.corrupt.load() == 1);
  const auto after = held(rig);
  for (const unsigned m : {0U, 1U}) {
    CHECK(after[m].at(object_of(5)) == before[m].at(object_of(5)));
    CHECK(after[m].at(ds::sums_of(object_of(5))) == before[m].at(ds::sums_of(object_of(5))));
  }
  CHECK(after[2].at(object_of(5)) != before[2].at(object_of(5)));
  // Headers of an object: none is left.
  for (unsigned m = 0; m < 4; ++m) flip(rig, m, ds::sums_of(object_of(7)), 20);
  rig.restart();
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.lost.load() == 3);
}

TEST_CASE("a scrub that only tells changes nothing", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  flip(rig, 0, object_of(2), 5);
  flip(rig, 1, ds::sums_of(object_of(3)), 4096);
  flip(rig, 2, ds::sums_of(object_of(4)), 3);
  const auto before = held(rig);
  REQUIRE(scrub(rig, true));
  CHECK(rig.view().scrub.corrupt.load() == 3);
  CHECK(rig.view().scrub.only_tell.load());
  CHECK(rig.view().corrupt_blocks.load() == 0);
  CHECK(held(rig) == before);
}

TEST_CASE("a block that a disk cannot read is written anew, and its member stays",
          "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  const auto before = held(rig);
  rig.member[1]->unreadable[object_of(5)] = {4096, 9000};
  rig.member[2]->unreadable[ds::sums_of(object_of(6))] = {4104};
  rig.member[0]->unreadable[ds::sums_of(object_of(7))] = {12};
  REQUIRE(scrub(rig));
  CHECK(rig.view().scrub.corrupt.load() == 4);
  CHECK(rig.view().scrub.lost.load() == 0);
  CHECK(rig.view().put_out.load() == 0);
  CHECK(rig.member[1]->unreadable[object_of(5)].empty());
  CHECK(rig.member[2]->unreadable[ds::sums_of(object_of(6))].empty());
  CHECK(rig.member[0]->unreadable[ds::sums_of(object_of(7))].empty());
  CHECK(held(rig)[1].at(object_of(5)) == before[1].at(object_of(5)));
}

TEST_CASE("a scrub beside writes, cuts and removals finds nothing and harms nothing",
          "[parity][scrub]") {
  ParityRig rig(3, 4096);
  for (unsigned m = 0; m < 3; ++m) rig.member[m]->turns = m + 1;
  fill(rig);
  SeededRandom random(5);
  std::uint64_t found = 0;
  while (rig.view().scrub.rounds.load() < 12) {
    if (!rig.view().scrub.running.load()) {
      found += rig.view().scrub.corrupt.load() + rig.view().scrub.parity.load();
      static_cast<void>(rig.group().begin_scrub(false));
    }
    std::size_t left = 6;
    for (int i = 0; i < 6; ++i) {
      const auto id = object_of(1 + random.below(kObjects));
      const auto ended = [&left](const auto& result) {
        CHECK(result.has_value());
        --left;
      };
      switch (random.below(12)) {
        case 0: rig.any().remove(id, ended); break;
        case 1: rig.any().truncate(id, random.below(100'000), ended); break;
        case 2: rig.any().punch(id, random.below(50'000), random.below(50'000), ended); break;
        case 3: rig.any().commit(id, ended); break;
        default: {
          std::vector<Buffer> data;
          data.push_back(rig.buffer(pattern(1 + random.below(30'000), random.u64())));
          rig.any().write(id, random.below(90'000), std::move(data), ds::Stability::kUnstable,
                          ended);
        }
      }
    }
    REQUIRE(rig.eventually([&] { return left == 0; }));
  }
  CHECK(found == 0);
  CHECK(rig.view().scrub.lost.load() == 0);
  CHECK(rig.view().scrub.failed.load() == 0);
  for (std::uint64_t id = 1; id <= kObjects; ++id) CHECK(rig.bad_rows(object_of(id)) == 0);
}

TEST_CASE("a scrub waits while a member is out, and goes on", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  flip(rig, 2, object_of(9), 20'000);
  REQUIRE(rig.group().begin_scrub(false).has_value());
  REQUIRE(rig.eventually([&] { return rig.view().scrub.objects.load() >= 2; }));
  rig.member[0]->failing = true;
  REQUIRE(rig.eventually([&] { return rig.view().scrub.waiting.load(); }));
  REQUIRE(rig.degraded());
  CHECK_FALSE(rig.group().begin_scrub(false).has_value());
  // What waits holds nothing that a client needs. (Not of the row with the flipped bit.)
  for (std::uint64_t id = 1; id <= kObjects; ++id) {
    REQUIRE(rig.write(object_of(id), 0, "while it waits").has_value());
  }
  CHECK(rig.view().scrub.running.load());
  rig.member[0]->failing = false;
  REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
  CHECK(rig.view().scrub.objects.load() == kObjects);
  CHECK(rig.view().scrub.failed.load() == 0);
  for (std::uint64_t id = 1; id <= kObjects; ++id) CHECK(rig.bad_rows(object_of(id)) == 0);
}

TEST_CASE("a scrub goes on where it was when the data server died", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  rig.options.note_every = 0ms;
  rig.restart();
  fill(rig);
  const auto noted = [&] { return ds::decode_scrub_record(rig.disk.kept.scrub).value(); };
  REQUIRE(rig.group().begin_scrub(false).has_value());
  REQUIRE(rig.eventually([&] { return noted().done >= 4; }));
  REQUIRE(noted().running);
  REQUIRE(noted().done < kObjects);
  rig.lose_power();
  std::uint64_t least = kObjects;
  REQUIRE(rig.eventually([&] {
    if (rig.view().scrub.running.load()) least = std::min(least, rig.view().scrub.objects.load());
    return rig.view().scrub.rounds.load() == 1;
  }));
  CHECK(least >= 4);
  CHECK(rig.view().scrub.objects.load() == kObjects);
  CHECK_FALSE(noted().running);
  CHECK(noted().ended > 0);
}

TEST_CASE("a scrub begins by itself when the last is long ago", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  fill(rig);
  rig.options.rates.scrub_every = std::chrono::hours(1);
  rig.restart();  // the group was made just now
  REQUIRE(rig.whole());
  for (int i = 0; i < 20; ++i) rig.eventually([n = 0]() mutable { return ++n > 2; });
  CHECK(rig.view().scrub.rounds.load() == 0);
  CHECK_FALSE(rig.view().scrub.running.load());
  rig.close();
  rig.disk.kept.scrub = encode(ds::ScrubRecord{.ended = 5});
  rig.open();
  REQUIRE(rig.eventually([&] { return rig.view().scrub.rounds.load() == 1; }));
  CHECK(rig.view().scrub.objects.load() == kObjects);
  // A record that is damaged is none.
  rig.close();
  rig.disk.kept.scrub.back() ^= std::byte{1};
  rig.open();
  REQUIRE(rig.whole());
  CHECK(rig.text(object_of(4), 0, 1 << 20) == content(4));
}

TEST_CASE("a scrub ends when told to, and with the group, whatever its rate", "[parity][scrub]") {
  ParityRig rig(3, 4096);
  rig.options.rates.scrub = 100;
  rig.restart();
  fill(rig);
  const auto begun = [&] {
    REQUIRE(rig.group().begin_scrub(false).has_value());
    REQUIRE(rig.eventually(
        [&] { return rig.view().scrub.running.load() && rig.view().scrub.bytes.load() > 0; }));
  };
  CHECK_FALSE(rig.group().end_scrub());
  begun();
  CHECK(rig.group().end_scrub());
  REQUIRE(rig.eventually([&] { return !rig.view().scrub.running.load(); }));
  CHECK(rig.view().scrub.failed.load() == 0);
  begun();
  const auto start = std::chrono::steady_clock::now();
  CHECK(rig.close());
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  rig.open();
}

TEST_CASE("a rebuild ends with the group, whatever its rate", "[parity]") {
  ParityRig rig(3, 4096);
  rig.options.rates.rebuild = 100;
  rig.restart();
  fill(rig);
  rig.member[1]->failing = true;
  REQUIRE(rig.write(object_of(3), 0, "missed").has_value());
  REQUIRE(rig.degraded());
  rig.member[1]->failing = false;
  REQUIRE(rig.eventually([&] { return rig.view().rebuilt_bytes.load() > 0; }));
  CHECK(rig.close());
  rig.open();
}
