#include "tools/weft/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "rpc/base/units.h"
#include "tools/weft/background_text.h"
#include "tools/weft/clients.h"
#include "tools/weft/df.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using mds::DataServerReport;
using mds::DsState;

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + printable(part);
  return out;
}

std::string bulleted(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += wrapped("  - ", printable(line));
  return out;
}

std::string states_of(const std::vector<DataServerReport>& servers) {
  std::string out;
  for (const auto state : {DsState::kUp, DsState::kSuspect, DsState::kDown, DsState::kUnknown}) {
    const auto count = std::count_if(servers.begin(), servers.end(),
                                     [state](const auto& server) { return server.state == state; });
    if (count != 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, to_string(state));
  }
  return out.empty() ? "none registered" : out;
}

// What is under way, for data servers where something is. Numbers are not shortened: beside long
// ones, of files made after a restore, there is no room for all columns in one table.
std::string repairs_text(const std::vector<DataServerReport>& servers) {
  Table all({"ID", "JOB", "FILEID", "FROM", "COMPARED", "OF", "COPIED", "RATE", "REMAINING"});
  Table jobs({"ID", "JOB", "FILEID", "FROM", "REMAINING"});
  Table bytes({"ID", "FILEID", "COMPARED", "OF", "COPIED", "RATE"});
  for (const DataServerReport& server : servers) {
    const std::string id = std::to_string(server.id);
    for (const mds::RepairReport& job : server.repairs) {
      const std::string kind = printable(job.kind);
      const std::string file = std::to_string(job.fileid);
      const std::string from = std::to_string(job.source);
      const std::string compared = human_bytes(job.compared_bytes);
      const std::string total = human_bytes(job.total_bytes);
      const std::string copied = human_bytes(job.copied_bytes);
      const std::string rate = human_bytes(job.bytes_per_second) + "/s";
      const std::string left = job.remaining_ms == 0 ? "-" : short_duration(job.remaining_ms);
      all.add({id, kind, file, from, compared, total, copied, rate, left});
      jobs.add({id, kind, file, from, left});
      bytes.add({id, file, compared, total, copied, rate});
    }
  }
  if (all.empty()) return "";
  return "\n" + (all.fits() ? all.text() : jobs.text() + "\n" + bytes.text());
}

std::string not_accepted_text(const std::vector<DataServerReport>& servers) {
  std::string out;
  for (const DataServerReport& server : servers) {
    if (server.not_accepted.empty()) continue;
    out += "\n" + wrapped(fmt::format("data server {}: ", server.id),
                          "not accepted: " + printable(server.not_accepted));
  }
  return out;
}

// Whose objects they are: "; fileid 12, 15 and 3 more".
std::string files_text(const mds::StuckReport& stuck) {
  const std::size_t named = stuck.fileids.size();
  if (named == 0) return "";
  return fmt::format(
      "; fileid {}{}", fmt::join(stuck.fileids, ", "),
      stuck.objects > named ? fmt::format(" and {} more", stuck.objects - named) : "");
}

// How far those are that are being left.
std::string leaving_text(const std::vector<DataServerReport>& servers) {
  Table table({"DATA SERVER", "DUTY", "OBJECTS LEFT", "MOVED", "OF FILES", "REMAINING"});
  std::string stuck;
  bool any = false;
  for (const DataServerReport& server : servers) {
    if (server.duty.empty() || server.duty == "serving") continue;
    any = true;
    table.add({std::to_string(server.id), printable(server.duty), short_count(server.objects_left),
               short_count(server.objects_moved), human_bytes(server.moved_bytes),
               server.move_remaining_ms == 0 ? "-" : short_duration(server.move_remaining_ms)});
    for (const mds::StuckReport& what : server.stuck) {
      stuck += wrapped(fmt::format("data server {}: ", server.id),
                       "cannot be moved: " + printable(stuck_text(what)) + files_text(what));
    }
  }
  return any ? "\n" + table.text() + stuck : "";
}

std::string proxy_of(const DataServerReport& server) {
  return server.proxy == "none" ? "-" : server.proxy;
}

// How what goes through the metadata server goes on: "shared memory to 1, 3; rdma to 2; tcp to 4".
std::string proxied_text(const std::vector<DataServerReport>& servers) {
  std::string out;
  for (const char* transport : {"shared memory", "rdma", "tcp"}) {
    std::vector<std::string> ids;
    for (const DataServerReport& server : servers) {
      if (server.proxy == transport) ids.push_back(std::to_string(server.id));
    }
    if (ids.empty()) continue;
    if (!out.empty()) out += "; ";
    out += fmt::format("{} to {}", transport, joined(ids));
  }
  return out;
}

