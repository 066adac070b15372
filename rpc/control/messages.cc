#include "rpc/control/messages.h"

#include "layout/striping.h"

namespace weft::rpc::control {
namespace {

// Each message has a put() and a get() beside each other, in the order of the wire.

void put(xdr::Encoder& out, const ObjectId& id) {
  out.u64(id.fileid);
  out.u32(id.generation);
  out.u32(id.fsid);
}

void get(xdr::Decoder& in, ObjectId& id) {
  id.fileid = in.u64();
  id.generation = in.u32();
  id.fsid = in.u32();
}

void put(xdr::Encoder& out, const Space& space) {
  out.u64(space.capacity_bytes);
  out.u64(space.free_bytes);
  out.u64(space.objects);
}

void get(xdr::Decoder& in, Space& space) {
  space.capacity_bytes = in.u64();
  space.free_bytes = in.u64();
  space.objects = in.u64();
}

void put(xdr::Encoder& out, const LocalEndpoint& local) {
  out.fixed(local.machine);
  out.u32(local.user);
  out.string(local.socket);
}

void get(xdr::Decoder& in, LocalEndpoint& local) {
  in.fixed(local.machine);
  local.user = in.u32();
  local.socket = in.string(kMaxSocketPath);
  // A path that C would end early, or that means another to each process, is none.
  const bool whole = local.socket.find('\0') == std::string::npos;
  if (!whole || (!local.socket.empty() && local.socket.front() != '/')) in.reject();
}

void put(xdr::Encoder& out, const StoreState& state) {
  out.u64(state.generation);
  out.u64(state.boot);
}

void get(xdr::Decoder& in, StoreState& state) {
  state.generation = in.u64();
  state.boot = in.u64();
  // None is told in one way, and there is always a next one.
  if (state.generation == 0 && state.boot != 0) in.reject();
  if (state.generation == UINT64_MAX) in.reject();
}

void put(xdr::Encoder& out, const Fence& fence) {
  out.u32(static_cast<std::uint32_t>(fence.what));
  if (fence.what == Fence::What::kObject) {
    put(out, fence.object);
  } else {
    out.u64(fence.client_id);
  }
  out.u32(fence.epoch);
}

void get(xdr::Decoder& in, Fence& fence) {
  fence.what = static_cast<Fence::What>(in.u32());
  if (fence.what == Fence::What::kObject) {
    get(in, fence.object);
  } else if (fence.what == Fence::What::kClient) {
    fence.client_id = in.u64();
  } else {
    in.reject();
  }
  fence.epoch = in.u32();
}

void put(xdr::Encoder& out, const Extent& extent) {
  out.u64(extent.offset);
  out.u64(extent.length);
}

void get(xdr::Decoder& in, Extent& extent) {
  extent.offset = in.u64();
  extent.length = in.u64();
  if (extent.length == 0 || extent.length > UINT64_MAX - extent.offset) in.reject();
}

template <class T>
void put_list(xdr::Encoder& out, const std::vector<T>& list) {
  out.u32(static_cast<std::uint32_t>(list.size()));
  for (const T& item : list) put(out, item);
}

template <class T>
void get_list(xdr::Decoder& in, std::vector<T>& list, std::size_t max) {
  const std::uint32_t count = in.count(max);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) get(in, list.emplace_back());
}

void put(xdr::Encoder& out, const Load& load) {
  out.u32(load.requests_in_progress);
  layout::encode(out, load.measured);
}

void get(xdr::Decoder& in, Load& load) {
  load.requests_in_progress = in.u32();
  layout::decode(in, load.measured);
}

void put(xdr::Encoder& out, const MirrorLoad& mirror) {
  out.u64(mirror.pending_bytes);
  out.u32(mirror.oldest_pending_ms);
  out.u32(mirror.partners_away);
  out.u64(mirror.forwarded_bytes);
  out.u64(mirror.missed_writes);
}

void get(xdr::Decoder& in, MirrorLoad& mirror) {
  mirror.pending_bytes = in.u64();
  mirror.oldest_pending_ms = in.u32();
  mirror.partners_away = in.u32();
  mirror.forwarded_bytes = in.u64();
  mirror.missed_writes = in.u64();
}

void put(xdr::Encoder& out, const GroupScrub& scrub) {
  out.boolean(scrub.group);
  out.boolean(scrub.running);
  out.boolean(scrub.only_tell);
  out.boolean(scrub.waiting);
  out.u32(scrub.permille);
  out.u64(scrub.remaining_s);
  out.u64(scrub.bytes);
  out.u64(scrub.mended);
  out.u64(scrub.lost);
  out.u64(scrub.failed);
  out.u32(scrub.rounds);
  out.u64(scrub.ended_s_ago);
  out.u32(scrub.awaited);
  out.boolean(scrub.may_give_up);
  out.u64(scrub.given_up);
}

void get(xdr::Decoder& in, GroupScrub& scrub) {
  scrub.group = in.boolean();
  scrub.running = in.boolean();
  scrub.only_tell = in.boolean();
  scrub.waiting = in.boolean();
  scrub.permille = in.u32();
  scrub.remaining_s = in.u64();
  scrub.bytes = in.u64();
  scrub.mended = in.u64();
  scrub.lost = in.u64();
  scrub.failed = in.u64();
  scrub.rounds = in.u32();
  scrub.ended_s_ago = in.u64();
  scrub.awaited = in.u32();
  scrub.may_give_up = in.boolean();
  scrub.given_up = in.u64();
}

// Of the wire's enumerations from 0 or 1 without gaps.
template <class E>
void get_enum(xdr::Decoder& in, E& value, E least, E most) {
  const std::uint32_t word = in.u32();
  if (word < static_cast<std::uint32_t>(least) || word > static_cast<std::uint32_t>(most)) {
    return in.reject();
  }
  value = static_cast<E>(word);
}

void put(xdr::Encoder& out, const Counters& counters) {
  out.u64(counters.reads);
  out.u64(counters.writes);
  out.u64(counters.commits);
  out.u64(counters.read_bytes);
  out.u64(counters.write_bytes);
  out.u64(counters.errors);
  out.u64(counters.refused);
  out.u64(counters.size_queries);
  out.u64(counters.connections);
  out.u64(counters.sessions);
}

void get(xdr::Decoder& in, Counters& counters) {
  counters.reads = in.u64();
  counters.writes = in.u64();
  counters.commits = in.u64();
  counters.read_bytes = in.u64();
  counters.write_bytes = in.u64();
  counters.errors = in.u64();
  counters.refused = in.u64();
  counters.size_queries = in.u64();
  counters.connections = in.u64();
  counters.sessions = in.u64();
}

void get(xdr::Decoder&, Empty&) {}

void put_addresses(xdr::Encoder& out, const std::vector<layout::NetAddress>& addresses) {
  out.u32(static_cast<std::uint32_t>(addresses.size()));
  for (const auto& address : addresses) layout::encode(out, address);
}

void get_addresses(xdr::Decoder& in, std::vector<layout::NetAddress>& addresses) {
  const std::uint32_t count = in.count(kMaxAddresses);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    addresses.push_back(layout::decode_address(in));
  }
}

