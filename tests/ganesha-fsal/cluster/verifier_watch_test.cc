#include "ganesha-fsal/cluster/verifier_watch.h"

#include <catch2/catch_test_macros.hpp>

using weft::mds::VerifierWatch;

TEST_CASE("the verifier changes when any data server's does, and only then") {
  VerifierWatch watch(100);
  CHECK(watch.value() == 100);
  CHECK(watch.observe(1, 7) == 100);  // the first of a data server is news of no loss
  CHECK(watch.observe(2, 8) == 100);
  CHECK(watch.observe(1, 7) == 100);
  CHECK(watch.observe(1, 9) == 101);
  CHECK(watch.observe(1, 9) == 101);
  CHECK(watch.observe(2, 8) == 101);
  // An answer from before the restart that is processed late counts as a change too, both ways.
  CHECK(watch.observe(1, 7) == 102);
  CHECK(watch.observe(1, 9) == 103);
}
