// What the metadata server (MDS) and a data server (DS) say to each other: docs/protocol.md.
//
// Every request is answered exactly once, with its reply or an error. Requests may be repeated
// after a lost connection, so each has the same effect done twice as once. Verbs 1 to 15 are asked
// by a DS of the MDS, 16 and up by the MDS of a DS; a number is never given out again. Success of
// the latter means: on stable storage.
//
// Each message is described behind it (rpc/xdr/describe.h), in the order of the wire. Decoding
// believes nothing: kProtocol for malformed bytes, bytes too many, or a list over its limit. Times
// are nanoseconds since 1970, sizes bytes.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/client_network.h"
#include "layout/net_address.h"
#include "layout/object_id.h"
#include "layout/striping.h"
#include "rpc/base/error.h"
#include "rpc/base/machine.h"
#include "rpc/peer/request.h"
#include "rpc/xdr/describe.h"

namespace weft {

template <class Io>
void describe(Io& io, LocalEndpoint& r) {
  io("machine", r.machine);
  io("user", r.user);
  io("socket", r.socket, at_most(kMaxSocketPath));
  // A path that C would end early, or that means another to each process, is none.
  io.check(r.socket.find('\0') == std::string::npos);
  io.check(r.socket.empty() || r.socket.front() == '/');
}

}  // namespace weft

namespace weft::rpc::control {

using layout::ObjectId;
using Uuid = std::array<std::byte, 16>;

using peer::Done;

// "7b1d0c52-..." in lower case.
[[nodiscard]] std::string to_string(const Uuid& uuid);

constexpr std::size_t kMaxAddresses = 8;
constexpr std::size_t kMaxFences = 1024;    // in one message
constexpr std::size_t kMaxRemovals = 1024;  // in one message
constexpr std::size_t kMaxExtents = 256;    // in one message
constexpr std::size_t kMaxListed = 1024;    // in one message
constexpr std::size_t kMaxDiffering = 8;    // extents that a job tells of
constexpr std::size_t kMaxText = 256;

// Replies, which requests name.
struct FileSize;
struct Listed;
struct Located;
struct ObjectStat;
struct Registered;

struct Space {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t objects = 0;
  friend bool operator==(const Space&, const Space&) = default;
};
template <class Io>
void describe(Io& io, Space& r) {
  io("capacity_bytes", r.capacity_bytes);
  io("free_bytes", r.free_bytes);
  io("objects", r.objects);
}

// Which of a store's successive states it is in (docs/protocol.md, "A store's history"): one for
// each run of its data server that a metadata server accepted. Generation 0: none yet.
struct StoreState {
  std::uint64_t generation = 0;
  std::uint64_t boot = 0;  // of that run
  friend bool operator==(const StoreState&, const StoreState&) = default;
};
template <class Io>
void describe(Io& io, StoreState& r) {
  io("generation", r.generation);
  io("boot", r.boot);
  // None is told in one way, and there is always a next one.
  io.check(r.generation != 0 || r.boot == 0);
  io.check(r.generation != UINT64_MAX);
}

// The first request on every connection. A store that was never registered has cluster and ds_id 0.
struct Register {
  static constexpr std::uint32_t kVerb = 1;
  using Reply = Registered;
  Uuid store{};             // made once with the store; a wiped store is a new one
  Uuid cluster{};           // the system the store belongs to
  std::uint32_t ds_id = 0;  // the id that system gave it
  std::uint64_t boot = 0;   // drawn at random when the process starts
  std::string name;         // for people: the host's name, or what the configuration says
  std::string version;
  std::string domain;                         // failure domain
  std::vector<layout::NetAddress> addresses;  // preferred first; `networks` are of clients alone
  Space space;
  LocalEndpoint local;  // where it serves processes of its machine, besides
  StoreState state;     // that the store is in, durably
  // By RDMA, of RegisterTransports and RegisterNetworks alone; together with `addresses` at most
  // kMaxAddresses.
  std::vector<layout::NetAddress> rdma;
  std::vector<layout::ClientNetwork> networks;  // of RegisterNetworks alone
  friend bool operator==(const Register&, const Register&) = default;
};
template <class Io>
void describe(Io& io, Register& r) {
  io("store", r.store);
  io("cluster", r.cluster);
  io("ds_id", r.ds_id);
  io("boot", r.boot);
  io("name", r.name, at_most(kMaxText));
  io("version", r.version, at_most(kMaxText));
  io("domain", r.domain, at_most(kMaxText));
  io("addresses", r.addresses, at_most(kMaxAddresses));
  io("space", r.space);
  io("local", r.local);
  io("state", r.state);
}

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
template <class Io>
void describe(Io& io, Fence& r) {
  io("what", r.what, among(Fence::What::kObject, Fence::What::kClient));
  if (r.what == Fence::What::kObject) io("object", r.object);
  if (r.what == Fence::What::kClient) io("client_id", r.client_id);
  io("epoch", r.epoch);
}

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
template <class Io>
void describe(Io& io, Registered& r) {
  io("cluster", r.cluster);
  io("ds_id", r.ds_id);
  io("mds_boot", r.mds_boot);
  io("heartbeat_ms", r.heartbeat_ms);
  io("fences", r.fences, at_most(kMaxFences));
}

struct QuerySize {
  static constexpr std::uint32_t kVerb = 3;
  using Reply = FileSize;
  ObjectId object;
  friend bool operator==(const QuerySize&, const QuerySize&) = default;
};
template <class Io>
void describe(Io& io, QuerySize& r) {
  io("object", r.object);
}
struct FileSize {
  std::uint64_t size = 0;
  friend bool operator==(const FileSize&, const FileSize&) = default;
};
template <class Io>
void describe(Io& io, FileSize& r) {
  io("size", r.size);
}

// A stable write ended at `end`: the file is at least that long.
struct ReportSize {
  static constexpr std::uint32_t kVerb = 4;
  using Reply = void;
  ObjectId object;
  std::uint64_t end = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const ReportSize&, const ReportSize&) = default;
};
template <class Io>
void describe(Io& io, ReportSize& r) {
  io("object", r.object);
  io("end", r.end);
  io("mtime_ns", r.mtime_ns);
}

