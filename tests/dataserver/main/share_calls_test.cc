#include "dataserver/main/share_calls.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <optional>
#include <vector>

using namespace weft;
using namespace weft::ds;
using rpc::control::AllocateShare;
using rpc::control::SeekAnswer;

namespace {

constexpr layout::ObjectId kObject{1, 1, 1};
constexpr std::uint32_t kUnit = 64;
constexpr rpc::control::Share kShare{kUnit, 4, 0, 1};

// Only what is asked for here; operations end when a test says so, or at once.
class SparseStore final : public Store {
 public:
  std::map<std::uint64_t, std::uint64_t> data;      // runs: begin, end
  std::map<std::uint64_t, std::uint64_t> reserved;  // offset, size
  std::vector<std::move_only_function<void()>> waiting;
  bool hold = false;
  bool knows_holes = true;
  std::uint64_t full_at = kNoData;
  std::size_t asked = 0;

  void allocate(const layout::ObjectId&, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override {
    reserved[offset] = size;
    end([done = std::move(done), fails = offset >= full_at]() mutable {
      done(fails ? Result<>(fail(Errc::kNoSpace, "full")) : Result<>());
    });
  }
  void next_data(const layout::ObjectId&, std::uint64_t offset, Done<DataRun> done) override {
    ++asked;
    DataRun run;
    for (const auto& [begin, after] : data) {
      if (after <= offset) continue;
      run = {std::max(begin, offset), knows_holes ? after : kNoData};
      break;
    }
    end([done = std::move(done), run]() mutable { done(run); });
  }
  void finish_all() {
    while (!waiting.empty()) {
      auto one = std::move(waiting.front());
      waiting.erase(waiting.begin());
      one();
    }
  }

  void read(StoreRead, Done<ReadResult>) override {}
  void write(StoreWrite, Done<WriteResult>) override {}
  void commit(const layout::ObjectId&, Done<WriteVerifier>) override {}
  void truncate(const layout::ObjectId&, std::uint64_t, Done<ObjectStat>) override {}
  void remove(const layout::ObjectId&, Done<void>) override {}
  void stat(const layout::ObjectId&, Done<ObjectStat>) override {}
  void punch(const layout::ObjectId&, std::uint64_t, std::uint64_t, Done<void>) override {}
  [[nodiscard]] WriteVerifier verifier() const override { return 1; }
  [[nodiscard]] Result<StoreStat> usage() const override { return StoreStat{}; }

 private:
  void end(std::move_only_function<void()> what) {
    if (!hold) return what();
    waiting.push_back(std::move(what));
  }
};

struct Fixture {
  SparseStore store;

  SeekAnswer seek(std::uint64_t from, bool hole) {
    std::optional<Result<SeekAnswer>> answer;
    seek_in_share(store, {kObject, from, kShare, hole},
                  [&](Result<SeekAnswer> got) { answer = std::move(got); });
    store.finish_all();
    REQUIRE(answer);
    return answer->value();
  }
  Result<> allocate(std::uint64_t offset, std::uint64_t length) {
    std::optional<Result<>> answer;
    allocate_share(store, {{kObject, offset, length}, kShare}, [&](Result<> got) {
      CHECK_FALSE(answer);
      answer = std::move(got);
    });
    store.finish_all();
    REQUIRE(answer);
    return *answer;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "of a range the units are reserved that the object holds") {
  store.hold = true;
  CHECK(allocate(100, 4 * kUnit + 10));  // 100 to 366: 64 to 128 is held, and 320 to 384
  CHECK(store.reserved == std::map<std::uint64_t, std::uint64_t>{{100, 28}, {320, 46}});
  store.reserved.clear();
  CHECK(allocate(128, 100));  // nothing of it
  CHECK(allocate(0, 0));
  CHECK(store.reserved.empty());
  CHECK(allocate(0, AllocateShare::kMaxUnits * 4 * kUnit - 1));
  CHECK(store.reserved.size() == AllocateShare::kMaxUnits);
  CHECK(store.reserved.rbegin()->second == kUnit);
}

TEST_CASE_METHOD(Fixture, "a reservation ends with the first error, when all has ended") {
  store.hold = GENERATE(false, true);
  store.full_at = 1000;
  CHECK(allocate(0, 1 << 20).error() == Errc::kNoSpace);
  CHECK(store.reserved.size() < 100);
}

TEST_CASE_METHOD(Fixture, "data and holes are looked for where the object holds the file") {
  store.hold = GENERATE(false, true);
  CHECK(seek(0, false).offset == SeekAnswer::kNone);
  CHECK(seek(0, true) == SeekAnswer{64, false});
  store.data = {{0, 64}, {64, 128}, {320, 350}, {1000, 1100}};
  CHECK(seek(0, false).offset == 64);
  CHECK(seek(70, false).offset == 70);
  CHECK(seek(128, false).offset == 320);
  CHECK(seek(0, true).offset == 350);
  CHECK(seek(350, true).offset == 350);
  CHECK(seek(340, false).offset == 340);
  CHECK(seek(384, false).offset == 1088);  // 1000 to 1088 is another's
  CHECK(seek(1100, false).offset == SeekAnswer::kNone);
  store.knows_holes = false;
  CHECK(seek(64, true).offset == SeekAnswer::kNone);
}

TEST_CASE_METHOD(Fixture, "a long search says how far it came") {
  store.hold = GENERATE(false, true);
  for (std::uint64_t unit = 0; unit < 6000; ++unit) {
    store.data[(4 * unit + 1) * kUnit] = (4 * unit + 2) * kUnit;
  }
  SeekAnswer found = seek(0, true);
  CHECK(found.more);
  CHECK(store.asked < 5000);
  found = seek(found.offset, true);
  CHECK(found == SeekAnswer{(4 * 6000 + 1) * kUnit, false});
}
