// simulation: runs seeds, each in a process of its own, and says which failed and how to run that
// one again.
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <new>
#include <string>

#include "tests/simulation/cluster/run.h"
#include "tests/simulation/world/scheduler.h"

namespace {

using namespace weft;

struct Arguments {
  std::uint64_t seed = 0;  // that one alone
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  unsigned jobs = 2;
  unsigned seconds = 0;  // no further seed begins after it; 0: any time
  bool trace = false;
  bool scale = false;
  sim::RunOptions run;
  std::string others;  // options that a seed depends on, as given
};

// Addresses are the same in every run, and so is what depends on them: no address space
// randomisation, one heap without per-thread caches.
void same_addresses(char** argv) {
  const int now = personality(0xffffffff);
  if ((now & ADDR_NO_RANDOMIZE) != 0) return;
  personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
  setenv("GLIBC_TUNABLES",
         "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.malloc.top_pad=16777216", 1);
  execv("/proc/self/exe", argv);
  std::perror("simulation: execv");
}

// The disks of one seed, in memory. Where we may, a file system of its own, since that is gone at
// once: removing the thousands of folders of data servers' stores takes longer than using them.
// Its name is as long in every run.
std::string folder_of(std::uint64_t seed) {
  char process[16];
  std::snprintf(process, sizeof process, "%010d", getpid());
  return std::string("/dev/shm/weft-sim.") + process + "." + std::to_string(seed);
}
void make_folder(const char* folder) {
  mkdir(folder, 0700);
  static_cast<void>(mount("weft-sim", folder, "tmpfs", 0, nullptr));
}
void remove_folder(const std::string& folder) {
  static_cast<void>(umount2(folder.c_str(), MNT_DETACH));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// One thread runs at a time: on one processor the next one finds it warm, and no other is woken.
void stay_on(unsigned job) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  unsigned left = job % static_cast<unsigned>(CPU_COUNT(&allowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// --- Scale ---------------------------------------------------------------------------------------

// A tenth of the cluster, and all of it.
constexpr unsigned kSteps[] = {10, 1};

void print(const sim::RunOptions& run, const sim::Costs& costs) {
  const auto& one = costs.us_an_operation;
  const auto& idle = costs.idle_us_a_second;
  std::printf(
      "%u data servers, %u clients, %llu operations: us an operation %.0f metadata server, %.0f "
      "data servers, %.0f clients, %.0f simulation; %.0f switches; us a second when idle %.0f "
      "metadata server, %.0f a data server; MiB %.0f started, %.0f worked, %.2f a client\n",
      run.data_servers, run.clients, static_cast<unsigned long long>(costs.operations),
      one.metadata_server, one.data_servers, one.clients, one.own, costs.switches_an_operation,
      idle.metadata_server, idle.data_servers / run.data_servers, costs.started_mib,
      costs.worked_mib, (costs.worked_mib - costs.started_mib) / run.clients);
  std::fflush(stdout);
}

// In a process of its own. Its costs, through memory that both have.
bool measure(const Arguments& arguments, const sim::RunOptions& run, sim::Costs& out) {
  const std::string folder = folder_of(arguments.first);
  make_folder(folder.c_str());
  const pid_t process = fork();
  if (process == 0) {
    stay_on(0);
    sim::RunOptions options = run;
    options.folder = folder;
    sim::run({.seed = arguments.first, .trace = arguments.trace},
             [&] { out = sim::measure_cluster(options); });
    _exit(0);
  }
  int status = 0;
  const bool ended = waitpid(process, &status, 0) == process;
  remove_folder(folder);
  return ended && status == 0;
}

// Fails if an operation costs more than four times as much in the greater cluster. It costs more:
// each client meets more data servers, with a session to begin at each.
int run_scale(const Arguments& arguments) {
  void* const memory = mmap(nullptr, 2 * sizeof(sim::Costs), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const costs = new (memory) sim::Costs[2];
  for (unsigned i = 0; i < 2; ++i) {
    sim::RunOptions run = arguments.run;
    run.data_servers = std::max(run.data_servers / kSteps[i], 3U);
    run.clients = std::max(run.clients / kSteps[i], 3U);
    if (!measure(arguments, run, costs[i])) return 1;
    print(run, costs[i]);
  }
  const bool good =
      costs[1].switches_an_operation <= 4 * costs[0].switches_an_operation &&
      costs[1].us_an_operation.metadata_server <= 4 * costs[0].us_an_operation.metadata_server;
  return good ? 0 : 1;
}

[[noreturn]] void run_seed(const Arguments& arguments, std::string folder, std::uint64_t seed,
                           unsigned job) {
  stay_on(job);
  sim::RunOptions options = arguments.run;
  options.folder = std::move(folder);
  sim::run({.seed = seed, .trace = arguments.trace}, [&] {
    const std::string summary = sim::run_cluster(options);
    const sim::Real real;
    if (arguments.seed != 0) {
      std::printf("seed %llu: %s; %llu switches, fingerprint %016llx\n",
                  static_cast<unsigned long long>(seed), summary.c_str(),
                  static_cast<unsigned long long>(sim::switches()),
                  static_cast<unsigned long long>(sim::fingerprint()));
    }
  });
  std::fflush(nullptr);
  _exit(0);
}

struct Running {
  pid_t process = 0;
  std::uint64_t seed = 0;
};
constexpr unsigned kMaxJobs = 64;
constexpr std::size_t kMaxFailed = 20;  // told of one by one

// Without memory of its own that grows: each child begins with the same heap.
struct Runner {
  const Arguments& arguments;
  Running running[kMaxJobs] = {};
  unsigned busy = 0;
  std::uint64_t done = 0;
  std::uint64_t failed = 0;

  void start(std::uint64_t seed) {
    for (unsigned job = 0; job < kMaxJobs; ++job) {
      Running& place = running[job];
      if (place.process != 0) continue;
      place.seed = seed;
      std::string folder = folder_of(seed);
      make_folder(folder.c_str());
      place.process = fork();
      if (place.process == 0) run_seed(arguments, std::move(folder), seed, job);
      ++busy;
      return;
    }
  }
  void await_one() {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    for (Running& place : running) {
      if (place.process != ended) continue;
      place.process = 0;
      --busy;
      ++done;
      remove_folder(folder_of(place.seed));
      if (status == 0) return;
      if (++failed <= kMaxFailed) {
        std::fprintf(stderr, "seed %llu FAILED (status %d): simulation --seed %llu --trace%s\n",
                     static_cast<unsigned long long>(place.seed),
                     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                     static_cast<unsigned long long>(place.seed), arguments.others.c_str());
      }
    }
  }
};

int run_seeds(const Arguments& arguments) {
  Runner runner{.arguments = arguments};
  const std::time_t began = std::time(nullptr);
  for (std::uint64_t i = 0; i < arguments.count; ++i) {
    if (arguments.seconds != 0 && std::time(nullptr) - began >= arguments.seconds) break;
    runner.start(arguments.first + i);
    if (runner.busy == arguments.jobs) runner.await_one();
  }
  while (runner.busy > 0) runner.await_one();
  std::printf("%llu of %llu seeds in %lld s, %llu failed\n",
              static_cast<unsigned long long>(runner.done),
              static_cast<unsigned long long>(arguments.count),
              static_cast<long long>(std::time(nullptr) - began),
              static_cast<unsigned long long>(runner.failed));
  return runner.failed == 0 ? 0 : 1;
}

void add_fault_options(CLI::App& app, sim::RunOptions& run) {
  app.add_option("--faults", run.faults)->capture_default_str();
  app.add_option("--fault-threads", run.fault_threads,
                 "That make faults at the same time; 0: one, or more in half of the seeds")
      ->capture_default_str();
  app.add_option("--failing-disks", run.failing_disks,
                 "In one seed of so many, reads, writes and syncs end with EIO, too; 0: in none")
      ->capture_default_str();
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"simulation: a whole cluster under faults, a seed at a time"};
  app.add_option("--seed", arguments.seed, "Run this seed alone, and say how it went");
  app.add_option("--first", arguments.first, "First of the seeds")->capture_default_str();
  app.add_option("--count", arguments.count, "How many seeds")->capture_default_str();
  app.add_option("--jobs", arguments.jobs, "Seeds at a time")
      ->check(CLI::Range(1U, kMaxJobs))
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds,
                 "No further seed begins after this time; 0: all are run");
  app.add_flag("--trace", arguments.trace, "Say what happens, on standard error");
  app.add_option("--data-servers", arguments.run.data_servers)->capture_default_str();
  app.add_option("--clients", arguments.run.clients)->capture_default_str();
  app.add_option("--files", arguments.run.files, "Of each client")->capture_default_str();
  app.add_option("--operations", arguments.run.operations, "Of each client")->capture_default_str();
  app.add_option("--copies", arguments.run.copies, "0: two, or one in a fifth of the seeds")
      ->capture_default_str();
  app.add_option("--stripes", arguments.run.stripes, "0: all")->capture_default_str();
  app.add_flag("--scale", arguments.scale,
               "What an operation costs and the memory, without faults, of a tenth of the data "
               "servers and clients and of all");
  add_fault_options(app, arguments.run);
  std::string stores;
  const std::map<std::string, sim::StoreKind> kinds = {
      {"folder", sim::StoreKind::kFolder},     {"checksums", sim::StoreKind::kChecksums},
      {"segments", sim::StoreKind::kSegments}, {"both", sim::StoreKind::kBoth},
      {"target", sim::StoreKind::kTarget},     {"parity", sim::StoreKind::kParity}};
  app.add_option(
         "--stores", stores,
         "Where objects are: folder, checksums or segments (a folder with these), both, target or "
         "parity; else the seed says")
      ->check(CLI::IsMember(kinds));
  app.add_flag("--direct", arguments.run.direct, "Stores do direct I/O; else the seed says");
  app.add_flag("--cached", arguments.run.cached,
               "Data servers and targets that may have a cache have one; else the seed says");
  std::string transport;
  const std::map<std::string, sim::Transport> transports = {{"tcp", sim::Transport::kTcp},
                                                            {"shm", sim::Transport::kSharedMemory}};
  app.add_option("--transport", transport,
                 "Between data servers and targets: tcp or shm; else the seed says")
      ->check(CLI::IsMember(transports));
  std::string layouts;
  const std::map<std::string, sim::Layouts> types = {{"files", sim::Layouts::kFiles},
                                                     {"flexfiles", sim::Layouts::kFlexFiles}};
  app.add_option("--layouts", layouts, "files or flexfiles; else the seed says")
      ->check(CLI::IsMember(types));
  CLI11_PARSE(app, argc, argv);
  if (!transport.empty()) arguments.run.transport = transports.at(transport);
  if (!layouts.empty()) arguments.run.layouts = types.at(layouts);
  if (!stores.empty()) arguments.run.stores = kinds.at(stores);
  for (const char* name :
       {"--data-servers", "--clients", "--files", "--operations", "--copies", "--stripes",
        "--faults", "--fault-threads", "--failing-disks", "--stores", "--transport", "--layouts"}) {
    const CLI::Option* option = app.get_option(name);
    if (option->count() == 0) continue;
    arguments.others += std::string(" ") + name + " " + option->as<std::string>();
  }
  for (const char* name : {"--direct", "--cached"}) {
    if (app.get_option(name)->count() > 0) arguments.others += std::string(" ") + name;
  }
  if (arguments.seed != 0) {
    arguments.first = arguments.seed;
    arguments.count = 1;
  }
  return arguments.scale ? run_scale(arguments) : run_seeds(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  same_addresses(argv);
  return run(argc, argv);
}
