// What is read ahead: so much at a time, the newest expectations, and nothing after the end.
#include "dataserver/main/read_ahead.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::ds;
using rpc::control::Range;

namespace {

// Reads end when a test says so.
class HeldReads final : public Store {
 public:
  std::vector<std::uint64_t> read_files;
  std::vector<Done<ReadResult>> waiting;

  void read(const layout::ObjectId& object, std::uint64_t, std::uint32_t,
            Done<ReadResult> done) override {
    read_files.push_back(object.fileid);
    waiting.push_back(std::move(done));
  }
  void end_one(Result<ReadResult> result = ReadResult{}) {
    auto done = std::move(waiting.front());
    waiting.erase(waiting.begin());
    done(std::move(result));
  }

  void write(const layout::ObjectId&, std::uint64_t, std::vector<Buffer>, Stability,
             Done<WriteResult>) override {}
  void commit(const layout::ObjectId&, Done<WriteVerifier>) override {}
  void truncate(const layout::ObjectId&, std::uint64_t, Done<ObjectStat>) override {}
  void remove(const layout::ObjectId&, Done<void>) override {}
  void stat(const layout::ObjectId&, Done<ObjectStat>) override {}
  void allocate(const layout::ObjectId&, std::uint64_t, std::uint64_t, Done<void>) override {}
  void punch(const layout::ObjectId&, std::uint64_t, std::uint64_t, Done<void>) override {}
  [[nodiscard]] WriteVerifier verifier() const override { return 1; }
  [[nodiscard]] Result<StoreStat> usage() const override { return StoreStat{}; }
};

struct ReadAheadTest {
  void expect(std::uint64_t first, std::uint64_t count) {
    std::vector<Range> ranges;
    for (std::uint64_t i = 0; i < count; ++i) ranges.push_back({{.fileid = first + i}, 0, 4096});
    ahead.expect(ranges);
    poll();
  }
  void poll() {
    context.restart();
    context.poll();
  }
  void end_one() {
    store.end_one();
    poll();
  }
  boost::asio::io_context context;
  std::unique_ptr<IoRing> ring = IoRing::create(context).value();
  HeldReads store;
  ReadAhead ahead{store, {ring.get()}};
};

}  // namespace

TEST_CASE_METHOD(ReadAheadTest, "so much is read at a time, in the order in which it is expected") {
  expect(1, 20);
  CHECK(store.read_files.size() == ReadAhead::kAtOnce);
  end_one();
  CHECK(store.read_files.size() == ReadAhead::kAtOnce + 1);
  store.end_one(fail(Errc::kNotFound, "it is gone"));
  poll();
  while (!store.waiting.empty()) end_one();
  REQUIRE(store.read_files.size() == 20);
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(store.read_files[i] == i + 1);
  CHECK(ahead.counts().reads == 20);
  CHECK(ahead.counts().dropped == 0);
}

TEST_CASE_METHOD(ReadAheadTest, "what has waited longest is forgotten when more comes") {
  expect(1, ReadAhead::kAtOnce);
  for (int i = 0; i < 4; ++i) {
    expect(1000 + 200 * static_cast<std::uint64_t>(i), 200);
  }
  CHECK(ahead.counts().dropped == 800 - ReadAhead::kWaiting);
  while (!store.waiting.empty()) end_one();
  CHECK(store.read_files.size() == ReadAhead::kAtOnce + ReadAhead::kWaiting);
  CHECK(store.read_files.back() == 1799);
}

TEST_CASE_METHOD(ReadAheadTest, "nothing begins after the end") {
  expect(1, 20);
  SECTION("of what waits") { ahead.stop(); }
  SECTION("of what comes") {
    while (!store.waiting.empty()) end_one();
    store.read_files.resize(ReadAhead::kAtOnce);
    ahead.stop();
    expect(50, 3);
  }
  while (!store.waiting.empty()) end_one();
  CHECK(store.read_files.size() == ReadAhead::kAtOnce);
}