// What one copy of everything finds room in, as `weft df` has it.
std::string raw_space_text(const std::vector<DataServerReport>& servers) {
  const SpaceReport space = space_of(servers);
  std::uint32_t away = 0;
  for (const DomainSpace& domain : space.domains) away += domain.away;
  return fmt::format("{} free of {}{}", human_bytes(space.copies[0].free_bytes),
                     human_bytes(space.copies[0].capacity_bytes),
                     away == 0 ? "" : fmt::format(", {} data servers not counted (weft df)", away));
}

// By which transports: "rdma", "rdma 2, tcp 1".
template <class Reached>
std::string transports_of(const std::vector<Reached>& reached) {
  std::map<std::string, std::size_t> counts;
  for (const Reached& one : reached) ++counts[one.transport];
  std::string out;
  for (const auto& [transport, count] : counts) {
    if (!out.empty()) out += ", ";
    out += counts.size() == 1 ? transport : fmt::format("{} {}", transport, count);
  }
  return printable(out);
}

// How data servers go on to others: "rdma from 1, 2; tcp from 3".
template <class Reached>
std::string reached_text(const std::vector<DataServerReport>& servers,
                         std::vector<Reached> DataServerReport::* reached) {
  std::map<std::string, std::vector<std::string>> from;
  for (const DataServerReport& server : servers) {
    std::set<std::string> by;
    for (const Reached& one : server.*reached) by.insert(one.transport);
    for (const std::string& transport : by) from[transport].push_back(std::to_string(server.id));
  }
  std::string out;
  for (const auto& [transport, ids] : from) {
    out += fmt::format("{}{} from {}", out.empty() ? "" : "; ", printable(transport), joined(ids));
  }
  return out;
}

std::string memory_text(const mds::MemoryReport& memory) {
  return fmt::format("{}, the store's cache {} of {}", human_bytes(memory.resident),
                     human_bytes(memory.cache), human_bytes(memory.cache_most));
}

std::string in_use_text(const mds::StatusReport& status) {
  const mds::MemoryReport& memory = status.memory;
  return fmt::format("{} opens, {} files at {}, {} layouts at {}", human_count(memory.opens),
                     human_count(memory.files), human_bytes(memory.file_each),
                     human_count(status.layouts_out), human_bytes(memory.layout_each));
}

}  // namespace

std::string status_text(const mds::SystemReport& system) {
  const mds::StatusReport& s = system.status;
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += wrapped(fmt::format("{:<17}", name), value);
  };
  line("metadata server",
       fmt::format("version {}, up {}{}", printable(s.version), human_duration(s.uptime_ms),
                   s.grace_left_ms == 0 ? ""
                                        : fmt::format(", in grace for {} at most",
                                                      human_duration(s.grace_left_ms))));
  line("clients", std::to_string(s.clients));
  line("data servers", states_of(system.data_servers));
  line("raw space", raw_space_text(system.data_servers));
  line("layouts",
       fmt::format("{} out, {} granted, {} refused, {} returned, {} committed", s.layouts_out,
                   human_count(s.layoutgets), human_count(s.layoutget_refusals),
                   human_count(s.layoutreturns), human_count(s.layoutcommits)));
  line("recalls", fmt::format("{} sent, {} pending, {} clients fenced", human_count(s.recalls),
                              s.recalls_pending, s.fences));
  line("served itself", fmt::format("{} READ ({}), {} WRITE ({})", human_count(s.mds_read_calls),
                                    human_bytes(s.mds_read_bytes), human_count(s.mds_write_calls),
                                    human_bytes(s.mds_written_bytes)));
  const mds::InlineReport& inlined = s.inlined;
  line("inline files", fmt::format("about {} in {}, {} READ ({}), {} WRITE ({}), {} grown{}",
                                   human_count(inlined.files), human_bytes(inlined.bytes),
                                   human_count(inlined.reads), human_bytes(inlined.read_bytes),
                                   human_count(inlined.writes), human_bytes(inlined.written_bytes),
                                   human_count(inlined.grown),
                                   inlined.busy ? "; the store is busy: new files are not" : ""));
  line("memory", memory_text(s.memory));
  line("", in_use_text(s));
  if (const auto proxied = proxied_text(system.data_servers); !proxied.empty()) {
    line("through it", proxied);
  }
  const auto to_partners = reached_text(system.data_servers, &DataServerReport::partners);
  if (!to_partners.empty()) line("to partners", to_partners);
  const auto to_targets = reached_text(system.data_servers, &DataServerReport::targets);
  if (!to_targets.empty()) line("to targets", to_targets);
  line("removals queued", human_count(s.removals_queued));
  line("repair", fmt::format("{} objects stale, {} resynced, {} compared,",
                             human_count(s.repair.stale_objects), human_count(s.repair.resynced),
                             human_count(s.repair.compared)));
  line("", fmt::format("{} copied, {} moved, {} failed tries", human_bytes(s.repair.copied_bytes),
                       human_count(s.repair.moved), human_count(s.repair.failed)));
  if (s.rebalance) line("rebalance", rebalance_text(*s.rebalance));
  const auto found = problems(system);
  out += found.empty() ? "problems         none\n" : "problems\n" + bulleted(found);
  return out;
}

namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : printable(text); }

// Which there are. `ago` stands behind when each was heard of.
Table which_table(const std::vector<DataServerReport>& servers, const char* ago) {
  Table which({"ID", "NAME", "DOMAIN", "STATE", "HEARD", "UP", "FREE", "OF", "STALE"},
              {"NAME", "DOMAIN"});
  for (const DataServerReport& server : servers) {
    const bool seen = server.state != DsState::kUnknown;
    const bool runs = seen && server.state != DsState::kDown;
    const auto known = [seen](std::string text) { return seen ? std::move(text) : "-"; };
    which.add({std::to_string(server.id), printable(server.name), or_dash(server.failure_domain),
               std::string(to_string(server.state)),
               known(short_duration(server.heartbeat_age_ms) + ago),
               runs ? short_duration(server.uptime_ms) : "-", known(human_bytes(server.free_bytes)),
               known(human_bytes(server.capacity_bytes)), short_count(server.stale_objects)});
  }
  return which;
}

std::string which_text(const std::vector<DataServerReport>& servers) {
  const Table which = which_table(servers, " ago");
  return which.fits() ? which.text() : which_table(servers, "").text();
}

// What they do.
std::string how_text(const std::vector<DataServerReport>& servers) {
  Table how({"ID", "CPU", "QUEUE", "DISK SPARE/S", "NET SPARE/S", "READ", "WRITTEN", "ERRORS"});
  for (const DataServerReport& server : servers) {
    const bool seen = server.state != DsState::kUnknown;
    const bool runs = seen && server.state != DsState::kDown;
    const auto known = [seen](std::string text) { return seen ? std::move(text) : "-"; };
    const auto now = [runs](std::string text) { return runs ? std::move(text) : "-"; };
    how.add({std::to_string(server.id), now(fmt::format("{}%", server.cpu_busy_permille / 10)),
             now(fmt::format("{:.1f}", server.run_queue_milli / 1000.0)),
             now(human_bytes(server.disk_available)), now(human_bytes(server.net_available)),
             known(human_bytes(server.read_bytes)), known(human_bytes(server.written_bytes)),
             known(short_count(server.errors))});
  }
  return how.text();
}

// Where each data server's objects and it itself are, a line for each address. Addresses that have
// no room beside the rest have a table of their own.
std::string where_text(const std::vector<DataServerReport>& servers, bool beside) {
  std::vector<std::string> head{"ID", "VERSION", "STORE", "PROXY", "PARTNERS"};
  if (beside) head.emplace_back("ADDRESSES");
  Table where(std::move(head), {"VERSION", "STORE"});
  Table apart({"ID", "ADDRESSES"});
  for (const DataServerReport& server : servers) {
    const bool seen = server.state != DsState::kUnknown;
    const std::string id = std::to_string(server.id);
    std::vector<std::string> row{id, or_dash(server.version), seen ? printable(server.store) : "-",
                                 printable(proxy_of(server)),
                                 or_dash(transports_of(server.partners))};
    if (beside) row.push_back(server.addresses.empty() ? "" : printable(server.addresses[0]));
    where.add(std::move(row));
    for (std::size_t i = beside ? 1 : 0; i < server.addresses.size(); ++i) {
      const std::string address = printable(server.addresses[i]);
      beside ? where.add({"", "", "", "", "", address}) : apart.add({i == 0 ? id : "", address});
    }
  }
  if (beside && !where.fits()) return where_text(servers, false);
  return where.text() + (apart.empty() ? "" : "\n" + apart.text());
}

