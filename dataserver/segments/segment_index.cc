#include "dataserver/segments/segment_index.h"

#include <unordered_set>

#include "dataserver/store/small_record.h"

namespace weft::ds {

namespace {

constexpr RecordKind kKind{0x57534758, 2, 2, "the index of segments"};
constexpr std::size_t kLeastBytes = 48;  // of a segment

SegmentStrip decode_strip(xdr::Decoder& in) {
  SegmentStrip strip;
  strip.strip.object.fileid = in.u64();
  strip.strip.object.generation = in.u32();
  strip.strip.object.fsid = in.u32();
  strip.strip.index = in.u64();
  strip.bytes = in.u32();
  // What an object can have there: file systems take offsets of 63 bits.
  const bool in_reach = strip.strip.index < (std::uint64_t{1} << 63) / kStrip;
  if (strip.bytes == 0 || strip.bytes > kStrip || !in_reach) in.reject();
  return strip;
}

}  // namespace

std::vector<std::byte> encode(const SegmentIndex& index) {
  RecordWriter out(kKind);
  out.body.u64(index.next_number);
  out.body.u32(static_cast<std::uint32_t>(index.segments.size()));
  for (const SegmentRecord& segment : index.segments) {
    out.body.u64(segment.number);
    out.body.u32(static_cast<std::uint32_t>(segment.strips.size()));
    for (const SegmentStrip& strip : segment.strips) {
      out.body.u64(strip.strip.object.fileid);
      out.body.u32(strip.strip.object.generation);
      out.body.u32(strip.strip.object.fsid);
      out.body.u64(strip.strip.index);
      out.body.u32(strip.bytes);
    }
    for (const std::uint64_t sum : segment.sums) out.body.u64(sum);
  }
  return out.seal();
}

Result<SegmentIndex> decode_segment_index(std::span<const std::byte> bytes) {
  auto record = open_record(bytes, kKind);
  if (!record) return pass(record);
  xdr::Decoder& in = record->body;
  SegmentIndex index;
  index.next_number = in.u64();
  const std::uint32_t count = in.count(in.remaining() / kLeastBytes);
  std::unordered_set<Strip> known;
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    SegmentRecord& segment = index.segments.emplace_back();
    segment.number = in.u64();
    const std::uint32_t strips = in.count(kStripsInSegment);
    if (segment.number <= before || segment.number >= index.next_number || strips == 0) in.reject();
    before = segment.number;
    for (std::uint32_t k = 0; k < strips && in.ok(); ++k) {
      segment.strips.push_back(decode_strip(in));
      if (!known.insert(segment.strips.back().strip).second) in.reject();
    }
    for (std::size_t k = 0; k < pieces_of(strips) && in.ok(); ++k) segment.sums.push_back(in.u64());
  }
  if (!record->whole()) return damaged(kKind);
  return index;
}

}  // namespace weft::ds
