// A member that is lost for ever, and a new, empty store in its place.
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/parity/parity_rig.h"

using namespace weft;
using namespace weft::test;

namespace {

constexpr std::uint64_t kObjects = 23;

std::string content(std::uint64_t id) { return pattern(static_cast<std::size_t>(id * 3111), id); }

void fill(ParityRig& rig) {
  for (std::uint64_t id = 1; id <= kObjects; ++id) {
    REQUIRE(rig.write(object_of(id), 0, content(id)).has_value());
    rig.commit(object_of(id)).value();
  }
}

void lose(ParityRig& rig, unsigned member) {
  rig.member[member]->wipe();
  rig.member[member]->failing = true;
  rig.offers.on_accept = [&rig](unsigned which) { rig.member[which]->failing = false; };
  rig.offers.member = static_cast<int>(member);
}

// Everything reads right, also without any one of the others, and the disks agree.
void check_all(ParityRig& rig, unsigned without) {
  for (std::uint64_t id = 1; id <= kObjects; ++id) CHECK(rig.bad_rows(object_of(id)) == 0);
  rig.member[without]->failing = true;
  for (std::uint64_t id = 1; id <= kObjects; ++id) {
    CHECK(rig.text(object_of(id), 0, 1 << 20) == content(id));
  }
}

std::map<layout::ObjectId, std::string> held(const MemoryMember& member) {
  std::map<layout::ObjectId, std::string> all;
  for (const auto& [object, file] : member.files) {
    std::string bytes = file.now;
    bytes.resize(bytes.find_last_not_of('\0') + 1);
    if (!bytes.empty()) all[object] = bytes;  // all zeros may be a hole, or nothing
  }
  return all;
}

}  // namespace

TEST_CASE("a new store in the place of a lost one gets all that it had, byte for byte",
          "[parity]") {
  ParityRig rig(4, 4096);
  fill(rig);
  const auto before = held(*rig.member[2]);
  lose(rig, 2);  // nobody asks for anything: the offer alone is enough
  REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
  REQUIRE(rig.whole());
  CHECK(held(*rig.member[2]) == before);
  CHECK(rig.view().rebuild_permille.load() == 1000);
  check_all(rig, 0);
}

TEST_CASE("holes stay holes at a new store", "[parity]") {
  ParityRig rig(3, 4096);
  REQUIRE(rig.write(object_of(1), std::uint64_t{8} << 20, "at the end").has_value());
  rig.commit(object_of(1)).value();
  rig.member[1]->written_bytes = 0;
  lose(rig, 1);
  REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
  CHECK(rig.member[1]->written_bytes < 20'000);
  CHECK(rig.bad_rows(object_of(1)) == 0);
}

TEST_CASE("a rebuild of everything goes on where it was when the data server died", "[parity]") {
  ParityRig rig(3, 4096);
  rig.options.note_every = 0ms;
  rig.restart();
  fill(rig);
  lose(rig, 0);
  const auto noted = [&] {
    const auto record = ds::decode_group_record(rig.disk.kept.record);
    return record && record->everything && record->done >= 7 ? record->done : 0;
  };
  REQUIRE(rig.eventually([&] { return noted() != 0 || rig.view().replaced.load() == 1; }));
  REQUIRE(rig.view().replaced.load() == 0);
  rig.lose_power();
  REQUIRE(noted() != 0);
  rig.member[0]->written_bytes = 0;
  REQUIRE(rig.write(object_of(3), 0, content(3)).has_value());
  REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
  CHECK(rig.member[0]->written_bytes > 0);
  REQUIRE(rig.whole());
  check_all(rig, 1);
}

TEST_CASE("what is written, cut and removed during a rebuild of everything is so at the new store",
          "[parity]") {
  ParityRig rig(3, 4096);
  rig.options.rates.rebuild = 400'000;
  rig.restart();
  fill(rig);
  lose(rig, 1);
  REQUIRE(rig.eventually([&] { return rig.view().rebuilt_bytes.load() > 0; }));
  auto expected = content(20);
  for (std::uint64_t id : {2, 9, 16}) REQUIRE(rig.remove(object_of(id)).has_value());
  REQUIRE(rig.truncate(object_of(20), 10'000).has_value());
  REQUIRE(rig.write(object_of(99), 5000, content(7)).has_value());
  REQUIRE(rig.eventually([&] { return rig.view().replaced.load() == 1; }));
  for (std::uint64_t id = 1; id <= 99; ++id) {
    if (rig.member[1]->files.contains(object_of(id))) CHECK(rig.bad_rows(object_of(id)) == 0);
  }
  CHECK_FALSE(rig.member[1]->files.contains(object_of(9)));
  rig.member[2]->failing = true;
  CHECK(rig.text(object_of(20), 0, 1 << 20) == expected.substr(0, 10'000));
  CHECK(rig.text(object_of(99), 5000, 1 << 20) == content(7));
}

TEST_CASE("while one member is out no store takes the place of another", "[parity]") {
  ParityRig rig(3, 4096);
  fill(rig);
  rig.member[0]->failing = true;
  CHECK(rig.text(object_of(5), 0, 1 << 20) == content(5));
  REQUIRE(rig.degraded());
  rig.offers.member = 1;
  for (int i = 0; i < 20; ++i) rig.eventually([n = 0]() mutable { return ++n > 2; });
  CHECK(rig.offers.member == 1);
  rig.offers.member = -1;
  rig.member[0]->failing = false;
  REQUIRE(rig.whole());
  check_all(rig, 2);
}
