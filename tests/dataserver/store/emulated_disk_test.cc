#include "dataserver/store/emulated_disk.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "dataserver/store/cache_metrics.h"
#include "layout/performance.h"
#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using Catch::Approx;
using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint32_t kRead = 65536;
const layout::ObjectId kObject{.fileid = 7, .generation = 1, .fsid = 1};
const layout::ObjectId kOther{.fileid = 8, .generation = 1, .fsid = 1};

EmulatedDiskOptions slow() {
  return {.rate = 51 * kMiB,
          .seek = 3800us,
          .rotation = 2000us,
          .capacity = 256 * kMiB,
          .memory = 0,
          .seed = 3};
}

double seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// A disk of which one thing is asked at a time, on a clock that goes on with it.
struct Rig {
  explicit Rig(const EmulatedDiskOptions& options) : disk(options, clock) {}
  double wait(TimePoint when) {
    const Nanoseconds takes = when - clock.now();
    clock.advance(takes);
    return seconds(takes);
  }
  double read(std::uint64_t offset, std::uint64_t size, const layout::ObjectId& of = kObject) {
    return wait(disk.read(of, offset, size));
  }
  double write(std::uint64_t offset, std::uint64_t size, Stability wanted = Stability::kUnstable) {
    return wait(disk.write(kObject, offset, size, wanted));
  }
  double commit() { return wait(disk.commit(kObject)); }

  ManualClock clock;
  EmulatedDisk disk;
};

struct Measured {
  double mean = 0;
  double square = 0;
};

// Reads of 64 KiB at places drawn evenly from the whole disk.
Measured random_reads(const EmulatedDiskOptions& options, std::uint64_t seed, int count = 20000) {
  Rig rig(options);
  for (std::uint64_t at = 0; at < options.capacity; at += kRead) rig.read(at, kRead);
  SeededRandom random(seed);
  Measured found;
  for (int i = 0; i < count; ++i) {
    const double took = rig.read(random.below(options.capacity / kRead) * kRead, kRead);
    found.mean += took / count;
    found.square += took * took / count;
  }
  return found;
}

TEST_CASE("a random read takes a seek, half a turn and the transfer") {
  const layout::NodeModel model;
  const auto moments = layout::disk_moments(model, kRead);
  const Measured found = random_reads(slow(), 1);
  CHECK(found.mean == Approx(moments.mean).epsilon(.01));
  CHECK(found.square == Approx(moments.square).epsilon(.02));
}

TEST_CASE("what is written in a row is read in a row, at the full rate") {
  Rig rig(slow());
  rig.write(0, kRead);
  double took = 0;
  for (std::uint64_t at = kRead; at < 16 * kMiB; at += kRead) took += rig.write(at, kRead);
  CHECK(took == Approx((16.0 * kMiB - kRead) / (51.0 * kMiB)).epsilon(1e-6));
  rig.read(0, kRead);
  took = 0;
  for (std::uint64_t at = kRead; at < 16 * kMiB; at += kRead) took += rig.read(at, kRead);
  CHECK(took == Approx((16.0 * kMiB - kRead) / (51.0 * kMiB)).epsilon(1e-6));
  CHECK(took * 4 < 255 * random_reads(slow(), 1, 1000).mean);
}

TEST_CASE("an object's holes take no room on the disk") {
  Rig rig(slow());
  rig.write(0, kRead);
  CHECK(rig.write(40 * kRead, kRead) == Approx(kRead / (51.0 * kMiB)).epsilon(1e-6));
}

TEST_CASE("operations of one disk wait for each other") {
  Rig rig(slow());
  const TimePoint first = rig.disk.read(kObject, 0, kRead);
  const TimePoint second = rig.disk.read(kOther, 5 * kRead, kRead);
  CHECK(second > first);
  CHECK(seconds(rig.disk.counts().busy) == Approx(seconds(second - rig.clock.now())).epsilon(1e-9));
  rig.clock.advance(10s);
  CHECK(rig.disk.read(kObject, 9 * kRead, kRead) < rig.clock.now() + 100ms);
}

TEST_CASE("the same seed gives the same times, another one others") {
  const double once = random_reads(slow(), 1, 500).mean;
  CHECK(random_reads(slow(), 1, 500).mean == once);
  EmulatedDiskOptions other = slow();
  other.seed = 4;
  CHECK(random_reads(other, 1, 500).mean != once);
}

TEST_CASE("the cache hits as often as it is large") {
  EmulatedDiskOptions options = slow();
  options.capacity = 64 * kMiB;
  for (const double part : {.25, .5, .8}) {
    options.memory = static_cast<std::uint64_t>(part * 64 * kMiB);
    Rig rig(options);
    SeededRandom random(5);
    for (int i = 0; i < 8000; ++i) rig.read(random.below(1024) * kRead, kRead);
    const auto before = rig.disk.counts();
    for (int i = 0; i < 8000; ++i) rig.read(random.below(1024) * kRead, kRead);
    const auto after = rig.disk.counts();
    const auto found = static_cast<double>(after.pages_found - before.pages_found);
    CHECK(found / (8000 * 16) == Approx(part).margin(.02));
    CHECK(static_cast<double>(after.operations - before.operations) ==
          Approx(8000 * (1 - part)).margin(160));
  }
}

