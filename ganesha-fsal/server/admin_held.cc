#include "ganesha-fsal/server/admin_held.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "ganesha-fsal/admin/reply_room.h"
#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/server/admin_maintenance.h"
#include "rpc/control/options.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/try_addresses.h"

namespace weft::mds {
namespace {

constexpr std::size_t kAtOnce = 16;
constexpr const char* kNotConnected = "it is not connected";

std::vector<std::string> names_of(const std::vector<std::uint64_t>& fingerprints) {
  std::vector<std::string> names;
  for (const std::uint64_t key : fingerprints) names.push_back(fmt::format("{:016x}", key));
  return names;
}

// What a data server has answered in place of what it was asked for.
std::string why_not(const Error& error) {
  if (error == Errc::kNotSupported) return "it is of a version that does not tell";
  return error == Errc::kNotFound ? error.text : error.describe();
}

// A report for each of these data servers: take(report, answer) writes down what it said, and
// `why` says why there is no answer. Data servers that do not answer cost their deadline once, not
// one after the other.
template <class Report, class Request, class Take>
std::vector<Report> ask_each(MetadataServer& server, const std::vector<ServerView>& data_servers,
                             const Request& request, const Take& take) {
  std::vector<Report> reports(data_servers.size());
  in_parallel(data_servers.size(), kAtOnce, [&](std::size_t at) {
    const ServerView& view = data_servers[at];
    Report& report = reports[at];
    report.server = name_of(view);
    if (!view.connected) {
      report.why = kNotConnected;
      return;
    }
    const auto answer = server.cluster().ask(view.record.id, request);
    if (answer) {
      take(report, *answer);
    } else {
      report.why = why_not(answer.error());
    }
  });
  return reports;
}

// Of a data server that has said which keys it has itself: what it says of its targets.
void add_targets(ServerKeysReport& of, ServerKeysReport said) {
  of.targets = std::move(said.targets);
  if (!said.why.empty()) {
    of.targets.push_back({.address = {}, .keys = {}, .why = "its data server: " + said.why});
  }
}

KeysReport keys(MetadataServer& server) {
  const auto data_servers = server.cluster().registry().list();
  KeysReport report{.servers = {}, .asks_targets = true};
  report.servers =
      ask_each<ServerKeysReport>(server, data_servers, control::GetKeys{},
                                 [](ServerKeysReport& of, const control::HeldKeys& held) {
                                   of.keys = names_of(held.fingerprints);
                                 });
  auto of_targets = ask_each<ServerKeysReport>(
      server, data_servers, control::GetTargetKeys{},
      [](ServerKeysReport& of, const control::HeldByTargets& held) {
        for (const control::TargetKeys& target : held.targets) {
          of.targets.push_back({.address = target.address,
                                .keys = names_of(target.held.fingerprints),
                                .why = target.why});
        }
      });
  for (std::size_t i = 0; i < report.servers.size(); ++i) {
    if (report.servers[i].why.empty()) add_targets(report.servers[i], std::move(of_targets[i]));
  }
  report.servers.insert(
      report.servers.begin(),
      {.server = {}, .keys = names_of(server.keys().now().fingerprints), .why = {}, .targets = {}});
  return report;
}

// That data server, or all.
Result<std::vector<ServerView>> servers_named(MetadataServer& server, const std::string& whom) {
  if (whom.empty()) return server.cluster().registry().list();
  auto view = find_server(server, whom);
  if (!view) return pass(view);
  return std::vector{std::move(*view)};
}

std::vector<OptionReport> reports_of(const control::Options& told) {
  std::vector<OptionReport> reports;
  for (const control::Option& one : told.options) {
    reports.push_back({one.name, one.value, one.by_default});
  }
  return reports;
}

Result<ServersOptionsReport> options(MetadataServer& server, const std::string& whom) {
  auto asked = servers_named(server, whom);
  if (!asked) return pass(asked);
  ServersOptionsReport report{
      ask_each<ServerOptionsReport>(server, *asked, control::GetOptions{},
                                    [](ServerOptionsReport& of, const control::Options& told) {
                                      of.options = reports_of(told);
                                    })};
  admin::fit(report);
  return report;
}

// One after the other: a message has room for one.
ServerTargetsReport targets_of(MetadataServer& server, const ServerView& view) {
  ServerTargetsReport report{.server = name_of(view), .targets = {}, .why = {}};
  if (!view.connected) {
    report.why = kNotConnected;
    return report;
  }
  for (std::uint32_t at = 0; at < control::HeldByTargets::kMost; ++at) {
    auto told = server.cluster().ask(view.record.id, control::GetAboutTarget{at});
    if (!told) {
      const bool too_old = told.error() == Errc::kNotSupported;
      report.why = too_old ? kTooOldForTargets : why_not(told.error());
      return report;
    }
    if (at >= told->targets) break;
    report.targets.push_back({std::move(told->address), std::move(told->about.version),
                              reports_of(told->about.options), std::move(told->why)});
  }
  return report;
}

Result<TargetsReport> targets(MetadataServer& server, const std::string& whom) {
  auto asked = servers_named(server, whom);
  if (!asked) return pass(asked);
  TargetsReport report;
  report.servers.resize(asked->size());
  in_parallel(asked->size(), kAtOnce,
              [&](std::size_t at) { report.servers[at] = targets_of(server, (*asked)[at]); });
  admin::fit(report);
  return report;
}

// Where one data server is to connect to.
struct Way {
  ServerName to;
  layout::NetAddress address;
};

std::vector<Way> ways_from(const ServerView& from, const std::vector<ServerView>& data_servers) {
  std::vector<Way> ways;
  for (const ServerView& to : data_servers) {
    if (to.record.id == from.record.id || !to.connected) continue;
    for (const layout::NetAddress& address : to.record.addresses) {
      ways.push_back({name_of(to), address});
    }
  }
  return ways;
}

ServerPathsReport paths_from(MetadataServer& server, const ServerView& view,
                             const std::vector<ServerView>& data_servers) {
  ServerPathsReport report{.server = name_of(view), .broken = {}, .why = {}};
  if (!view.connected) {
    report.why = kNotConnected;
    return report;
  }
  const std::vector<Way> ways = ways_from(view, data_servers);
  while (report.tried < ways.size()) {
    const auto next = std::span(ways).subspan(report.tried);
    control::TryAddresses request;
    for (const Way& way : next.first(std::min(next.size(), control::TryAddresses::kMost))) {
      request.addresses.push_back(way.address);
    }
    const auto tried = server.cluster().ask(view.record.id, request);
    if (!tried || tried->why.size() != request.addresses.size()) {
      const bool too_old = !tried && tried.error() == Errc::kNotSupported;
      report.why = too_old ? kTooOldForPaths : tried ? "its answer is odd" : why_not(tried.error());
      return report;
    }
    for (std::size_t at = 0; at < tried->why.size(); ++at) {
      if (tried->why[at].empty()) continue;
      report.broken.push_back({next[at].to, layout::to_string(next[at].address), tried->why[at]});
    }
    report.tried += static_cast<std::uint32_t>(tried->why.size());
  }
  return report;
}

PathsReport paths(MetadataServer& server) {
  const auto data_servers = server.cluster().registry().list();
  PathsReport report;
  report.servers.resize(data_servers.size());
  in_parallel(data_servers.size(), kAtOnce, [&](std::size_t at) {
    report.servers[at] = paths_from(server, data_servers[at], data_servers);
  });
  std::size_t room = kLongList;
  for (ServerPathsReport& one : report.servers) {
    if (one.broken.size() > room) {
      one.broken.resize(room);
      one.why = "one answer has no room for all of its broken paths";
    }
    room -= one.broken.size();
  }
  return report;
}

SegmentsReport segments(MetadataServer& server) {
  return {ask_each<ServerSegmentsReport>(
      server, server.cluster().registry().list(), control::GetSegments{},
      [](ServerSegmentsReport& of, const control::SegmentCounts& counts) {
        of.kept = true;
        of.counts = counts;
      })};
}

}  // namespace

void add_held(MetadataServer& server, admin::Table& table) {
  table.on<admin::GetKeys>([&server](auto&) { return keys(server); });
  table.on<admin::GetServerOptions>([&server](const admin::GetServerOptions& request) {
    return options(server, request.server);
  });
  table.on<admin::GetTargets>(
      [&server](const admin::GetTargets& request) { return targets(server, request.server); });
  table.on<admin::GetPaths>([&server](auto&) { return paths(server); });
  table.on<admin::GetSegments>([&server](auto&) { return segments(server); });
}

}  // namespace weft::mds
