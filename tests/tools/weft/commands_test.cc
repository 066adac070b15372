#include "tools/weft/commands.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "rpc/xdr/describe_json.h"

namespace weft::cli {
namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/weft-commands-test.XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// What `command` writes to standard output.
std::string output_of(const Folder& folder, const std::function<int()>& command) {
  const std::string file = folder.path + "/output";
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  std::FILE* const out = std::fopen(file.c_str(), "w");
  ::dup2(::fileno(out), STDOUT_FILENO);
  const int exit = command();
  std::fflush(stdout);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  std::fclose(out);
  CHECK(exit == kExitGood);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

const Settings kText;
const Settings kJson{.socket = "", .json = true};

}  // namespace

TEST_CASE("a configuration is checked, and one without a Weft is not meant", "[weft]") {
  const Folder folder;
  const std::string conf = folder.path + "/g.conf";
  std::ofstream(conf) << "NFSv4 { }\n";
  CHECK(check_config_command(kText, conf) == kExitFailed);
  std::ofstream(conf) << "NFSv4 { }\n  %dir /etc/weft/exports.d\n";
  CHECK(output_of(folder, [&] { return check_config_command(kText, conf); }) == conf + ": good\n");
  CHECK(check_config_command(kText, folder.path + "/none") == kExitFailed);
}

TEST_CASE("a good configuration is a document, too", "[weft]") {
  const Folder folder;
  const std::string conf = folder.path + "/g.conf";
  std::ofstream(conf) << "%dir /etc/weft/exports.d\n";
  CHECK(Json::parse(output_of(folder, [&] { return check_config_command(kJson, conf); })) ==
        Json{{"file", conf}, {"good", true}, {"warnings", Json::array()}});
}

TEST_CASE("whose a configuration is, is told by its tables, and by what was meant", "[weft]") {
  const Folder folder;
  const std::string conf = folder.path + "/x.toml";
  const auto program = [&](const std::string& text) {
    std::ofstream(conf) << text;
    const auto found = program_of_config(conf);
    return found ? *found : found.error().text;
  };
  CHECK(program("# [target]\n[server]\nlisten = 1\n") == "weft-ds");
  CHECK(program("server.listen = 1\n") == "weft-ds");
  CHECK(program("[store]\n  [target]\n") == "weft-target");
  CHECK(program("[targt]\nsocket = \"/a.b\"\n[store]\n") == "weft-target");
  CHECK(program("[sever]\n[store]\n") == "weft-ds");
  CHECK(program("[[netwrk]]\n") == "weft-ds");
  CHECK(program("[store]\npath = \"/server.x\"\n").contains("has neither a table [server]"));
  CHECK(program("").contains("has neither a table [server]"));
}

TEST_CASE("commands for key files print one document each", "[weft]") {
  const Folder folder;
  const std::string file = folder.path + "/key";
  const auto document = [&](const auto& command, auto... key) {
    const auto json =
        parse_json(output_of(folder, [&] { return command(kJson, file, key...); }), 8);
    REQUIRE(json);
    CHECK((*json)["file"] == file);
    return *json;
  };
  const Json made = document(keygen_command);
  CHECK(made["action"] == "keygen");
  const std::string old = made["key"];
  CHECK(made["keys"] == Json::parse(R"([{"key":")" + old + R"(","used":true}])"));

  const Json added = document(key_add_command);
  CHECK(added["action"] == "add");
  CHECK(added["changed"] == true);
  const std::string fresh = added["key"];
  CHECK(fresh != old);
  CHECK(added["keys"][0]["key"] == old);
  CHECK(added["keys"][1] == Json{{"key", fresh}, {"used", false}});

  const Json used = document(key_use_command, fresh);
  CHECK(used["action"] == "use");
  CHECK(used["keys"][0] == Json{{"key", fresh}, {"used", true}});
  CHECK(document(key_use_command, fresh)["changed"] == false);

  const Json shown = Json::parse(output_of(folder, [&] { return key_show_command(kJson, file); }));
  CHECK(shown == used["keys"]);

  const Json dropped = document(key_drop_command, old);
  CHECK(dropped["action"] == "drop");
  CHECK(dropped["key"] == old);
  CHECK(dropped["changed"] == true);
  CHECK(dropped["keys"].size() == 1);
  const Json again = document(key_drop_command, old);
  CHECK(again["changed"] == false);
  CHECK(again["keys"] == dropped["keys"]);
}

TEST_CASE("commands for key files tell people what comes next", "[weft]") {
  const Folder folder;
  const std::string file = folder.path + "/key";
  CHECK(output_of(folder, [&] { return keygen_command(kText, file); }) ==
        "made " + file + " (mode 0600); copy it to every data server, safely\n");
  CHECK(output_of(folder, [&] { return key_add_command(kText, file); }).contains("\nnext: copy "));
}

TEST_CASE("how a data server is added is a document, too", "[weft]") {
  const Folder folder;
  const auto json = parse_json(output_of(folder, [] { return ds_add_command(kJson); }), 8);
  REQUIRE(json);
  CHECK((*json)["adds_itself"] == true);
  CHECK((*json)["program"] == "weft-ds");
  CHECK(output_of(folder, [] { return ds_add_command(kText); }).starts_with("A data server adds "));
}

}  // namespace weft::cli
