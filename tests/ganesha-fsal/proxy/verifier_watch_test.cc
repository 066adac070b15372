#include "ganesha-fsal/proxy/verifier_watch.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

using weft::layout::ObjectId;
using weft::mds::VerifierWatch;

TEST_CASE("the verifier changes when any data server's does, and only then") {
  VerifierWatch watch(100);
  CHECK(watch.value() == 100);
  CHECK(watch.observe({1}, 7) == 100);  // the first of a data server is news of no loss
  CHECK(watch.observe({2}, 8) == 100);
  CHECK(watch.observe({1}, 7) == 100);
  CHECK(watch.observe({1}, 9) == 101);
  CHECK(watch.observe({1}, 9) == 101);
  CHECK(watch.observe({2}, 8) == 101);
  // An answer from before the restart that is processed late counts as a change too, both ways.
  CHECK(watch.observe({1}, 7) == 102);
  CHECK(watch.observe({1}, 9) == 103);
}

TEST_CASE("a data server has a verifier for each set of partners") {
  VerifierWatch watch(100);
  CHECK(watch.observe({1, {2, 0}}, 7) == 100);
  CHECK(watch.observe({1, {3, 0}}, 8) == 100);
  CHECK(watch.observe({1}, 9) == 100);
  CHECK(watch.observe({1, {2, 0}}, 7) == 100);
  CHECK(watch.observe({1, {3, 0}}, 10) == 101);
}

TEST_CASE("the verifier changes when a file is committed elsewhere than it was written") {
  VerifierWatch watch(100);
  const ObjectId file{1, 1, 1};
  const ObjectId other{2, 1, 1};
  const VerifierWatch::Source first[] = {{1}, {2}};
  const auto second = GENERATE(std::vector<VerifierWatch::Source>{{1}, {4}},
                               std::vector<VerifierWatch::Source>{{1, {5, 0}}, {2}});
  CHECK(watch.writing(file, first) == 100);
  SECTION("not at the same leaders") {
    const auto commit = watch.committing(file, first);
    watch.committed(commit);
    CHECK(watch.writing(file, second) == 100);  // nothing is uncommitted: no reason to change
  }
  SECTION("at others") {
    watch.committed(watch.committing(file, second));
    CHECK(watch.value() == 101);
    watch.committed(watch.committing(file, second));
    CHECK(watch.value() == 101);
  }
  SECTION("a write through others, too") {
    CHECK(watch.writing(file, second) == 101);
    watch.committed(watch.committing(file, second));
    CHECK(watch.value() == 101);
  }
  SECTION("a commit does not speak for writes that began after it") {
    const auto commit = watch.committing(file, first);
    CHECK(watch.writing(file, first) == 100);
    watch.committed(commit);
    CHECK(watch.writing(file, second) == 101);
  }
  SECTION("nor for those that were answered after it, whenever they began") {
    watch.committed(watch.committing(file, first));
    watch.written(file, first);
    CHECK(watch.value() == 100);
    watch.committed(watch.committing(file, second));
    CHECK(watch.value() == 101);
  }
  SECTION("what others have answered meanwhile is not good") {
    CHECK(watch.writing(file, second) == 101);
    watch.written(file, first);
    CHECK(watch.value() == 102);
    watch.committed(watch.committing(file, second));
    CHECK(watch.value() == 102);
  }
  SECTION("one that failed has said nothing") {
    static_cast<void>(watch.committing(file, first));
    CHECK(watch.writing(file, second) == 101);
  }
  SECTION("not for another file's sake") {
    watch.committed(watch.committing(other, second));
    CHECK(watch.writing(other, second) == 100);
  }
}

TEST_CASE("files beyond the limit are forgotten, with everything unstable") {
  VerifierWatch watch(100);
  const VerifierWatch::Source leaders[] = {{1}};
  for (std::uint64_t id = 1; id <= VerifierWatch::kMaxFiles; ++id) {
    CHECK(watch.writing({id, 1, 1}, leaders) == 100);
  }
  CHECK(watch.writing({5, 1, 1}, leaders) == 100);
  CHECK(watch.writing({1'000'000, 1, 1}, leaders) == 101);
}
