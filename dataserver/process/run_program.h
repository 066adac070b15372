// The main function that weft-ds and weft-target have in common: command line, configuration file,
// and serving, alone or under a supervisor.
//
// Threading: from the program's main thread.
#pragma once

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataserver/process/config_fields.h"
#include "dataserver/process/program.h"
#include "dataserver/process/reload.h"
#include "dataserver/process/supervisor.h"
#include "rpc/base/nearest.h"
#include "rpc/peer/resolve.h"

namespace weft::ds {

// Server has tick(), listening(), status(), reload(config) and stop() (main/data_server.h).
template <class Server, class Config>
struct Program {
  std::string name;  // its file is /etc/weft/NAME.toml
  std::string version;
  std::span<const std::string_view> reloadable;  // keys that hold without a restart
  std::function<Result<Config>(const std::string& path, ReadAddress)> load;
  std::function<Result<>(const Config&)> check;
  std::function<std::size_t(const Config&)> descriptors;  // that it needs
  std::function<Result<std::unique_ptr<Server>>(Config, std::function<void()> on_alive)> open;

  [[nodiscard]] Result<Config> read(const std::string& path,
                                    ReadAddress address = &rpc::peer::resolve_address) const {
    auto config = load(path, address);
    if (!config) return config;
    if (auto good = check(*config); !good) {
      return fail(good.error().code, path + ": " + good.error().text);
    }
    return config;
  }
};

// `life` is the supervisor's pipe, or -1.
template <class Server, class Config>
int serve(const Program<Server, Config>& program, Config config, const std::string& path,
          int life) {
  set_up_signals();
  Reloader reloader(path, program.reloadable);
  const std::size_t wanted = program.descriptors(config);
  const std::size_t files = raise_file_limit(wanted);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  const auto server = program.open(std::move(config), std::move(on_alive));
  if (!server) return complain(program.name, server.error());
  if (files < wanted) spdlog::warn("event=file_limit have={} want={}", files, wanted);
  Report report(life);
  const auto tick = [&]() -> Result<> {
    if (auto ticked = (*server)->tick(); !ticked) return ticked;
    report.tick((*server)->listening(), (*server)->status());
    return {};
  };
  const auto reload = [&]() -> Result<> {
    auto next = program.read(path, &unresolved_address);
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
  if (!ran) return complain(program.name, ran.error());
  return stopped ? EXIT_SUCCESS : EXIT_FAILURE;
}

// What is wrong with the words of a command line.
inline std::string wrong_words(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) return error.what();
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return unknown_word(left.front(), std::vector<std::string_view>(names.begin(), names.end()));
}

// `app` has the options that are the program's own.
template <class Server, class Config>
int run_program(const Program<Server, Config>& program, CLI::App& app, int argc, char** argv) {
  std::string path = "/etc/weft/" + program.name + ".toml";
  bool check = false;
  bool supervise = false;
  app.add_option("-c,--config", path, "Configuration file, see " + program.name + ".toml(5)")
      ->capture_default_str();
  app.add_flag("--check-config", check, "Check the configuration file and exit");
  app.add_flag("--supervise", supervise,
               "Serve in a child process, which is started again when it crashes or hangs");
  app.set_version_flag("--version", program.name + " " + program.version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string more = "; " + program.name + " --help says more";
    return misconfigured(program.name, {Errc::kInvalid, wrong_words(app, error) + more});
  }

  set_up_signals();
  auto config = program.read(path);
  if (!config) return misconfigured(program.name, config.error());
  if (const auto key = check_key_file(path, config->key_file); !key) {
    return misconfigured(program.name, key.error());
  }
  if (check) {
    std::printf("%s: good\n", path.c_str());
    return EXIT_SUCCESS;
  }
  set_up_log(program.name, config->log_level);
  if (!supervise) return serve(program, std::move(*config), path, -1);
  Supervisor supervisor({.silence = static_cast<unsigned>(config->silence.count())});
  return supervisor.run([&](int life) {
    if (supervisor.reloaded()) {
      if (auto next = program.read(path); next) config = next;
      set_log_level(config->log_level);
    }
    return serve(program, *config, path, life);
  });
}

}  // namespace weft::ds
