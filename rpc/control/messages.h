// What the metadata server (MDS) and a data server (DS) say to each other: docs/protocol.md.
//
// Every request is answered exactly once, with its reply or an error. Requests may be repeated
// after a lost connection, so each has the same effect done twice as once.
//
// Decoding believes nothing: kProtocol for malformed bytes, bytes too many, or a list over its
// limit. Times are nanoseconds since 1970, sizes bytes.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "layout/load.h"
#include "layout/net_address.h"
#include "layout/object_id.h"
#include "rpc/base/error.h"
#include "rpc/base/machine.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::control {

using layout::ObjectId;
using Uuid = std::array<std::byte, 16>;

// Called exactly once with a request's answer.
template <class T>
using Done = std::move_only_function<void(Result<T>)>;

// "7b1d0c52-..." in lower case.
[[nodiscard]] std::string to_string(const Uuid& uuid);

constexpr std::size_t kMaxAddresses = 8;
constexpr std::size_t kMaxFences = 1024;    // in one message
constexpr std::size_t kMaxRemovals = 1024;  // in one message
constexpr std::size_t kMaxExtents = 256;    // in one message
constexpr std::size_t kMaxListed = 1024;    // in one message
constexpr std::size_t kMaxDiffering = 8;    // extents that a job tells of
constexpr std::size_t kMaxText = 256;

enum class Proc : std::uint32_t {
  // DS to MDS.
  kRegister = 1,
  kHeartbeat = 2,
  kQuerySize = 3,
  kReportSize = 4,
  kLocate = 5,
  kCopyMissed = 6,
  // MDS to DS.
  kFence = 16,
  kTruncate = 17,
  kRemove = 18,
  kStat = 19,
  kAllocate = 20,
  kPunch = 21,
  kForgetMissed = 22,
  kResync = 23,
  kResyncStatus = 24,
  kResyncCancel = 25,
  kScrub = 26,
  kGiveUp = 27,
  kList = 28,
};

struct Empty {};

struct Space {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t objects = 0;
  friend bool operator==(const Space&, const Space&) = default;
};

// Which of a store's successive states it is in (docs/protocol.md, "A store's history"): one for
// each run of its data server that a metadata server accepted. Generation 0: none yet.
struct StoreState {
  std::uint64_t generation = 0;
  std::uint64_t boot = 0;  // of that run
  friend bool operator==(const StoreState&, const StoreState&) = default;
};

// The first request on every connection. A store that was never registered has cluster and ds_id 0.
struct Register {
  Uuid store{};             // made once with the store; a wiped store is a new one
  Uuid cluster{};           // the system the store belongs to
  std::uint32_t ds_id = 0;  // the id that system gave it
  std::uint64_t boot = 0;   // drawn at random when the process starts
  std::string name;         // for people: the host's name, or what the configuration says
  std::string version;
  std::string domain;                         // failure domain
  std::vector<layout::NetAddress> addresses;  // where NFS clients reach it, preferred first
  Space space;
  LocalEndpoint local;  // where it serves processes of its machine, besides
  StoreState state;     // that the store is in, durably
  friend bool operator==(const Register&, const Register&) = default;
};

// What the state becomes when the registration of the run `boot` is accepted. Both ends compute it.
[[nodiscard]] StoreState next_state(const StoreState& state, std::uint64_t boot);

// Handles below `epoch` are refused from now on, durably: those of an object, or of a client.
struct Fence {
  enum class What : std::uint32_t { kObject = 1, kClient = 2 };
  What what = What::kObject;
  ObjectId object;              // kObject
  std::uint64_t client_id = 0;  // kClient
  std::uint32_t epoch = 0;      // the least that is still honoured; never goes down
  friend bool operator==(const Fence&, const Fence&) = default;
};

// The DS stores cluster, ds_id and the next state with its store, and applies the fences it missed,
// before it counts itself registered.
struct Registered {
  Uuid cluster{};
  std::uint32_t ds_id = 0;
  std::uint64_t mds_boot = 0;
  std::uint32_t heartbeat_ms = 1000;
  std::vector<Fence> fences;
  friend bool operator==(const Registered&, const Registered&) = default;
};

struct Load {
  std::uint32_t requests_in_progress = 0;
  layout::ServerLoad measured;
  friend bool operator==(const Load&, const Load&) = default;
};

// What a data server owes to its partners (server-side duplication).
struct MirrorLoad {
  std::uint64_t pending_bytes = 0;      // written here, answered, and not yet at every partner
  std::uint32_t oldest_pending_ms = 0;  // 0: nothing is pending
  std::uint32_t partners_away = 0;      // that are not written to just now
  std::uint64_t forwarded_bytes = 0;    // since the data server's process started, as below
  std::uint64_t missed_writes = 0;      // acknowledged without a partner, which is marked stale
  friend bool operator==(const MirrorLoad&, const MirrorLoad&) = default;
};