void get(xdr::Decoder& in, Register& message) {
  in.fixed(message.store);
  in.fixed(message.cluster);
  message.ds_id = in.u32();
  message.boot = in.u64();
  message.name = in.string(kMaxText);
  message.version = in.string(kMaxText);
  message.domain = in.string(kMaxText);
  get_addresses(in, message.addresses);
  get(in, message.space);
  get(in, message.local);
  get(in, message.state);
}

void get(xdr::Decoder& in, Registered& message) {
  in.fixed(message.cluster);
  message.ds_id = in.u32();
  message.mds_boot = in.u64();
  message.heartbeat_ms = in.u32();
  get_list(in, message.fences, kMaxFences);
}

void get(xdr::Decoder& in, Heartbeat& message) {
  get(in, message.space);
  get(in, message.load);
  get(in, message.counters);
  get(in, message.mirror);
  message.store = in.string(kMaxText);
  get(in, message.scrub);
  message.trouble = in.string(kMaxText);
  get(in, message.state);
}

void get(xdr::Decoder& in, Lease& message) { message.seconds = in.u32(); }

void get(xdr::Decoder& in, QuerySize& message) { get(in, message.object); }
void get(xdr::Decoder& in, FileSize& message) { message.size = in.u64(); }

void get(xdr::Decoder& in, ReportSize& message) {
  get(in, message.object);
  message.end = in.u64();
  message.mtime_ns = in.i64();
}

void get(xdr::Decoder& in, FenceRequest& message) { get_list(in, message.fences, kMaxFences); }

void get(xdr::Decoder& in, Truncate& message) {
  get(in, message.object);
  message.size = in.u64();
}

void get(xdr::Decoder& in, Remove& message) { get_list(in, message.objects, kMaxRemovals); }
void get(xdr::Decoder& in, Stat& message) { get(in, message.object); }

void get(xdr::Decoder& in, ObjectStat& message) {
  message.exists = in.boolean();
  message.size = in.u64();
  message.allocated = in.u64();
  message.mtime_ns = in.i64();
}

void get(xdr::Decoder& in, Range& message) {
  get(in, message.object);
  message.offset = in.u64();
  message.length = in.u64();
}