std::string where_text(const std::vector<DataServerReport>& servers) {
  constexpr std::size_t kBeside = 26;  // columns: all of IPv4, and what is short of IPv6
  const bool beside = std::ranges::all_of(servers, [](const DataServerReport& server) {
    return std::ranges::all_of(server.addresses, [](const std::string& address) {
      return columns(printable(address)) <= kBeside;
    });
  });
  return where_text(servers, beside);
}

// A line for each range of clients, or each address, whichever are more. Where the two have no room
// beside each other, they have a table each.
std::string networks_text(const std::vector<DataServerReport>& servers) {
  Table both({"ID", "NETWORK", "CLIENTS", "ADDRESSES"}, {"NETWORK"});
  Table clients({"ID", "NETWORK", "CLIENTS"}, {"NETWORK"});
  Table addresses({"ID", "NETWORK", "ADDRESSES"}, {"NETWORK"});
  const auto at = [](const std::vector<std::string>& texts, std::size_t line) {
    return line < texts.size() ? printable(texts[line]) : std::string();
  };
  for (const DataServerReport& server : servers) {
    for (const mds::NetworkReport& network : server.networks) {
      const std::size_t lines = std::max(network.clients.size(), network.addresses.size());
      for (std::size_t line = 0; line < lines; ++line) {
        const std::string id = line == 0 ? std::to_string(server.id) : "";
        const std::string name = line == 0 ? printable(network.name) : "";
        const std::string client = at(network.clients, line);
        const std::string address = at(network.addresses, line);
        both.add({id, name, client, address});
        if (!client.empty()) clients.add({id, name, client});
        if (!address.empty()) addresses.add({id, name, address});
      }
    }
  }
  if (both.empty()) return "";
  return "\n" + (both.fits() ? both.text() : clients.text() + "\n" + addresses.text());
}

}  // namespace

std::string data_servers_text(const std::vector<DataServerReport>& servers) {
  if (servers.empty()) return "no data server has registered\n";
  return which_text(servers) + "\n" + how_text(servers) + "\n" + where_text(servers) +
         networks_text(servers) + not_accepted_text(servers) + leaving_text(servers) +
         repairs_text(servers);
}

namespace {

std::string copies_text(const mds::FileReport& file) {
  Table table(
      {"STRIPE", "COPY AT", "NAME", "STATE", "COPY IS", "LEADS WRITES", "DOMAIN", "CHOSEN FOR"},
      {"NAME", "DOMAIN"});
  for (std::size_t i = 0; i < file.stripes.size(); ++i) {
    for (const mds::CopyReport& copy : file.stripes[i].copies) {
      table.add({std::to_string(i), std::to_string(copy.ds_id), printable(copy.ds_name),
                 std::string(to_string(copy.ds_state)), printable(copy.state),
                 copy.leads ? "yes" : "-", copy.domain.empty() ? "-" : printable(copy.domain),
                 copy.why.empty() ? "-" : printable(copy.why)});
    }
  }
  if (table.empty()) return "";
  std::string out = table.text() + "\n";
  for (std::size_t i = 0; i < file.stripes.size(); ++i) {
    for (const mds::CopyReport& copy : file.stripes[i].copies) {
      if (copy.repair.empty()) continue;
      out += fmt::format("repair of stripe {} at {}: {}\n", i, copy.ds_id, printable(copy.repair));
    }
  }
  return out;
}

}  // namespace

