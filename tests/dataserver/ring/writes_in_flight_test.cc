#include "dataserver/ring/writes_in_flight.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

using test::IoThread;

TEST_CASE("a drain waits for the writes before it and not for those after") {
  IoThread thread;
  WritesInFlight writes({&thread.ring()});
  auto before = writes.enter();
  bool drained = false;
  writes.drain([&] { drained = true; });
  thread.poll();
  const auto after = writes.enter();
  CHECK_FALSE(drained);
  before.reset();
  CHECK(drained);
}

TEST_CASE("a drain with nothing in flight is done when the threads have seen it") {
  IoThread thread;
  WritesInFlight writes({&thread.ring()});
  bool drained = false;
  writes.drain([&] { drained = true; });
  thread.poll();
  CHECK(drained);
}

TEST_CASE("a later drain does not overtake a write that an earlier one waits for") {
  IoThread thread;
  WritesInFlight writes({&thread.ring()});
  auto oldest = writes.enter();
  std::vector<int> order;
  writes.drain([&] { order.push_back(1); });
  thread.poll();
  auto middle = writes.enter();
  writes.drain([&] { order.push_back(2); });
  thread.poll();
  middle.reset();
  CHECK(order.empty());
  oldest.reset();
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("any number of drains may wait for one write") {
  IoThread thread;
  WritesInFlight writes({&thread.ring()});
  auto oldest = writes.enter();
  constexpr int kDrains = 300'000;
  int drained = 0;
  bool in_order = true;
  for (int i = 0; i < kDrains; ++i) {
    writes.drain([&, i] { in_order = in_order && drained++ == i; });
    if (i % 1000 == 0) thread.poll();
  }
  thread.poll();
  CHECK(drained == 0);
  oldest.reset();
  CHECK(drained == kDrains);
  CHECK(in_order);
}

}  // namespace
}  // namespace weft::ds
