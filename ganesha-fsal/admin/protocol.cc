#include "ganesha-fsal/admin/protocol.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "rpc/xdr/xdr.h"

namespace weft::mds {

std::string_view to_string(DsState state) {
  switch (state) {
    case DsState::kUp: return "up";
    case DsState::kSuspect: return "suspect";
    case DsState::kDown: return "down";
    case DsState::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view to_string(RepairKind kind) {
  switch (kind) {
    case RepairKind::kResync: return "resync";
    case RepairKind::kCompare: return "compare";
    case RepairKind::kScrub: return "scrub";
  }
  return "unknown";
}

namespace admin {
namespace {

constexpr std::size_t kMaxString = 1024;
constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kMaxCode = 64;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxDataServers = 4096;
constexpr std::size_t kMaxAddresses = 64;
constexpr std::size_t kMaxWarnings = 64;
constexpr std::size_t kMaxStripes = 4096;
constexpr std::size_t kMaxCopies = 16;  // of a stripe
constexpr std::size_t kMaxGrants = 4096;
constexpr std::size_t kMaxRepairs = 64;  // of one data server
constexpr std::size_t kMaxPolicyRows = 64;
constexpr std::size_t kMaxExtents = 64;  // of a finding
constexpr std::size_t kMaxLines = 1024;  // of what maintenance has to say

// The fields of each report are named once, in visit(); Writer and Reader are its two directions.
class Writer {
 public:
  void value(const std::uint32_t& v) { out.u32(v); }
  void value(const std::uint64_t& v) { out.u64(v); }
  void value(const bool& v) { out.boolean(v); }
  void value(const DsState& v) { out.u32(static_cast<std::uint32_t>(v)); }
  void value(const RepairKind& v) { out.u32(static_cast<std::uint32_t>(v)); }
  void text(const std::string& v, std::size_t max) {
    out.string(std::string_view(v).substr(0, max));
  }
  template <class T, class Each>
  void list(const std::vector<T>& v, std::size_t max, Each each) {
    const std::size_t count = std::min(v.size(), max);
    out.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) each(v[i]);
  }
  xdr::Encoder out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : in(bytes) {}
  void value(std::uint32_t& v) { v = in.u32(); }
  void value(std::uint64_t& v) { v = in.u64(); }
  void value(bool& v) { v = in.boolean(); }
  void value(DsState& v) {
    const std::uint32_t word = in.u32();
    if (word > static_cast<std::uint32_t>(DsState::kUnknown)) in.reject();
    v = in.ok() ? static_cast<DsState>(word) : DsState::kUnknown;
  }
  void value(RepairKind& v) {
    const std::uint32_t word = in.u32();
    if (word > static_cast<std::uint32_t>(RepairKind::kScrub)) in.reject();
    v = in.ok() ? static_cast<RepairKind>(word) : RepairKind::kResync;
  }
  void text(std::string& v, std::size_t max) { v = in.string(max); }
  template <class T, class Each>
  void list(std::vector<T>& v, std::size_t max, Each each) {
    const std::uint32_t count = in.count(max);
    v.clear();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) each(v.emplace_back());
  }
  xdr::Decoder in;
};

template <class Io, class Report>
void visit_repair(Io& io, Report& r) {
  io.value(r.kind);
  io.value(r.fileid);
  io.value(r.source);
  io.value(r.total_bytes);
  io.value(r.compared_bytes);
  io.value(r.copied_bytes);
  io.value(r.bytes_per_second);
  io.value(r.age_ms);
  io.value(r.remaining_ms);
}

template <class Io, class Report>
void visit_finding(Io& io, Report& r) {
  io.value(r.fileid);
  io.value(r.stripe);
  io.value(r.ds_id);
  io.value(r.source);
  io.value(r.differing_bytes);
  io.list(r.extents, kMaxExtents, [&](auto& extent) {
    io.value(extent.offset);
    io.value(extent.length);
  });
  io.value(r.majority);
  io.value(r.mended);
}

template <class Io, class Report>
void visit_data_server(Io& io, Report& r) {
  io.value(r.id);
  io.text(r.name, kMaxString);
  io.value(r.state);
  io.list(r.addresses, kMaxAddresses, [&](auto& address) { io.text(address, kMaxString); });
  io.text(r.store, kMaxString);
  io.text(r.proxy, kMaxString);
  io.value(r.proxy_shared_bytes);
  io.value(r.heartbeat_age_ms);
  io.value(r.uptime_ms);
  io.value(r.capacity_bytes);
  io.value(r.free_bytes);
  io.value(r.objects);
  io.value(r.read_calls);
  io.value(r.write_calls);
  io.value(r.commit_calls);
  io.value(r.read_bytes);
  io.value(r.written_bytes);
  io.value(r.errors);
  io.value(r.refused);
  io.value(r.connections);
  io.value(r.cpu_busy_permille);
  io.value(r.run_queue_milli);
  io.value(r.memory_free_bytes);
  io.value(r.disk_available);
  io.value(r.net_available);
  io.value(r.mirror_pending_bytes);
  io.value(r.stale_objects);
  io.list(r.repairs, kMaxRepairs, [&](auto& repair) { visit_repair(io, repair); });
  io.text(r.duty, kMaxString);
  io.value(r.objects_left);
  io.value(r.objects_moved);
  io.value(r.moved_bytes);
  io.value(r.move_remaining_ms);
  io.list(r.stuck, kMaxWarnings, [&](auto& why) { io.text(why, kMaxString); });
  io.text(r.not_accepted, kMaxString);
}

template <class Io, class Report>
void visit_status(Io& io, Report& r) {
  io.text(r.version, kMaxString);
  io.value(r.uptime_ms);
  io.value(r.grace_left_ms);
  io.value(r.clients);
  io.value(r.inodes_made);
  io.value(r.mds_read_calls);
  io.value(r.mds_write_calls);
  io.value(r.mds_read_bytes);
  io.value(r.mds_written_bytes);
  io.value(r.layoutgets);
  io.value(r.layoutget_refusals);
  io.value(r.layoutreturns);
  io.value(r.layoutcommits);
  io.value(r.layouts_out);
  io.value(r.recalls_pending);
  io.value(r.oldest_recall_ms);
  io.value(r.recalls);
  io.value(r.fences);
  io.value(r.fence_failures);
  io.value(r.layout_errors);
  io.value(r.removals_queued);
  io.value(r.repair.stale_objects);
  io.value(r.repair.resynced);
  io.value(r.repair.compared);
  io.value(r.repair.failed);
  io.value(r.repair.compared_bytes);
  io.value(r.repair.differing_bytes);
  io.value(r.repair.copied_bytes);
  io.value(r.repair.moved);
  io.text(r.rebalance, kMaxString);
  io.value(r.scrub.running);
  io.value(r.scrub.only_tell);
  io.value(r.scrub.files);
  io.value(r.scrub.written);
  io.value(r.scrub.failed);
  io.value(r.scrub.compared_bytes);
  io.value(r.scrub.differing);
  io.value(r.scrub.mended);
  io.value(r.scrub.rounds);
  io.value(r.scrub.age_ms);
  io.list(r.scrub.findings, kMaxLines, [&](auto& finding) { visit_finding(io, finding); });
  io.value(r.scrub.unlisted);
  io.list(r.scrub.resolved, kMaxLines, [&](auto& line) { io.text(line, kMaxString); });
  io.list(r.scrub.groups, kMaxLines, [&](auto& group) { io.text(group, kMaxString); });
  io.value(r.store.failed);
  io.value(r.store.writes_stopped);
  io.value(r.store.background_errors);
  io.value(r.store.memory_bytes);
  io.value(r.store.table_bytes);
  io.value(r.store.compaction_bytes);
  io.list(r.warnings, kMaxWarnings, [&](auto& warning) { io.text(warning, kMaxString); });
}

template <class Io, class Report>
void visit_file(Io& io, Report& r) {
  io.text(r.path, kMaxPath);
  io.value(r.fileid);
  io.value(r.size);
  io.text(r.object, kMaxString);
  io.text(r.layout_type, kMaxString);
  io.value(r.stripe_unit);
  io.text(r.device_id, kMaxString);
  io.text(r.policy, kMaxString);
  io.text(r.skipped, kMaxString);
  io.text(r.moving, kMaxString);
  io.list(r.stripes, kMaxStripes, [&](auto& stripe) {
    io.value(stripe.ds_id);
    io.text(stripe.ds_name, kMaxString);
    io.value(stripe.ds_state);
    io.text(stripe.why, kMaxString);
    io.list(stripe.copies, kMaxCopies, [&](auto& copy) {
      io.value(copy.ds_id);
      io.text(copy.ds_name, kMaxString);
      io.value(copy.ds_state);
      io.text(copy.state, kMaxString);
      io.value(copy.leads);
      io.text(copy.domain, kMaxString);
      io.text(copy.why, kMaxString);
      io.text(copy.repair, kMaxString);
    });
  });
  io.list(r.grants, kMaxGrants, [&](auto& grant) {
    io.value(grant.client_id);
    io.text(grant.client, kMaxString);
    io.value(grant.write);
    io.value(grant.age_ms);
    io.value(grant.recalled);
    io.value(grant.recall_age_ms);
  });
  io.list(r.io, kMaxStripes, [&](auto& server) {
    io.value(server.ds_id);
    io.text(server.ds_name, kMaxString);
    io.value(server.reads);
    io.value(server.read_bytes);
    io.value(server.writes);
    io.value(server.written_bytes);
    io.value(server.errors);
  });
}

template <class Io, class Report>
void visit_policy(Io& io, Report& r) {
  io.text(r.path, kMaxPath);
  io.value(r.directory);
  io.text(r.own, kMaxString);
  io.list(r.rows, kMaxPolicyRows, [&](auto& row) {
    io.text(row.key, kMaxString);
    io.text(row.value, kMaxString);
    io.text(row.from, kMaxPath);
  });
}

template <class Io, class Report>
void visit(Io& io, Report& r) {
  using Plain = std::remove_const_t<Report>;
  if constexpr (std::is_same_v<Plain, StatusReport>) {
    visit_status(io, r);
  } else if constexpr (std::is_same_v<Plain, FileReport>) {
    visit_file(io, r);
  } else if constexpr (std::is_same_v<Plain, PolicyReport>) {
    visit_policy(io, r);
  } else if constexpr (std::is_same_v<Plain, MaintenanceReport>) {
    io.list(r.lines, kMaxLines, [&](auto& line) { io.text(line, kMaxString); });
  } else {
    io.list(r, kMaxDataServers, [&](auto& server) { visit_data_server(io, server); });
  }
}

void head(xdr::Encoder& out, std::uint32_t word) {
  out.u32(kMagic);
  out.u32(kVersion);
  out.u32(word);
}

// The word after magic and version.
Result<std::uint32_t> read_head(xdr::Decoder& in) {
  const std::uint32_t magic = in.u32();
  const std::uint32_t version = in.u32();
  const std::uint32_t word = in.u32();
  if (!in.ok() || magic != kMagic) {
    return fail(Errc::kProtocol, "not a message of the admin protocol");
  }
  if (version != kVersion) {
    return fail(Errc::kNotSupported,
                "the other side speaks version " + std::to_string(version) +
                    " of the admin protocol, this one " + std::to_string(kVersion) +
                    ": install the same version of weft and libfsalweft.so, restart ganesha.nfsd");
  }
  return word;
}

template <class Report>
Bytes encode_report(const Report& report) {
  Writer writer;
  head(writer.out, 0);
  visit(writer, report);
  return writer.out.take();
}

Errc code_named(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(Errc::kInternal); ++i) {
    const auto code = static_cast<Errc>(i);
    if (to_string(code) == name) return code;
  }
  return Errc::kInternal;
}

Error read_error(xdr::Decoder& in) {
  const std::string code = in.string(kMaxCode);
  std::string text = in.string(kMaxText);
  if (auto whole = in.finish("admin error"); !whole || in.remaining() != 0) {
    return Error{Errc::kProtocol, "a malformed error from the metadata server"};
  }
  return Error{code_named(code), std::move(text)};
}

}  // namespace

Bytes encode(const Request& request) {
  xdr::Encoder out;
  head(out, static_cast<std::uint32_t>(request.operation));
  out.string(std::string_view(request.argument).substr(0, kMaxArgumentBytes));
  out.string(std::string_view(request.value).substr(0, kMaxValueBytes));
  return out.take();
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  auto operation = read_head(in);
  if (!operation) return pass(operation);
  Request request;
  request.operation = static_cast<Operation>(*operation);
  request.argument = in.string(kMaxArgumentBytes);
  request.value = in.string(kMaxValueBytes);
  if (auto whole = in.finish("admin request"); !whole) return pass(whole);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the admin request");
  if (request.argument.find('\0') != std::string::npos ||
      request.value.find('\0') != std::string::npos) {
    return fail(Errc::kProtocol, "a zero byte in the argument");
  }
  switch (request.operation) {
    case Operation::kStatus:
    case Operation::kDataServers:
    case Operation::kFile:
    case Operation::kPolicy:
    case Operation::kSetPolicy:
    case Operation::kMaintain: return request;
  }
  return fail(Errc::kNotSupported, "no admin operation " + std::to_string(*operation));
}

Bytes encode_reply(const StatusReport& report) { return encode_report(report); }
Bytes encode_reply(const std::vector<DataServerReport>& report) { return encode_report(report); }
Bytes encode_reply(const FileReport& report) { return encode_report(report); }
Bytes encode_reply(const PolicyReport& report) { return encode_report(report); }
Bytes encode_reply(const MaintenanceReport& report) { return encode_report(report); }

Bytes encode_reply(const Error& error) {
  xdr::Encoder out;
  head(out, 1);
  out.string(to_string(error.code).substr(0, kMaxCode));
  out.string(std::string_view(error.text).substr(0, kMaxText));
  return out.take();
}

template <class Report>
Result<Report> decode_reply(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  auto kind = read_head(reader.in);
  if (!kind) return pass(kind);
  if (*kind == 1) return std::unexpected(read_error(reader.in));
  if (*kind != 0) return fail(Errc::kProtocol, "an admin reply of unknown kind");
  Report report;
  visit(reader, report);
  if (auto whole = reader.in.finish("admin reply"); !whole) return pass(whole);
  if (reader.in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the admin reply");
  return report;
}

template Result<StatusReport> decode_reply(std::span<const std::byte>);
template Result<std::vector<DataServerReport>> decode_reply(std::span<const std::byte>);
template Result<FileReport> decode_reply(std::span<const std::byte>);
template Result<PolicyReport> decode_reply(std::span<const std::byte>);
template Result<MaintenanceReport> decode_reply(std::span<const std::byte>);

}  // namespace admin
}  // namespace weft::mds