TEST_CASE("metrics count the pages that are read from the cache and from the disk") {
  EmulatedDiskOptions options = slow();
  options.memory = 16 * kMiB;
  Rig rig(options);
  rig.read(0, kRead);
  rig.read(0, kRead);
  rig.read(0, kRead);
  Metrics metrics;
  write_emulated_metrics(rig.disk, "weft_ds", metrics);
  CHECK(metrics.text().contains("\nweft_ds_emulated_pages_found_total 32\n"));
  CHECK(metrics.text().contains("\nweft_ds_emulated_pages_missed_total 16\n"));
}

TEST_CASE("unstable writes wait in the cache for a commit, and go out in order of place") {
  EmulatedDiskOptions options = slow();
  options.memory = 128 * kMiB;
  Rig rig(options);
  rig.read(0, 8 * kMiB);  // gives places out
  const auto before = rig.disk.counts();
  SeededRandom random(5);
  for (int i = 0; i < 400; ++i) CHECK(rig.write(random.below(128) * kRead, kRead) == 0);
  for (std::uint64_t at = 0; at < 8 * kMiB; at += kRead) CHECK(rig.write(at, kRead) == 0);
  CHECK(rig.read(kMiB, kRead) == 0);
  CHECK(rig.disk.counts().operations == before.operations);
  const double took = rig.commit();
  CHECK(rig.disk.counts().operations == before.operations + 1);
  CHECK(took > 8.0 / 51);
  CHECK(took < 8.0 / 51 + .02);
  CHECK(rig.commit() == 0);
  CHECK(rig.write(0, kRead, Stability::kFileSync) > 0);
}

TEST_CASE("more than half a cache of unwritten data makes every writer wait") {
  EmulatedDiskOptions options = slow();
  options.memory = 16 * kMiB;
  Rig rig(options);
  double took = 0;
  for (std::uint64_t at = 0; at < 64 * kMiB; at += kRead) took += rig.write(at, kRead);
  CHECK(took > 54.0 / 51);
  took += rig.commit();
  CHECK(took == Approx(64.0 / 51).epsilon(.05));
  // Many at once: what they leave unwritten is bounded all the same.
  TimePoint last = rig.clock.now();
  for (std::uint64_t at = 0; at < 64 * kMiB; at += kRead) {
    last = rig.disk.write(kObject, at, kRead, Stability::kUnstable);
  }
  CHECK(seconds(last - rig.clock.now()) > 54.0 / 51);
  CHECK(seconds(rig.disk.commit(kObject) - last) < 10.0 / 51 + .05);
}

TEST_CASE("an object that was removed leaves nothing to write") {
  EmulatedDiskOptions options = slow();
  options.memory = 64 * kMiB;
  Rig rig(options);
  rig.write(0, kMiB);
  rig.disk.remove(kObject);
  const auto before = rig.disk.counts();
  CHECK(rig.commit() == 0);
  CHECK(rig.disk.counts().operations == before.operations);
}

// EmulatedStore over a FileStore.
struct Emulated : public test::StoreRunner {
  Emulated(const std::string& path, const EmulatedDiskOptions& options)
      : StoreRunner({.path = path}),
        disk(options, system_clock()),
        slow_store(store(), disk, system_clock()) {}
  Store& any() override { return slow_store; }
  EmulatedDisk disk;
  EmulatedStore slow_store;
};

TEST_CASE("a store over an emulated disk answers the same, later") {
  const test::TempFolder folder;
  Emulated run(folder.path(), {.rate = kMiB, .seek = 0us, .rotation = 0us, .capacity = kMiB});
  const std::string text(100'000, 'x');
  auto began = std::chrono::steady_clock::now();
  REQUIRE(run.write(kObject, 0, text));
  CHECK(std::chrono::steady_clock::now() - began >= 95ms);
  CHECK(run.write_piped(kObject, 100'000, "yy")->object_end == 100'002);
  began = std::chrono::steady_clock::now();
  CHECK(run.text(kObject, 0, 100'000) == text);
  CHECK(std::chrono::steady_clock::now() - began >= 95ms);
  CHECK(run.text(kObject, 99'999, 10) == "xyy");
  CHECK(run.commit(kObject).value() == run.any().verifier());
  CHECK(run.stat(kObject)->size == 100'002);
  CHECK(run.truncate(kObject, 5)->size == 5);
  CHECK(run.remove(kObject));
  CHECK(run.text(kObject, 0, 10).starts_with("error: "));
}

}  // namespace
}  // namespace weft::ds
