// What is read ahead: so much at a time, the newest expectations, and nothing after the end.
#include "dataserver/main/read_ahead.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/store/held_store.h"

using namespace weft;
using namespace weft::ds;
using rpc::control::Range;

namespace {

struct ReadAheadTest {
  ReadAheadTest() { store.hold = true; }
  void expect(std::uint64_t first, std::uint64_t count) {
    std::vector<Range> ranges;
    for (std::uint64_t i = 0; i < count; ++i) ranges.push_back({{.fileid = first + i}, 0, 4096});
    ahead.expect(ranges);
    poll();
  }
  void end_one() {
    store.finish(0);
    poll();
  }
  void end_all() {
    while (store.held() > 0) end_one();
  }
  void poll() {
    context.restart();
    context.poll();
  }
  boost::asio::io_context context;
  std::unique_ptr<IoRing> ring = IoRing::create(context).value();
  test::HeldStore store;
  ReadAhead ahead{store, {ring.get()}};
};

}  // namespace

TEST_CASE_METHOD(ReadAheadTest, "so much is read at a time, in the order in which it is expected") {
  // Each has as many bytes as its number says, but for one that is not there.
  for (std::uint64_t i = 1; i <= 20; ++i) {
    if (i != 5) store.files[{.fileid = i}].now = std::string(i, 'x');
  }
  expect(1, 20);
  CHECK(store.reads == ReadAhead::kAtOnce);
  end_one();
  CHECK(store.reads == ReadAhead::kAtOnce + 1);
  std::uint64_t bytes = 1;
  for (std::uint64_t i = 2; i <= 20; ++i) {
    CHECK(ahead.counts().bytes == bytes);
    end_one();
    bytes += i == 5 ? 0 : i;
  }
  CHECK(ahead.counts().bytes == bytes);
  CHECK(ahead.counts().reads == 20);
  CHECK(ahead.counts().dropped == 0);
  CHECK(store.held() == 0);
}

TEST_CASE_METHOD(ReadAheadTest, "what has waited longest is forgotten when more comes") {
  store.files[{.fileid = 1799}].now = "the last";
  expect(1, ReadAhead::kAtOnce);
  for (std::uint64_t i = 0; i < 4; ++i) expect(1000 + 200 * i, 200);
  CHECK(ahead.counts().dropped == 800 - ReadAhead::kWaiting);
  end_all();
  CHECK(store.reads == ReadAhead::kAtOnce + ReadAhead::kWaiting);
  CHECK(ahead.counts().bytes == 8);
}

TEST_CASE_METHOD(ReadAheadTest, "nothing begins after the end") {
  expect(1, 20);
  SECTION("of what waits") { ahead.stop(); }
  SECTION("of what comes") {
    end_all();
    store.reads = ReadAhead::kAtOnce;
    ahead.stop();
    expect(50, 3);
  }
  end_all();
  CHECK(store.reads == ReadAhead::kAtOnce);
}
