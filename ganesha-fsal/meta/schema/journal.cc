#include "ganesha-fsal/meta/schema/journal.h"

#include <algorithm>

#include "ganesha-fsal/meta/schema/value.h"
#include "rpc/base/assert.h"

namespace weft::mds {
namespace {

DirtyExtent to_granules(DirtyExtent extent) {
  const std::uint64_t begin = extent.offset / kDirtyGranule * kDirtyGranule;
  const std::uint64_t last = (extent.end - 1) / kDirtyGranule * kDirtyGranule;
  return {begin, last > kMaxFileSize - kDirtyGranule ? kMaxFileSize : last + kDirtyGranule};
}

// Joins the two neighbours with the least between them. Precondition: two or more.
void join_nearest(DirtyExtents& extents) {
  std::size_t nearest = 0;
  for (std::size_t i = 1; i + 1 < extents.size(); ++i) {
    const auto gap = [&](std::size_t at) { return extents[at + 1].offset - extents[at].end; };
    if (gap(i) < gap(nearest)) nearest = i;
  }
  extents[nearest].end = extents[nearest + 1].end;
  extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(nearest) + 1);
}

}  // namespace

void add_dirty(DirtyExtents& extents, DirtyExtent added) {
  WEFT_ASSERT(added.offset < added.end && added.end <= kMaxFileSize);
  added = to_granules(added);
  // Those that overlap or touch the new one become part of it.
  const auto first = std::ranges::find_if(
      extents, [&](const DirtyExtent& extent) { return extent.end >= added.offset; });
  const auto last = std::find_if(
      first, extents.end(), [&](const DirtyExtent& extent) { return extent.offset > added.end; });
  if (first != last) {
    added.offset = std::min(added.offset, first->offset);
    added.end = std::max(added.end, std::prev(last)->end);
  }
  extents.insert(extents.erase(first, last), added);
  if (extents.size() > kMaxDirtyExtents) join_nearest(extents);
}

bool well_formed(const DirtyExtents& extents) {
  if (extents.empty() || extents.size() > kMaxDirtyExtents) return false;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto& [offset, end] = extents[i];
    if (offset >= end || end > kMaxFileSize || offset % kDirtyGranule != 0) return false;
    if (end % kDirtyGranule != 0 && end != kMaxFileSize) return false;
    if (i > 0 && extents[i - 1].end >= offset) return false;
  }
  return true;
}

std::string encode(const WritersRecord& record) {
  xdr::Encoder out = value::begin(20);
  out.u64(record.boot_epoch);
  out.i64(record.since_ns);
  return value::finish(out);
}

Result<WritersRecord> decode_writers(std::string_view value) {
  auto in = value::open(value, "writers");
  if (!in) return pass(in);
  WritersRecord record;
  record.boot_epoch = in->u64();
  record.since_ns = in->i64();
  if (record.boot_epoch == 0) in->reject();
  if (auto done = value::end(*in, "writers"); !done) return pass(done);
  return record;
}

std::string encode(const StaleRecord& record) {
  WEFT_ASSERT(well_formed(record.dirty));
  xdr::Encoder out = value::begin(28 + 16 * record.dirty.size());
  out.u32(record.generation);
  out.i64(record.since_ns);
  out.u64(record.ticket);
  out.u32(static_cast<std::uint32_t>(record.dirty.size()));
  for (const DirtyExtent& extent : record.dirty) {
    out.u64(extent.offset);
    out.u64(extent.end);
  }
  return value::finish(out);
}

Result<StaleRecord> decode_stale(std::string_view value) {
  auto in = value::open(value, "stale object");
  if (!in) return pass(in);
  StaleRecord record;
  record.generation = in->u32();
  record.since_ns = in->i64();
  record.ticket = in->u64();
  const std::uint32_t count = in->count(kMaxDirtyExtents);
  for (std::uint32_t i = 0; i < count; ++i) {
    DirtyExtent& extent = record.dirty.emplace_back();
    extent.offset = in->u64();
    extent.end = in->u64();
  }
  if (record.generation == 0 || record.ticket == 0 || !well_formed(record.dirty)) in->reject();
  if (auto done = value::end(*in, "stale object"); !done) return pass(done);
  return record;
}

std::string encode(const MoveRecord& record) {
  xdr::Encoder out = value::begin(28);
  out.u32(record.generation);
  out.u32(record.from);
  out.u32(record.to);
  out.u32(static_cast<std::uint32_t>(record.stage));
  out.i64(record.since_ns);
  return value::finish(out);
}

Result<MoveRecord> decode_move(std::string_view value) {
  auto in = value::open(value, "move");
  if (!in) return pass(in);
  MoveRecord record;
  record.generation = in->u32();
  record.from = in->u32();
  record.to = in->u32();
  record.stage = static_cast<MoveStage>(in->u32());
  record.since_ns = in->i64();
  const bool filling = record.stage == MoveStage::kFilling;
  if (!filling && record.stage != MoveStage::kLeft) in->reject();
  if (record.generation == 0 || record.from == 0 || record.from == record.to) in->reject();
  if (filling && record.to == 0) in->reject();
  if (auto done = value::end(*in, "move"); !done) return pass(done);
  return record;
}

}  // namespace weft::mds