// Since the data server's process started.
struct Counters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t commits = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t errors = 0;   // READ, WRITE, COMMIT answered with an error
  std::uint64_t refused = 0;  // bad, foreign or fenced handles
  std::uint64_t size_queries = 0;
  std::uint64_t connections = 0;  // open now
  std::uint64_t sessions = 0;     // open now
  friend bool operator==(const Counters&, const Counters&) = default;
};

// The scrub of the parity group that the data server's objects are in: the one that goes on, or
// the last. What is found: of that one.
struct GroupScrub {
  bool group = false;  // there is one; otherwise the rest means nothing
  bool running = false;
  bool only_tell = false;
  bool waiting = false;  // until the group is whole
  std::uint32_t permille = 0;
  std::uint64_t remaining_s = 0;  // 0: not known
  std::uint64_t bytes = 0;        // gone through
  std::uint64_t mended = 0;       // blocks, checksums, parity, headers that were wrong
  std::uint64_t lost = 0;         // blocks that cannot be computed
  std::uint64_t failed = 0;       // parts of objects that could not be looked at
  std::uint32_t rounds = 0;       // that ended, since the data server's process started
  std::uint64_t ended_s_ago = 0;  // the last one
  // And of the group itself:
  std::uint32_t awaited = 0;   // targets, a bit each, without which nothing can be served
  bool may_give_up = false;    // it is one, and can be done without, at a price
  std::uint64_t given_up = 0;  // blocks that were that price, until a scrub finds none
  friend bool operator==(const GroupScrub&, const GroupScrub&) = default;
};

struct Heartbeat {
  Space space;
  Load load;
  Counters counters;
  MirrorLoad mirror;
  std::string store;  // where its objects are and how it reaches them, for people
  GroupScrub scrub;
  // Why its store is not there, for people; empty: it is. It serves no client until it says so
  // again, has stopped before it said this, and needs a lease anew then.
  std::string trouble;
  StoreState state;  // that the store is in, durably
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// The data server may serve clients for so long, from when it sent the heartbeat; 0: not until
// another is answered, since it does not have all its fences yet.
struct Lease {
  std::uint32_t seconds = 0;
  friend bool operator==(const Lease&, const Lease&) = default;
};

struct QuerySize {
  ObjectId object;
  friend bool operator==(const QuerySize&, const QuerySize&) = default;
};
struct FileSize {
  std::uint64_t size = 0;
  friend bool operator==(const FileSize&, const FileSize&) = default;
};

// A stable write ended at `end`: the file is at least that long.
struct ReportSize {
  ObjectId object;
  std::uint64_t end = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const ReportSize&, const ReportSize&) = default;
};

struct FenceRequest {
  std::vector<Fence> fences;
  friend bool operator==(const FenceRequest&, const FenceRequest&) = default;
};
struct Truncate {
  ObjectId object;
  std::uint64_t size = 0;
  friend bool operator==(const Truncate&, const Truncate&) = default;
};
struct Remove {
  std::vector<ObjectId> objects;
  friend bool operator==(const Remove&, const Remove&) = default;
};
struct Stat {
  ObjectId object;
  friend bool operator==(const Stat&, const Stat&) = default;
};
// An object that does not exist has size 0 and is no error.
struct ObjectStat {
  bool exists = false;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const ObjectStat&, const ObjectStat&) = default;
};

struct Locate {
  std::uint32_t ds_id = 0;
  friend bool operator==(const Locate&, const Locate&) = default;
};
struct Located {
  enum class State : std::uint32_t { kUp = 1, kSuspect = 2, kDown = 3 };
  State state = State::kDown;
  std::vector<layout::NetAddress> addresses;  // preferred first; none: it never registered
  friend bool operator==(const Located&, const Located&) = default;
};

// [offset, offset + length), which does not wrap, and is not empty.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The copy of an object at data server `ds_id` may miss writes, or part of them, within the
// extents. Answered when that is durable.
struct CopyMissed {
  ObjectId object;
  std::uint32_t ds_id = 0;
  std::uint32_t object_epoch = 0;  // of the handle the write came with
  std::vector<Extent> extents;     // 1 or more
  bool failed_here = false;        // the sender's own copy lacks it too, because its store failed
  friend bool operator==(const CopyMissed&, const CopyMissed&) = default;
};

// The object is to be duplicated to the partner again, whatever it missed before.
struct ForgetMissed {
  ObjectId object;
  std::uint32_t ds_id = 0;
  friend bool operator==(const ForgetMissed&, const ForgetMissed&) = default;
};

