#include "tools/weft/clients.h"

#include <catch2/catch_test_macros.hpp>
#include <sstream>

namespace weft::cli {

TEST_CASE("clients fit 80 columns", "[weft]") {
  const mds::ClientsReport report{
      .lease_ms = 60'000,
      .count = 2,
      .clients = {{.id = 0x65656b5a00000002,
                   .address = "192.0.2.205",
                   .owner = "Linux NFSv4.2 node205",
                   .minor_version = 2,
                   .opens = 12'345,
                   .reading = 1'234,
                   .writing = 123,
                   .recalled = 2,
                   .oldest_recall_ms = 5'000,
                   .renewed_ms = 12'000,
                   .reads = 3,
                   .read_bytes = 4'096,
                   .writes = 1'234'567,
                   .written_bytes = 1'099'511'627'776,
                   .no_way = {{3, "d3"}, {4, "d4"}}},
                  {.id = 2, .address = "", .owner = "\x1b[2J", .minor_version = 0}}};
  const std::string text = clients_text(report);
  CHECK(text ==
        R"(2 clients; a lease lasts 1 min 0 s

    ADDRESS  NFS   OPENS  READING  WRITING  RECALLED  SLOWEST RECALL
192.0.2.205  4.2  12,345    1,234      123         2           5.0 s
          -  4.0       0        0        0         0               -

through the metadata server
    ADDRESS  LEASE RENEWED  READS      READ     WRITES   WRITTEN
192.0.2.205     12.0 s ago      3  4.00 KiB  1,234,567  1.00 TiB
          -       0 ms ago      0       0 B          0       0 B

    ADDRESS                ID  NAME
192.0.2.205  65656b5a00000002  Linux NFSv4.2 node205
          -                 2  \x1b[2J

192.0.2.205 is in no network of d3, d4: it gets no layouts there
)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(clients_text({}) == "no client has a lease\n");
}

}  // namespace weft::cli