struct FenceRequest {
  static constexpr std::uint32_t kVerb = 16;
  using Reply = void;
  std::vector<Fence> fences;
  friend bool operator==(const FenceRequest&, const FenceRequest&) = default;
};
template <class Io>
void describe(Io& io, FenceRequest& r) {
  io("fences", r.fences, at_most(kMaxFences));
}
struct Truncate {
  static constexpr std::uint32_t kVerb = 17;
  using Reply = ObjectStat;
  ObjectId object;
  std::uint64_t size = 0;
  friend bool operator==(const Truncate&, const Truncate&) = default;
};
template <class Io>
void describe(Io& io, Truncate& r) {
  io("object", r.object);
  io("size", r.size);
}
struct Remove {
  static constexpr std::uint32_t kVerb = 18;
  using Reply = void;
  std::vector<ObjectId> objects;
  friend bool operator==(const Remove&, const Remove&) = default;
};
template <class Io>
void describe(Io& io, Remove& r) {
  io("objects", r.objects, at_most(kMaxRemovals));
}
struct Stat {
  static constexpr std::uint32_t kVerb = 19;
  using Reply = ObjectStat;
  ObjectId object;
  friend bool operator==(const Stat&, const Stat&) = default;
};
template <class Io>
void describe(Io& io, Stat& r) {
  io("object", r.object);
}
// An object that does not exist has size 0 and is no error.
struct ObjectStat {
  bool exists = false;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const ObjectStat&, const ObjectStat&) = default;
};
template <class Io>
void describe(Io& io, ObjectStat& r) {
  io("exists", r.exists);
  io("size", r.size);
  io("allocated", r.allocated);
  io("mtime_ns", r.mtime_ns);
}

