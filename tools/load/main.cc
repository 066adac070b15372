// weft-load: a pNFS load generator for measuring, checking and stressing a metadata server and its
// data servers, or any NFSv4.1 server (--no-pnfs).
//
// Every subcommand prints one JSON object on standard output; errors go to standard error, with
// exit status 1.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/load/channel_bench.h"
#include "tools/load/names.h"
#include "tools/load/process_cpu.h"
#include "tools/load/tcp_baseline.h"
#include "tools/load/workload.h"

namespace weft::load {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{512} << 20;

struct Options {
  MountSettings mount;
  Workload work;
  NamesWork names;
  std::vector<std::string> phases;
  std::string file = "weft-load";
  std::string op = "read";
  double seconds = 5;
  std::vector<int> pids;
  bool no_pnfs = false;
  bool keep = false;
  bool no_prepare = false;
  bool say_written = false;
  bool stable = false;
  std::string mirrors;
  std::uint16_t tcp_port = 0;
  unsigned connections = 1;
  ChannelBench channel;
  std::string transport = "shm";
  unsigned poll_us = 0;
  bool no_copy = false;
};

nlohmann::json to_json(const Outcome& outcome) {
  const auto us = [&](double q) { return static_cast<double>(outcome.latency.quantile(q)) / 1e3; };
  return {{"operations", outcome.operations},
          {"bytes", outcome.bytes},
          {"seconds", outcome.seconds},
          {"mib_per_s", static_cast<double>(outcome.bytes) / outcome.seconds / (1 << 20)},
          {"ops_per_s", static_cast<double>(outcome.operations) / outcome.seconds},
          {"latency_us",
           {{"mean", outcome.latency.mean() / 1e3},
            {"p50", us(0.5)},
            {"p99", us(0.99)},
            {"p999", us(0.999)},
            {"max", static_cast<double>(outcome.latency.max()) / 1e3}}}};
}

// Runs `body` between two readings of the servers' CPU time and the machine's idle time.
template <class Body>
Result<nlohmann::json> measured(const std::vector<int>& pids, Body body) {
  auto cpu_before = cpu_seconds(pids);
  if (!cpu_before) return pass(cpu_before);
  const IdleTotals idle_before = idle_totals();
  Result<Outcome> outcome = body();
  if (!outcome) return pass(outcome);
  const IdleTotals idle_after = idle_totals();
  auto cpu_after = cpu_seconds(pids);
  if (!cpu_after) return pass(cpu_after);
  nlohmann::json out = to_json(*outcome);
  out["server_cpu_s"] = *cpu_after - *cpu_before;
  const double all = idle_after.all_s - idle_before.all_s;
  out["idle_percent"] = all > 0 ? 100 * (idle_after.idle_s - idle_before.idle_s) / all : 0;
  return out;
}

void wait_for_start(double unix_time) {
  const std::chrono::duration<double> since_epoch(unix_time);
  std::this_thread::sleep_until(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch)));
}

// The file, as long as it is to be, with a layout for what is to be done.
Result<File> open_for(Engine& engine, Mount& mount, const Options& options) {
  const Workload& work = options.work;
  auto file = mount.open(options.file, /*create=*/true);
  if (!file) return file;
  const bool writing = work.kind == Kind::kWrite;
  if (file->size < work.file_size && !(writing && options.no_prepare)) {
    if (auto ready = prepare(engine, mount, *file, work.file_size, work.seed); !ready) {
      return pass(ready);
    }
  }
  if (writing || !options.mount.pnfs) return file;
  if (auto closed = mount.close(*file); !closed) return pass(closed);
  return mount.open(options.file, /*create=*/false, /*writing=*/false);
}

Result<nlohmann::json> run_data(Options& options) {
  Engine engine(kMemoryBytes);
  auto mount = Mount::connect(engine, options.mount);
  if (!mount) return pass(mount);
  Workload& work = options.work;
  auto file = open_for(engine, **mount, options);
  if (!file) return pass(file);
  wait_for_start(work.start_at);
  const auto began = std::chrono::steady_clock::now();
  auto out = measured(options.pids, [&] { return run(engine, **mount, *file, work); });
  if (!out) return out;
  if (work.kind == Kind::kWrite) {
    if (options.say_written) std::cerr << "written" << std::endl;
    if (auto stable = (*mount)->commit(*file); !stable) return pass(stable);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    (*out)["committed_s"] = took.count();
    (*out)["committed_mib_per_s"] = (*out)["bytes"].get<double>() / took.count() / (1 << 20);
  }
  if (auto closed = (*mount)->close(*file); !closed) return pass(closed);
  if (!options.keep) {
    if (auto gone = (*mount)->remove(options.file); !gone) return pass(gone);
  }
  (*out)["op"] = options.op;
  (*out)["block"] = work.block;
  return out;
}

