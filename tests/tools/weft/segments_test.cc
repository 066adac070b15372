#include "tools/weft/segments.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {

TEST_CASE("ds segments: what is there, and which share of reads it answered", "[weft]") {
  mds::SegmentsReport report;
  report.data_servers.push_back({.server = {1, "ds-1"},
                                 .kept = true,
                                 .counts = {.segments = 3,
                                            .bytes = 12 << 20,
                                            .most_bytes = 1 << 30,
                                            .memory_bytes = 4 << 20,
                                            .most_memory_bytes = 256 << 20,
                                            .reads = 1000,
                                            .hits = 800,
                                            .waits = 100,
                                            .hit_bytes = 900 << 16,
                                            .loads = 3,
                                            .loaded_bytes = 12 << 20,
                                            .built = 4,
                                            .built_bytes = 16 << 20,
                                            .invalidated = 1,
                                            .replaced = 0,
                                            .damaged = 0},
                                 .why = ""});
  report.data_servers.push_back(
      {.server = {2, "ds-2"}, .kept = false, .counts = {}, .why = "it keeps no segments"});
  CHECK(segments_text(report) ==
        "ID  NAME  SEGMENTS   ON DISK        OF  IN MEMORY       OF\n"
        " 1  ds-1         3  12.0 MiB  1.00 GiB   4.00 MiB  256 MiB\n"
        "\n"
        "since they started:\n"
        "ID  READS    HITS  WAITED      READ     BUILT  CHANGED  REPLACED  DAMAGED\n"
        " 1  1,000  90.0 %  10.0 %  12.0 MiB  16.0 MiB        1         0        0\n"
        "\n"
        "data server 2 (ds-2): it keeps no segments\n");
}

TEST_CASE("ds segments: fits a terminal of 80 columns", "[weft]") {
  mds::SegmentsReport report;
  report.data_servers.push_back({.server = {12, "storage-12"},
                                 .kept = true,
                                 .counts = {.segments = 4096,
                                            .bytes = std::uint64_t{64} << 30,
                                            .most_bytes = std::uint64_t{64} << 30,
                                            .memory_bytes = 999 << 20,
                                            .most_memory_bytes = 999 << 20,
                                            .reads = 99'999'999,
                                            .hits = 9'999'999,
                                            .waits = 1,
                                            .hit_bytes = 1,
                                            .loads = 1,
                                            .loaded_bytes = std::uint64_t{999} << 30,
                                            .built = 1,
                                            .built_bytes = std::uint64_t{999} << 30,
                                            .invalidated = 99'999,
                                            .replaced = 99'999,
                                            .damaged = 0},
                                 .why = ""});
  const std::string text = segments_text(report);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    CHECK(end - at <= 80);
    at = end + 1;
  }
}

TEST_CASE("ds segments: where nobody keeps any", "[weft]") {
  mds::SegmentsReport report;
  report.data_servers.push_back({.server = {1, "a"}, .kept = false, .counts = {}, .why = "none"});
  CHECK(segments_text(report) == "data server 1 (a): none\n");
  CHECK(segments_text({}) == "there are no data servers\n");
}

}  // namespace weft::cli