void get(xdr::Decoder& in, Locate& message) { message.ds_id = in.u32(); }

void get(xdr::Decoder& in, Located& message) {
  get_enum(in, message.state, Located::State::kUp, Located::State::kDown);
  get_addresses(in, message.addresses);
}

// A list that says nothing is a mistake.
void get_extents(xdr::Decoder& in, std::vector<Extent>& extents) {
  get_list(in, extents, kMaxExtents);
  if (extents.empty()) in.reject();
}

void get(xdr::Decoder& in, CopyMissed& message) {
  get(in, message.object);
  message.ds_id = in.u32();
  message.object_epoch = in.u32();
  get_extents(in, message.extents);
  message.failed_here = in.boolean();
}

void get(xdr::Decoder& in, ForgetMissed& message) {
  get(in, message.object);
  message.ds_id = in.u32();
}

void get(xdr::Decoder& in, Resync& message) {
  message.job = in.u64();
  get(in, message.object);
  message.source = in.u32();
  message.least_epoch = in.u32();
  message.epoch = in.u32();
  get_extents(in, message.extents);
  message.bytes_per_second = in.u64();
  message.stripe_unit = in.u32();
  message.servers = in.u32();
  message.first_index = in.u32();
  message.server = in.u32();
  message.report_only = in.boolean();
  const bool striped =
      layout::Striping::make(message.stripe_unit, message.servers, message.first_index)
          .has_value() &&
      message.server < message.servers;
  if (message.stripe_unit != 0 && !striped) in.reject();
}

void get(xdr::Decoder& in, ResyncJob& message) { message.job = in.u64(); }
void get(xdr::Decoder& in, GiveUp& message) { message.target = in.u32(); }
void get(xdr::Decoder& in, ListFrom& message) {
  message.folder = in.u32();
  get(in, message.after);
}
void get(xdr::Decoder& in, Listed& message) {
  get_list(in, message.objects, kMaxListed);
  get(in, message.next);
  message.more = in.boolean();
}
void get(xdr::Decoder& in, Scrub& message) {
  message.start = in.boolean();
  message.only_tell = in.boolean();
}

void get(xdr::Decoder& in, ResyncProgress& message) {
  using State = ResyncProgress::State;
  get_enum(in, message.state, State::kUnknown, State::kFailed);
  message.total_bytes = in.u64();
  message.compared_bytes = in.u64();
  message.differing_bytes = in.u64();
  message.copied_bytes = in.u64();
  message.punched_bytes = in.u64();
  message.next_offset = in.u64();
  message.error = in.string(kMaxText);
  get_list(in, message.differing, kMaxDiffering);
}

}  // namespace

