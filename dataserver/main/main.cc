// weft-ds: a data server. weft-ds(8) and weft-ds.toml(5).
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "dataserver/main/data_server.h"
#include "dataserver/process/program.h"
#include "dataserver/process/reload.h"
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

constexpr std::string_view kReloadable[] = {
    "server.log_level", "server.drain_seconds", "store.parity_rebuild_rate",
    "store.parity_scrub_every_seconds", "store.parity_scrub_rate"};

Result<DsConfig> read_config(const std::string& path, bool standalone) {
  auto config = load_config(path);
  if (!config) return config;
  if (auto good = check_config(*config, standalone); !good) {
    return fail(good.error().code, path + ": " + good.error().text);
  }
  if (config->name.empty()) config->name = host_name();
  return config;
}

int serve(DsConfig config, const std::string& path,
          std::optional<DataServer::Standalone> standalone, int life) {
  set_up_signals();
  Reloader reloader(path, kReloadable);
  // For the objects kept open, twice in direct mode, and for connections.
  const ClientLimits limits = client_limits(config);
  raise_file_limit(config.store.max_open_files * 2 + limits.connections + limits.strangers + 256);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  auto server = DataServer::open(std::move(config), standalone, std::move(on_alive));
  if (!server) return complain(kProgram, server.error());
  Report report(life);
  const auto tick = [&server, &report]() -> Result<> {
    if (auto ticked = (*server)->tick(); !ticked) return ticked;
    report.tick((*server)->listening(), (*server)->status());
    return {};
  };
  const auto reload = [&]() -> Result<> {
    auto next = read_config(path, standalone.has_value());
    if (!next) return pass(next);
    set_log_level(next->log_level);
    (*server)->reload(*next);
    return {};
  };
  const auto ran = run_until_stopped(tick, [&] { reloader.reload(reload); });
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
  app.set_version_flag("--version", std::string(kProgram) + " " + WEFT_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kExitUsage;
  }

  set_up_signals();
  auto config = read_config(arguments.config, arguments.standalone != 0);
  if (!config) return misconfigured(kProgram, config.error());
  if (arguments.check_config) return report_config(kProgram, arguments.config, config->key_file);
  set_up_log(kProgram, config->log_level);
  std::optional<DataServer::Standalone> standalone;
  if (arguments.standalone != 0) {
    standalone.emplace(arguments.standalone, arguments.give_up);
  }
  if (!arguments.supervise) return serve(std::move(*config), arguments.config, standalone, -1);
  Supervisor supervisor({.silence = static_cast<unsigned>(config->silence.count())});
  return supervisor.run([&](int life) {
    if (supervisor.reloaded()) {
      if (auto next = read_config(arguments.config, standalone.has_value()); next) config = next;
      set_log_level(config->log_level);
    }
    return serve(*config, arguments.config, standalone, life);
  });
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
