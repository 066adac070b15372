#include "tools/weft/versions.h"

#include <spdlog/fmt/fmt.h>

#include <set>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

// Of those whose version is not known, in the text.
constexpr std::size_t kMostNamed = 8;
constexpr std::size_t kLongestName = 40;  // columns

// A program's version, and why it does not tell of its targets.
std::string version_cell(const std::string& version, const std::string& why) {
  std::string cell = version.empty() ? "not seen" : printable(version);
  if (why == mds::kTooOldForTargets) return cell + "; " + why;
  return why.empty() ? cell : cell + "; targets: " + printable(why);
}

}  // namespace

std::vector<std::string> unknown_versions(const Versions& versions) {
  std::vector<std::string> unknown;
  for (const mds::DataServerReport& server : versions.servers) {
    if (server.version.empty()) unknown.push_back(printable(server.name));
  }
  if (versions.too_old) unknown.emplace_back("targets of all data servers");
  for (const mds::ServerTargetsReport& server : versions.targets.servers) {
    const std::string name = printable(server.server.name);
    if (!server.why.empty()) unknown.push_back("targets of " + name);
    for (const mds::AboutTargetReport& target : server.targets) {
      if (target.version.empty()) unknown.push_back(printable(target.address) + " of " + name);
    }
  }
  return unknown;
}

namespace {

// Of those that are known.
bool any_other(const Versions& versions) {
  std::set<std::string> seen{versions.own, versions.metadata_server};
  for (const mds::DataServerReport& server : versions.servers) seen.insert(server.version);
  for (const mds::ServerTargetsReport& server : versions.targets.servers) {
    for (const mds::AboutTargetReport& target : server.targets) seen.insert(target.version);
  }
  seen.erase("");
  return seen.size() > 1;
}

}  // namespace

bool all_the_same(const Versions& versions) {
  return !any_other(versions) && unknown_versions(versions).empty();
}

std::string versions_text(const Versions& versions) {
  Table table({"PROGRAM", "AT", "VERSION"}, {"AT", "VERSION"});
  table.add({"weft", "this machine", versions.own});
  table.add(
      {"metadata server", "this machine",
       version_cell(versions.metadata_server, versions.too_old ? mds::kTooOldForTargets : "")});
  for (const mds::DataServerReport& server : versions.servers) {
    table.add({"weft-ds", printable(server.name),
               version_cell(server.version, mds::why_no_targets(versions.targets, server.id))});
  }
  for (const mds::ServerTargetsReport& server : versions.targets.servers) {
    for (const mds::AboutTargetReport& target : server.targets) {
      table.add({"weft-target",
                 fmt::format("{} of {}", printable(target.address), printable(server.server.name)),
                 target.version.empty() ? "not known: " + printable(target.why)
                                        : printable(target.version)});
    }
  }
  std::string text = table.text();
  if (all_the_same(versions)) return text;
  text += "\n";
  if (any_other(versions)) text += "not all are the same: install one version everywhere\n";
  std::vector<std::string> unknown = unknown_versions(versions);
  for (std::string& name : unknown) name = shortened(name, kLongestName);
  if (unknown.size() > kMostNamed) {
    const std::size_t more = unknown.size() - kMostNamed;
    unknown.resize(kMostNamed);
    unknown.push_back(fmt::format("and {} more", more));
  }
  if (!unknown.empty()) text += wrapped("not known: ", fmt::format("{}", fmt::join(unknown, ", ")));
  return text;
}

Json versions_json(const Versions& versions) {
  Json servers = Json::array();
  for (const mds::DataServerReport& server : versions.servers) {
    servers.push_back(
        {{"id", server.id},
         {"name", server.name},
         {"version", server.version},
         {"why_no_targets", versions.too_old ? "the metadata server is too old to ask"
                                             : mds::why_no_targets(versions.targets, server.id)}});
  }
  Json targets = Json::array();
  for (const mds::ServerTargetsReport& server : versions.targets.servers) {
    for (const mds::AboutTargetReport& target : server.targets) {
      targets.push_back({{"address", target.address},
                         {"data_server", server.server.name},
                         {"version", target.version},
                         {"why", target.why}});
    }
  }
  return {{"weft", versions.own},
          {"metadata_server", versions.metadata_server},
          {"data_servers", servers},
          {"targets", targets},
          {"unknown", unknown_versions(versions)},
          {"same", all_the_same(versions)}};
}

}  // namespace weft::cli
