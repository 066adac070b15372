#include "dataserver/process/reload.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "dataserver/process/toml_fields.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

constexpr std::array<std::string_view, 2> kKeys = {"a.level", "a.rate"};

struct Rig {
  Rig() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
    sink->set_pattern("%l %v");
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::move(sink)));
  }
  ~Rig() { spdlog::set_default_logger(before); }
  void write(std::string_view text) const { std::ofstream(path) << text; }
  std::string reload(Reloader& reloader, Result<> applied = {}) {
    log.str("");
    reloader.reload([&] { return applied; });
    spdlog::default_logger()->flush();
    return log.str();
  }
  test::TempFolder folder;
  std::string path = folder.path() + "/c.toml";
  std::ostringstream log;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
};

TEST_CASE("values are what stands in the file, by key") {
  const auto values =
      toml_values("x = 1\n[a]\nb = \"c\"\nl = [\"1\", \"2\"]\nt = true\n[a.d]\ne = 2");
  CHECK(values.size() == 5);
  CHECK(values.at("x") == "1");
  CHECK(values.at("a.b") == "'c'");
  CHECK(values.at("a.t") == "true");
  CHECK(values.at("a.d.e") == "2");
  CHECK(toml_values("[").empty());
}

TEST_CASE("what changed is told, and whether it holds") {
  Rig rig;
  rig.write("[a]\nlevel = \"info\"\nother = 1\n");
  Reloader reloader(rig.path, kKeys);
  CHECK(rig.reload(reloader) == "info event=reloaded changed=0\n");
  rig.write("[a]\nlevel = \"debug\"\nother = 2\nrate = \"1 MiB\"\n");
  CHECK(rig.reload(reloader) ==
        "info event=reloaded key=a.level from='info' to='debug'\n"
        "warning event=reload_needs_restart key=a.other from=1 to=2\n"
        "info event=reloaded key=a.rate from=default to='1 MiB'\n");
  CHECK(rig.reload(reloader) == "info event=reloaded changed=0\n");
}

TEST_CASE("a file that is not good changes nothing") {
  Rig rig;
  rig.write("[a]\nlevel = \"info\"\n");
  Reloader reloader(rig.path, kKeys);
  rig.write("[a]\nlevel = \"debug\"\nwhat = 1\n");
  CHECK(rig.reload(reloader, fail(Errc::kInvalid, "c.toml:3: unknown key")) ==
        "error event=reload_refused why=\"c.toml:3: unknown key\"\n");
  rig.write("[a]\nlevel = \"debug\"\n");
  CHECK(rig.reload(reloader) == "info event=reloaded key=a.level from='info' to='debug'\n");
}

}  // namespace
}  // namespace weft::ds
