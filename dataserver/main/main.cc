// weft-ds: a data server. weft-ds(8) and weft-ds.toml(5).
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "dataserver/main/data_server.h"
#include "dataserver/process/run_program.h"

namespace weft::ds {
namespace {

constexpr std::string_view kReloadable[] = {
    "server.log_level", "server.drain_seconds", "store.parity_rebuild_rate",
    "store.parity_scrub_every_seconds", "store.parity_scrub_rate"};

Result<DsConfig> load(const std::string& path, ReadAddress address) {
  auto config = load_config(path, address);
  char name[256] = {};
  if (config && config->name.empty() && ::gethostname(name, sizeof name - 1) == 0) {
    config->name = name;
  }
  return config;
}

// For the objects kept open, twice in direct mode, and for connections.
std::size_t descriptors(const DsConfig& config) {
  const ClientLimits limits = client_limits(config);
  return config.store.max_open_files * 2 + limits.connections + limits.strangers + 256;
}

int run(int argc, char** argv) {
  std::uint32_t standalone = 0;  // a data server id; 0: not
  std::optional<std::uint32_t> give_up;
  CLI::App app{"weft-ds: a data server of a Weft system"};
  auto* alone =
      app.add_option("--standalone", standalone,
                     "For tests: serve without a metadata server, with this data server id")
          ->check(CLI::PositiveNumber);
  app.add_option("--give-up", give_up, "For tests: what weft ds give-up says, of this target")
      ->needs(alone);
  const Program<DataServer, DsConfig> program{
      .name = "weft-ds",
      .version = WEFT_VERSION,
      .reloadable = kReloadable,
      .load = load,
      .check = [&](const DsConfig& config) { return check_config(config, standalone != 0); },
      .descriptors = descriptors,
      .open =
          [&](DsConfig config, std::function<void()> on_alive) {
            std::optional<DataServer::Standalone> without_mds;
            if (standalone != 0) without_mds.emplace(standalone, give_up);
            return DataServer::open(std::move(config), without_mds, std::move(on_alive));
          }};
  return run_program(program, app, argc, argv);
}

}  // namespace
}  // namespace weft::ds

int main(int argc, char** argv) {
  try {
    return weft::ds::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-ds: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
