#include "ganesha-fsal/server/events.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "ganesha-fsal/server/admin_reports.h"
#include "rpc/xdr/describe_json.h"
#include "tests/ganesha-fsal/server/server_fixture.h"

namespace weft::mds {
namespace {

struct EventsTest {
  // What is told, oldest first: "warning 3 text".
  [[nodiscard]] std::vector<std::string> told(std::uint64_t after = 0) const {
    std::vector<std::string> out;
    for (const EventReport& event : events->after(after).events) {
      out.push_back(fmt::format("{} {} {}", to_string(event.level),
                                event.server ? std::to_string(event.server->id) : "-", event.text));
    }
    return out;
  }
  void restart() {
    events->save();
    events = std::make_unique<Events>(clock);
    events->note(EventLevel::kNote, "event=server_started version=2 boot_epoch=3");
    events->keep(folder.path("events"));
  }

  TempFolder folder;
  ManualClock clock;
  std::unique_ptr<Events> events = std::make_unique<Events>(clock);
};

}  // namespace

TEST_CASE_METHOD(EventsTest, "events: lines of the log are told as sentences") {
  events->note(EventLevel::kNote, "event=data_server_connected ds=3");
  events->note(EventLevel::kWarning,
               R"(event=data_server_refused name="a\x22b" from=192.0.2.9:7 why="not "that" one")");
  // Texts of peers say nothing of whom it is about: what comes first counts.
  events->note(EventLevel::kWarning,
               R"(event=data_server_disconnected ds=3 why="reset" ds=4 why="other")");
  events->note(EventLevel::kError, R"(event=fences_unread ds=5 why="disk" extra=1)");
  events->note(EventLevel::kWarning, R"(event=control_dropped from=a why="all of it": and more)");
  CHECK(told() ==
        std::vector<std::string>{
            "note 3 connected",
            R"(warning - a\x22b at 192.0.2.9:7 is refused as a data server: not "that" one)",
            "warning 3 connection lost: reset", "error 5 fences unread: why=disk, extra=1",
            "warning - a did not get in as a data server: all of it"});
}

TEST_CASE_METHOD(EventsTest, "events: what is no event, or of no interest, is not told") {
  for (const char* line :
       {"export id=1 released", "event=", "event=UP ds=1", "event =x", "", "event=made/up ds=1"}) {
    events->note(EventLevel::kError, line);
  }
  events->note(EventLevel::kNote, "event=device_made number=1 servers=2");
  CHECK(told().empty());
  CHECK(events->after(0).newest == 0);
  // A number that is none, or too large.
  events->note(EventLevel::kWarning, "event=copy_stale file=7 ds=99999999999");
  events->note(EventLevel::kWarning, "event=copy_stale file=8 ds=-1");
  CHECK(told() == std::vector<std::string>{"warning - copy of file 8 misses writes"});
}

TEST_CASE_METHOD(EventsTest, "events: what happens again soon is one event, at the end") {
  events->note(EventLevel::kWarning, "event=copy_stale file=a ds=1");
  events->note(EventLevel::kWarning, "event=copy_stale file=a ds=2");
  clock.advance(std::chrono::seconds(50));
  events->note(EventLevel::kWarning, "event=copy_stale file=b ds=1");
  REQUIRE(told() == std::vector<std::string>{"warning 2 copy of file a misses writes",
                                             "warning 1 copy of file b misses writes"});
  EventReport last = events->after(0).events.back();
  CHECK(last.times == 2);
  CHECK(last.number == 3);
  CHECK(last.first_ms == 1000);
  CHECK(last.at_ms == 51'000);
  CHECK(told(2).size() == 1);
  CHECK(told(3).empty());
  clock.advance(Events::kTogether + std::chrono::milliseconds(1));
  events->note(EventLevel::kWarning, "event=copy_stale file=c ds=1");
  CHECK(events->after(0).events.size() == 3);
  CHECK(events->after(0).events.back().times == 1);
}

TEST_CASE_METHOD(EventsTest, "events: each file that was written after a backup is one event") {
  constexpr const char* kLine =
      "event=changed_since_backup fileid={} path=\"/d {}\" what=\"was written\"";
  for (const int file : {7, 8, 7}) {
    events->note(EventLevel::kNote, fmt::format(fmt::runtime(kLine), file, file));
  }
  events->note(EventLevel::kNote, "event=changed_since_backup_more files=3");
  events->note(EventLevel::kNote, "event=changed_since_backup_more files=5");
  CHECK(told() == std::vector<std::string>{
                      "note - /d 8 (fileid 8) was written after the backup",
                      "note - /d 7 (fileid 7) was written after the backup",
                      "note - 5 more files grew or were written after the backup: the log has "
                      "their fileids"});
}

TEST_CASE_METHOD(EventsTest, "events: the oldest go") {
  for (unsigned ds = 1; ds <= Events::kMost + 5; ++ds) {
    events->note(EventLevel::kNote, fmt::format("event=data_server_connected ds={}", ds));
  }
  const EventsReport report = events->after(0);
  CHECK(report.events.size() == Events::kMost);
  CHECK(report.events.front().server->id == 6);
  CHECK(report.newest == Events::kMost + 5);
}

TEST_CASE_METHOD(EventsTest, "events: they survive the process") {
  events->keep(folder.path("events"));
  events->note(EventLevel::kWarning, "event=copy_stale file=a ds=1");
  events->note(EventLevel::kWarning, "event=data_server_refused name=\"\xff\" from=x why=\"y\"");
  const auto before = told();
  clock.advance(std::chrono::minutes(2));
  restart();
  auto after = told();
  REQUIRE(after.size() == 3);
  CHECK(after.back() == "note - metadata server 2 started");
  after.pop_back();
  CHECK(after == before);
  CHECK(events->after(0).newest == 3);
  // What a process has noted before it takes over the file is apart.
  restart();
  CHECK(events->after(0).events.back().number == 4);
}

TEST_CASE_METHOD(EventsTest, "events: a file that is none is begun anew") {
  for (const char* text :
       {"", "{", "[]", R"({"newest":1})", R"({"newest":0,"events":[{"number":1}]})"}) {
    events = std::make_unique<Events>(clock);
    std::ofstream(folder.path("events"), std::ios::trunc) << text;
    restart();
    CHECK(told() == std::vector<std::string>{"note - metadata server 2 started"});
    events->save();
    restart();
    CHECK(told().size() == 2);
  }
  EventReport event{.number = 2, .event = "x", .server = {}, .text = "y"};
  EventsReport report{.newest = 2, .events = {event}};
  CHECK(read_events(write_json(to_json(report))));
  report.newest = 1;
  CHECK_FALSE(read_events(write_json(to_json(report))));
  report.newest = UINT64_MAX;
  CHECK_FALSE(read_events(write_json(to_json(report))));
  report = {.newest = 2, .events = {event, event}};
  CHECK_FALSE(read_events(write_json(to_json(report))));
}

TEST_CASE_METHOD(EventsTest, "events: a disk that takes nothing costs the file only") {
  events->keep(folder.path("absent/events"));
  events->note(EventLevel::kWarning, "event=copy_stale file=a ds=1");
  events->save();
  CHECK(told().size() == 1);
  std::filesystem::create_directory(folder.path("absent"));
  events->save();
  CHECK(std::filesystem::exists(folder.path("absent/events")));
}

TEST_CASE_METHOD(ServerTest, "server: events are told with the data servers' names") {
  Events events(clock);
  auto environment = this->environment();
  environment.events = &events;
  auto started = MetadataServer::start(options, environment, store);
  REQUIRE(started);
  server = std::move(*started);
  events.note(EventLevel::kNote, "event=data_server_connected ds=3");
  const auto table = make_admin_table(*server);
  const auto report = table.ask(admin::GetEvents{});
  REQUIRE(report);
  REQUIRE(report->events.size() == 1);
  CHECK(report->events[0].server->name.empty());  // it was removed since
  CHECK(table.ask(admin::GetEvents{.after = 1})->events.empty());
}

}  // namespace weft::mds
