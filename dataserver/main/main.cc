// weft-ds: a data server. weft-ds(8) and weft-ds.toml(5).
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "dataserver/main/data_server.h"
#include "dataserver/main/supervisor.h"

namespace weft::ds {
namespace {

struct Arguments {
  std::string config = "/etc/weft/weft-ds.toml";
  bool check_config = false;
  bool supervise = false;
  std::uint32_t standalone = 0;  // a data server id; 0: not
};

void set_up_log(const std::string& level) {
  auto log = std::make_shared<spdlog::logger>("weft-ds",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z level=%l %v");
  log->set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
  log->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(log));
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// Descriptors for the objects kept open, twice in direct mode, and for connections.
void raise_file_limit(const DsConfig& config) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = config.store.max_open_files * 2 + config.max_connections + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (limit.rlim_max < wanted) limit.rlim_max = wanted;  // takes the right to do so
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  spdlog::warn("event=file_limit have={} want={}", limit.rlim_cur, wanted);
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Before any thread is made: all inherit the mask, and only run_until_stopped() takes the signals.
void set_up_signals() {
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a write over the file size limit is to fail with EFBIG
}

Result<> run_until_stopped(DataServer& server) {
  const sigset_t set = stop_signals();
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 200'000'000};
  for (;;) {
    if (auto ticked = server.tick(); !ticked) return ticked;
    const int signal = ::sigtimedwait(&set, nullptr, &kTick);
    if (signal > 0) {
      spdlog::info("event=stopping signal={}", signal);
      return {};
    }
  }
}

int complain(const Error& error) {
  std::fprintf(stderr, "weft-ds: %s\n",
               error.text.empty() ? error.describe().c_str() : error.text.c_str());
  return EXIT_FAILURE;
}

// `life` is the supervisor's pipe, or -1. A pipe that is full says enough.
void tell(int life, char sign) {
  if (life >= 0) static_cast<void>(::write(life, &sign, 1));
}

int serve(DsConfig config, std::optional<DataServer::Standalone> standalone, int life) {
  set_up_signals();
  raise_file_limit(config);
  std::function<void()> on_alive;
  if (life >= 0) on_alive = [life] { tell(life, Supervisor::kAlive); };
  auto server = DataServer::open(std::move(config), standalone, std::move(on_alive));
  if (!server) return complain(server.error());
  const auto ran = run_until_stopped(**server);
  tell(life, Supervisor::kGoingDown);
  const auto stopped = (*server)->stop();
  if (!stopped && stopped.error() == Errc::kTimedOut) {
    // Something hangs; to destroy what it uses would only hang or crash as well.
    spdlog::shutdown();
    std::_Exit(EXIT_FAILURE);
  }
  if (!ran) return complain(ran.error());
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
  app.add_option("--standalone", arguments.standalone,
                 "For tests: serve without a metadata server, with this data server id")
      ->check(CLI::PositiveNumber);
  app.set_version_flag("--version", WEFT_VERSION);
  CLI11_PARSE(app, argc, argv);

  auto config = load_config(arguments.config);
  if (!config) return complain(config.error());
  if (auto good = check_config(*config, arguments.standalone != 0); !good) {
    return complain({good.error().code, arguments.config + ": " + good.error().text});
  }
  if (arguments.check_config) {
    std::printf("%s: good\n", arguments.config.c_str());
    return EXIT_SUCCESS;
  }
  if (config->name.empty()) config->name = host_name();
  set_up_log(config->log_level);
  std::optional<DataServer::Standalone> standalone;
  if (arguments.standalone != 0) standalone.emplace(arguments.standalone);
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
