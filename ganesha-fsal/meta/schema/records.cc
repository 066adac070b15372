#include "ganesha-fsal/meta/schema/records.h"

#include <algorithm>

#include "ganesha-fsal/meta/schema/value.h"
#include "rpc/base/assert.h"

namespace weft::mds {
namespace {

void put_type(xdr::Encoder& out, FileType type) { out.u32(static_cast<std::uint32_t>(type)); }

FileType take_type(xdr::Decoder& in) {
  const std::uint32_t type = in.u32();
  if (type < 1 || type > 7) {
    in.reject();
    return FileType::kRegular;
  }
  return static_cast<FileType>(type);
}

std::string take_name(xdr::Decoder& in) {
  std::string name = in.string(kMaxNameBytes);
  if (!is_entry_name(name)) in.reject();
  return name;
}

void put_attributes(xdr::Encoder& out, const InodeAttributes& a) {
  out.u64(a.id);
  put_type(out, a.type);
  out.u32(a.mode);
  out.u32(a.uid);
  out.u32(a.gid);
  out.u32(a.nlink);
  out.u64(a.size);
  out.i64(a.atime_ns);
  out.i64(a.mtime_ns);
  out.i64(a.ctime_ns);
  out.i64(a.btime_ns);
  out.u64(a.change);
  out.u32(a.rdev.major);
  out.u32(a.rdev.minor);
}

InodeAttributes take_attributes(xdr::Decoder& in) {
  InodeAttributes a;
  a.id = in.u64();
  a.type = take_type(in);
  a.mode = in.u32();
  a.uid = in.u32();
  a.gid = in.u32();
  a.nlink = in.u32();
  a.size = in.u64();
  a.atime_ns = in.i64();
  a.mtime_ns = in.i64();
  a.ctime_ns = in.i64();
  a.btime_ns = in.i64();
  a.change = in.u64();
  a.rdev.major = in.u32();
  a.rdev.minor = in.u32();
  if (a.id == 0 || a.mode > 07777 || a.size > kMaxFileSize) in.reject();
  return a;
}

}  // namespace

bool is_entry_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

std::string encode(const InodeRecord& record) {
  xdr::Encoder out = value::begin(160 + record.target.size());
  put_attributes(out, record.attributes);
  out.u64(record.next_cookie);
  out.u32(record.xattr_bytes);
  out.boolean(record.verifier.has_value());
  if (record.verifier) out.fixed(*record.verifier);
  out.string(record.target);
  return value::finish(out);
}

Result<InodeRecord> decode_inode(std::string_view value) {
  auto in = value::open(value, "inode");
  if (!in) return pass(in);
  InodeRecord record;
  record.attributes = take_attributes(*in);
  record.next_cookie = in->u64();
  record.xattr_bytes = in->u32();
  if (in->boolean()) in->fixed(record.verifier.emplace());
  record.target = in->string(kMaxSymlinkBytes);
  const bool is_symlink = record.attributes.type == FileType::kSymlink;
  if (record.next_cookie < kFirstCookie || is_symlink == record.target.empty()) in->reject();
  if (auto done = value::end(*in, "inode"); !done) return pass(done);
  return record;
}

std::string encode(const EntryRecord& record) {
  xdr::Encoder out = value::begin(32);
  out.u64(record.cookie);
  out.u64(record.id);
  put_type(out, record.type);
  return value::finish(out);
}

Result<EntryRecord> decode_entry(std::string_view value) {
  auto in = value::open(value, "directory entry");
  if (!in) return pass(in);
  EntryRecord record;
  record.cookie = in->u64();
  record.id = in->u64();
  record.type = take_type(*in);
  if (record.cookie < kFirstCookie || record.id == 0) in->reject();
  if (auto done = value::end(*in, "directory entry"); !done) return pass(done);
  return record;
}

std::string encode(const CookieRecord& record) {
  xdr::Encoder out = value::begin(32 + record.name.size());
  out.u64(record.id);
  put_type(out, record.type);
  out.string(record.name);
  return value::finish(out);
}

Result<CookieRecord> decode_cookie(std::string_view value) {
  auto in = value::open(value, "directory cookie");
  if (!in) return pass(in);
  CookieRecord record;
  record.id = in->u64();
  record.type = take_type(*in);
  record.name = take_name(*in);
  if (record.id == 0) in->reject();
  if (auto done = value::end(*in, "directory cookie"); !done) return pass(done);
  return record;
}

std::string encode(const ParentRecord& record) {
  xdr::Encoder out = value::begin(32 + record.name.size());
  out.u64(record.dir);
  out.string(record.name);
  return value::finish(out);
}

Result<ParentRecord> decode_parent(std::string_view value) {
  auto in = value::open(value, "parent");
  if (!in) return pass(in);
  ParentRecord record;
  record.dir = in->u64();
  record.name = take_name(*in);
  if (record.dir == 0) in->reject();
  if (auto done = value::end(*in, "parent"); !done) return pass(done);
  return record;
}

std::string encode(const TruncateRecord& record) {
  xdr::Encoder out = value::begin(24);
  out.u64(record.cut_at);
  out.u64(record.ticket);
  return value::finish(out);
}

Result<TruncateRecord> decode_truncate(std::string_view value) {
  auto in = value::open(value, "pending truncate");
  if (!in) return pass(in);
  TruncateRecord record;
  record.cut_at = in->u64();
  record.ticket = in->u64();
  if (record.cut_at > kMaxFileSize) in->reject();
  if (auto done = value::end(*in, "pending truncate"); !done) return pass(done);
  return record;
}

std::string encode(const RemovalRecord& record) {
  xdr::Encoder out = value::begin(12 + 4 * record.ds_ids.size());
  out.u32(static_cast<std::uint32_t>(record.ds_ids.size()));
  for (const std::uint32_t ds_id : record.ds_ids) out.u32(ds_id);
  if (record.least_epoch != 0) out.u32(record.least_epoch);
  return value::finish(out);
}

Result<RemovalRecord> decode_removal(std::string_view value) {
  auto in = value::open(value, "pending removal");
  if (!in) return pass(in);
  RemovalRecord record;
  const std::uint32_t count = in->count(kMaxHolders);
  for (std::uint32_t i = 0; i < count; ++i) record.ds_ids.push_back(in->u32());
  const auto& ids = record.ds_ids;
  if (std::ranges::adjacent_find(ids, std::greater_equal{}) != ids.end()) in->reject();
  if (in->ok() && in->remaining() > 0) {
    record.least_epoch = in->u32();
    if (record.least_epoch == 0) in->reject();
  }
  if (auto done = value::end(*in, "pending removal"); !done) return pass(done);
  return record;
}

// Its text: one form for people, clients and the store.
std::string encode(const layout::Policy& policy) {
  WEFT_ASSERT(policy != layout::Policy{});
  const std::string text = to_string(policy);
  xdr::Encoder out = value::begin(8 + text.size());
  out.string(text);
  return value::finish(out);
}

std::string encode(const InlineRecord& record) {
  auto out = value::begin(12 + record.bytes.size());
  out.string(record.bytes);
  return value::finish(out);
}

Result<InlineRecord> decode_inline(std::string_view value) {
  auto in = value::open(value, "inline file");
  if (!in) return pass(in);
  InlineRecord record{std::string(in->string(layout::kGreatestInline))};
  if (record.bytes.empty()) in->reject();
  if (auto done = value::end(*in, "inline file"); !done) return pass(done);
  return record;
}

Result<layout::Policy> decode_policy(std::string_view value) {
  auto in = value::open(value, "policy");
  if (!in) return pass(in);
  const std::string text = in->string(layout::kMaxPolicyText);
  if (auto done = value::end(*in, "policy"); !done) return pass(done);
  auto policy = layout::parse_policy(text);
  if (!policy || *policy == layout::Policy{} || to_string(*policy) != text) {
    return fail(Errc::kCorrupt, "malformed policy");
  }
  return policy;
}

std::string encode(const RestoreRecord& record) {
  xdr::Encoder out = value::begin(48);
  out.u32(record.stamp);
  out.i64(record.made_ns);
  out.i64(record.restored_ns);
  out.u64(record.boot_epoch);
  out.u32(record.first_lost);
  out.u32(record.first_fresh);
  return value::finish(out);
}

Result<RestoreRecord> decode_restore(std::string_view value) {
  auto in = value::open(value, "record of a restore");
  if (!in) return pass(in);
  RestoreRecord record;
  record.stamp = in->u32();
  record.made_ns = in->i64();
  record.restored_ns = in->i64();
  record.boot_epoch = in->u64();
  record.first_lost = in->u32();
  record.first_fresh = in->u32();
  if (record.stamp == 0 || record.stamp > kMaxRestoreStamp) in->reject();
  if (record.first_lost > record.first_fresh) in->reject();
  if (auto done = value::end(*in, "record of a restore"); !done) return pass(done);
  return record;
}

std::string encode(const RestoredRecord& record) {
  xdr::Encoder out = value::begin(16);
  out.u32(static_cast<std::uint32_t>(record.state));
  out.u32(record.missing);
  out.u32(record.cut);
  return value::finish(out);
}

Result<RestoredRecord> decode_restored(std::string_view value) {
  auto in = value::open(value, "restored file");
  if (!in) return pass(in);
  RestoredRecord record;
  const std::uint32_t state = in->u32();
  record.state = static_cast<RestoredRecord::State>(state);
  record.missing = in->u32();
  record.cut = in->u32();
  const bool damaged = record.state == RestoredRecord::State::kDamaged;
  if (state < 1 || state > 2 || damaged != (record.missing > 0 || record.cut > 0)) in->reject();
  if (auto done = value::end(*in, "restored file"); !done) return pass(done);
  return record;
}

std::string encode(const SuperblockInfo& record) {
  xdr::Encoder out(48);
  out.u32(record.format);
  out.fixed(record.cluster_uuid);
  out.u32(record.fsid);
  out.u64(record.boot_epoch);
  out.i64(record.created_ns);
  return value::finish(out);
}

std::optional<std::uint32_t> restore_stamp(std::int64_t now_ns) {
  constexpr std::int64_t kBeginning = 1'767'225'600;  // 2026-01-01, in seconds since 1970
  const std::int64_t seconds = now_ns / 1'000'000'000 - kBeginning;
  if (seconds <= 0 || seconds > kMaxRestoreStamp) return std::nullopt;
  return static_cast<std::uint32_t>(seconds);
}

Result<SuperblockInfo> decode_superblock(std::string_view value) {
  xdr::Decoder in(std::as_bytes(std::span(value.data(), value.size())));
  SuperblockInfo record;
  record.format = in.u32();
  if (in.ok() && record.format > kRestoredFormat) {
    return fail(Errc::kNotSupported, "metadata store of format " + std::to_string(record.format) +
                                         ", this program knows " + std::to_string(kRestoredFormat));
  }
  in.fixed(record.cluster_uuid);
  record.fsid = in.u32();
  record.boot_epoch = in.u64();
  record.created_ns = in.i64();
  if (record.format == 0) in.reject();
  if (auto done = value::end(in, "superblock"); !done) return pass(done);
  return record;
}

std::string encode_counter(std::uint64_t value) {
  xdr::Encoder out = value::begin(12);
  out.u64(value);
  return value::finish(out);
}

Result<std::uint64_t> decode_counter(std::string_view value) {
  auto in = value::open(value, "counter");
  if (!in) return pass(in);
  const std::uint64_t count = in->u64();
  if (auto done = value::end(*in, "counter"); !done) return pass(done);
  return count;
}

}  // namespace weft::mds
