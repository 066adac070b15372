// Targets killed and stopped at random points of a write load that is verified. More of them with
// WEFT_TARGET_FAULTS.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "tests/dataserver/targets/target_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::RemoteRunner;
using test::TargetChild;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};
constexpr std::uint64_t kBlocks = 24;
constexpr std::size_t kBytes = std::size_t{64} << 10;

// In rounds: each writes its letters over all blocks and commits, and has succeeded when the
// verifiers of commit and writes agree, as an NFS client counts it. Each third one writes what is
// to be stable instead, and has succeeded when all writes have.
struct VerifiedLoad {
  [[nodiscard]] bool round(unsigned number) {
    const bool stable = number % 3 == 0;
    std::vector<std::optional<Result<WriteResult>>> results(kBlocks);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      std::vector<Buffer> data;
      data.push_back(runner.buffer(block(number, i)));
      runner.any().write(kObject, i * kBytes, std::move(data),
                         stable ? Stability::kFileSync : Stability::kUnstable,
                         [&results, i](Result<WriteResult> r) { results[i] = std::move(r); });
    }
    REQUIRE(runner.eventually(
        [&] { return std::ranges::all_of(results, [](const auto& r) { return r.has_value(); }); }));
    if (stable) return std::ranges::all_of(results, [](const auto& r) { return r->has_value(); });
    const auto committed = runner.commit(kObject);
    return committed && std::ranges::all_of(results, [&](const auto& result) {
             return *result && (*result)->verifier == *committed;
           });
  }
  static std::string block(unsigned number, std::uint64_t i) {
    return std::string(kBytes, static_cast<char>('a' + (number + i) % 26));
  }
  void check(unsigned number) const {
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      REQUIRE(runner.text(kObject, i * kBytes, kBytes) == block(number, i));
    }
  }
  RemoteRunner& runner;
};

// One fault some milliseconds from now.
class Fault {
 public:
  Fault(const TargetRig& rig, std::unique_ptr<TargetChild>& child, RemoteRunner& runner,
        Random& random)
      : rig_(rig), child_(child), random_(random), timer_(runner.ring().context()) {
    timer_.expires_after(std::chrono::microseconds(random.below(8000)));
    timer_.async_wait([this](const boost::system::error_code&) { strike(); });
  }
  [[nodiscard]] bool over() const { return over_; }

 private:
  void strike() {
    if (random_.below(3) != 0) {
      child_.reset();
      child_ = std::make_unique<TargetChild>(rig_);
      over_ = true;
      return;
    }
    child_->tell(SIGSTOP);
    // Now and then for longer than a target may say nothing.
    timer_.expires_after(random_.below(4) == 0 ? 1500ms : 20ms);
    timer_.async_wait([this](const boost::system::error_code&) {
      child_->tell(SIGCONT);
      over_ = true;
    });
  }

  const TargetRig& rig_;
  std::unique_ptr<TargetChild>& child_;
  Random& random_;
  boost::asio::steady_timer timer_;
  bool over_ = false;
};

TEST_CASE("a target killed and stopped at random loses nothing acknowledged, and no page") {
  const TargetRig rig;
  auto child = std::make_unique<TargetChild>(rig);
  RemoteRunner runner(rig, rig.local());
  VerifiedLoad load{runner};
  SeededRandom random(11);
  const char* wanted = std::getenv("WEFT_TARGET_FAULTS");
  const int faults = wanted != nullptr ? std::atoi(wanted) : 30;
  unsigned number = 0;
  for (int i = 0; i < faults; ++i) {
    const Fault fault(rig, child, runner, random);
    do {
      ++number;
      while (!load.round(number)) {
      }
      load.check(number);
    } while (!fault.over());
  }
  load.check(number);
  CHECK(runner.view().timed_out == 0);
  CHECK(runner.view().connections >= static_cast<unsigned>(faults) / 3);
  CHECK(runner.eventually([&] { return runner.pool().in_use_bytes() == 0; }));
}

}  // namespace
}  // namespace weft::ds
