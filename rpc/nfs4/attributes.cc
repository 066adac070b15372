#include "rpc/nfs4/attributes.h"

namespace weft::rpc::nfs4 {
namespace {

constexpr std::size_t kMaxLayoutTypes = 32;
constexpr unsigned kBits = 96;

// Calls `visit(attr, member)` for every attribute of `attributes` in ascending order of bit, as
// fattr4 has them. One list for encoding and decoding keeps the two from drifting apart.
template <class A, class Visit>
void for_each(A& attributes, Visit visit) {
  visit(Attr::kSupported, attributes.supported);
  visit(Attr::kType, attributes.type);
  visit(Attr::kChange, attributes.change);
  visit(Attr::kSize, attributes.size);
  visit(Attr::kFsid, attributes.fsid);
  visit(Attr::kLeaseTime, attributes.lease_time_s);
  visit(Attr::kFileid, attributes.fileid);
  visit(Attr::kMaxRead, attributes.max_read);
  visit(Attr::kMaxWrite, attributes.max_write);
  visit(Attr::kMode, attributes.mode);
  visit(Attr::kNumLinks, attributes.num_links);
  visit(Attr::kOwner, attributes.owner);
  visit(Attr::kOwnerGroup, attributes.owner_group);
  visit(Attr::kSpaceUsed, attributes.space_used);
  visit(Attr::kTimeModify, attributes.time_modify);
  visit(Attr::kFsLayoutTypes, attributes.layout_types);
  visit(Attr::kLayoutBlockSize, attributes.layout_block_size);
}

void put(xdr::Encoder& out, const AttrMask& value) { encode(out, value); }
void put(xdr::Encoder& out, FileType value) { encode_enum(out, value); }
void put(xdr::Encoder& out, std::uint64_t value) { out.u64(value); }
void put(xdr::Encoder& out, std::uint32_t value) { out.u32(value); }
void put(xdr::Encoder& out, const std::string& value) { out.string(value); }
void put(xdr::Encoder& out, const Time& value) { encode(out, value); }
void put(xdr::Encoder& out, const std::pair<std::uint64_t, std::uint64_t>& value) {
  out.u64(value.first);
  out.u64(value.second);
}
void put(xdr::Encoder& out, const std::vector<std::uint32_t>& value) {
  out.u32(static_cast<std::uint32_t>(value.size()));
  for (const std::uint32_t word : value) out.u32(word);
}

void get(xdr::Decoder& in, AttrMask& value) { decode(in, value); }
void get(xdr::Decoder& in, FileType& value) {
  decode_enum(in, value, FileType::NF4REG, FileType::NF4FIFO);
}
void get(xdr::Decoder& in, std::uint64_t& value) { value = in.u64(); }
void get(xdr::Decoder& in, std::uint32_t& value) { value = in.u32(); }
void get(xdr::Decoder& in, std::string& value) { value = in.string(kMaxOwnerBytes); }
void get(xdr::Decoder& in, Time& value) { decode(in, value); }
void get(xdr::Decoder& in, std::pair<std::uint64_t, std::uint64_t>& value) {
  value.first = in.u64();
  value.second = in.u64();
}
void get(xdr::Decoder& in, std::vector<std::uint32_t>& value) {
  value.clear();
  const std::uint32_t count = in.count(kMaxLayoutTypes);
  for (std::uint32_t i = 0; i < count; ++i) value.push_back(in.u32());
}

}  // namespace

void encode(xdr::Encoder& out, const AttrMask& mask) { out.bitmap(mask.words()); }

void decode(xdr::Decoder& in, AttrMask& mask) {
  const auto bitmap = in.bitmap();
  for (std::size_t i = 0; i < 3; ++i) mask.words()[i] = bitmap.word[i];
}

void encode(xdr::Encoder& out, const Attributes& attributes) {
  AttrMask present;
  for_each(attributes, [&](Attr attr, const auto& member) {
    if (member) present.set(attr);
  });
  encode(out, present);
  const std::size_t length_at = out.size();
  out.u32(0);
  for_each(attributes, [&](Attr, const auto& member) {
    if (member) put(out, *member);
  });
  out.patch_u32(length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
}

void decode(xdr::Decoder& in, Attributes& attributes) {
  attributes = {};
  AttrMask present;
  decode(in, present);
  xdr::Decoder values(in.opaque(kMaxAttributeBytes));
  unsigned known = 0;
  for_each(attributes, [&](Attr attr, auto& member) {
    if (!present.has(attr)) return;
    ++known;
    get(values, member.emplace());
  });
  unsigned told = 0;
  for (const std::uint32_t word : present.words()) {
    told += static_cast<unsigned>(__builtin_popcount(word));
  }
  static_assert(kBits == 3 * 32);
  if (!values.ok() || values.remaining() != 0 || known != told) in.reject();
}

}  // namespace weft::rpc::nfs4
