#include "tools/weft/observe_options.h"

#include <memory>

#include "tools/weft/bench.h"
#include "tools/weft/clients.h"
#include "tools/weft/config_show.h"
#include "tools/weft/doctor/doctor.h"
#include "tools/weft/events.h"
#include "tools/weft/observe.h"
#include "tools/weft/units.h"

namespace weft::cli {
namespace {

// "2" is two seconds, as watch(1) has it.
CLI::Validator interval() { return seconds(0.1, 86400.0, "100ms to 1d"); }

void add_health(CLI::App& app, const Settings& settings, std::function<int()>& chosen,
                double& interval_s) {
  const auto options = std::make_shared<HealthOptions>();
  auto* health = app.add_subcommand("health", "What is wrong; exit status 1 if anything is");
  health->add_flag("-q,--quiet", options->quiet, "Print nothing if the system is healthy");
  health->add_option("--mute", options->mute, "Codes that do not count from now on")
      ->type_name("CODE");
  health->add_option("--unmute", options->unmute, "Codes that count again")->type_name("CODE");
  health->add_option("--muted-file", options->muted, "Where muted codes are kept")
      ->type_name("FILE")
      ->capture_default_str();
  add_watch(*health, interval_s);
  health->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return health_command(settings, *options); };
  });
}

void add_top(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto options = std::make_shared<TopOptions>();
  auto* top = app.add_subcommand("top", "What data servers and clients do now");
  top->add_option("--interval", options->interval_s, "Time from one to the next: 2, 500ms, 2min")
      ->transform(interval())
      ->capture_default_str();
  top->add_option("--count", options->count, "How many times; 0: until it is interrupted")
      ->capture_default_str();
  top->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return top_command(settings, *options); };
  });
}

void add_events(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto options = std::make_shared<EventsOptions>();
  auto* events = app.add_subcommand("events", "What happened to the system, newest last");
  events->add_option("--since", options->since_s, "Only of the last 30min, 2h, 7d")
      ->transform(seconds());
  events->add_flag("-f,--follow", options->follow,
                   "Go on with what happens, until it is interrupted");
  events->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return events_command(settings, *options); };
  });
}

void add_config(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto options = std::make_shared<ConfigShowOptions>();
  auto* config =
      app.add_subcommand("config", "Options of servers, as they run")->require_subcommand(1);
  auto* show = config->add_subcommand("show", "Their values, and which are not the defaults");
  show->add_option("SERVER", options->server,
                   "Only of this data server and its targets: id or name");
  show->add_flag("--changed", options->changed, "Only those that are not the defaults");
  show->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return config_show_command(settings, *options); };
  });
}

void add_bench(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto options = std::make_shared<BenchOptions>();
  auto* bench = app.add_subcommand("bench", "Measure how fast a mounted folder is");
  bench->add_option("FOLDER", options->folder, "What to measure; it is left as it was")
      ->capture_default_str();
  bench->add_option("--only", options->only, "Only this; may be said again")
      ->check(CLI::IsMember({"streams", "names", "small"}))
      ->allow_extra_args(false);
  bench->add_option("--threads", options->threads, "Threads that work at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  bench
      ->add_option("--size", options->stream_bytes,
                   "Size of each thread's stream; 256MiB when not given")
      ->transform(bytes(std::uint64_t{1} << 20, std::uint64_t{1} << 44, "1MiB to 16TiB"));
  bench->add_option("--files", options->files, "Files of each thread")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  bench
      ->add_option("--small-size", options->small_bytes,
                   "Size of a small file; 4KiB when not given")
      ->transform(bytes(1, std::uint64_t{1} << 20, "1B to 1MiB"));
  bench->add_option("--limit", options->limit_s, "Longest time of a step; 30s when not given")
      ->transform(seconds(0.1, 86400.0, "100ms to 1d"));
  bench->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return bench_command(settings, *options); };
  });
}

}  // namespace

void add_watch(CLI::App& command, double& interval_s) {
  command.add_option("--watch", interval_s, "Again and again, so often: 2, 500ms, 2min")
      ->transform(interval());
}

void add_observe(CLI::App& app, const Settings& settings, std::function<int()>& chosen,
                 double& interval_s) {
  add_health(app, settings, chosen, interval_s);
  add_events(app, settings, chosen);
  auto* clients = app.add_subcommand("clients", "NFS clients, and what they hold");
  add_watch(*clients, interval_s);
  clients->callback(
      [&settings, &chosen] { chosen = [&settings] { return clients_command(settings); }; });
  add_config(app, settings, chosen);
  add_bench(app, settings, chosen);
  auto* df = app.add_subcommand("df", "Free space, by failure domain and by number of copies");
  add_watch(*df, interval_s);
  df->callback([&settings, &chosen] { chosen = [&settings] { return df_command(settings); }; });
  add_top(app, settings, chosen);

  const auto all = std::make_shared<bool>(false);
  auto* version = app.add_subcommand("version", "Version of this program, or of all servers");
  version->add_flag("--all", *all, "Of all servers and targets; exit status 1 if they differ");
  version->callback([&settings, &chosen, all] {
    chosen = [&settings, all] { return version_command(settings, *all, WEFT_VERSION); };
  });

  const auto doctor = std::make_shared<DoctorOptions>();
  auto* look =
      app.add_subcommand("doctor", "Check this machine, and whether it reaches the others");
  look->add_option("SERVER", doctor->servers, "More servers to be reached: 192.0.2.11:2051");
  look->add_option("--prefix", doctor->places.prefix, "As of weft init")->type_name("FOLDER");
  look->callback([&settings, &chosen, doctor] {
    doctor->version = WEFT_VERSION;
    chosen = [&settings, doctor] { return doctor_command(settings, *doctor); };
  });

  const auto file = std::make_shared<std::string>();
  auto* support = app.add_subcommand("support-bundle",
                                     "Collect what somebody needs who helps, without secrets");
  support->add_option("FILE", *file, "Where to; weft-support-HOST.tar.gz when not given");
  support->callback([&settings, &chosen, file] {
    chosen = [&settings, file] { return support_command(settings, *file); };
  });
}

}  // namespace weft::cli
