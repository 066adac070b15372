// fsck, restore, check-config: what needs no running metadata server.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>

#include "ganesha-fsal/config/options_check.h"
#include "rpc/base/nearest.h"
#include "rpc/xdr/describe_json.h"
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

// They print a document then.
std::vector<std::string> with_output(const Settings& settings, std::vector<std::string> arguments) {
  if (settings.json) arguments.insert(arguments.begin(), "--json");
  return arguments;
}

int say_good(const Settings& settings, const std::string& path,
             const std::vector<std::string>& warnings = {}) {
  if (settings.json) {
    print(Json{{"file", path}, {"good", true}, {"warnings", warnings}});
    return kExitGood;
  }
  for (const std::string& warning : warnings) std::fputs((warning + "\n").c_str(), stderr);
  print(path + ": good\n");
  return kExitGood;
}

constexpr std::chrono::seconds kPatience{60};
// Tables of configuration files.
constexpr std::string_view kTargets[] = {"target"};
constexpr std::string_view kDataServers[] = {"server", "mirror", "load", "segments", "network"};
constexpr std::string_view kBoth[] = {"store", "cache", "cluster"};

// The first words of headings, and of keys with dots.
std::vector<std::string> tables_of(const std::string& path) {
  std::vector<std::string> tables;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t word = line.find_first_not_of("[ \t", begin);
    const std::size_t end = line.find_first_of(".]= \t", word);
    if (word == std::string::npos || end == std::string::npos) continue;
    if (line[begin] == '[' || line[end] == '.') tables.push_back(line.substr(word, end - word));
  }
  return tables;
}

}  // namespace

int fsck_command(const Settings& settings, const std::vector<std::string>& arguments) {
  return become("weft-fsck", with_output(settings, arguments), "the metadata server");
}

int restore_command(const Settings& settings, const std::vector<std::string>& arguments) {
  return become("weft-restore", with_output(settings, arguments), "the metadata server");
}

Result<std::string> program_of_config(const std::string& path) {
  const std::vector<std::string> tables = tables_of(path);
  const auto is_any = [&tables](std::span<const std::string_view> known) {
    return std::ranges::any_of(tables, [known](const std::string& table) {
      return std::ranges::find(known, table) != known.end();
    });
  };
  if (is_any(kTargets)) return "weft-target";
  if (is_any(kDataServers)) return "weft-ds";
  std::vector<std::string_view> known(std::begin(kBoth), std::end(kBoth));
  known.insert(known.end(), std::begin(kDataServers), std::end(kDataServers));
  known.insert(known.end(), std::begin(kTargets), std::end(kTargets));
  for (const std::string& table : tables) {
    const std::string_view near = nearest(table, known);
    if (!is_near(table, near)) continue;
    if (std::ranges::find(kTargets, near) != std::end(kTargets)) return "weft-target";
    if (std::ranges::find(kDataServers, near) != std::end(kDataServers)) return "weft-ds";
  }
  return fail(Errc::kInvalid, path +
                                  ": has neither a table [server], as files of weft-ds have, nor "
                                  "[target], as those of weft-target");
}

int check_config_command(const Settings& settings, const std::string& path) {
  if (path.ends_with(".toml")) {
    if (const auto text = read_text(path); !text) return complain(text.error().text);
    const auto program = program_of_config(path);
    if (!program) return complain(program.error().text);
    const char* const comes_with = *program == "weft-ds" ? "data servers" : "targets";
    if (!settings.json) {
      return become(*program, {"--check-config", "--config", path}, comes_with);
    }
    const auto ran =
        run_program({program_path(*program), "--check-config", "--config", path}, kPatience);
    if (!ran) return complain(ran.error().text + " (it is installed with " + comes_with + ")");
    if (ran->status != kExitGood) {
      std::fputs(ran->output.c_str(), stderr);
      return ran->status;
    }
    return say_good(settings, path);
  }
  const auto checked = mds::check_conf_file(path);
  if (!checked) {
    const int failed = complain(checked.error().text);
    return checked.error() == Errc::kUnreachable ? kExitBad : failed;
  }
  // What these bring is not looked at (conf_reader.h).
  if (checked->exports == 0 && !has_line(path, {"%dir", "%url"})) {
    return complain(path + ": has no EXPORT with FSAL { Name = WEFT; }");
  }
  return say_good(settings, path, checked->warnings);
}

}  // namespace weft::cli
