#include "tools/weft/plan_options.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tools/weft/plan.h"
#include "tools/weft/plan_performance.h"

namespace weft::cli {
namespace {

using layout::Duplication;

// A number, spaces or none, a unit. CLI11's own AsNumberWithUnit keeps six digits: 1M would be
// 1048580.
CLI::Validator with_unit(std::map<std::string, double> units, const std::string& name) {
  return {[units = std::move(units)](std::string& text) -> std::string {
            double number = 0;
            const char* last = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), last, number);
            std::string unit(end, last);
            unit.erase(0, unit.find_first_not_of(' '));
            const auto found = units.find(unit);
            if (error != std::errc{} || found == units.end()) {
              std::string known;
              for (const auto& [one, factor] : units) known += one.empty() ? "" : " " + one;
              return "'" + text + "' is no number with a unit (" + known.substr(1) + ")";
            }
            text = fmt::format("{}", number * found->second);
            return "";
          },
          name};
}

CLI::Validator seconds() {
  return with_unit(
      {{"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"y", 365.0 * 86400}},
      "DURATION");
}

CLI::Validator bytes() {
  std::map<std::string, double> units{{"", 1}, {"B", 1}};
  double size = 1;
  for (const char* unit : {"K", "M", "G", "T", "P"}) {
    size *= 1024;
    units[unit] = units[std::string(unit) + "iB"] = size;
  }
  return with_unit(std::move(units), "BYTES");
}

// Precondition: a name that the option's check let pass.
Duplication protocol(const std::string& name) {
  for (const auto one :
       {Duplication::kServerAsync, Duplication::kClientAsync, Duplication::kClientSync}) {
    if (name == to_string(one)) return one;
  }
  return Duplication::kServerSync;
}

void add_reliability(CLI::App& plan, const Settings& settings, std::function<int()>& chosen) {
  auto* command = plan.add_subcommand("reliability", "How long data is likely to last");
  const auto options = std::make_shared<ReliabilityOptions>();
  command->add_option("--groups", options->groups, "Mirror groups (without mirrors: servers)")
      ->check(CLI::Range(1u, layout::kMaxPlannedGroups))
      ->required();
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
      ->transform(seconds())
      ->required();
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
  command->callback([&settings, &chosen, options] {
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
  command->add_option("--servers", options->servers, "Nodes in all")
      ->check(CLI::Range(1, 4096))
      ->required();
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
  command->add_flag(
      "--no-io-cache", [options](std::int64_t) { options->io_cache = false; },
      "Two tiers: only the targets have caches, as weft-ds over targets has none");
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
  command->callback([&settings, &chosen, options] {
    chosen = [&settings, options] { return plan_performance_command(settings, *options); };
  });
}

}  // namespace

void add_plan(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  auto* plan = app.add_subcommand("plan", "What a system would be like")->require_subcommand(1);
  add_reliability(*plan, settings, chosen);
  add_performance(*plan, settings, chosen);
}

}  // namespace weft::cli