std::string to_string(const Uuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[std::to_integer<unsigned>(uuid[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(uuid[i]) & 15];
  }
  return text;
}

StoreState next_state(const StoreState& state, std::uint64_t boot) {
  if (state.generation > 0 && state.boot == boot) return state;
  return {state.generation + 1, boot};
}

void encode(xdr::Encoder&, const Empty&) {}

void encode(xdr::Encoder& out, const Register& message) {
  out.fixed(message.store);
  out.fixed(message.cluster);
  out.u32(message.ds_id);
  out.u64(message.boot);
  out.string(message.name);
  out.string(message.version);
  out.string(message.domain);
  put_addresses(out, message.addresses);
  put(out, message.space);
  put(out, message.local);
  put(out, message.state);
}

void encode(xdr::Encoder& out, const Registered& message) {
  out.fixed(message.cluster);
  out.u32(message.ds_id);
  out.u64(message.mds_boot);
  out.u32(message.heartbeat_ms);
  put_list(out, message.fences);
}

void encode(xdr::Encoder& out, const Heartbeat& message) {
  put(out, message.space);
  put(out, message.load);
  put(out, message.counters);
  put(out, message.mirror);
  out.string(message.store);
  put(out, message.scrub);
  out.string(std::string_view(message.trouble).substr(0, kMaxText));
  put(out, message.state);
}

void encode(xdr::Encoder& out, const Lease& message) { out.u32(message.seconds); }

void encode(xdr::Encoder& out, const QuerySize& message) { put(out, message.object); }
void encode(xdr::Encoder& out, const FileSize& message) { out.u64(message.size); }

void encode(xdr::Encoder& out, const ReportSize& message) {
  put(out, message.object);
  out.u64(message.end);
  out.i64(message.mtime_ns);
}

void encode(xdr::Encoder& out, const FenceRequest& message) { put_list(out, message.fences); }

void encode(xdr::Encoder& out, const Truncate& message) {
  put(out, message.object);
  out.u64(message.size);
}

void encode(xdr::Encoder& out, const Remove& message) { put_list(out, message.objects); }
void encode(xdr::Encoder& out, const Stat& message) { put(out, message.object); }

void encode(xdr::Encoder& out, const ObjectStat& message) {
  out.boolean(message.exists);
  out.u64(message.size);
  out.u64(message.allocated);
  out.i64(message.mtime_ns);
}

void encode(xdr::Encoder& out, const Range& message) {
  put(out, message.object);
  out.u64(message.offset);
  out.u64(message.length);
}

void encode(xdr::Encoder& out, const Locate& message) { out.u32(message.ds_id); }

void encode(xdr::Encoder& out, const Located& message) {
  out.u32(static_cast<std::uint32_t>(message.state));
  put_addresses(out, message.addresses);
}

void encode(xdr::Encoder& out, const CopyMissed& message) {
  put(out, message.object);
  out.u32(message.ds_id);
  out.u32(message.object_epoch);
  put_list(out, message.extents);
  out.boolean(message.failed_here);
}

void encode(xdr::Encoder& out, const ForgetMissed& message) {
  put(out, message.object);
  out.u32(message.ds_id);
}

void encode(xdr::Encoder& out, const Resync& message) {
  out.u64(message.job);
  put(out, message.object);
  out.u32(message.source);
  out.u32(message.least_epoch);
  out.u32(message.epoch);
  put_list(out, message.extents);
  out.u64(message.bytes_per_second);
  out.u32(message.stripe_unit);
  out.u32(message.servers);
  out.u32(message.first_index);
  out.u32(message.server);
  out.boolean(message.report_only);
}

void encode(xdr::Encoder& out, const ResyncJob& message) { out.u64(message.job); }
void encode(xdr::Encoder& out, const GiveUp& message) { out.u32(message.target); }
void encode(xdr::Encoder& out, const ListFrom& message) {
  out.u32(message.folder);
  put(out, message.after);
}
void encode(xdr::Encoder& out, const Listed& message) {
  put_list(out, message.objects);
  encode(out, message.next);
  out.boolean(message.more);
}
void encode(xdr::Encoder& out, const Scrub& message) {
  out.boolean(message.start);
  out.boolean(message.only_tell);
}

void encode(xdr::Encoder& out, const ResyncProgress& message) {
  out.u32(static_cast<std::uint32_t>(message.state));
  out.u64(message.total_bytes);
  out.u64(message.compared_bytes);
  out.u64(message.differing_bytes);
  out.u64(message.copied_bytes);
  out.u64(message.punched_bytes);
  out.u64(message.next_offset);
  out.string(std::string_view(message.error).substr(0, kMaxText));
  put_list(out, message.differing);
}

template <class T>
Result<T> decode(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  T message;
  get(in, message);
  if (auto read = in.finish("control message"); !read) return pass(read);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after a control message");
  return message;
}

template Result<Empty> decode<Empty>(std::span<const std::byte>);
template Result<Register> decode<Register>(std::span<const std::byte>);
template Result<Registered> decode<Registered>(std::span<const std::byte>);
template Result<Heartbeat> decode<Heartbeat>(std::span<const std::byte>);
template Result<Lease> decode<Lease>(std::span<const std::byte>);
template Result<QuerySize> decode<QuerySize>(std::span<const std::byte>);
template Result<FileSize> decode<FileSize>(std::span<const std::byte>);
template Result<ReportSize> decode<ReportSize>(std::span<const std::byte>);
template Result<FenceRequest> decode<FenceRequest>(std::span<const std::byte>);
template Result<Truncate> decode<Truncate>(std::span<const std::byte>);
template Result<Remove> decode<Remove>(std::span<const std::byte>);
template Result<Stat> decode<Stat>(std::span<const std::byte>);
template Result<ObjectStat> decode<ObjectStat>(std::span<const std::byte>);
template Result<Range> decode<Range>(std::span<const std::byte>);
template Result<Locate> decode<Locate>(std::span<const std::byte>);
template Result<Located> decode<Located>(std::span<const std::byte>);
template Result<CopyMissed> decode<CopyMissed>(std::span<const std::byte>);
template Result<ForgetMissed> decode<ForgetMissed>(std::span<const std::byte>);
template Result<Resync> decode<Resync>(std::span<const std::byte>);
template Result<ResyncJob> decode<ResyncJob>(std::span<const std::byte>);
template Result<Scrub> decode<Scrub>(std::span<const std::byte>);
template Result<GiveUp> decode<GiveUp>(std::span<const std::byte>);
template Result<ListFrom> decode<ListFrom>(std::span<const std::byte>);
template Result<Listed> decode<Listed>(std::span<const std::byte>);
template Result<ResyncProgress> decode<ResyncProgress>(std::span<const std::byte>);

}  // namespace weft::rpc::control
