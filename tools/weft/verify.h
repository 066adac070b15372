// Is a mount really using pNFS? What the counters of client and servers say about it.
//
// A client that cannot use a layout falls back to the metadata server without a word: everything
// works, slowly. judge() compares what was counted before and after some I/O and names the likely
// reason. How the Linux client counts: a READ or WRITE that it tried at a data server counts in
// the mount's pNFS events and in the mount's READ and WRITE calls; one that it sent to the
// metadata server counts in the calls only.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/source.h"
#include "tools/weft/mountstats.h"

namespace weft::cli {

struct Observation {
  MountStats before;  // empty counters: judge the mount's whole life
  MountStats after;
  // From the admin socket, when weft verify runs where it is.
  std::optional<mds::SystemReport> server_before;
  std::optional<mds::SystemReport> server_after;
  // Data servers that the client has no way to, as the metadata server knows.
  std::vector<mds::ServerName> no_way;
  bool driver_loaded = true;  // a layout driver's module is loaded, or built in
};

enum class Verdict {
  kPnfs,        // all I/O went to data servers
  kPartly,      // some went through the metadata server
  kFallback,    // all of it
  kImpossible,  // this mount can never use pNFS
  kUnknown,     // nothing was read or written
};
// "yes", "partly", "no", "impossible", "unknown".
[[nodiscard]] std::string_view to_string(Verdict verdict);

struct DsTraffic {
  std::uint32_t id = 0;
  std::string name;
  mds::DsState state = mds::DsState::kUnknown;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
};
template <class Io>
void describe(Io& io, DsTraffic& r) {
  io("id", r.id);
  io("name", r.name, at_most(mds::kMaxReportText));
  io("state", r.state, among(mds::DsState::kUp, mds::DsState::kUnknown));
  io("read_bytes", r.read_bytes);
  io("written_bytes", r.written_bytes);
}

struct Judgement {
  Verdict verdict = Verdict::kUnknown;
  std::string driver;          // "files", "flexfiles", "none", or the kernel's name
  std::uint64_t ds_reads = 0;  // calls tried at data servers, counted by the client
  std::uint64_t ds_writes = 0;
  std::uint64_t mds_reads = 0;  // calls sent to the metadata server, counted by the client
  std::uint64_t mds_writes = 0;
  std::uint64_t layoutget_errors = 0;
  // From the servers, when they were asked: all clients together.
  std::optional<std::uint64_t> server_mds_reads;
  std::optional<std::uint64_t> server_mds_writes;
  std::vector<DsTraffic> traffic;
  std::vector<std::string> reasons;  // likely ones first, a sentence each
};
template <class Io>
void describe(Io& io, Judgement& r) {
  io("pnfs", r.verdict, among(Verdict::kPnfs, Verdict::kUnknown));
  io("driver", r.driver, at_most(mds::kMaxReportText));
  io("ds_reads", r.ds_reads);
  io("ds_writes", r.ds_writes);
  io("mds_reads", r.mds_reads);
  io("mds_writes", r.mds_writes);
  io("layoutget_errors", r.layoutget_errors);
  io("server_mds_reads", r.server_mds_reads);
  io("server_mds_writes", r.server_mds_writes);
  io("data_servers", r.traffic, at_most(mds::kLongList));
  io("reasons", r.reasons, at_most(mds::kShortList, mds::kMaxReportText));
}

[[nodiscard]] Judgement judge(const Observation& seen);

}  // namespace weft::cli
