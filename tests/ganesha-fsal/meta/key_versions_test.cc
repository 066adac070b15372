#include "ganesha-fsal/meta/kv/key_versions.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace weft::mds;

namespace {

using Slots = std::vector<KeyVersions::Slot>;

bool write(KeyVersions& versions, const std::vector<KeyVersions::Read>& reads,
           const std::vector<std::string>& keys) {
  Slots slots;
  for (const std::string& key : keys) slots.push_back(KeyVersions::slot_of(key));
  KeyVersions::Guard guard(versions, reads, slots);
  if (!guard.unchanged(reads)) return false;
  guard.written(slots);
  return true;
}

}  // namespace

TEST_CASE("what was read is unchanged until it is written") {
  KeyVersions versions;
  const auto a = versions.about_to_read("a");
  const auto b = versions.about_to_read("b");
  CHECK(write(versions, {a, b}, {"c", "b"}));
  CHECK(write(versions, {a, a}, {}));
  CHECK_FALSE(write(versions, {a, b}, {"a"}));
  CHECK(write(versions, {a, versions.about_to_read("b")}, {"a"}));
  CHECK_FALSE(write(versions, {a}, {}));
}

TEST_CASE("of transactions over the same keys none is lost, and none waits for ever") {
  KeyVersions versions;
  int a = 0;  // who writes has both locked
  int b = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Slots both = i % 2 == 0 ? Slots{KeyVersions::slot_of("a"), KeyVersions::slot_of("b")}
                                    : Slots{KeyVersions::slot_of("b"), KeyVersions::slot_of("a")};
      for (int round = 0; round < 2000; ++round) {
        KeyVersions::Guard guard(versions, {versions.about_to_read("c")}, both);
        ++a;
        ++b;
        guard.written(both);
      }
    });
  }
  threads.clear();
  CHECK(a == 8000);
  CHECK(b == 8000);
}