struct Locate {
  static constexpr std::uint32_t kVerb = 5;
  using Reply = Located;
  std::uint32_t ds_id = 0;
  friend bool operator==(const Locate&, const Locate&) = default;
};
template <class Io>
void describe(Io& io, Locate& r) {
  io("ds_id", r.ds_id);
}
struct Located {
  enum class State : std::uint32_t { kUp = 1, kSuspect = 2, kDown = 3 };
  State state = State::kDown;
  std::vector<layout::NetAddress> addresses;  // preferred first; none: it never registered
  std::vector<layout::NetAddress> rdma;       // of LocatedTransports alone
  friend bool operator==(const Located&, const Located&) = default;
};
template <class Io>
void describe(Io& io, Located& r) {
  io("state", r.state, among(Located::State::kUp, Located::State::kDown));
  io("addresses", r.addresses, at_most(kMaxAddresses));
}

// [offset, offset + length), which does not wrap, and is not empty.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};
template <class Io>
void describe(Io& io, Extent& r) {
  io("offset", r.offset);
  io("length", r.length);
  io.check(r.length != 0 && r.length <= UINT64_MAX - r.offset);
}

// The copy of an object at data server `ds_id` may miss writes, or part of them, within the
// extents. Answered when that is durable.
struct CopyMissed {
  static constexpr std::uint32_t kVerb = 6;
  using Reply = void;
  ObjectId object;
  std::uint32_t ds_id = 0;
  std::uint32_t object_epoch = 0;  // of the handle the write came with
  std::vector<Extent> extents;     // 1 or more
  bool failed_here = false;        // the sender's own copy lacks it too, because its store failed
  friend bool operator==(const CopyMissed&, const CopyMissed&) = default;
};
template <class Io>
void describe(Io& io, CopyMissed& r) {
  io("object", r.object);
  io("ds_id", r.ds_id);
  io("object_epoch", r.object_epoch);
  io("extents", r.extents, at_most(kMaxExtents));
  io.check(!r.extents.empty());
  io("failed_here", r.failed_here);
}

// The object is to be duplicated to the partner again, whatever it missed before.
struct ForgetMissed {
  static constexpr std::uint32_t kVerb = 22;
  using Reply = void;
  ObjectId object;
  std::uint32_t ds_id = 0;
  friend bool operator==(const ForgetMissed&, const ForgetMissed&) = default;
};
template <class Io>
void describe(Io& io, ForgetMissed& r) {
  io("object", r.object);
  io("ds_id", r.ds_id);
}

