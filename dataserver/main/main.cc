// weft-ds: a data server. weft-ds(8) and weft-ds.toml(5).
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "dataserver/main/data_server.h"
#include "dataserver/process/program.h"
#include "dataserver/process/supervisor.h"

namespace weft::ds {
namespace {

constexpr const char* kProgram = "weft-ds";

struct Arguments {
  std::string config = "/etc/weft/weft-ds.toml";
  bool check_config = false;
  bool supervise = false;
  std::uint32_t standalone = 0;  // a data server id; 0: not
  std::optional<std::uint32_t> give_up;
};

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

int serve(DsConfig config, std::optional<DataServer::Standalone> standalone, int life) {
  set_up_signals();
  // For the objects kept open, twice in direct mode, and for connections.
  raise_file_limit(config.store.max_open_files * 2 + config.max_connections + 256);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  auto server = DataServer::open(std::move(config), standalone, std::move(on_alive));
  if (!server) return complain(kProgram, server.error());
  const auto ran = run_until_stopped([&server] { return (*server)->tick(); });
  tell(life, Supervisor::kGoingDown);
  const auto stopped = (*server)->stop();
  if (!stopped && stopped.error() == Errc::kTimedOut) {
    // Something hangs; to destroy what it uses would only hang or crash as well.
    spdlog::shutdown();
    std::_Exit(EXIT_FAILURE);
  }
  if (!ran) return complain(kProgram, ran.error());
  return stopped ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"weft-ds: a data server of a Weft system"};
  app.add_option("-c,--config", arguments.config, "Configuration file, see weft-ds.toml(5)")
      ->capture_default_str();
  app.add_flag("--check-config", arguments.check_config, "Check the configuration file and exit");
  app.add_flag("--supervise", arguments.supervise,
               "Serve in a child process, which is started again when it crashes or hangs");
  auto* alone =
      app.add_option("--standalone", arguments.standalone,
                     "For tests: serve without a metadata server, with this data server id")
          ->check(CLI::PositiveNumber);
  app.add_option("--give-up", arguments.give_up,
                 "For tests: what weft ds give-up says, of this target")
      ->needs(alone);
  app.set_version_flag("--version", WEFT_VERSION);
  CLI11_PARSE(app, argc, argv);

  auto config = load_config(arguments.config);
  if (!config) return complain(kProgram, config.error());
  if (auto good = check_config(*config, arguments.standalone != 0); !good) {
    return complain(kProgram, {good.error().code, arguments.config + ": " + good.error().text});
  }
  if (arguments.check_config) {
    std::printf("%s: good\n", arguments.config.c_str());
    return EXIT_SUCCESS;
  }
  if (config->name.empty()) config->name = host_name();
  set_up_log(kProgram, config->log_level);
  std::optional<DataServer::Standalone> standalone;
  if (arguments.standalone != 0) {
    standalone.emplace(arguments.standalone, arguments.give_up);
  }
  if (!arguments.supervise) return serve(std::move(*config), standalone, -1);
  Supervisor supervisor({.silence = static_cast<unsigned>(config->silence.count())});
  return supervisor.run([&](int life) { return serve(*config, standalone, life); });
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