namespace {

std::string groups_text(const mds::ScrubReport& scrub) {
  std::vector<std::string> lines;
  for (const mds::GroupReport& group : scrub.groups) lines.push_back(group_text(group));
  return lines.empty() ? "" : "parity groups\n" + bulleted(lines);
}

std::string finding_text(const mds::ScrubFindingReport& r) {
  std::string where;
  for (const mds::ExtentReport& extent : r.extents) {
    where += fmt::format("{}{}+{}", where.empty() ? " at " : ", ", extent.offset, extent.length);
  }
  return fmt::format(
      "fileid {}, stripe {}: the copy at data server {} differs from that at {} in {} bytes{}; {}",
      r.fileid, r.stripe, r.ds_id, r.source, r.differing_bytes, where,
      r.mended     ? "it was made equal to it"
      : r.majority ? "two copies agree; not made equal, since it was to be told only"
                   : "nothing says which is right, and nothing was changed");
}

std::string findings_text(const mds::ScrubReport& scrub) {
  std::vector<std::string> lines;
  bool open = false;
  for (const mds::ScrubFindingReport& finding : scrub.findings) {
    lines.push_back(finding_text(finding));
    open = open || !finding.mended;
  }
  if (scrub.unlisted > 0) lines.push_back(fmt::format("and {} more", scrub.unlisted));
  std::string out = lines.empty() ? "" : "found since the start\n" + bulleted(lines);
  if (open) {
    out +=
        "Which file that is: find MOUNT -inum FILEID. When you know which copy is right:\n"
        "weft scrub resolve FILE --from DS\n";
  }
  if (!scrub.resolved.empty()) out += "resolved\n" + bulleted(scrub.resolved);
  return out;
}

std::string crowded_text(const mds::ScrubReport& scrub) {
  if (scrub.crowded == 0) return "";
  const std::size_t named = scrub.crowded_fileids.size();
  if (named == 0) {
    return "two copies in one failure domain\n" +
           bulleted({fmt::format("{} files, of which none is named any more", scrub.crowded)});
  }
  return "two copies in one failure domain\n" +
         bulleted({fmt::format(
             "{} files: fileid {}{}", scrub.crowded, fmt::join(scrub.crowded_fileids, ", "),
             scrub.crowded > named ? fmt::format(" and {} more", scrub.crowded - named) : "")});
}

}  // namespace

std::string scrub_text(const mds::ScrubReport& scrub) {
  if (!scrub.running && scrub.rounds == 0 && scrub.resolved.empty()) {
    return "no scrub of copies since the metadata server started\n" + groups_text(scrub);
  }
  std::string out = fmt::format(
      "{}\ncompared   {} files, {}\nleft out   {} that were written\nfailed     {}\n"
      "differing  {} copies, {} made equal\n",
      scrub.running ? fmt::format("running for {}{}", human_duration(scrub.age_ms),
                                  scrub.only_tell ? ", changing nothing" : "")
                    : fmt::format("ended {} ago", human_duration(scrub.age_ms)),
      human_count(scrub.files), human_bytes(scrub.compared_bytes), human_count(scrub.written),
      human_count(scrub.failed), human_count(scrub.differing), human_count(scrub.mended));
  return out + findings_text(scrub) + crowded_text(scrub) + groups_text(scrub);
}

std::string file_text(const mds::FileReport& file) {
  std::string out = fmt::format(
      "file       {}\nfileid     {}\nsize       {} ({} bytes)\nobject     {}\n",
      printable(file.path), file.fileid, human_bytes(file.size), file.size, printable(file.object));
  if (file.inline_bytes) {
    out += fmt::format("layout     inline, {} bytes in the metadata store{}\n", *file.inline_bytes,
                       file.stripes.empty() ? ": as safe as that, whatever copies the policy says"
                                            : ", on their way to data servers");
  } else {
    out += fmt::format("layout     {}, {} stripes of {}{}\n", file.layout_type, file.stripes.size(),
                       human_bytes(file.stripe_unit),
                       file.device_id.empty() ? "" : ", device " + printable(file.device_id));
  }
  out += fmt::format("policy     {}\n\n", printable(file.policy));
  Table stripes({"STRIPE", "DATA SERVER", "NAME", "STATE", "CHOSEN FOR"}, {"NAME"});
  for (std::size_t i = 0; i < file.stripes.size(); ++i) {
    stripes.add({std::to_string(i), std::to_string(file.stripes[i].ds_id),
                 printable(file.stripes[i].ds_name),
                 std::string(to_string(file.stripes[i].ds_state)),
                 file.stripes[i].why.empty() ? "-" : printable(file.stripes[i].why)});
  }
  if (!stripes.empty()) out += stripes.text() + "\n";
  out += copies_text(file);
  if (file.skipped) out += "left out   " + printable(skipped_text(*file.skipped)) + "\n\n";
  if (file.moving) out += "moving     " + moving_text(*file.moving) + "\n\n";
  if (!file.io.empty()) {
    Table io({"TOLD BY CLIENTS OF", "READS", "READ", "WRITES", "WRITTEN", "ERRORS"});
    for (const mds::ServerIoReport& server : file.io) {
      io.add({printable(server.ds_name), human_count(server.reads), human_bytes(server.read_bytes),
              human_count(server.writes), human_bytes(server.written_bytes),
              human_count(server.errors)});
    }
    out += io.text() + "\n";
  }
  for (const mds::NoWayReport& one : file.no_way) {
    out += no_way_text(one.client, one.servers) + "\n";
  }
  if (!file.no_way.empty()) out += "\n";
  if (file.grants.empty()) return out + "no client holds a layout of it\n";
  Table grants({"CLIENT", "ID", "MODE", "HELD", "RECALLED"});
  for (const mds::GrantReport& grant : file.grants) {
    grants.add({printable(grant.client), fmt::format("{:016x}", grant.client_id),
                grant.write ? "read-write" : "read", human_duration(grant.age_ms),
                grant.recalled ? human_duration(grant.recall_age_ms) + " ago" : "-"});
  }
  return out + grants.text();
}