Result<nlohmann::json> run_meta(Options& options) {
  Engine engine(kMemoryBytes);
  options.mount.pnfs = false;
  auto mount = Mount::connect(engine, options.mount);
  if (!mount) return pass(mount);
  Names names(engine, **mount,
              {.prefix = options.file + ".",
               .files = UINT64_MAX,
               .depth = options.work.depth,
               .duration = options.work.duration});
  auto out = measured(options.pids, [&] { return names.run("create"); });
  if (!out) return out;
  if (auto gone = names.end((*out)["operations"]); !gone) return pass(gone);
  return out;
}

bool wants(const Options& options, std::string_view phase) {
  return options.phases.empty() || std::ranges::find(options.phases, phase) != options.phases.end();
}

// An object with each phase's.
Result<nlohmann::json> run_names(Options& options) {
  Engine engine(kMemoryBytes);
  options.mount.pnfs = false;
  auto mount = Mount::connect(engine, options.mount);
  if (!mount) return pass(mount);
  options.names.prefix = options.file + ".";
  options.names.depth = options.work.depth;
  Names names(engine, **mount, options.names);
  if (auto begun = names.begin(); !begun) return pass(begun);
  nlohmann::json out;
  for (const std::string_view phase : Names::kPhases) {
    if (!wants(options, phase)) continue;
    auto one = measured(options.pids, [&] { return names.run(phase); });
    if (!one) return fail(one.error().code, std::string(phase) + ": " + one.error().text);
    out[std::string(phase)] = std::move(*one);
  }
  if (options.keep) return out;
  const bool made = wants(options, "files") || wants(options, "create");
  if (auto ended = names.end(made ? options.names.files : 0); !ended) return pass(ended);
  return out;
}

Result<nlohmann::json> run_tcp_read(const Options& options) {
  auto out = tcp_read(options.tcp_port, options.work.block, options.work.duration);
  if (!out) return pass(out);
  return nlohmann::json{{"bytes", out->bytes},
                        {"seconds", out->seconds},
                        {"mib_per_s", static_cast<double>(out->bytes) / out->seconds / (1 << 20)}};
}

Result<nlohmann::json> run_channel(Options& options) {
  ChannelBench& bench = options.channel;
  bench.transport =
      options.transport == "tcp" ? ChannelBench::Transport::kTcp : ChannelBench::Transport::kShm;
  bench.poll = std::chrono::microseconds(options.poll_us);
  bench.copy = !options.no_copy;
  bench.duration = options.work.duration;
  auto out = run_channel_bench(bench);
  if (!out) return pass(out);
  return nlohmann::json{{"messages", out->messages},
                        {"bytes", out->bytes},
                        {"seconds", out->seconds},
                        {"cpu_s", out->cpu_seconds}};
}

void add_channel_options(CLI::App& command, Options& options) {
  command.add_option("--transport", options.transport, "tcp or shm")
      ->check(CLI::IsMember({"tcp", "shm"}))
      ->capture_default_str();
  command.add_option("--client-cpu", options.channel.client_cpu, "Processor of the sender");
  command.add_option("--server-cpu", options.channel.server_cpu, "Processor of who answers");
  command.add_option("--poll-us", options.poll_us, "Shared memory: polls so long at most");
  command.add_option("--bytes", options.channel.bytes, "Of a message")->capture_default_str();
  command.add_flag("--bulk", options.channel.bulk, "Answered by few bytes, instead of the same");
  command.add_flag("--no-copy", options.no_copy, "Bulk is in the buffers that are sent already");
  command.add_option("--outstanding", options.channel.outstanding, "Messages")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "How long to run")->capture_default_str();
}

void add_mount_options(CLI::App& command, Options& options) {
  command.add_option("--address", options.mount.address, "Metadata server, numeric IP")
      ->capture_default_str();
  command.add_option("--port", options.mount.port, "Its port")->capture_default_str();
  command.add_option("--export", options.mount.path, "Path of the export")->capture_default_str();
  command.add_option("--minor-version", options.mount.session.minor_version, "1 or 2")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  command.add_option("--slots", options.mount.session.slots, "Session slots")
      ->capture_default_str();
  command.add_option("--file", options.file, "Name of the file, or prefix of the files")
      ->capture_default_str();
  command.add_option("--depth", options.work.depth, "Operations outstanding")
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "How long to run")->capture_default_str();
  command.add_option("--server-pid", options.pids, "Processes whose CPU time to count");
}

