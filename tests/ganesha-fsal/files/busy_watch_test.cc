#include "ganesha-fsal/files/busy_watch.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::mds {
namespace {

using std::chrono::milliseconds;

// A store that is looked at once a second.
struct Store {
  StoreHealth health;
  BusyWatch watch;

  // So many commits and syncs, of so long each, since the look before.
  void looks(unsigned count, std::uint64_t commits, std::uint64_t syncs, milliseconds each) {
    for (unsigned i = 0; i < count; ++i) {
      health.commits += commits;
      health.syncs += syncs;
      health.sync_time += syncs * each;
      watch.look(health);
    }
  }
};

}  // namespace

TEST_CASE("a store with nothing to do, and one with much, is not busy", "[busy]") {
  Store store;
  store.looks(100, 0, 0, milliseconds(0));
  CHECK_FALSE(store.watch.busy());
  store.looks(100, 5000, 1500, milliseconds(1));
  CHECK_FALSE(store.watch.busy());
}

TEST_CASE("slow syncs make a store busy after three looks, and fast ones end it after ten") {
  Store store;
  store.looks(2, 100, 5, BusyWatch::kSlowSync);
  CHECK_FALSE(store.watch.busy());
  SECTION("a good look in between begins anew") {
    store.looks(1, 100, 50, milliseconds(1));
    store.looks(2, 100, 5, BusyWatch::kSlowSync);
    CHECK_FALSE(store.watch.busy());
  }
  store.looks(1, 100, 5, BusyWatch::kSlowSync);
  CHECK(store.watch.busy());
  store.looks(9, 100, 50, milliseconds(1));
  CHECK(store.watch.busy());
  SECTION("what is neither begins anew, too") {
    store.looks(1, 100, 10, BusyWatch::kSlowSync * 3 / 4);
    store.looks(9, 100, 50, milliseconds(1));
    CHECK(store.watch.busy());
  }
  store.looks(1, 100, 50, milliseconds(1));
  CHECK_FALSE(store.watch.busy());
}

TEST_CASE("a sync that does not end makes a store busy, as long as something waits for it") {
  Store store;
  store.looks(2, 1, 0, milliseconds(0));
  CHECK_FALSE(store.watch.busy());
  store.looks(1, 1, 0, milliseconds(0));
  CHECK(store.watch.busy());
  store.looks(BusyWatch::kGoodLooks, 0, 0, milliseconds(0));
  CHECK_FALSE(store.watch.busy());
}

TEST_CASE("a store whose tables are behind is busy however fast its log is") {
  Store store;
  SECTION("it lets less through") { store.health.writes_slowed = true; }
  SECTION("or nothing") { store.health.writes_stopped = true; }
  store.looks(BusyWatch::kBadLooks, 100, 100, milliseconds(1));
  CHECK(store.watch.busy());
  store.health.writes_slowed = store.health.writes_stopped = false;
  store.looks(BusyWatch::kGoodLooks, 100, 100, milliseconds(1));
  CHECK_FALSE(store.watch.busy());
}

}  // namespace weft::mds
