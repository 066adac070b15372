// What the metadata server tells an administrator: the reports.
//
// They are snapshots: plain values, made without holding anything up for the data path. Each is
// described behind it (rpc/xdr/describe.h): so it goes over the admin socket, and `weft -o json`
// shows it. Durations are in milliseconds, sizes in bytes, counters count since the process
// started.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ganesha-fsal/admin/memory_report.h"
#include "ganesha-fsal/admin/network_reports.h"
#include "ganesha-fsal/admin/transport_reports.h"
#include "rpc/base/error.h"
#include "rpc/control/group_state.h"
#include "rpc/xdr/describe.h"
#include "rpc/xdr/newer.h"

namespace weft::mds {

// Beyond these, reports are cut: what a reader would refuse is not sent.
constexpr std::size_t kMaxReportText = 1024;
constexpr std::size_t kMaxReportPath = 4096;
constexpr std::size_t kLongList = 4096;  // data servers, stripes, findings, layouts held
constexpr std::size_t kShortList = 64;   // warnings, addresses, copies of a stripe

enum class DsState : std::uint32_t {
  kUp = 0,       // heartbeats arrive
  kSuspect = 1,  // one is overdue: no new files are placed there
  kDown = 2,     // given up: layouts on it are recalled
  kUnknown = 3,  // known from the metadata store, not seen since the metadata server started
};
// "up", "suspect", "down", "unknown".
[[nodiscard]] std::string_view to_string(DsState state);

// Something a data server does to make its object equal to another's.
struct RepairReport {
  std::string kind;  // "resync", "compare" or "scrub"
  std::uint64_t fileid = 0;
  std::uint32_t source = 0;  // data server
  std::uint64_t total_bytes = 0;
  std::uint64_t compared_bytes = 0;
  std::uint64_t copied_bytes = 0;      // since they differed
  std::uint64_t bytes_per_second = 0;  // compared, on average
  std::uint64_t age_ms = 0;
  std::uint64_t remaining_ms = 0;  // at that rate; 0: not known
};
template <class Io>
void describe(Io& io, RepairReport& r) {
  io("kind", r.kind, cut_at(kMaxReportText));
  io("fileid", r.fileid);
  io("source", r.source);
  io("total_bytes", r.total_bytes);
  io("compared_bytes", r.compared_bytes);
  io("copied_bytes", r.copied_bytes);
  io("bytes_per_second", r.bytes_per_second);
  io("age_ms", r.age_ms);
  io("remaining_ms", r.remaining_ms);
}

struct ServerName {
  std::uint32_t id = 0;
  std::string name;  // empty: it was removed since
};
template <class Io>
void describe(Io& io, ServerName& r) {
  io("id", r.id);
  io("name", r.name, cut_at(kMaxReportText));
}

// Objects that cannot be moved off a data server.
struct StuckReport {
  std::uint64_t objects = 0;
  std::string why;
  std::vector<std::uint64_t> fileids = {};  // whose objects they are, the first of them
};
template <class Io>
void describe(Io& io, StuckReport& r) {
  io("objects", r.objects);
  io("why", r.why, cut_at(kMaxReportText));
  io("fileids", r.fileids, newer(cut_at(kLongList)));
}

struct DataServerReport {
  std::uint32_t id = 0;
  std::string name;
  std::string failure_domain;  // empty: in one together with all others that say none
  std::string version;         // of weft-ds; empty: not seen since the metadata server started
  DsState state = DsState::kUnknown;
  std::vector<std::string> addresses;   // "192.0.2.7:2051", where servers reach it, and clients do
  std::vector<NetworkReport> networks;  // unless it has networks
  std::string store;                    // where its objects are: "folder", "shared memory", "tcp"
  // How the metadata server's own I/O goes there, for clients without layouts: "shared memory",
  // "rdma", "tcp", or "none" while there was none.
  std::string proxy = "none";
  std::uint64_t proxy_shared_bytes = 0;  // of data so exchanged, through shared memory
  std::uint64_t heartbeat_age_ms = 0;    // since the last heartbeat; meaningless when kUnknown
  std::uint64_t uptime_ms = 0;           // of the data server's process
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t objects = 0;
  std::uint64_t read_calls = 0;  // READs served to clients
  std::uint64_t write_calls = 0;
  std::uint64_t commit_calls = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t errors = 0;   // READ, WRITE, COMMIT answered with an error
  std::uint64_t refused = 0;  // bad, foreign or fenced handles
  std::uint64_t connections = 0;
  std::uint32_t cpu_busy_permille = 0;  // of its machine, as all that follows
  std::uint32_t run_queue_milli = 0;    // threads that run or want to, thousandths
  std::uint64_t memory_free_bytes = 0;
  std::uint64_t disk_available = 0;  // bytes per second to one more stream, as the next
  std::uint64_t net_available = 0;
  std::uint64_t mirror_pending_bytes = 0;  // written there and not at its partners yet
  std::uint64_t stale_objects = 0;         // that missed writes
  std::string repair_waits;                // why the last repair failed; empty: it did not
  std::vector<RepairReport> repairs;       // of its objects, under way
  // "serving", "draining", "drained", "removing"; "replacing" when it is gone for too long.
  std::string duty;
  std::uint64_t objects_left = 0;       // to be moved off it, about, unless serving
  std::uint64_t objects_moved = 0;      // since that began, in this process
  std::uint64_t moved_bytes = 0;        // sizes of the files
  std::uint64_t move_remaining_ms = 0;  // at the rate so far; 0: not known
  std::vector<StuckReport> stuck;       // what cannot be moved, and why
  // Why it is connected and serves nothing; empty: it serves, or its parity group says it.
  std::string trouble;
  // Why a process that asks to be this data server is not accepted; empty: none asks in vain.
  std::string not_accepted;
  std::vector<PartnerReport> partners;  // that it is connected to, as it told last
  std::vector<TargetReport> targets;    // where its objects are; none: in its folder
};
template <class Io>
void describe(Io& io, DataServerReport& r) {
  io("id", r.id);
  io("name", r.name, cut_at(kMaxReportText));
  io("failure_domain", r.failure_domain, cut_at(kMaxReportText));
  io("version", r.version, cut_at(kMaxReportText));
  io("state", r.state, among(DsState::kUp, DsState::kUnknown));
  io("addresses", r.addresses, cut_at(kShortList, kMaxReportText));
  io("store", r.store, cut_at(kMaxReportText));
  io("proxy", r.proxy, cut_at(kMaxReportText));
  io("proxy_shared_memory_bytes", r.proxy_shared_bytes);
  io("heartbeat_age_ms", r.heartbeat_age_ms);
  io("uptime_ms", r.uptime_ms);
  io("capacity_bytes", r.capacity_bytes);
  io("free_bytes", r.free_bytes);
  io("objects", r.objects);
  io("read_calls", r.read_calls);
  io("write_calls", r.write_calls);
  io("commit_calls", r.commit_calls);
  io("read_bytes", r.read_bytes);
  io("written_bytes", r.written_bytes);
  io("errors", r.errors);
  io("refused", r.refused);
  io("connections", r.connections);
  io("cpu_busy_permille", r.cpu_busy_permille);
  io("run_queue_milli", r.run_queue_milli);
  io("memory_free_bytes", r.memory_free_bytes);
  io("disk_available_bytes_per_second", r.disk_available);
  io("net_available_bytes_per_second", r.net_available);
  io("mirror_pending_bytes", r.mirror_pending_bytes);
  io("stale_objects", r.stale_objects);
  io("repair_waits", r.repair_waits, cut_at(kMaxReportText));
  io("repairs", r.repairs, cut_at(kShortList));
  io("duty", r.duty, cut_at(kMaxReportText));
  io("objects_left", r.objects_left);
  io("objects_moved", r.objects_moved);
  io("moved_bytes", r.moved_bytes);
  io("move_remaining_ms", r.move_remaining_ms);
  io("stuck", r.stuck, cut_at(kShortList));
  io("trouble", r.trouble, cut_at(kMaxReportText));
  io("not_accepted", r.not_accepted, cut_at(kMaxReportText));
  io("networks", r.networks, newer(cut_at(kMaxNetworks)));
  io("partners", r.partners, newer(cut_at(kLongList)));
  io("targets", r.targets, newer(cut_at(kMaxTargets)));
}

// The metadata store (RocksDB).
struct StoreReport {
  bool failed = false;          // nothing can be changed until the server is started again
  std::string failure;          // why
  bool writes_stopped = false;  // until compaction has caught up
  std::uint64_t background_errors = 0;
  std::uint64_t memory_bytes = 0;      // in memory and in the log only
  std::uint64_t table_bytes = 0;       // on disk, without the log
  std::uint64_t compaction_bytes = 0;  // still to be compacted
  bool full = false;                   // nothing may be added
  std::uint64_t free_bytes = 0;        // of its file system
  std::uint64_t floor_bytes = 0;       // that are to stay free of it
  std::uint64_t commits = 0;           // that wrote, since it was opened
  std::uint64_t syncs = 0;             // of its log
};
template <class Io>
void describe(Io& io, StoreReport& r) {
  io("failed", r.failed);
  io("failure", r.failure, cut_at(kMaxReportText));
  io("writes_stopped", r.writes_stopped);
  io("background_errors", r.background_errors);
  io("memory_bytes", r.memory_bytes);
  io("table_bytes", r.table_bytes);
  io("compaction_bytes", r.compaction_bytes);
  io("full", r.full);
  io("free_bytes", r.free_bytes);
  io("floor_bytes", r.floor_bytes);
  io("commits", r.commits);
  io("syncs", r.syncs);
}

// Copies made equal, since the process started.
struct RepairTotalsReport {
  std::uint64_t stale_objects = 0;  // now, at all data servers
  std::uint64_t resynced = 0;       // objects that are current again
  std::uint64_t compared = 0;       // objects of copies that were compared
  std::uint64_t failed = 0;         // jobs that had to be begun again
  std::uint64_t compared_bytes = 0;
  std::uint64_t differing_bytes = 0;
  std::uint64_t copied_bytes = 0;  // from one data server to another
  std::uint64_t moved = 0;         // objects that another data server has taken over
};
template <class Io>
void describe(Io& io, RepairTotalsReport& r) {
  io("stale_objects", r.stale_objects);
  io("resynced_objects", r.resynced);
  io("compared_objects", r.compared);
  io("repair_failures", r.failed);
  io("repair_compared_bytes", r.compared_bytes);
  io("repair_differing_bytes", r.differing_bytes);
  io("repair_copied_bytes", r.copied_bytes);
  io("moved_objects", r.moved);
}

struct ExtentReport {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
template <class Io>
void describe(Io& io, ExtentReport& r) {
  io("offset", r.offset);
  io("length", r.length);
}

// Two copies of a stripe of a file that differ, or did.
struct ScrubFindingReport {
  std::uint64_t fileid = 0;  // its inode number on a client
  std::uint32_t stripe = 0;
  std::uint32_t ds_id = 0;   // whose copy differs
  std::uint32_t source = 0;  // from this one's
  std::uint64_t differing_bytes = 0;
  std::vector<ExtentReport> extents;  // of the file; the first of them
  bool majority = false;              // two other copies agree
  bool mended = false;                // made equal to the source's
};
template <class Io>
void describe(Io& io, ScrubFindingReport& r) {
  io("fileid", r.fileid);
  io("stripe", r.stripe);
  io("ds", r.ds_id);
  io("from", r.source);
  io("differing_bytes", r.differing_bytes);
  io("extents", r.extents, cut_at(kShortList));
  io("majority", r.majority);
  io("mended", r.mended);
}

// What a data server tells of the parity group that its objects are in: of the scrub that goes on
// there, or of the last; and of the group itself.
struct GroupReport {
  ServerName server;
  bool running = false;
  bool only_tell = false;
  bool waiting = false;           // until the group is whole
  std::uint32_t permille = 0;     // gone through
  std::uint64_t remaining_s = 0;  // 0: not known
  std::uint64_t bytes = 0;        // gone through
  std::uint64_t wrong = 0;        // and written anew, unless only_tell
  std::uint64_t lost = 0;         // blocks that cannot be computed
  std::uint64_t failed = 0;       // parts of objects that could not be looked at
  std::uint64_t rounds = 0;       // that ended, since the data server's process started
  std::uint64_t ended_s_ago = 0;  // the last one
  std::uint32_t awaited = 0;      // targets, a bit each, without which nothing can be served
  bool may_give_up = false;       // it is one, and can be done without, at a price
  std::uint64_t given_up = 0;     // blocks that were that price, until a scrub finds none
  rpc::control::GroupState state = {};
  std::uint32_t rebuilt_permille = 0;
};
template <class Io>
void describe(Io& io, GroupReport& r) {
  io("server", r.server);
  io("running", r.running);
  io("only_tell", r.only_tell);
  io("waiting", r.waiting);
  io("permille", r.permille);
  io("remaining_s", r.remaining_s);
  io("bytes", r.bytes);
  io("wrong", r.wrong);
  io("lost", r.lost);
  io("failed", r.failed);
  io("rounds", r.rounds);
  io("ended_s_ago", r.ended_s_ago);
  io("awaited", r.awaited);
  io("may_give_up", r.may_give_up);
  io("given_up", r.given_up);
  using rpc::control::GroupState;
  io("state", r.state, newer(among(GroupState::kNone, GroupState::kRebuilding)));
  io("rebuilt_permille", r.rebuilt_permille, newer());
}

// Copies compared though they should be equal, since the scrub that runs or ran last began.
struct ScrubReport {
  bool running = false;
  bool only_tell = false;
  std::uint64_t files = 0;    // compared
  std::uint64_t written = 0;  // left out: somebody writes them
  std::uint64_t failed = 0;   // could not be compared
  std::uint64_t compared_bytes = 0;
  std::uint64_t differing = 0;               // copies
  std::uint64_t mended = 0;                  // of these
  std::uint64_t rounds = 0;                  // scrubs that have ended, since the process started
  std::uint64_t age_ms = 0;                  // since it began; or since the last one ended
  std::vector<ScrubFindingReport> findings;  // the last ones, of all scrubs
  std::uint64_t unlisted = 0;                // that are not mended either
  std::vector<std::string> resolved;         // what came of "scrub-resolve", the last ones
  std::vector<GroupReport> groups;           // of data servers that are connected
  // Files with two copies of a stripe in one failure domain, as the last scrub of all files has it.
  std::uint64_t crowded = 0;
  std::vector<std::uint64_t> crowded_fileids;  // the first of them
};
template <class Io>
void describe(Io& io, ScrubReport& r) {
  io("running", r.running);
  io("only_tell", r.only_tell);
  io("files", r.files);
  io("written", r.written);
  io("failed", r.failed);
  io("compared_bytes", r.compared_bytes);
  io("differing", r.differing);
  io("mended", r.mended);
  io("rounds", r.rounds);
  io("age_ms", r.age_ms);
  io("findings", r.findings, cut_at(kLongList));
  io("unlisted", r.unlisted);
  io("resolved", r.resolved, cut_at(kLongList, kMaxReportText));
  io("groups", r.groups, cut_at(kLongList));
  io("crowded", r.crowded, newer());
  io("crowded_fileids", r.crowded_fileids, newer(cut_at(kLongList)));
}

// The rebalance that runs, or the last. Spreads: as of RebalancePlanReport.
struct RebalanceReport {
  bool running = false;
  std::uint64_t objects = 0;  // moved or being moved, as the next
  std::uint64_t bytes = 0;
  double spread = 0;  // once what was begun is done
  double spread_before = 0;
};
template <class Io>
void describe(Io& io, RebalanceReport& r) {
  io("running", r.running);
  io("objects", r.objects);
  io("bytes", r.bytes);
  io("spread", r.spread);
  io("spread_before", r.spread_before);
}

// Files whose bytes are in the metadata store.
struct InlineReport {
  std::uint64_t files = 0;  // about, as the next: what is gone counts for a while
  std::uint64_t bytes = 0;  // of the store
  std::uint64_t reads = 0;  // READs of them, and so on, since the server started
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t grown = 0;  // that went to data servers, having got too long
  bool busy = false;        // the store is: new files go to data servers at once
};
template <class Io>
void describe(Io& io, InlineReport& r) {
  io("files", r.files);
  io("bytes", r.bytes);
  io("reads", r.reads);
  io("read_bytes", r.read_bytes);
  io("writes", r.writes);
  io("written_bytes", r.written_bytes);
  io("grown", r.grown);
  io("busy", r.busy);
}

// Somebody who wanted to be a data server in the last minutes, and was not let in.
struct RefusedReport {
  std::string address;
  std::string name;  // empty: it did not prove that it has the cluster key
  std::string why;
  std::uint64_t times = 0;
  std::uint64_t age_ms = 0;  // since the last time
};
template <class Io>
void describe(Io& io, RefusedReport& r) {
  io("address", r.address, cut_at(kMaxReportText));
  io("name", r.name, cut_at(kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
  io("times", r.times);
  io("age_ms", r.age_ms);
}

struct StatusReport {
  std::string version;  // of libfsalweft.so
  std::uint64_t uptime_ms = 0;
  std::uint64_t grace_left_ms = 0;  // at most; 0: not in grace
  std::uint32_t clients = 0;        // NFSv4 clients with a confirmed client id
  std::uint64_t inodes_made = 0;    // ever, at most
  // READ and WRITE that this server had to serve itself: a client that uses pNFS causes none.
  std::uint64_t mds_read_calls = 0;
  std::uint64_t mds_write_calls = 0;
  std::uint64_t mds_read_bytes = 0;
  std::uint64_t mds_written_bytes = 0;
  std::uint64_t layoutgets = 0;          // granted
  std::uint64_t layoutget_refusals = 0;  // answered with an error
  std::uint64_t layoutreturns = 0;
  std::uint64_t layoutcommits = 0;
  std::uint32_t layouts_out = 0;
  std::uint32_t recalls_pending = 0;
  std::uint64_t oldest_recall_ms = 0;  // age of the oldest unanswered recall, 0: none
  std::uint64_t recalls = 0;
  std::uint64_t fences = 0;               // clients fenced after a recall they did not answer
  std::uint64_t fence_failures = 0;       // attempts that a data server did not answer; they go on
  std::uint64_t layout_errors = 0;        // of data servers, as clients reported them (LAYOUTERROR)
  std::uint64_t layout_error_age_ms = 0;  // of the last of them; 0: none, or it is not told
  std::uint64_t removals_queued = 0;      // objects of removed files still to be deleted
  RepairTotalsReport repair;
  ScrubReport scrub;
  std::optional<RebalanceReport> rebalance;  // since the process started
  std::uint64_t strays = 0;                  // that the last audit only told of
  std::uint64_t foreign_objects = 0;         // of no file made here, that the last audit found
  // Of a metadata store that came back from a backup, up to 10,000 together: files that are still
  // to be compared with their objects, and files that have lost bytes.
  bool restored = false;  // it came back from a backup
  std::uint64_t restored_unchecked = 0;
  std::uint64_t restored_damaged = 0;
  StoreReport store;
  InlineReport inlined;
  MemoryReport memory;
  std::vector<RefusedReport> refused;
  std::vector<std::string> warnings;       // one sentence each, for a person to read
  std::vector<std::string> warning_codes;  // of weft health, in the same order
};
template <class Io>
void describe(Io& io, StatusReport& r) {
  io("version", r.version, cut_at(kMaxReportText));
  io("uptime_ms", r.uptime_ms);
  io("grace_left_ms", r.grace_left_ms);
  io("clients", r.clients);
  io("inodes_made", r.inodes_made);
  io("mds_read_calls", r.mds_read_calls);
  io("mds_write_calls", r.mds_write_calls);
  io("mds_read_bytes", r.mds_read_bytes);
  io("mds_written_bytes", r.mds_written_bytes);
  io("layoutgets", r.layoutgets);
  io("layoutget_refusals", r.layoutget_refusals);
  io("layoutreturns", r.layoutreturns);
  io("layoutcommits", r.layoutcommits);
  io("layouts_out", r.layouts_out);
  io("recalls_pending", r.recalls_pending);
  io("oldest_recall_ms", r.oldest_recall_ms);
  io("recalls", r.recalls);
  io("fences", r.fences);
  io("fence_failures", r.fence_failures);
  io("layout_errors", r.layout_errors);
  io("layout_error_age_ms", r.layout_error_age_ms, newer());
  io("removals_queued", r.removals_queued);
  describe(io, r.repair);  // beside the others, not within
  io("rebalance", r.rebalance);
  io("strays", r.strays);
  io("foreign_objects", r.foreign_objects);
  io("restored_unchecked", r.restored_unchecked);
  io("restored_damaged", r.restored_damaged);
  io("restored", r.restored, newer());
  io("scrub", r.scrub);
  io("store", r.store);
  io("inline", r.inlined);
  io("memory", r.memory, newer());
  io("refused", r.refused, cut_at(kShortList));
  io("warnings", r.warnings, cut_at(kShortList, kMaxReportText));
  io("warning_codes", r.warning_codes, newer(cut_at(kShortList, kMaxReportText)));
}

// The metadata server and its data servers at one moment.
struct SystemReport {
  StatusReport status;
  std::vector<DataServerReport> data_servers;
};
template <class Io>
void describe(Io& io, SystemReport& r) {
  describe(io, r.status);
  io("data_servers", r.data_servers, cut_at(kLongList));
}

// One copy of a stripe, of a file that has several.
struct CopyReport {
  std::uint32_t ds_id = 0;
  std::string ds_name;
  DsState ds_state = DsState::kUnknown;
  std::string state;   // "current", "stale", "resyncing"
  bool leads = false;  // writers that are there write through it
  std::string domain;  // its failure domain
  std::string why;     // what decided that it is there; empty: not recorded
  std::string repair;  // how far its repair is, or what it waits for; empty: it needs none
};
template <class Io>
void describe(Io& io, CopyReport& r) {
  io("ds_id", r.ds_id);
  io("ds_name", r.ds_name, cut_at(kMaxReportText));
  io("ds_state", r.ds_state, among(DsState::kUp, DsState::kUnknown));
  io("state", r.state, cut_at(kMaxReportText));
  io("leads", r.leads);
  io("domain", r.domain, cut_at(kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
  io("repair", r.repair, cut_at(kMaxReportText));
}

struct StripeReport {
  std::uint32_t ds_id = 0;
  std::string ds_name;
  DsState ds_state = DsState::kUnknown;
  std::string why;                 // what decided that the stripe's first copy is there
  std::vector<CopyReport> copies;  // the first among them; empty when there is one
};
template <class Io>
void describe(Io& io, StripeReport& r) {
  io("ds_id", r.ds_id);
  io("ds_name", r.ds_name, cut_at(kMaxReportText));
  io("ds_state", r.ds_state, among(DsState::kUp, DsState::kUnknown));
  io("why", r.why, cut_at(kMaxReportText));
  io("copies", r.copies, cut_at(kShortList));
}

struct GrantReport {
  std::uint64_t client_id = 0;
  std::string client;  // its address and what it calls itself; empty when it has no lease any more
  bool write = false;  // LAYOUTIOMODE4_RW
  std::uint64_t age_ms = 0;
  bool recalled = false;
  std::uint64_t recall_age_ms = 0;
};
template <class Io>
void describe(Io& io, GrantReport& r) {
  io("client_id", r.client_id);
  io("client", r.client, cut_at(kMaxReportText));
  io("write", r.write);
  io("age_ms", r.age_ms);
  io("recalled", r.recalled);
  io("recall_age_ms", r.recall_age_ms);
}

// One key of what holds for a directory or a file.
struct PolicyRow {
  std::string key;
  std::string value;
  std::string from;  // a directory's path, "export", or "layout": the file has it already

  friend bool operator==(const PolicyRow&, const PolicyRow&) = default;
};
template <class Io>
void describe(Io& io, PolicyRow& r) {
  io("key", r.key, cut_at(kMaxReportText));
  io("value", r.value, cut_at(kMaxReportText));
  io("from", r.from, cut_at(kMaxReportPath));
}

struct PolicyReport {
  std::string path;
  bool directory = false;
  std::string own;              // of a directory: the keys set for it itself
  std::vector<PolicyRow> rows;  // of a directory: what new files get

  friend bool operator==(const PolicyReport&, const PolicyReport&) = default;
};
template <class Io>
void describe(Io& io, PolicyReport& r) {
  io("path", r.path, cut_at(kMaxReportPath));
  io("directory", r.directory);
  io("own", r.own, cut_at(kMaxReportText));
  io("effective", r.rows, cut_at(kShortList));
}

// What clients of the flexfiles layout have done at one data server with a file, as they say.
struct ServerIoReport {
  std::uint32_t ds_id = 0;
  std::string ds_name;
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t errors = 0;

  friend bool operator==(const ServerIoReport&, const ServerIoReport&) = default;
};
template <class Io>
void describe(Io& io, ServerIoReport& r) {
  io("ds_id", r.ds_id);
  io("ds_name", r.ds_name, cut_at(kMaxReportText));
  io("reads", r.reads);
  io("read_bytes", r.read_bytes);
  io("writes", r.writes);
  io("written_bytes", r.written_bytes);
  io("errors", r.errors);
}

// A group of data servers that placement left out, for its load.
struct SkippedReport {
  std::uint32_t ds_id = 0;  // the first of them
  std::string short_of;     // "network", "disk"...
};
template <class Io>
void describe(Io& io, SkippedReport& r) {
  io("ds_id", r.ds_id);
  io("short_of", r.short_of, cut_at(kMaxReportText));
}

// One data server takes another's place in a file's layout.
struct MovingReport {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool left = false;  // `to` has everything, and the object at `from` is to be removed
};
template <class Io>
void describe(Io& io, MovingReport& r) {
  io("from", r.from);
  io("to", r.to);
  io("left", r.left);
}

// A client that gets no layouts, or not all, since it is in no network of some data servers.
struct NoWayReport {
  std::string client;
  std::vector<ServerName> servers;
};
template <class Io>
void describe(Io& io, NoWayReport& r) {
  io("client", r.client, cut_at(kMaxReportText));
  io("servers", r.servers, cut_at(kShortList));
}

struct FileReport {
  std::string path;
  std::uint64_t fileid = 0;
  std::uint64_t size = 0;
  std::string object;             // layout::to_string(ObjectId)
  std::string layout_type;        // "files", "flexfiles", "inline", "none"
  std::uint32_t stripe_unit = 0;  // bytes
  std::string device_id;          // 16 bytes in hex, empty when none was made yet
  std::string policy;             // what it has, or, without a layout, will get
  // That are in the metadata store. Nothing: the file is at data servers, or will be.
  std::optional<std::uint64_t> inline_bytes;
  std::optional<SkippedReport> skipped;
  std::optional<MovingReport> moving;
  std::vector<StripeReport> stripes;  // in stripe order
  std::vector<GrantReport> grants;
  std::vector<ServerIoReport> io;   // by data server; those that clients told of
  std::vector<NoWayReport> no_way;  // clients, and the file's data servers they do not reach
};
template <class Io>
void describe(Io& io, FileReport& r) {
  io("path", r.path, cut_at(kMaxReportPath));
  io("fileid", r.fileid);
  io("size", r.size);
  io("object", r.object, cut_at(kMaxReportText));
  io("layout_type", r.layout_type, cut_at(kMaxReportText));
  io("stripe_unit", r.stripe_unit);
  io("device_id", r.device_id, cut_at(kMaxReportText));
  io("policy", r.policy, cut_at(kMaxReportText));
  io("inline_bytes", r.inline_bytes);
  io("skipped", r.skipped);
  io("moving", r.moving);
  io("stripes", r.stripes, cut_at(kLongList));
  io("grants", r.grants, cut_at(kLongList));
  io("io", r.io, cut_at(kLongList));
  io("no_way", r.no_way, newer(cut_at(kShortList)));
}

// What a data server was asked for, and its answer.
struct AskedReport {
  ServerName server;
  std::string error;  // empty: it does it
};
template <class Io>
void describe(Io& io, AskedReport& r) {
  io("server", r.server);
  io("error", r.error, cut_at(kMaxReportText));
}

struct PlannedMovesReport {
  std::uint32_t from = 0;  // data servers
  std::uint32_t to = 0;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};
template <class Io>
void describe(Io& io, PlannedMovesReport& r) {
  io("from", r.from);
  io("to", r.to);
  io("objects", r.objects);
  io("bytes", r.bytes);
}

// What a rebalance would do. Spreads: how far the fullest and the emptiest data server are apart,
// as parts of their space.
struct RebalancePlanReport {
  double spread_before = 0;
  double spread_after = 0;
  bool whole = true;  // all objects were looked at
  std::vector<PlannedMovesReport> moves;
};
template <class Io>
void describe(Io& io, RebalancePlanReport& r) {
  io("spread_before", r.spread_before);
  io("spread_after", r.spread_after);
  io("whole", r.whole);
  io("moves", r.moves, cut_at(kLongList));
}

// An object that no file needs.
struct StrayReport {
  ServerName server;
  std::string object;  // layout::to_string(ObjectId)
  std::uint64_t bytes = 0;
  std::string is;  // "left", "removed" (queued for removal), "foreign" (of no file made here)
};
template <class Io>
void describe(Io& io, StrayReport& r) {
  io("server", r.server);
  io("object", r.object, cut_at(kMaxReportText));
  io("bytes", r.bytes);
  io("is", r.is, cut_at(kMaxReportText));
}

// The audit that runs, or the last.
struct AuditReport {
  bool running = false;
  bool only_tell = false;
  std::uint64_t rounds = 0;   // that have ended, since the process started
  std::uint64_t age_ms = 0;   // since it began; or since the last one ended
  std::uint64_t servers = 0;  // gone through
  std::uint64_t objects = 0;
  std::uint64_t strays = 0;
  std::uint64_t removed = 0;          // of these, queued for removal
  std::uint64_t foreign = 0;          // not counted as strays
  std::uint64_t bytes = 0;            // of strays and foreign ones
  std::vector<StrayReport> found;     // the first of them
  std::vector<AskedReport> failures;  // data servers that were not gone through to the end
};
template <class Io>
void describe(Io& io, AuditReport& r) {
  io("running", r.running);
  io("only_tell", r.only_tell);
  io("rounds", r.rounds);
  io("age_ms", r.age_ms);
  io("servers", r.servers);
  io("objects", r.objects);
  io("strays", r.strays);
  io("removed", r.removed);
  io("foreign", r.foreign);
  io("bytes", r.bytes);
  io("found", r.found, cut_at(kLongList));
  io("failures", r.failures, cut_at(kLongList));
}

// What came of what an administrator told the metadata server to do (admin/requests.h).
struct MaintenanceReport {
  std::string action;                         // the request, or "...-check", "...-plan": only told
  std::optional<ServerName> server;           // whom it is about
  std::optional<std::uint64_t> objects_left;  // "drain", "remove": that are there now
  std::optional<std::uint32_t> target;        // "give-up": of the server's parity group
  std::optional<std::uint64_t> fileid;        // "scrub", "scrub-check", "scrub-resolve" of one file
  std::optional<std::uint64_t> files;         // "restored-accept": how many it was
  std::optional<bool> was_running;            // of what is to stop
  std::vector<AskedReport> groups;            // "scrub...": the servers over parity groups
  std::optional<RebalancePlanReport> plan;    // "rebalance-plan"
  std::optional<AuditReport> audit;           // "audit-status"
};
template <class Io>
void describe(Io& io, MaintenanceReport& r) {
  io("action", r.action, cut_at(kMaxReportText));
  io("server", r.server);
  io("objects_left", r.objects_left);
  io("target", r.target);
  io("fileid", r.fileid);
  io("files", r.files);
  io("was_running", r.was_running);
  io("groups", r.groups, cut_at(kLongList));
  io("plan", r.plan);
  io("audit", r.audit);
}

}  // namespace weft::mds
