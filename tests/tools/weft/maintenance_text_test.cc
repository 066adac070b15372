#include <catch2/catch_test_macros.hpp>

#include "ganesha-fsal/admin/words.h"
#include "tools/weft/report.h"

namespace weft::cli {
namespace {

std::string text_of(std::string action, auto... change) {
  mds::MaintenanceReport report{.action = std::move(action)};
  (change(report), ...);
  return maintenance_text(report);
}

void at_a(mds::MaintenanceReport& report) { report.server = {3, "ds-a"}; }
void left(mds::MaintenanceReport& report) { report.objects_left = 12; }
void many_left(mds::MaintenanceReport& report) { report.objects_left = mds::kMostObjectsCounted; }
void none_left(mds::MaintenanceReport& report) { report.objects_left = 0; }
void ran(mds::MaintenanceReport& report) { report.was_running = true; }
void idle(mds::MaintenanceReport& report) { report.was_running = false; }
void one_file(mds::MaintenanceReport& report) { report.fileid = 77; }

}  // namespace

TEST_CASE("people are told what is done with a data server", "[weft]") {
  CHECK(text_of("drain", at_a, left) ==
        "data server 3 (ds-a) is draining: 12 objects to move. See weft ds list.\n");
  CHECK(text_of("drain", at_a, many_left)
            .starts_with("data server 3 (ds-a) is draining: at least 100000 objects to move. "));
  CHECK(text_of("remove", at_a, many_left).contains("What it had, at least 100000 objects, is "));
  CHECK(text_of("undrain", at_a) ==
        "data server 3 (ds-a) serves again; what was moved stays where it is\n");
  CHECK(text_of("remove", at_a, none_left) == "data server 3 (ds-a) is removed\n");
  CHECK(
      text_of("remove", at_a, left).starts_with("data server 3 (ds-a) is gone. What it had, 12 "));
  CHECK(text_of("accept", at_a).starts_with("data server 3 (ds-a) is used with the store"));
  const auto target = [](auto& report) { report.target = 2; };
  CHECK(text_of("give-up", at_a, target)
            .starts_with("the parity group of data server 3 (ds-a) goes on without target 2. "));
  CHECK(text_of("scrub-resolve", at_a, one_file)
            .starts_with("copies of fileid 77 that differ from that at data server 3 (ds-a) are "));
  const auto evil = [](auto& report) { report.server->name = "a\nb"; };
  CHECK(text_of("undrain", at_a, evil).starts_with("data server 3 (a\\x0ab) "));
}

TEST_CASE("people are told what begins and what ends", "[weft]") {
  CHECK(text_of("scrub") == "the copies of all files are compared: weft scrub status\n");
  CHECK(text_of("scrub-check", one_file) ==
        "its copies are compared, and nothing is changed: weft scrub status\n");
  CHECK(text_of("scrub-stop", idle) == "no scrub runs\n");
  const auto groups = [](auto& report) {
    report.groups = {{{1, "ds1"}, ""}, {{2, "ds2"}, "unreachable"}};
  };
  CHECK(text_of("scrub-stop", ran, groups) ==
        "the scrub ends\nthe parity group of data server 1 (ds1) is not gone through any more\n"
        "data server 2 (ds2): unreachable\n");
  CHECK(text_of("scrub", groups)
            .ends_with("the parity group of data server 1 (ds1) is gone through\n"
                       "data server 2 (ds2): unreachable\n"));
  CHECK(text_of("rebalance") == "rebalancing: weft status\n");
  CHECK(text_of("rebalance-stop", ran) == "nothing more is begun; what has begun is finished\n");
  CHECK(text_of("rebalance-stop", idle) == "no rebalance runs\n");
  CHECK(text_of("audit").ends_with("the files there are: weft audit status\n"));
  CHECK(text_of("audit-check").ends_with("and nothing is changed: weft audit status\n"));
  CHECK(text_of("audit-stop", ran) == "the audit ends\n");
  CHECK(text_of("audit-stop", idle) == "no audit runs\n");
}

TEST_CASE("people are told what a rebalance would do", "[weft]") {
  const auto plan = [](auto& report) { report.plan = {0.31, 0.042, false, {{1, 2, 3, 5 << 20}}}; };
  CHECK(text_of("rebalance-plan", plan) ==
        "fullest and emptiest are 31.0 % apart now, and 4.2 % after\n"
        "data server 1 to 2: 3 objects, 5.00 MiB\n"
        "there is more: not all objects were looked at\n");
}

TEST_CASE("people are told what an audit found", "[weft]") {
  mds::AuditReport audit;
  const auto text = [&audit] {
    return text_of("audit-status", [&audit](auto& report) { report.audit = audit; });
  };
  CHECK(text() == "no audit since the metadata server started\n");
  audit.running = true;
  audit.age_ms = 90'000;
  CHECK(text().starts_with("audit running for 1 min\n"));
  audit = {.only_tell = true,
           .rounds = 1,
           .age_ms = 300'000,
           .servers = 2,
           .objects = 9,
           .strays = 2,
           .removed = 1,
           .foreign = 1,
           .bytes = 1500,
           .found = {{{1, "ds1"}, "1.2.3", 1025, "left"}, {{2, ""}, "1.2.4", 0, "foreign"}},
           .failures = {{{3, "ds3"}, "away"}}};
  CHECK(text() ==
        "audit that changed nothing ended 5 min ago\n"
        "2 data servers gone through, 9 objects\n"
        "2 strays, 1 of them queued for removal; 1 of files that were never made here;\n"
        "1.46 KiB in all\n"
        "data server 1 (ds1): 1.2.3, 1.00 KiB, left\n"
        "data server 2: 1.2.4, 0 B, left: of a file that was never made here\n"
        "and 1 more (event=stray in the log)\n"
        "data server 3 (ds3) was not gone through to the end: away\n");
}

}  // namespace weft::cli
