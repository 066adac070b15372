// Targets that are named: where a connection goes, and what is said of a name that nobody knows.
#include "dataserver/targets/target_lookup.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/dataserver/targets/target_rig.h"
#include "tests/rpc/log_lines.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using test::quick_link;
using test::RemoteRunner;
using test::TargetRig;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

TEST_CASE("a target is reached by its name, whichever of its addresses it listens at") {
  const TargetRig rig;
  const auto target = rig.start();  // at 127.0.0.1 alone; localhost may be ::1 as well
  LinkOptions options = quick_link();
  options.prefer_shared_memory = false;
  const std::string text = "tcp:localhost:" + std::to_string(target->ports().at(0));
  RemoteRunner runner(rig, parse_target_address(text).value(), options);
  REQUIRE(runner.write(kObject, 0, "by name"));
  CHECK(runner.text(kObject, 0, 10) == "by name");
  CHECK(runner.view().transport == TargetTransport::kTcp);
}

TEST_CASE("a name of a target that nobody knows is told, and looked up again") {
  rpc::test::LogLines log;
  const TargetRig rig;
  RemoteRunner runner(rig, parse_target_address("tcp:target.invalid:9640").value());
  std::string said;
  CHECK(runner.eventually([&] {
    for (const std::string& line : log.take()) said += line + "\n";
    return said.contains("event=target_away target=tcp:target.invalid:9640 link=0");
  }));
  CHECK(said.contains("target.invalid"));
  CHECK(runner.view().connections == 0);
}

TEST_CASE("a lookup that was given up says nothing more, and each failure is another address") {
  boost::asio::io_context context;
  const auto lookup = std::make_shared<TargetLookup>(context, "localhost");
  bool told = false;
  lookup->start([&](const Result<std::string>&) { told = true; });
  CHECK(lookup->running());
  lookup->cancel();
  CHECK_FALSE(lookup->running());
  context.run();
  CHECK_FALSE(told);
  std::set<std::string> found;
  for (int i = 0; i < 4; ++i) {
    lookup->start([&](Result<std::string> ip) { found.insert(std::move(ip).value()); });
    context.restart();
    context.run();
    lookup->try_next();
  }
  CHECK(found.contains("127.0.0.1"));
}

}  // namespace
}  // namespace weft::ds