void add_data_options(CLI::App& command, Options& options) {
  command.add_option("--op", options.op, "read, write, randread or randwrite")
      ->check(CLI::IsMember({"read", "write", "randread", "randwrite"}))
      ->capture_default_str();
  command.add_option("--block", options.work.block, "Bytes an operation")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--size", options.work.file_size, "Bytes of the file")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--seed", options.work.seed, "Of contents and offsets")->capture_default_str();
  command.add_flag("--verify", options.work.verify, "Check every byte read");
  command.add_flag("--no-pnfs", options.no_pnfs, "Read and write at the server itself");
  command.add_flag("--keep", options.keep, "Leave the file behind");
  command.add_flag("--once", options.work.once,
                   "Each block once, in order; --seconds does not count");
  command.add_flag("--stable", options.stable, "Writes: each is to be on the disk when answered");
  command.add_flag("--no-prepare", options.no_prepare, "Writes: do not fill the file before");
  command.add_flag("--say-written", options.say_written,
                   "Writes: a line at the standard error when all are answered, before the commit");
  command.add_option("--rate", options.work.rate,
                     "Operations a second, coming at random, instead of always --depth; at most "
                     "--depth are outstanding");
  command.add_option("--start-at", options.work.start_at, "Unix time to begin at");
  command
      .add_option("--mirrors", options.mirrors,
                  "Flexible files layout, every copy written here: sync, answered by all; async, "
                  "by the first")
      ->check(CLI::IsMember({"sync", "async"}));
  command.add_option("--window", options.mount.window_bytes, "Bytes owed to copies (async)")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
}

void add_names_options(CLI::App& command, Options& options) {
  options.names.files = 4000;
  options.names.directories = 1;
  command.add_option("--files", options.names.files, "Operations of each phase")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command.add_option("--directories", options.names.directories, "Over which they are spread")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--bytes", options.names.bytes, "Of a file that is written")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--phase", options.phases, "Only this one; may be given again")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(Names::kPhases), std::end(Names::kPhases))));
  command.add_flag("--keep", options.keep, "Leave the files behind");
  command.add_option("--there", options.names.there,
                     "So many files are there already, and their directories");
  command.add_option("--picked", options.names.picked, "Only so many of these, over and over");
  command.add_option("--seed", options.names.seed, "Which of these are picked");
}

Result<nlohmann::json> dispatch(const CLI::App& app, Options& options) {
  options.mount.pnfs = !options.no_pnfs;
  options.mount.flexfiles = !options.mirrors.empty();
  options.mount.answer = options.mirrors == "async" ? AnswerWhen::kFirst : AnswerWhen::kAll;
  options.work.kind = options.op.ends_with("write") ? Kind::kWrite : Kind::kRead;
  options.work.random = options.op.starts_with("rand");
  if (options.stable) options.work.stable = rpc::nfs4::StableHow::FILE_SYNC4;
  options.work.duration =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1e3));
  if (app.got_subcommand("data")) return run_data(options);
  if (app.got_subcommand("creates")) return run_meta(options);
  if (app.got_subcommand("names")) return run_names(options);
  if (app.got_subcommand("tcp-read")) return run_tcp_read(options);
  if (app.got_subcommand("channel")) return run_channel(options);
  auto served =
      tcp_serve(options.tcp_port, options.work.block, options.work.file_size, options.connections);
  if (!served) return pass(served);
  return nlohmann::json::object();
}

int main_guarded(int argc, char** argv) {
  CLI::App app{"Load generator for Weft and other NFSv4.1 servers", "weft-load"};
  app.require_subcommand(1);
  Options options;
  auto* data = app.add_subcommand("data", "Read or write one file");
  add_mount_options(*data, options);
  add_data_options(*data, options);
  add_mount_options(*app.add_subcommand("creates", "Create empty files"), options);
  auto* names = app.add_subcommand("names", "Make, stat, list, rename and remove files");
  add_mount_options(*names, options);
  add_names_options(*names, options);
  for (auto* tcp : {app.add_subcommand("tcp-serve", "Send blocks over plain TCP on loopback"),
                    app.add_subcommand("tcp-read", "Receive them")}) {
    tcp->add_option("--port", options.tcp_port, "Port on 127.0.0.1")->required();
    tcp->add_option("--block", options.work.block, "Bytes a call")->capture_default_str();
    tcp->add_option("--size", options.work.file_size, "Bytes of memory that are sent, in turn")
        ->capture_default_str();
    tcp->add_option("--seconds", options.seconds, "How long to read")->capture_default_str();
    tcp->add_option("--connections", options.connections, "Connections to serve before leaving")
        ->capture_default_str();
  }
  add_channel_options(
      *app.add_subcommand("channel", "Messages between two processes, by TCP or shared memory"),
      options);
  CLI11_PARSE(app, argc, argv);
  auto out = dispatch(app, options);
  if (!out) {
    std::cerr << "weft-load: " << out.error().describe() << "\n";
    return 1;
  }
  if (!out->empty()) std::cout << out->dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace weft::load

int main(int argc, char** argv) {
  try {
    return weft::load::main_guarded(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "weft-load: " << error.what() << "\n";
    return 1;
  }
}