// Makes the receiver's copy of an object equal to another data server's within the extents.
struct Resync {
  std::uint64_t job = 0;  // the metadata server's number for it; a job under way is not begun again
  ObjectId object;
  std::uint32_t source = 0;       // the data server that has the data
  std::uint32_t least_epoch = 0;  // handles below are fenced off first: no late write may follow
  // What the job itself writes with, if that is more: it ends when the object is fenced above it.
  std::uint32_t epoch = 0;
  std::vector<Extent> extents;         // 1 or more
  std::uint64_t bytes_per_second = 0;  // of all jobs of the receiver together; 0: no limit
  // Which bytes the object is to hold: those of server `server` in a file that is striped so.
  // stripe_unit 0: all.
  std::uint32_t stripe_unit = 0;
  std::uint32_t servers = 0;
  std::uint32_t first_index = 0;
  std::uint32_t server = 0;
  bool report_only = false;  // nothing is changed, only counted
  friend bool operator==(const Resync&, const Resync&) = default;
};
struct ResyncJob {
  std::uint64_t job = 0;
  friend bool operator==(const ResyncJob&, const ResyncJob&) = default;
};
struct ResyncProgress {
  enum class State : std::uint32_t { kUnknown = 0, kRunning = 1, kDone = 2, kFailed = 3 };
  State state = State::kUnknown;
  std::uint64_t total_bytes = 0;      // of the extents, as far as the object goes at the source
  std::uint64_t compared_bytes = 0;   // of those, so far
  std::uint64_t differing_bytes = 0;  // in blocks that were found to differ
  std::uint64_t copied_bytes = 0;     // fetched and written, since they differed
  std::uint64_t punched_bytes = 0;    // made holes
  std::uint64_t next_offset = 0;      // everything of the extents before it is done
  std::string error;                  // of a failed one
  std::vector<Extent> differing;      // where those blocks are, the first of them
  friend bool operator==(const ResyncProgress&, const ResyncProgress&) = default;
};

// The data server's parity group is to be scrubbed, or that is to end.
struct Scrub {
  bool start = false;
  bool only_tell = false;  // nothing is to be changed
  friend bool operator==(const Scrub&, const Scrub&) = default;
};

// The target of the data server's parity group is lost for ever, and with it blocks that only it
// had: the group is not to wait for it.
struct GiveUp {
  std::uint32_t target = 0;
  friend bool operator==(const GiveUp&, const GiveUp&) = default;
};

struct Range {  // kAllocate, kPunch
  ObjectId object;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// Where a listing goes on, as the data server said: the order of objects is its own. Zeros: at the
// start.
struct ListFrom {
  std::uint32_t folder = 0;
  ObjectId after;
  friend bool operator==(const ListFrom&, const ListFrom&) = default;
};
// Objects that the data server has, each once while a listing goes on; of those made or removed
// meanwhile some. Maybe none though there are more.
struct Listed {
  std::vector<ObjectId> objects;
  ListFrom next;
  bool more = false;  // otherwise `next` means nothing
  friend bool operator==(const Listed&, const Listed&) = default;
};

void encode(xdr::Encoder& out, const Empty& message);
void encode(xdr::Encoder& out, const Register& message);
void encode(xdr::Encoder& out, const Registered& message);
void encode(xdr::Encoder& out, const Heartbeat& message);
void encode(xdr::Encoder& out, const Lease& message);
void encode(xdr::Encoder& out, const QuerySize& message);
void encode(xdr::Encoder& out, const FileSize& message);
void encode(xdr::Encoder& out, const ReportSize& message);
void encode(xdr::Encoder& out, const FenceRequest& message);
void encode(xdr::Encoder& out, const Truncate& message);
void encode(xdr::Encoder& out, const Remove& message);
void encode(xdr::Encoder& out, const Stat& message);
void encode(xdr::Encoder& out, const ObjectStat& message);
void encode(xdr::Encoder& out, const Range& message);
void encode(xdr::Encoder& out, const Locate& message);
void encode(xdr::Encoder& out, const Located& message);
void encode(xdr::Encoder& out, const CopyMissed& message);
void encode(xdr::Encoder& out, const ForgetMissed& message);
void encode(xdr::Encoder& out, const Resync& message);
void encode(xdr::Encoder& out, const ResyncJob& message);
void encode(xdr::Encoder& out, const ResyncProgress& message);
void encode(xdr::Encoder& out, const Scrub& message);
void encode(xdr::Encoder& out, const GiveUp& message);
void encode(xdr::Encoder& out, const ListFrom& message);
void encode(xdr::Encoder& out, const Listed& message);

// T is any of the messages above.
template <class T>
[[nodiscard]] Result<T> decode(std::span<const std::byte> bytes);

}  // namespace weft::rpc::control
