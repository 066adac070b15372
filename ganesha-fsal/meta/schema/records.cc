#include "ganesha-fsal/meta/schema/records.h"

#include <algorithm>
#include <functional>

#include "ganesha-fsal/meta/schema/value.h"
#include "rpc/base/assert.h"

namespace weft::mds {
namespace {

constexpr auto kAnyType = among(FileType::kRegular, FileType::kSocket);

template <class Io>
void describe_name(Io& io, std::string& name) {
  io("name", name, at_most(kMaxNameBytes));
  io.check(is_entry_name(name));
}

}  // namespace

template <class Io>
void describe(Io& io, InodeAttributes& r) {
  io("id", r.id);
  io("type", r.type, kAnyType);
  io("mode", r.mode);
  io("uid", r.uid);
  io("gid", r.gid);
  io("nlink", r.nlink);
  io("size", r.size);
  io("atime_ns", r.atime_ns);
  io("mtime_ns", r.mtime_ns);
  io("ctime_ns", r.ctime_ns);
  io("btime_ns", r.btime_ns);
  io("change", r.change);
  io("major", r.rdev.major);
  io("minor", r.rdev.minor);
  io.check(r.id != 0 && r.mode <= 07777 && r.size <= kMaxFileSize);
}

template <class Io>
void describe(Io& io, InodeRecord& r) {
  io("attributes", r.attributes);
  io("next_cookie", r.next_cookie);
  io("xattr_bytes", r.xattr_bytes);
  bool exclusive = r.verifier.has_value();
  io("exclusive", exclusive);
  if (exclusive) {
    if constexpr (Io::kReads) r.verifier.emplace();
    io("verifier", *r.verifier);
  }
  io("target", r.target, at_most(kMaxSymlinkBytes));
  io.check(r.next_cookie >= kFirstCookie);
  io.check((r.attributes.type == FileType::kSymlink) != r.target.empty());
}

template <class Io>
void describe(Io& io, EntryRecord& r) {
  io("cookie", r.cookie);
  io("id", r.id);
  io("type", r.type, kAnyType);
  io.check(r.cookie >= kFirstCookie && r.id != 0);
}

template <class Io>
void describe(Io& io, CookieRecord& r) {
  io("id", r.id);
  io("type", r.type, kAnyType);
  describe_name(io, r.name);
  io.check(r.id != 0);
}

template <class Io>
void describe(Io& io, ParentRecord& r) {
  io("dir", r.dir);
  describe_name(io, r.name);
  io.check(r.dir != 0);
}

template <class Io>
void describe(Io& io, TruncateRecord& r) {
  io("cut_at", r.cut_at);
  io("ticket", r.ticket);
  io.check(r.cut_at <= kMaxFileSize);
}

template <class Io>
void describe(Io& io, RemovalRecord& r) {
  io("ds_ids", r.ds_ids, at_most(kMaxHolders));
  io.check(std::ranges::adjacent_find(r.ds_ids, std::greater_equal{}) == r.ds_ids.end());
  std::optional<std::uint32_t> least;
  if (r.least_epoch != 0) least = r.least_epoch;
  io("least_epoch", least, newer());
  io.check(least != 0);
  if constexpr (Io::kReads) r.least_epoch = least.value_or(0);
}

template <class Io>
void describe(Io& io, InlineRecord& r) {
  io("bytes", r.bytes, at_most(layout::kGreatestInline));
  io.check(!r.bytes.empty());
}

template <class Io>
void describe(Io& io, RestoreRecord& r) {
  io("stamp", r.stamp);
  io("made_ns", r.made_ns);
  io("restored_ns", r.restored_ns);
  io("boot_epoch", r.boot_epoch);
  io("first_lost", r.first_lost);
  io("first_fresh", r.first_fresh);
  io.check(r.stamp != 0 && r.stamp <= kMaxRestoreStamp && r.first_lost <= r.first_fresh);
}

template <class Io>
void describe(Io& io, RestoredRecord& r) {
  using State = RestoredRecord::State;
  io("state", r.state, among(State::kUnchecked, State::kDamaged));
  io("missing", r.missing);
  io("cut", r.cut);
  io.check((r.state == State::kDamaged) == (r.missing > 0 || r.cut > 0));
}

template <class Io>
void describe(Io& io, SuperblockInfo& r) {
  io("format", r.format);
  io("cluster_uuid", r.cluster_uuid);
  io("fsid", r.fsid);
  io("boot_epoch", r.boot_epoch);
  io("created_ns", r.created_ns);
  io.check(r.format != 0);
}

bool is_entry_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

std::string encode(const InodeRecord& record) {
  return value::write(record, 160 + record.target.size());
}
std::string encode(const EntryRecord& record) { return value::write(record, 32); }
std::string encode(const CookieRecord& record) {
  return value::write(record, 32 + record.name.size());
}
std::string encode(const ParentRecord& record) {
  return value::write(record, 32 + record.name.size());
}
std::string encode(const TruncateRecord& record) { return value::write(record, 24); }
std::string encode(const RemovalRecord& record) {
  return value::write(record, 12 + 4 * record.ds_ids.size());
}
std::string encode(const InlineRecord& record) {
  return value::write(record, 12 + record.bytes.size());
}
std::string encode(const RestoreRecord& record) { return value::write(record, 48); }
std::string encode(const RestoredRecord& record) { return value::write(record, 16); }

Result<InodeRecord> decode_inode(std::string_view value) {
  return value::read<InodeRecord>(value, "inode");
}
Result<EntryRecord> decode_entry(std::string_view value) {
  return value::read<EntryRecord>(value, "directory entry");
}
Result<CookieRecord> decode_cookie(std::string_view value) {
  return value::read<CookieRecord>(value, "directory cookie");
}
Result<ParentRecord> decode_parent(std::string_view value) {
  return value::read<ParentRecord>(value, "parent");
}
Result<TruncateRecord> decode_truncate(std::string_view value) {
  return value::read<TruncateRecord>(value, "pending truncate");
}
Result<RemovalRecord> decode_removal(std::string_view value) {
  return value::read<RemovalRecord>(value, "pending removal");
}
Result<InlineRecord> decode_inline(std::string_view value) {
  return value::read<InlineRecord>(value, "inline file");
}
Result<RestoreRecord> decode_restore(std::string_view value) {
  return value::read<RestoreRecord>(value, "record of a restore");
}
Result<RestoredRecord> decode_restored(std::string_view value) {
  return value::read<RestoredRecord>(value, "restored file");
}

// Its text: one form for people, clients and the store.
std::string encode(const layout::Policy& policy) {
  WEFT_ASSERT(policy != layout::Policy{});
  const std::string text = to_string(policy);
  xdr::Encoder out = value::begin(8 + text.size());
  out.string(text);
  return value::finish(out);
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

// It has no version word: its format comes first.
std::string encode(const SuperblockInfo& record) {
  xdr::Encoder out(48);
  xdr::put(out, record);
  return value::finish(out);
}

std::optional<std::uint32_t> restore_stamp(std::int64_t now_ns) {
  constexpr std::int64_t kBeginning = 1'767'225'600;  // 2026-01-01, in seconds since 1970
  const std::int64_t seconds = now_ns / 1'000'000'000 - kBeginning;
  if (seconds <= 0 || seconds > kMaxRestoreStamp) return std::nullopt;
  return static_cast<std::uint32_t>(seconds);
}

Result<SuperblockInfo> decode_superblock(std::string_view value) {
  const auto bytes = std::as_bytes(std::span(value.data(), value.size()));
  xdr::Decoder first(bytes);
  const std::uint32_t format = first.u32();
  if (first.ok() && format > kRestoredFormat) {
    return fail(Errc::kNotSupported, "metadata store of format " + std::to_string(format) +
                                         ", this program knows " + std::to_string(kRestoredFormat));
  }
  xdr::Decoder in(bytes);
  SuperblockInfo record;
  xdr::get(in, record);
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
