// weft-target: a storage target. weft-target(8) and weft-target.toml(5).
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "dataserver/process/program.h"
#include "dataserver/process/supervisor.h"
#include "dataserver/targets/target.h"

namespace weft::ds {
namespace {

constexpr const char* kProgram = "weft-target";

int serve(TargetConfig config, int life) {
  set_up_signals();
  // For the objects kept open, twice in direct mode, of each space, and for connections.
  raise_file_limit(config.max_spaces * (config.store.max_open_files * 2 + 8) +
                   config.max_connections * 4 + 256);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  auto target = Target::open(std::move(config), std::move(on_alive));
  if (!target) return complain(kProgram, target.error());
  const auto ran = run_until_stopped([&target]() -> Result<> {
    (*target)->tick();
    return {};
  });
  tell(life, Supervisor::kGoingDown);
  const auto stopped = (*target)->stop();
  if (!stopped && stopped.error() == Errc::kTimedOut) {
    // Something hangs; to destroy what it uses would only hang or crash as well.
    spdlog::shutdown();
    std::_Exit(EXIT_FAILURE);
  }
  return ran && stopped ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(int argc, char** argv) {
  std::string path = "/etc/weft/weft-target.toml";
  bool check = false;
  bool supervise = false;
  CLI::App app{"weft-target: a storage target of a Weft system"};
  app.add_option("-c,--config", path, "Configuration file, see weft-target.toml(5)")
      ->capture_default_str();
  app.add_flag("--check-config", check, "Check the configuration file and exit");
  app.add_flag("--supervise", supervise,
               "Serve in a child process, which is started again when it crashes or hangs");
  app.set_version_flag("--version", WEFT_VERSION);
  CLI11_PARSE(app, argc, argv);

  auto config = load_target_config(path);
  if (!config) return complain(kProgram, config.error());
  if (auto good = check_target_config(*config); !good) {
    return complain(kProgram, {good.error().code, path + ": " + good.error().text});
  }
  if (check) {
    std::printf("%s: good\n", path.c_str());
    return EXIT_SUCCESS;
  }
  set_up_log(kProgram, config->log_level);
  if (!supervise) return serve(std::move(*config), -1);
  Supervisor supervisor({.silence = static_cast<unsigned>(config->silence.count())});
  return supervisor.run([&](int life) { return serve(*config, life); });
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
