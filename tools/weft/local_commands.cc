// fsck, restore, check-config: what needs no running metadata server.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "ganesha-fsal/config/options_check.h"
#include "tools/weft/commands.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {

namespace {

// Goes on as another program of ours: of the same folder as this one, or of PATH.
int become(std::string program, std::vector<std::string> arguments, const std::string& comes_with) {
  program = program_path(program);
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execvp(program.c_str(), argv.data());
  return complain("cannot run " + program + ": " + std::strerror(errno) +
                  " (it is installed with " + comes_with + ")");
}

// Whether a line of the file begins with one of these.
bool has_line(const std::string& path, std::initializer_list<std::string_view> beginnings) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    const std::string_view rest = std::string_view(line).substr(begin);
    for (const std::string_view beginning : beginnings) {
      if (rest.starts_with(beginning)) return true;
    }
  }
  return false;
}

}  // namespace

int fsck_command(const std::vector<std::string>& arguments) {
  return become("weft-fsck", arguments, "the metadata server");
}

int restore_command(const std::vector<std::string>& arguments) {
  return become("weft-restore", arguments, "the metadata server");
}

int check_config_command(const std::string& path) {
  if (path.ends_with(".toml")) {
    // A file of weft-ds's has no such table.
    const bool target = has_line(path, {"[target]", "target."});
    return become(target ? "weft-target" : "weft-ds", {"--check-config", "--config", path},
                  target ? "targets" : "data servers");
  }
  const auto checked = mds::check_conf_file(path);
  if (!checked) return complain(checked.error().text);
  // What these bring is not looked at (conf_reader.h).
  if (checked->exports == 0 && !has_line(path, {"%dir", "%url"})) {
    return complain(path + ": has no EXPORT with FSAL { Name = WEFT; }");
  }
  std::printf("%s: good\n", path.c_str());
  return kExitGood;
}

}  // namespace weft::cli
