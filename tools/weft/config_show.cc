#include "tools/weft/config_show.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>

#include "ganesha-fsal/admin/client.h"
#include "tools/weft/output.h"
#include "tools/weft/report.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::chrono::seconds kPatience{30};  // data servers may not answer

std::string or_dash(const std::string& text) { return text.empty() ? "-" : printable(text); }

std::string options_text(const std::vector<mds::OptionReport>& options) {
  Table table({"OPTION", "VALUE", "DEFAULT"});
  for (const mds::OptionReport& option : options) {
    table.add({printable(option.name), or_dash(option.value),
               option.is_default() ? "yes" : "no: " + or_dash(option.by_default)});
  }
  return table.empty() ? "all are the defaults\n" : table.text();
}

Json options_json(const std::vector<mds::OptionReport>& options) {
  Json rows = Json::array();
  for (const mds::OptionReport& option : options) {
    rows.push_back({{"name", option.name},
                    {"value", option_json(option.value, option.by_default)},
                    {"default", option_json(option.by_default, option.by_default)},
                    {"is_default", option.is_default()}});
  }
  return rows;
}

// Whether a data server told of its own options: of one that did not the reason is there already.
bool tells(const mds::ServersOptionsReport& report, std::uint32_t id) {
  return std::ranges::any_of(report.servers, [id](const mds::ServerOptionsReport& one) {
    return one.server.id == id && one.why.empty();
  });
}

}  // namespace

std::string config_text(const RunningConfig& report) {
  std::string out;
  if (report.here) {
    out = "metadata server\n" + options_text(report.here->options);
    for (const mds::ExportReport& one : report.here->exports) {
      out +=
          fmt::format("\nexport {} {}\n", one.id, printable(one.path)) + options_text(one.options);
    }
  }
  for (const mds::ServerOptionsReport& one : report.servers.servers) {
    if (!out.empty()) out += "\n";
    out += fmt::format("data server {} ({})", one.server.id, printable(one.server.name));
    out += one.why.empty() ? "\n" + options_text(one.options)
                           : ": not known: " + printable(one.why) + "\n";
  }
  for (const mds::ServerTargetsReport& server : report.targets.servers) {
    const std::string of =
        fmt::format("of data server {} ({})", server.server.id, printable(server.server.name));
    if (!server.why.empty() && tells(report.servers, server.server.id)) {
      out += fmt::format("\ntargets {}: not known: {}\n", of, printable(server.why));
    }
    for (const mds::AboutTargetReport& one : server.targets) {
      out += fmt::format("\ntarget {} {}", printable(one.address), of);
      out += one.why.empty() ? "\n" + options_text(one.options)
                             : ": not known: " + printable(one.why) + "\n";
    }
  }
  return out;
}

Json config_json(const RunningConfig& report) {
  Json out = Json::object();
  if (report.here) {
    Json exports = Json::array();
    for (const mds::ExportReport& one : report.here->exports) {
      exports.push_back(
          {{"id", one.id}, {"path", one.path}, {"options", options_json(one.options)}});
    }
    out["options"] = options_json(report.here->options);
    out["exports"] = exports;
  }
  Json servers = Json::array();
  for (const mds::ServerOptionsReport& one : report.servers.servers) {
    servers.push_back({{"id", one.server.id},
                       {"name", one.server.name},
                       {"options", options_json(one.options)},
                       {"why", one.why},
                       {"why_no_targets", mds::why_no_targets(report.targets, one.server.id)}});
  }
  out["data_servers"] = servers;
  Json targets = Json::array();
  for (const mds::ServerTargetsReport& server : report.targets.servers) {
    for (const mds::AboutTargetReport& one : server.targets) {
      targets.push_back({{"address", one.address},
                         {"data_server", server.server.name},
                         {"options", options_json(one.options)},
                         {"why", one.why}});
    }
  }
  out["targets"] = targets;
  return out;
}

RunningConfig only_changed(RunningConfig report) {
  if (report.here) {
    std::erase_if(report.here->options, &mds::OptionReport::is_default);
    for (mds::ExportReport& one : report.here->exports) {
      std::erase_if(one.options, &mds::OptionReport::is_default);
    }
  }
  for (mds::ServerOptionsReport& one : report.servers.servers) {
    std::erase_if(one.options, &mds::OptionReport::is_default);
  }
  for (mds::ServerTargetsReport& server : report.targets.servers) {
    for (mds::AboutTargetReport& one : server.targets) {
      std::erase_if(one.options, &mds::OptionReport::is_default);
    }
  }
  return report;
}

int config_show_command(const Settings& settings, const ConfigShowOptions& options) {
  const mds::admin::Client client(settings.socket, kPatience);
  RunningConfig running;
  if (options.server.empty()) {
    auto here = client.ask(mds::admin::GetConfig{});
    if (!here) return complain_of_admin(settings.socket, here.error());
    running.here = std::move(*here);
  }
  auto servers = client.ask(mds::admin::GetServerOptions{options.server});
  // A metadata server of the version before does not ask them.
  const bool older = !servers && servers.error() == Errc::kNotSupported && running.here.has_value();
  if (!servers && !older) return complain_of_admin(settings.socket, servers.error());
  if (servers) running.servers = std::move(*servers);
  auto targets = client.ask(mds::admin::GetTargets{options.server});
  if (!targets && targets.error() != Errc::kNotSupported) {
    return complain_of_admin(settings.socket, targets.error());
  }
  if (targets) running.targets = std::move(*targets);
  if (options.changed) running = only_changed(std::move(running));
  settings.json ? print(config_json(running)) : print(config_text(running));
  return kExitGood;
}

}  // namespace weft::cli
