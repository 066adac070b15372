#include "tools/weft/bench.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <sstream>
#include <thread>

namespace weft::cli {
namespace {

struct BenchTest {
  BenchTest() {
    char path[] = "/tmp/weft-bench-test.XXXXXX";
    REQUIRE(::mkdtemp(path) != nullptr);
    options.folder = path;
  }
  ~BenchTest() { std::filesystem::remove_all(options.folder); }
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(options.folder); }

  BenchOptions options{
      .threads = 2, .stream_bytes = (3 << 20) + 5, .files = 20, .small_bytes = 100, .limit_s = 60};
  std::atomic<bool> stop = false;
};

}  // namespace

TEST_CASE_METHOD(BenchTest, "a benchmark does what it was told, and leaves nothing", "[weft]") {
  const auto report = run_bench(options, stop);
  REQUIRE(report);
  std::ostringstream steps;
  for (const BenchStep& step : report->steps) {
    steps << step.name << ' ' << step.operations << ' ' << step.bytes << '\n';
  }
  CHECK(steps.str() ==
        "stream write 8 6291466\nstream read 8 6291466\ncreate 40 0\nstat 40 0\nunlink 40 0\n"
        "small write 40 4000\nsmall read 40 4000\n");
  CHECK(empty());
  const std::string text = bench_text(options, *report);
  CHECK(text.contains("it is not on an NFS mount"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(bench_json(options, *report)["steps"][3]["operations"] == 40);
}

TEST_CASE_METHOD(BenchTest, "a benchmark does only what is asked for", "[weft]") {
  options.only = {"names"};
  const auto report = run_bench(options, stop);
  REQUIRE(report);
  REQUIRE(report->steps.size() == 3);
  CHECK(report->steps[0].name == "create");
}

TEST_CASE_METHOD(BenchTest, "a step ends in time, and what follows does what there is", "[weft]") {
  options.only = {"names"};
  options.files = 1'000'000;
  options.limit_s = 0.1;
  const auto report = run_bench(options, stop);
  REQUIRE(report);
  CHECK(report->steps[0].seconds < 30);
  CHECK(report->steps[0].operations < 2'000'000);
  CHECK(report->steps[1].operations <= report->steps[0].operations);
  CHECK(empty());
}

TEST_CASE_METHOD(BenchTest, "one that is interrupted leaves nothing", "[weft]") {
  options.files = 1'000'000;
  std::jthread interrupt([this] {
    while (empty()) std::this_thread::yield();
    stop = true;
  });
  const auto report = run_bench(options, stop);
  REQUIRE_FALSE(report);
  CHECK(report.error() == Errc::kCancelled);
  interrupt.join();
  CHECK(empty());
}

TEST_CASE_METHOD(BenchTest, "nothing is begun where it cannot be", "[weft]") {
  SECTION("no room") {
    options.stream_bytes = std::uint64_t{1} << 44;
    options.threads = 256;
    CHECK(run_bench(options, stop).error() == Errc::kNoSpace);
  }
  SECTION("no such folder") {
    options.folder += "/absent";
    CHECK(run_bench(options, stop).error() == Errc::kNotFound);
    options.folder = std::filesystem::path(options.folder).parent_path();
  }
  CHECK(empty());
}

}  // namespace weft::cli