// Makes the receiver's copy of an object equal to another data server's within the extents.
// Answered when the job has begun, and again when it is under way already.
struct Resync {
  static constexpr std::uint32_t kVerb = 23;
  using Reply = void;
  std::uint64_t job = 0;  // the metadata server's number for it; a job under way is not begun again
  ObjectId object;
  std::uint32_t source = 0;  // the data server that has the data
  // Handles below are fenced off first: no late write may follow. 0: both copies are current, and
  // the job fails where the source has no object and the receiver has bytes of it.
  std::uint32_t least_epoch = 0;
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
// Whether its stripes are such that layout::Striping has them, or it has none.
[[nodiscard]] bool is_well_striped(const Resync& request);
template <class Io>
void describe(Io& io, Resync& r) {
  io("job", r.job);
  io("object", r.object);
  io("source", r.source);
  io("least_epoch", r.least_epoch);
  io("epoch", r.epoch);
  io("extents", r.extents, at_most(kMaxExtents));
  io.check(!r.extents.empty());
  io("bytes_per_second", r.bytes_per_second);
  io("stripe_unit", r.stripe_unit);
  io("servers", r.servers);
  io("first_index", r.first_index);
  io("server", r.server);
  io("report_only", r.report_only);
  io.check(is_well_striped(r));
}
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
template <class Io>
void describe(Io& io, ResyncProgress& r) {
  io("state", r.state, among(ResyncProgress::State::kUnknown, ResyncProgress::State::kFailed));
  io("total_bytes", r.total_bytes);
  io("compared_bytes", r.compared_bytes);
  io("differing_bytes", r.differing_bytes);
  io("copied_bytes", r.copied_bytes);
  io("punched_bytes", r.punched_bytes);
  io("next_offset", r.next_offset);
  io("error", r.error, cut_at(kMaxText));
  io("differing", r.differing, at_most(kMaxDiffering));
}

struct ResyncStatus {
  static constexpr std::uint32_t kVerb = 24;
  using Reply = ResyncProgress;
  std::uint64_t job = 0;
  friend bool operator==(const ResyncStatus&, const ResyncStatus&) = default;
};
template <class Io>
void describe(Io& io, ResyncStatus& r) {
  io("job", r.job);
}
// Answered when nothing of the job runs any more; a job that is not known is no error.
struct ResyncCancel {
  static constexpr std::uint32_t kVerb = 25;
  using Reply = void;
  std::uint64_t job = 0;
  friend bool operator==(const ResyncCancel&, const ResyncCancel&) = default;
};
template <class Io>
void describe(Io& io, ResyncCancel& r) {
  io("job", r.job);
}

// The data server's parity group is to be scrubbed, or that is to end. kNotSupported: there is no
// parity group; kBusy: a scrub goes on. One that is to end and is not there is no error.
struct Scrub {
  static constexpr std::uint32_t kVerb = 26;
  using Reply = void;
  bool start = false;
  bool only_tell = false;  // nothing is to be changed
  friend bool operator==(const Scrub&, const Scrub&) = default;
};
template <class Io>
void describe(Io& io, Scrub& r) {
  io("start", r.start);
  io("only_tell", r.only_tell);
}

// The target of the data server's parity group is lost for ever, and with it blocks that only it
// had: the group is not to wait for it. kInvalid: it does not wait for that one, or not for it
// alone.
struct GiveUp {
  static constexpr std::uint32_t kVerb = 27;
  using Reply = void;
  std::uint32_t target = 0;
  friend bool operator==(const GiveUp&, const GiveUp&) = default;
};
template <class Io>
void describe(Io& io, GiveUp& r) {
  io("target", r.target);
}

// The fingerprints of the cluster keys that the data server has now (rpc/peer/keyring.h): the one
// that it uses first, then the others that it accepts.
struct HeldKeys {
  static constexpr std::size_t kMost = 8;
  std::vector<std::uint64_t> fingerprints;
  friend bool operator==(const HeldKeys&, const HeldKeys&) = default;
};
template <class Io>
void describe(Io& io, HeldKeys& r) {
  io("fingerprints", r.fingerprints, at_most(HeldKeys::kMost));
}
struct GetKeys {
  static constexpr std::uint32_t kVerb = 31;
  using Reply = HeldKeys;
  friend bool operator==(const GetKeys&, const GetKeys&) = default;
};
template <class Io>
void describe(Io& /*io*/, GetKeys& /*r*/) {}

// What segments (dataserver/segments) have done since the data server started; the calls in
// segment_metrics.h say what each number is. kNotFound: it keeps none.
struct SegmentCounts {
  std::uint64_t segments = 0;  // there are, now
  std::uint64_t bytes = 0;     // of them on disk, now
  std::uint64_t most_bytes = 0;
  std::uint64_t memory_bytes = 0;  // of them in memory, now
  std::uint64_t most_memory_bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t hits = 0;
  std::uint64_t waits = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t loads = 0;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t built = 0;
  std::uint64_t built_bytes = 0;
  std::uint64_t invalidated = 0;
  std::uint64_t replaced = 0;
  std::uint64_t damaged = 0;
  friend bool operator==(const SegmentCounts&, const SegmentCounts&) = default;
};
template <class Io>
void describe(Io& io, SegmentCounts& r) {
  io("segments", r.segments);
  io("bytes", r.bytes);
  io("most_bytes", r.most_bytes);
  io("memory_bytes", r.memory_bytes);
  io("most_memory_bytes", r.most_memory_bytes);
  io("reads", r.reads);
  io("hits", r.hits);
  io("waits", r.waits);
  io("hit_bytes", r.hit_bytes);
  io("loads", r.loads);
  io("loaded_bytes", r.loaded_bytes);
  io("built", r.built);
  io("built_bytes", r.built_bytes);
  io("invalidated", r.invalidated);
  io("replaced", r.replaced);
  io("damaged", r.damaged);
}
struct GetSegments {
  static constexpr std::uint32_t kVerb = 33;
  using Reply = SegmentCounts;
  friend bool operator==(const GetSegments&, const GetSegments&) = default;
};
template <class Io>
void describe(Io& /*io*/, GetSegments& /*r*/) {}

struct Range {
  ObjectId object;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
template <class Io>
void describe(Io& io, Range& r) {
  io("object", r.object);
  io("offset", r.offset);
  io("length", r.length);
}

struct Allocate {
  static constexpr std::uint32_t kVerb = 20;
  using Reply = void;
  Range range;
  friend bool operator==(const Allocate&, const Allocate&) = default;
};
template <class Io>
void describe(Io& io, Allocate& r) {
  describe(io, r.range);
}
// Which bytes an object holds: those of server `server` in a file that is striped so.
struct Share {
  std::uint32_t stripe_unit = 0;
  std::uint32_t servers = 0;
  std::uint32_t first_index = 0;
  std::uint32_t server = 0;
  friend bool operator==(const Share&, const Share&) = default;
};
[[nodiscard]] bool is_well_striped(const Share& share);
template <class Io>
void describe(Io& io, Share& r) {
  io("stripe_unit", r.stripe_unit);
  io("servers", r.servers);
  io("first_index", r.first_index);
  io("server", r.server);
  io.check(is_well_striped(r));
}

// As Allocate, of the stripe units in the range that the object holds.
struct AllocateShare {
  static constexpr std::uint32_t kVerb = 29;
  using Reply = void;
  static constexpr std::uint64_t kMaxUnits = 4096;
  Range range;
  Share share;
  friend bool operator==(const AllocateShare&, const AllocateShare&) = default;
};
// At most kMaxUnits, and no byte beyond what a file can have.
[[nodiscard]] bool has_few_units(const AllocateShare& request);
template <class Io>
void describe(Io& io, AllocateShare& r) {
  io("range", r.range);
  io("share", r.share);
  io.check(has_few_units(r));
}

// Where in an object the first byte at or after `offset` is that belongs to it and may be other
// than zeros; or that is in a hole, as is everything beyond its end.
struct SeekAnswer {
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint64_t offset = kNone;
  bool more = false;  // there is none before `offset`, from where the search is to go on
  friend bool operator==(const SeekAnswer&, const SeekAnswer&) = default;
};
template <class Io>
void describe(Io& io, SeekAnswer& r) {
  io("offset", r.offset);
  io("more", r.more);
}
struct Seek {
  static constexpr std::uint32_t kVerb = 30;
  using Reply = SeekAnswer;
  ObjectId object;
  std::uint64_t offset = 0;
  Share share;
  bool hole = false;
  friend bool operator==(const Seek&, const Seek&) = default;
};
template <class Io>
void describe(Io& io, Seek& r) {
  io("object", r.object);
  io("offset", r.offset);
  io.check(r.offset <= layout::kMaxFileSize);
  io("share", r.share);
  io("hole", r.hole);
}

struct Punch {
  static constexpr std::uint32_t kVerb = 21;
  using Reply = void;
  Range range;
  friend bool operator==(const Punch&, const Punch&) = default;
};
template <class Io>
void describe(Io& io, Punch& r) {
  describe(io, r.range);
}

// Where a listing goes on, as the data server said: the order of objects is its own. Zeros: at the
// start.
struct ListFrom {
  static constexpr std::uint32_t kVerb = 28;
  using Reply = Listed;
  std::uint32_t folder = 0;
  ObjectId after;
  friend bool operator==(const ListFrom&, const ListFrom&) = default;
};
template <class Io>
void describe(Io& io, ListFrom& r) {
  io("folder", r.folder);
  io("after", r.after);
}
// Objects that the data server has, each once while a listing goes on; of those made or removed
// meanwhile some. Maybe none though there are more.
struct Listed {
  std::vector<ObjectId> objects;
  ListFrom next;
  bool more = false;  // otherwise `next` means nothing
  friend bool operator==(const Listed&, const Listed&) = default;
};
template <class Io>
void describe(Io& io, Listed& r) {
  io("objects", r.objects, at_most(kMaxListed));
  io("next", r.next);
  io("more", r.more);
}

// T is any of the messages above.
template <class T>
void encode(xdr::Encoder& out, const T& message) {
  xdr::put(out, message);
}
template <class T>
[[nodiscard]] Result<T> decode(std::span<const std::byte> bytes) {
  return xdr::read_whole<T>(bytes, "control message");
}

}  // namespace weft::rpc::control
