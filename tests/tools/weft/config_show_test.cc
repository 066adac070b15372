#include "tools/weft/config_show.h"

#include <catch2/catch_test_macros.hpp>

namespace weft::cli {

TEST_CASE("options are told with what is no default", "[weft]") {
  const mds::ConfigReport report{
      .options = {{"Key_File", "/etc/weft/cluster.key", ""}, {"Resync_Rate", "100", "100"}},
      .exports = {{1, "/weft", {{"Copies", "2", "1"}, {"Duplication", "", ""}}},
                  {2, "/plain", {{"PNFS", "true", "true"}}}}};
  CHECK(config_text(report) == R"(metadata server
OPTION       VALUE                  DEFAULT
Key_File     /etc/weft/cluster.key  no: -
Resync_Rate  100                    yes

export 1 /weft
OPTION       VALUE  DEFAULT
Copies           2  no: 1
Duplication      -  yes

export 2 /plain
OPTION  VALUE  DEFAULT
PNFS    true   yes
)");
  CHECK(config_text(only_changed(report)) == R"(metadata server
OPTION    VALUE                  DEFAULT
Key_File  /etc/weft/cluster.key  no: -

export 1 /weft
OPTION  VALUE  DEFAULT
Copies      2  no: 1

export 2 /plain
all are the defaults
)");
  const Json json = config_json(report);
  CHECK(json["exports"][0]["options"][0] ==
        Json{{"name", "Copies"}, {"value", "2"}, {"default", "1"}, {"is_default", false}});
  CHECK(json["options"][1]["is_default"] == true);
}

}  // namespace weft::cli
