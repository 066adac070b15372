#include "tools/weft/plan_options.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "layout/striping.h"
#include "tools/weft/plan.h"
#include "tools/weft/plan_performance.h"
#include "tools/weft/plan_wan.h"
#include "tools/weft/units.h"

namespace weft::cli {
namespace {

using layout::Duplication;

// Precondition: a name that the option's check let pass.
Duplication protocol(const std::string& name) {
  for (const auto one :
       {Duplication::kServerAsync, Duplication::kClientAsync, Duplication::kClientSync}) {
    if (name == to_string(one)) return one;
  }
  return Duplication::kServerSync;
}

// After all other options, none of which goes with it.
void add_paper(CLI::App& command, bool& wanted, const std::string& name) {
  auto* paper = command.add_flag("--paper", wanted, "Instead: the tables of the paper, " + name);
  for (auto* other : command.get_options()) {
    if (other != paper && other != command.get_help_ptr()) paper->excludes(other);
  }
}

// Of what is needed but for --paper.
void require(const CLI::App& command, bool paper, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!paper && command.count(name) == 0) throw CLI::RequiredError(name);
  }
}

void add_reliability(CLI::App& plan, const Settings& settings, std::function<int()>& chosen) {
  auto* command = plan.add_subcommand("reliability", "How long data is likely to last");
  const auto options = std::make_shared<ReliabilityOptions>();
  command->add_option("--groups", options->groups, "Mirror groups (without mirrors: servers)")
      ->check(CLI::Range(1u, layout::kMaxPlannedGroups));
  command->add_option("--copies", options->copies, "Servers of a group")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--protocol", [options](const std::string& name) { options->protocol = protocol(name); },
          "Who duplicates, and when writes are answered")
      ->check(CLI::IsMember({"server-async", "server-sync", "client-async", "client-sync"}))
      ->default_str("server-sync");
  command->add_option("--mttf", options->mttf, "Mean time until a server fails: 2y, 500d")
      ->transform(seconds());
  command->add_option("--mttr", options->mttr, "Mean time until its copies are whole again: 8h")
      ->transform(seconds());
  command->add_option("--data", options->data, "Instead of --mttr: bytes on a server: 4TiB")
      ->transform(bytes());
  command->add_option("--rate", options->rate, "... and bytes a second that repair copies")
      ->transform(bytes());
  command->add_option("--detect", options->detect, "... and the time until repair begins")
      ->transform(seconds());
  command
      ->add_option("--duplicate-time", options->duplicate_time,
                   "Asynchronous protocols: mean time until a write is on every copy")
      ->transform(seconds());
  command
      ->add_option("--write-interval", options->write_interval,
                   "... and mean time between a server's writes")
      ->transform(seconds());
  add_paper(*command, options->paper, "CEFT-PVFS");
  command->callback([&settings, &chosen, options, command] {
    require(*command, options->paper, {"--groups", "--mttf"});
    chosen = [&settings, options] { return plan_reliability_command(settings, *options); };
  });
}

void add_node(CLI::App& command, layout::NodeModel& node) {
  command.add_option("--network", node.network, "Bytes a second of a node's network (75MiB)")
      ->transform(bytes());
  command.add_option("--cache", node.cache, "Bytes a second of its memory (500MiB)")
      ->transform(bytes());
  command.add_option("--disk", node.disk, "Bytes a second of its disk (51MiB)")->transform(bytes());
  command.add_option("--seek", node.seek, "Mean time of a seek (3.8ms)")->transform(seconds());
  command.add_option("--rotation", node.rotation, "Mean time of half a turn (2ms)")
      ->transform(seconds());
}

void add_performance(CLI::App& plan, const Settings& settings, std::function<int()>& chosen) {
  auto* command = plan.add_subcommand("performance", "How much servers carry, in one tier or two");
  const auto options = std::make_shared<PerformanceOptions>();
  layout::Workload& work = options->work;
  command->add_option("--servers", options->servers, "Nodes in all")->check(CLI::Range(1, 4096));
  command->add_option("--request", work.request, "Bytes of a request (64KiB)")->transform(bytes());
  command->add_option("--unit", work.unit, "Bytes of a stripe unit (64KiB)")->transform(bytes());
  command
      ->add_option_function<double>(
          "--hits",
          [options](double hits) { options->work.io_hits = options->work.target_hits = hits; },
          "The part of reads that each tier's caches have")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--data", options->data, "Instead of --hits: bytes that are read")
      ->transform(bytes());
  command->add_option("--memory", options->memory, "... and bytes of cache a node has")
      ->transform(bytes());
  command
      ->add_option("--target-memory", options->target_memory,
                   "... and of a target, if it has not as much")
      ->transform(bytes());
  command->add_flag(
      "--no-io-cache", [options](std::int64_t) { options->io_cache = false; },
      "Two tiers: only the targets have caches, as with weft-ds without cache.size");
  command->add_option("--hot-accesses", options->hot_accesses, "... the part of reads that goes to")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--hot-data", options->hot_data, "... this part of the data")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--writes", work.writes, "The part of requests that write")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--copies", work.copies, "Copies of what is written, in one tier")
      ->check(CLI::Range(1, 3));
  command->add_option("--rate", options->rate, "Requests a second, for response times")
      ->check(CLI::PositiveNumber);
  add_node(*command, options->node);
  command->add_option("--slow", options->slow, "Nodes of a slower kind: targets, if they can be");
  command->add_option("--slower", options->slower, "... which are so many times slower")
      ->check(CLI::Range(1.0, 1e6));
  add_paper(*command, options->paper, "iPVFS");
  command->callback([&settings, &chosen, options, command] {
    require(*command, options->paper, {"--servers"});
    chosen = [&settings, options] { return plan_performance_command(settings, *options); };
  });
}

void add_wan(CLI::App& plan, const Settings& settings, std::function<int()>& chosen) {
  auto* command = plan.add_subcommand("wan", "How a client is mounted over a long link");
  const auto options = std::make_shared<WanOptions>();
  command->add_option("--bandwidth", options->bandwidth, "Bytes a second of the link: 119MiB")
      ->transform(bytes())
      ->required();
  command->add_option("--delay", options->delay, "There and back, as ping has it: 100ms")
      ->transform(seconds())
      ->required();
  command->add_option("--servers", options->servers, "Data servers that a file is striped over")
      ->check(CLI::Range(1u, layout::kMaxServers))
      ->capture_default_str();
  command->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return plan_wan_command(settings, *options); };
  });
}

}  // namespace

void add_plan(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  auto* plan =
      app.add_subcommand("plan", "Calculate what a system would be like")->require_subcommand(1);
  add_reliability(*plan, settings, chosen);
  add_performance(*plan, settings, chosen);
  add_wan(*plan, settings, chosen);
}

}  // namespace weft::cli
