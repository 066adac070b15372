// weft-target: a storage target. weft-target(8) and weft-target.toml(5).
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "dataserver/process/program.h"
#include "dataserver/process/reload.h"
#include "dataserver/process/supervisor.h"
#include "dataserver/targets/target.h"

namespace weft::ds {
namespace {

constexpr const char* kProgram = "weft-target";

constexpr std::string_view kReloadable[] = {"target.log_level", "target.drain_seconds"};

Result<TargetConfig> read_config(const std::string& path) {
  auto config = load_target_config(path);
  if (!config) return config;
  if (auto good = check_target_config(*config); !good) {
    return fail(good.error().code, path + ": " + good.error().text);
  }
  return config;
}

int serve(TargetConfig config, const std::string& path, int life) {
  set_up_signals();
  Reloader reloader(path, kReloadable);
  // For the objects kept open, twice in direct mode, of each space, and for connections.
  raise_file_limit(config.max_spaces * (config.store.max_open_files * 2 + 8) +
                   std::min<std::size_t>(max_connections(config), 4096) * 4 + 256);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  auto target = Target::open(std::move(config), std::move(on_alive));
  if (!target) return complain(kProgram, target.error());
  Report report(life);
  const auto tick = [&target, &report]() -> Result<> {
    (*target)->tick();
    report.tick(true, "serves");
    return {};
  };
  const auto reload = [&]() -> Result<> {
    auto next = read_config(path);
    if (!next) return pass(next);
    set_log_level(next->log_level);
    (*target)->reload(*next);
    return {};
  };
  const auto ran = run_until_stopped(tick, [&] { reloader.reload(reload); });
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
  app.set_version_flag("--version", std::string(kProgram) + " " + WEFT_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kExitUsage;
  }

  set_up_signals();
  auto config = read_config(path);
  if (!config) return misconfigured(kProgram, config.error());
  if (check) return report_config(kProgram, path, config->key_file);
  set_up_log(kProgram, config->log_level);
  if (!supervise) return serve(std::move(*config), path, -1);
  Supervisor supervisor({.silence = static_cast<unsigned>(config->silence.count())});
  return supervisor.run([&](int life) {
    if (supervisor.reloaded()) {
      if (auto next = read_config(path); next) config = next;
      set_log_level(config->log_level);
    }
    return serve(*config, path, life);
  });
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
