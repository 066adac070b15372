#include "tools/weft/verify.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tools/weft/clients.h"

namespace weft::cli {
namespace {

std::uint64_t less(std::uint64_t after, std::uint64_t before) {
  return after > before ? after - before : 0;
}

// A server's counter that went down began again from 0: the server was restarted.
std::uint64_t grown(std::uint64_t after, std::uint64_t before) {
  return after >= before ? after - before : after;
}

bool older_than_41(const MountStats& mount) {
  const std::string version = mount.option("vers");
  return mount.fstype == "nfs" || version == "3" || version == "4.0" || version == "4";
}

std::string driver_name(const std::string& kernel_name) {
  if (kernel_name == "LAYOUT_NFSV4_1_FILES") return "files";
  if (kernel_name == "LAYOUT_FLEX_FILES") return "flexfiles";
  if (kernel_name.empty() || kernel_name == "not configured") return "none";
  return kernel_name;
}

void count_calls(const Observation& seen, Judgement& out) {
  const auto calls = [&](const char* name) {
    return less(seen.after.op(name).calls, seen.before.op(name).calls);
  };
  out.ds_reads = less(seen.after.pnfs_reads, seen.before.pnfs_reads);
  out.ds_writes = less(seen.after.pnfs_writes, seen.before.pnfs_writes);
  out.mds_reads = less(calls("READ"), out.ds_reads);
  out.mds_writes = less(calls("WRITE"), out.ds_writes);
  out.layoutget_errors =
      less(seen.after.op("LAYOUTGET").errors, seen.before.op("LAYOUTGET").errors);
}

void count_servers(const Observation& seen, Judgement& out) {
  if (!seen.server_after) return;
  const mds::SystemReport before = seen.server_before.value_or(mds::SystemReport{});
  const mds::SystemReport& after = *seen.server_after;
  // Inline files are read and written there.
  const auto reads = [](const mds::StatusReport& status) {
    return status.mds_read_calls - status.inlined.reads;
  };
  const auto writes = [](const mds::StatusReport& status) {
    return status.mds_write_calls - status.inlined.writes;
  };
  out.server_mds_reads = grown(reads(after.status), reads(before.status));
  out.server_mds_writes = grown(writes(after.status), writes(before.status));
  for (const mds::DataServerReport& server : after.data_servers) {
    const auto old = std::find_if(before.data_servers.begin(), before.data_servers.end(),
                                  [&](const auto& other) { return other.id == server.id; });
    const bool known = old != before.data_servers.end();
    out.traffic.push_back({server.id, server.name, server.state,
                           grown(server.read_bytes, known ? old->read_bytes : 0),
                           grown(server.written_bytes, known ? old->written_bytes : 0)});
  }
}

Verdict verdict_of(const Observation& seen, const Judgement& counted) {
  if (older_than_41(seen.after)) return Verdict::kImpossible;
  if (counted.driver == "none") return Verdict::kImpossible;
  const std::uint64_t at_ds = counted.ds_reads + counted.ds_writes;
  const std::uint64_t at_mds = counted.mds_reads + counted.mds_writes;
  if (at_ds + at_mds == 0) return Verdict::kUnknown;
  if (at_mds == 0) return Verdict::kPnfs;
  return at_ds == 0 ? Verdict::kFallback : Verdict::kPartly;
}

void explain_impossible(const Observation& seen, Judgement& out) {
  if (older_than_41(seen.after)) {
    out.reasons.push_back("The mount uses NFS " + seen.after.option("vers") +
                          "; pNFS begins with 4.1: mount with -o vers=4.2.");
    return;
  }
  if (!seen.driver_loaded) {
    out.reasons.push_back(
        "No layout driver is loaded in this kernel. Load it (modprobe nfs_layout_nfsv41_files, or "
        "nfs_layout_flexfiles, by the export's Layout_Type), then unmount and mount again: a mount "
        "keeps what it found when it was made.");
  }
  out.reasons.push_back(
      "The metadata server offered no layout type this client has a driver for when the mount was "
      "made: look whether the export says PNFS = false, then unmount and mount again.");
}

void explain_servers(const Judgement& counted, std::vector<std::string>& reasons) {
  for (const DsTraffic& server : counted.traffic) {
    if (server.state == mds::DsState::kUp) continue;
    reasons.push_back(fmt::format("Data server {} (id {}) is {}.", server.name, server.id,
                                  to_string(server.state)));
  }
}

void explain_fallback(const Observation& seen, Judgement& out) {
  explain_servers(out, out.reasons);
  const std::string client = seen.after.option("clientaddr");
  if (!seen.no_way.empty()) out.reasons.push_back(no_way_text(client, seen.no_way) + ".");
  const auto devices = seen.after.op("GETDEVICEINFO") - seen.before.op("GETDEVICEINFO");
  if (out.layoutget_errors != 0) {
    out.reasons.push_back(fmt::format(
        "The metadata server refused {} LAYOUTGETs. After LAYOUTUNAVAILABLE the client does not "
        "ask again for that file for 120 s; weft status on the metadata server counts refusals, "
        "its log says why, and weft clients whether this client is in no network of a data server.",
        out.layoutget_errors));
  }
  if (devices.errors != 0) {
    out.reasons.push_back(fmt::format(
        "{} GETDEVICEINFOs failed: the client has layouts it cannot use.", devices.errors));
  }
  if (out.ds_reads + out.ds_writes != 0) {
    out.reasons.push_back(
        "Calls tried at a data server were repeated at the metadata server: a data server refused "
        "them, or could not be reached. Look whether this client reaches every address that "
        "weft ds list shows (a firewall between?). After a connection error the client leaves "
        "that device alone for 120 s, for all files.");
  } else if (out.layoutget_errors == 0) {
    out.reasons.push_back(
        "The client had no usable layout though it was refused none. Either it remembers an "
        "earlier failure (wait two minutes, then verify again), or a data server answers as the "
        "metadata server's twin (two with one server owner), or it could not connect to any.");
  }
  out.reasons.push_back(
      "Small files that are in the metadata store (weft layout show: inline) are read and written "
      "at the metadata server, as they should be; the client's counters do not tell them apart.");
  out.reasons.push_back(
      "The client's own word: the tracepoint nfs4:pnfs_update_layout says for each I/O why it has "
      "no layout.");
}

void note_other_clients(Judgement& out) {
  const std::uint64_t server = out.server_mds_reads.value_or(0) + out.server_mds_writes.value_or(0);
  if (out.verdict == Verdict::kPnfs && server != 0) {
    out.reasons.push_back(
        "The metadata server did serve READs or WRITEs meanwhile, of other clients or mounts.");
  }
}

}  // namespace

Judgement judge(const Observation& seen) {
  Judgement out;
  out.driver = driver_name(seen.after.pnfs_driver);
  count_calls(seen, out);
  count_servers(seen, out);
  out.verdict = verdict_of(seen, out);
  switch (out.verdict) {
    case Verdict::kImpossible: explain_impossible(seen, out); break;
    case Verdict::kPartly:
    case Verdict::kFallback: explain_fallback(seen, out); break;
    case Verdict::kUnknown:
      out.reasons.push_back("Nothing was read or written, so nothing can be told.");
      break;
    case Verdict::kPnfs: note_other_clients(out); break;
  }
  return out;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPnfs: return "yes";
    case Verdict::kPartly: return "partly";
    case Verdict::kFallback: return "no";
    case Verdict::kImpossible: return "impossible";
    case Verdict::kUnknown: return "unknown";
  }
  return "unknown";
}

}  // namespace weft::cli