std::string policy_text(const mds::PolicyReport& report) {
  std::string out;
  if (report.directory) {
    out = fmt::format("{}: {}\n\n", printable(report.path),
                      report.own.empty() ? "no policy of its own" : printable(report.own));
  }
  Table table({"KEY", "VALUE", "FROM"});
  for (const mds::PolicyRow& row : report.rows) {
    table.add({printable(row.key), printable(row.value), printable(row.from)});
  }
  return out + table.text();
}

namespace {

Json value_json(const std::string& text) {
  const Json plain = Json::parse(text, nullptr, false);
  if (plain.is_boolean() || plain.is_number()) return plain;
  if (const auto bytes = parse_bytes(text)) return *bytes;
  if (const auto seconds = parse_seconds(text)) return *seconds;
  return text;
}

}  // namespace

Json option_json(const std::string& text, const std::string& like) {
  return value_json(like).is_string() ? Json(text) : value_json(text);
}

Json policy_json(const mds::PolicyReport& report) {
  Json document = to_json(report);
  for (Json& row : document["effective"]) {
    const auto text = row["value"].get<std::string>();
    row["value"] = option_json(text, text);
  }
  return document;
}

std::string verify_text(const std::string& mount, const Judgement& j) {
  std::string out;
  switch (j.verdict) {
    case Verdict::kPnfs: out = "{}: pNFS works: all I/O went to data servers\n"; break;
    case Verdict::kPartly: out = "{}: some I/O went through the metadata server\n"; break;
    case Verdict::kFallback: out = "{}: NO pNFS: all I/O went through the metadata server\n"; break;
    case Verdict::kImpossible: out = "{}: NO pNFS: this mount cannot use it\n"; break;
    case Verdict::kUnknown: out = "{}: cannot tell\n"; break;
  }
  out = fmt::format(fmt::runtime(out), printable(mount));
  out += fmt::format("layout driver    {}\n", printable(j.driver));
  out += fmt::format("data servers     {} READ, {} WRITE (counted by the client)\n",
                     human_count(j.ds_reads), human_count(j.ds_writes));
  out += fmt::format("metadata server  {} READ, {} WRITE (counted by the client)\n",
                     human_count(j.mds_reads), human_count(j.mds_writes));
  if (j.server_mds_reads && j.server_mds_writes) {
    out += fmt::format("metadata server  {} READ, {} WRITE (counted there, all clients)\n",
                       human_count(*j.server_mds_reads), human_count(*j.server_mds_writes));
  }
  if (!j.traffic.empty()) {
    Table table({"DATA SERVER", "STATE", "READ", "WRITTEN"});
    for (const DsTraffic& server : j.traffic) {
      table.add({printable(server.name), std::string(to_string(server.state)),
                 human_bytes(server.read_bytes), human_bytes(server.written_bytes)});
    }
    out += "\n" + table.text();
  }
  if (!j.reasons.empty()) out += "\n" + bulleted(j.reasons);
  return out;
}

Json data_servers_json(const std::vector<mds::DataServerReport>& servers) {
  Json out = Json::array();
  for (const DataServerReport& server : servers) out.push_back(to_json(server));
  return out;
}

Json verify_json(const std::string& mount, const Judgement& judgement) {
  Json out = {{"mount", mount}};
  out.update(to_json(judgement));
  return out;
}

}  // namespace weft::cli
