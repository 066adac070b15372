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

template <class Io>
void describe(Io& io, WritersRecord& r) {
  io("boot_epoch", r.boot_epoch);
  io("since_ns", r.since_ns);
  io.check(r.boot_epoch != 0);
}

template <class Io>
void describe(Io& io, DirtyExtent& r) {
  io("offset", r.offset);
  io("end", r.end);
}

template <class Io>
void describe(Io& io, StaleRecord& r) {
  io("generation", r.generation);
  io("since_ns", r.since_ns);
  io("ticket", r.ticket);
  io("dirty", r.dirty, at_most(kMaxDirtyExtents));
  io.check(r.generation != 0 && r.ticket != 0 && well_formed(r.dirty));
}

template <class Io>
void describe(Io& io, MoveRecord& r) {
  io("generation", r.generation);
  io("from", r.from);
  io("to", r.to);
  io("stage", r.stage, among(MoveStage::kFilling, MoveStage::kLeft));
  io("since_ns", r.since_ns);
  io.check(r.generation != 0 && r.from != 0 && r.from != r.to);
  io.check(r.to != 0 || r.stage != MoveStage::kFilling);
}

std::string encode(const WritersRecord& record) { return value::write(record, 20); }

std::string encode(const StaleRecord& record) {
  WEFT_ASSERT(well_formed(record.dirty));
  return value::write(record, 28 + 16 * record.dirty.size());
}

std::string encode(const MoveRecord& record) { return value::write(record, 28); }

Result<WritersRecord> decode_writers(std::string_view value) {
  return value::read<WritersRecord>(value, "writers");
}

Result<StaleRecord> decode_stale(std::string_view value) {
  return value::read<StaleRecord>(value, "stale object");
}

Result<MoveRecord> decode_move(std::string_view value) {
  return value::read<MoveRecord>(value, "move");
}

}  // namespace weft::mds
