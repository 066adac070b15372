// support-bundle: what somebody needs who is to help, and no secret.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "rpc/xdr/describe_json.h"
#include "tools/weft/observe.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {
namespace {

constexpr std::size_t kShortestSecret = 32;  // hexadecimal digits: a token; a key has 64
constexpr std::chrono::seconds kPatience{30};

struct Part {
  std::string name;  // of the file in the bundle
  std::vector<std::string> words;
};

std::vector<Part> parts_of(const Settings& settings) {
  const std::string weft = program_path("weft");
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {weft, "--socket", settings.socket, "-o", "json"});
    return words;
  };
  return {
      {"status.json", ask({"status"})},
      {"ds-list.json", ask({"ds", "list"})},
      {"health.json", ask({"health"})},
      {"df.json", ask({"df"})},
      {"events.json", ask({"events"})},
      {"clients.json", ask({"clients"})},
      {"config.json", ask({"config", "show"})},
      {"versions.json", ask({"version", "--all"})},
      {"scrub.json", ask({"scrub", "status"})},
      {"audit.json", ask({"audit", "status"})},
      {"top.json", ask({"top", "--count", "1"})},
      {"log.txt",
       {"journalctl", "--no-pager", "-o", "short-iso-precise", "-n", "20000", "-u", "weft-*"}},
      {"units.txt", {"systemctl", "--no-pager", "status", "weft-*"}},
      {"kernel.txt", {"uname", "-a"}},
      {"system.txt", {"cat", "/etc/os-release"}},
      {"space.txt", {"df", "-hT"}},
      {"memory.txt", {"cat", "/proc/meminfo"}},
      {"pressure.txt",
       {"grep", "", "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"}},
      {"addresses.txt", {"ip", "-s", "addr"}},
      {"sockets.txt", {"ss", "-tnlpi"}},
      {"packages.txt", {"dpkg-query", "-W", "weft-*", "nfs-common"}},
  };
}

// The configuration files; keys are in none.
std::vector<Part> configuration() {
  std::vector<Part> parts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/etc/weft", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".conf") && !name.ends_with(".toml")) continue;
    parts.push_back({"etc-" + name, {"cat", entry.path().string()}});
  }
  return parts;
}

std::string output_of(const Part& part) {
  const auto ran = run_program(part.words, kPatience);
  if (!ran) return ran.error().describe() + "\n";
  std::string text = without_secrets(ran->output);
  if (ran->status != 0) text += fmt::format("(ended with {})\n", ran->status);
  return text;
}

Result<std::vector<std::string>> collect(const Settings& settings, const std::string& folder) {
  std::vector<std::string> names;
  std::vector<Part> parts = parts_of(settings);
  std::ranges::move(configuration(), std::back_inserter(parts));
  for (const Part& part : parts) {
    const Owner self{.user = ::geteuid(), .group = ::getegid()};
    auto wrote = write_file(folder + "/" + part.name, output_of(part), self, 0600);
    if (!wrote) return pass(wrote);
    names.push_back(part.name);
  }
  return names;
}

}  // namespace

std::string without_secrets(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at;
    while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end - at >= kShortestSecret) {
      out += "(left out)";
    } else {
      end = std::max(end, at + 1);
      out += text.substr(at, end - at);
    }
    at = end;
  }
  return out;
}

int support_command(const Settings& settings, const std::string& file) {
  const std::string name = "weft-support-" + host_name();
  const std::string made = std::filesystem::absolute(file.empty() ? name + ".tar.gz" : file);
  char scratch[] = "/tmp/weft-support.XXXXXX";
  if (::mkdtemp(scratch) == nullptr) return complain("no folder can be made in /tmp");
  const std::string folder = std::string(scratch) + "/" + name;
  ::mkdir(folder.c_str(), 0700);
  const ::mode_t before = ::umask(0077);
  const auto names = collect(settings, folder);
  Result<Ran> packed = fail(Errc::kIo);
  if (names) packed = run_program({"tar", "-C", scratch, "-czf", made, name}, kPatience);
  ::umask(before);
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  if (!names) return complain(names.error().describe());
  if (!packed) return complain(packed.error().describe());
  if (packed->status != 0) {
    return complain("cannot write " + made + ": " +
                    packed->output.substr(0, packed->output.find('\n')));
  }
  if (settings.json) {
    print(Json{{"file", made}, {"parts", *names}});
  } else {
    print(
        fmt::format("wrote {}: {} parts, with addresses, file names and logs, without keys and "
                    "tokens\n",
                    made, names->size()));
  }
  return kExitGood;
}

}  // namespace weft::cli
