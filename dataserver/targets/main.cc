// weft-target: a storage target. weft-target(8) and weft-target.toml(5).
#include <cstdio>
#include <exception>

#include "dataserver/process/run_program.h"
#include "dataserver/targets/target.h"

namespace weft::ds {
namespace {

constexpr std::string_view kReloadable[] = {"target.log_level", "target.drain_seconds"};

// For the objects kept open, twice in direct mode, of each space, and for connections.
std::size_t descriptors(const TargetConfig& config) {
  return config.max_spaces * (config.store.max_open_files * 2 + 8) +
         std::min<std::size_t>(max_connections(config), 4096) * 4 + 256;
}

int run(int argc, char** argv) {
  CLI::App app{"weft-target: a storage target of a Weft system"};
  const Program<Target, TargetConfig> program{.name = "weft-target",
                                              .version = WEFT_VERSION,
                                              .reloadable = kReloadable,
                                              .load = load_target_config,
                                              .check = check_target_config,
                                              .descriptors = descriptors,
                                              .open = Target::open};
  return run_program(program, app, argc, argv);
}

}  // namespace
}  // namespace weft::ds

int main(int argc, char** argv) {
  try {
    return weft::ds::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-target: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
