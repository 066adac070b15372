#include "tools/weft/clients.h"

#include <spdlog/fmt/fmt.h>

#include "ganesha-fsal/admin/client.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {

std::string no_way_text(const std::string& client, const std::vector<mds::ServerName>& servers) {
  std::string names;
  for (const mds::ServerName& server : servers) {
    names += (names.empty() ? "" : ", ") + printable(server.name);
  }
  return fmt::format("{} is in no network of {}: it gets no layouts there", printable(client),
                     names);
}

std::string clients_text(const mds::ClientsReport& report) {
  if (report.clients.empty()) return "no client has a lease\n";
  Table what({"ADDRESS", "NFS", "OPENS", "READING", "WRITING", "RECALLED", "SLOWEST RECALL"});
  Table moved({"ADDRESS", "LEASE RENEWED", "READS", "READ", "WRITES", "WRITTEN"});
  Table who({"ADDRESS", "ID", "NAME"});
  std::string no_way;
  for (const mds::ClientReport& client : report.clients) {
    const std::string address = client.address.empty() ? "-" : printable(client.address);
    what.add({address, fmt::format("4.{}", client.minor_version), human_count(client.opens),
              human_count(client.reading), human_count(client.writing),
              human_count(client.recalled),
              client.recalled == 0 ? "-" : human_duration(client.oldest_recall_ms)});
    moved.add({address, human_duration(client.renewed_ms) + " ago", human_count(client.reads),
               human_bytes(client.read_bytes), human_count(client.writes),
               human_bytes(client.written_bytes)});
    who.add({address, fmt::format("{:x}", client.id), printable(client.owner)});
    if (!client.no_way.empty()) no_way += no_way_text(client.address, client.no_way) + "\n";
  }
  return fmt::format("{} clients; a lease lasts {}\n\n{}\nthrough the metadata server\n{}\n{}{}{}",
                     human_count(report.count), human_duration(report.lease_ms), what.text(),
                     moved.text(), who.text(), no_way.empty() ? "" : "\n", no_way);
}

int clients_command(const Settings& settings) {
  const auto report = mds::admin::Client(settings.socket).ask(mds::admin::GetClients{});
  if (!report) return complain_of_admin(settings.socket, report.error());
  settings.json ? print(to_json(*report)) : print(clients_text(*report));
  return kExitGood;
}

}  // namespace weft::cli
