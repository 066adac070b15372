#include "tools/weft/df.h"

#include <spdlog/fmt/fmt.h>

#include <map>

#include "layout/room.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

bool takes_files(const mds::DataServerReport& server) {
  const bool here = server.state == mds::DsState::kUp || server.state == mds::DsState::kSuspect;
  return here && server.trouble.empty() && (server.duty.empty() || server.duty == "serving");
}

// With each copy in another one of these: data servers, or failure domains.
template <class Place>
std::uint64_t room(const std::vector<Place>& places, unsigned copies,
                   std::uint64_t Place::* bytes) {
  std::vector<std::uint64_t> each;
  for (const Place& place : places) each.push_back(place.*bytes);
  return layout::room_for(std::move(each), copies);
}

}  // namespace

SpaceReport space_of(const std::vector<mds::DataServerReport>& servers) {
  std::map<std::string, DomainSpace> domains;
  std::vector<mds::DataServerReport> taking;
  for (const mds::DataServerReport& server : servers) {
    DomainSpace& domain = domains[server.failure_domain];
    domain.name = server.failure_domain;
    if (!takes_files(server)) {
      ++domain.away;
      continue;
    }
    taking.push_back(server);
    ++domain.servers;
    domain.free_bytes += server.free_bytes;
    domain.capacity_bytes += server.capacity_bytes;
  }
  SpaceReport space;
  std::vector<DomainSpace> there;
  for (auto& [name, domain] : domains) {
    if (domain.servers > 0) there.push_back(domain);
    space.domains.push_back(std::move(domain));
  }
  for (unsigned copies = 1; copies <= space.copies.size(); ++copies) {
    space.copies[copies - 1] = {
        .free_bytes = room(taking, copies, &mds::DataServerReport::free_bytes),
        .capacity_bytes = room(taking, copies, &mds::DataServerReport::capacity_bytes),
        .apart_bytes = room(there, copies, &DomainSpace::free_bytes)};
  }
  return space;
}

std::string space_text(const SpaceReport& space) {
  Table domains({"DOMAIN", "SERVERS", "AWAY", "FREE", "OF"}, {"DOMAIN"});
  std::uint32_t away = 0;
  for (const DomainSpace& domain : space.domains) {
    away += domain.away;
    domains.add({domain.name.empty() ? "-" : printable(domain.name), std::to_string(domain.servers),
                 std::to_string(domain.away), human_bytes(domain.free_bytes),
                 human_bytes(domain.capacity_bytes)});
  }
  if (domains.empty()) return "no data server has registered\n";
  Table copies({"COPIES", "ROOM FOR", "OF"});
  std::string shared;
  for (std::size_t i = 0; i < space.copies.size(); ++i) {
    const CopiesSpace& of = space.copies[i];
    const bool can = of.capacity_bytes > 0;
    copies.add({std::to_string(i + 1), can ? human_bytes(of.free_bytes) : "-",
                can ? human_bytes(of.capacity_bytes) : "too few data servers"});
    if (of.apart_bytes >= of.free_bytes) continue;
    shared += fmt::format(
        "{}with {} copies, each in another failure domain: {}\n", shared.empty() ? "\n" : "", i + 1,
        of.apart_bytes > 0 ? "room for " + human_bytes(of.apart_bytes) : "no room");
  }
  std::string out = domains.text() + "\n" + copies.text() + shared;
  if (away > 0) {
    out += fmt::format("\n{} data servers are away or being left, and are not counted\n", away);
  }
  return out;
}

Json space_json(const SpaceReport& space) {
  Json domains = Json::array();
  for (const DomainSpace& domain : space.domains) {
    domains.push_back({{"failure_domain", domain.name},
                       {"servers", domain.servers},
                       {"away", domain.away},
                       {"free_bytes", domain.free_bytes},
                       {"capacity_bytes", domain.capacity_bytes}});
  }
  Json copies = Json::array();
  for (std::size_t i = 0; i < space.copies.size(); ++i) {
    copies.push_back({{"copies", i + 1},
                      {"free_bytes", space.copies[i].free_bytes},
                      {"capacity_bytes", space.copies[i].capacity_bytes},
                      {"in_different_domains_bytes", space.copies[i].apart_bytes}});
  }
  return {{"domains", domains}, {"by_copies", copies}};
}

}  // namespace weft::cli
