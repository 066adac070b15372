#include "tools/weft/setup/drop_ins.h"

#include <charconv>

#include "tools/weft/setup/machine.h"

namespace weft::cli {
namespace {

constexpr unsigned kSysResource = 24;  // its number, of capabilities(7)

Result<> write_drop_in(const std::string& unit, const std::string& name, const std::string& text) {
  const Owner root;
  const std::string folder = "/etc/systemd/system/" + unit + ".d";
  if (auto made = make_folder(folder, root, 0755); !made) return made;
  if (auto wrote = write_file(folder + "/" + name, text, root, 0644); !wrote) return wrote;
  auto reloaded = run_program({"systemctl", "daemon-reload"}, std::chrono::seconds(60));
  return reloaded ? Result<>() : pass(reloaded);
}

}  // namespace

bool lacks_sys_resource(std::string_view status) {
  constexpr std::string_view kBounding = "\nCapBnd:\t";
  const std::size_t at = status.find(kBounding);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = status.substr(at + kBounding.size());
  std::uint64_t able = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), able, 16);
  return error == std::errc{} && (able >> kSysResource & 1) == 0;
}

Result<std::vector<std::string>> write_drop_ins(const std::string& unit,
                                                const std::string& instance,
                                                const std::string& disk) {
  std::vector<std::string> notes;
  // The unit itself has it after what is mounted there.
  if (disk != "/srv/weft/" + instance) {
    auto wrote = write_drop_in(unit, "store.conf", "[Unit]\nRequiresMountsFor=" + disk + "\n");
    if (!wrote) return pass(wrote);
  }
  const auto init = read_text("/proc/1/status");
  if (!init || !lacks_sys_resource(*init)) return notes;
  auto wants = unit_properties(unit, {"AmbientCapabilities"});
  if (!wants) return pass(wants);
  if ((*wants)["AmbientCapabilities"].empty()) return notes;  // somebody has seen to it
  auto wrote = write_drop_in(unit, "capabilities.conf",
                             "# This machine has no CAP_SYS_RESOURCE, as a container.\n"
                             "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n");
  if (!wrote) return pass(wrote);
  notes.push_back("this machine has no CAP_SYS_RESOURCE, so " + unit +
                  " runs without it (capabilities.conf in its drop-ins) and copies more");
  return notes;
}

}  // namespace weft::cli
