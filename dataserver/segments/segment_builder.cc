#include "dataserver/segments/segment_builder.h"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "dataserver/segments/segment_memory.h"
#include "rpc/base/payload_copy.h"

namespace weft::ds {

namespace {

constexpr unsigned kSegmentsForIndex = 64;  // after so many an index is written, come what may

// Whether the strips are one run of one object, and read in its order.
bool is_one_run(const StripGroup& group) {
  return std::ranges::adjacent_find(group, [](const Strip& one, const Strip& next) {
           return next.object != one.object || next.index != one.index + 1;
         }) == group.end();
}

}  // namespace

void SegmentBuilder::poll() {
  if (stopped_.load() || busy_.load()) return;
  if (parts_.under_way() > 0 || parts_.device_queue() > 0) {
    idle_polls_ = 0;
    return;
  }
  if (++idle_polls_ < static_cast<unsigned>(parts_.idle.count())) return;
  idle_polls_ = 0;  // to look costs some milliseconds: not each time
  auto groups = parts_.groups();
  if (!groups.empty()) {
    groups_ = std::move(groups);
  } else if (!unfinished_) {
    return;
  }
  busy_.store(true);
  begun_ = parts_.begun();
  spawn(round(groups_), [this](bool finished) {
    unfinished_ = !finished;
    busy_.store(false);
  });
}

// False: it was disturbed, or something failed.
Task<bool> SegmentBuilder::round(std::vector<StripGroup> groups) {
  bool finished = co_await remove_doomed();
  disk_is_full_ = false;
  const std::uint64_t before = parts_.table.view().built.load();
  std::uint64_t in_index = before;
  for (StripGroup& group : groups) {
    if (disturbed()) {
      finished = false;
      break;
    }
    if (disk_is_full_) break;  // what is to be written next would not fit either
    if (is_one_run(group)) continue;
    if (co_await build(std::move(group))) index_is_old_ = true;
    const std::uint64_t built = parts_.table.view().built.load();
    if (built - in_index < kSegmentsForIndex) continue;
    in_index = built;
    index_is_old_ = !(co_await parts_.partition.write_index(parts_.table.index()));
  }
  if (index_is_old_) {
    const auto written = co_await parts_.partition.write_index(parts_.table.index());
    index_is_old_ = !written;
    if (!written) {
      finished = false;
      spdlog::warn("event=segment_index_failed error=\"{}\"", written.error().describe());
    }
  }
  const std::uint64_t built = parts_.table.view().built.load() - before;
  if (built > 0) spdlog::info("event=segments_built count={} finished={}", built, finished);
  co_return finished;
}

Task<bool> SegmentBuilder::remove(std::vector<std::uint64_t> numbers) {
  const auto removed = co_await call<Result<>>([&](auto done) {
    parts_.partition.remove_all(
        std::move(numbers),
        [&table = parts_.table](std::uint64_t number) { table.removed(number); }, std::move(done));
  });
  if (!removed) {
    spdlog::warn("event=segment_remove_failed error=\"{}\"", removed.error().describe());
  }
  co_return removed.has_value();
}

Task<bool> SegmentBuilder::remove_doomed() { return remove(parts_.table.doomed()); }

Task<bool> SegmentBuilder::build(StripGroup group) {
  const auto number = parts_.table.begin_build(group);
  if (!number) co_return false;
  std::optional<SegmentRecord> record;
  // A write whose failure was told may still come, if the store beneath says so.
  if (parts_.beneath.settled()) {
    const WriteVerifier before = parts_.beneath.verifier();
    Buffer memory;
    record = co_await gather(group, *number, memory);
    if (record && !(co_await make_durable(group, before))) record.reset();
    if (record && !disturbed() && !parts_.table.spoiled()) {
      const auto written = co_await parts_.partition.write(*number, memory);
      if (!written) {
        spdlog::warn("event=segment_failed error=\"{}\"", written.error().describe());
        disk_is_full_ = written.error() == Errc::kNoSpace;
        record.reset();
      } else if (!(co_await remove(parts_.table.make_room(memory.size())))) {
        record.reset();
      }
    } else {
      record.reset();
    }
  }
  if (parts_.table.end_build(std::move(record))) co_return true;
  // Nobody has been told of it: at the next start it is removed, if that fails now.
  static_cast<void>(co_await remove({*number}));
  co_return false;
}

Task<std::optional<SegmentRecord>> SegmentBuilder::gather(const StripGroup& group,
                                                          std::uint64_t number, Buffer& memory) {
  memory = segment_memory(group.size() * kStrip, [] {});
  if (memory.empty()) co_return std::nullopt;
  std::memset(memory.data(), 0, memory.size());
  SegmentRecord record{.number = number, .strips = {}, .sums = {}};
  for (const Strip& strip : group) {
    if (disturbed() || parts_.table.spoiled()) co_return std::nullopt;
    // Of what the disk has: pages whose write-back failed are clean, and not that.
    auto read = co_await call<Result<ReadResult>>([&](auto done) {
      parts_.beneath.read({.object = strip.object,
                           .offset = strip.index * kStrip,
                           .count = static_cast<std::uint32_t>(kStrip),
                           .uncached = true},
                          std::move(done));
    });
    if (!read && read.error() != Errc::kNotFound) co_return std::nullopt;
    const std::size_t size = read ? read->payload.size() : 0;
    if (size == 0) continue;  // behind the object's end, as some programs read
    const auto into = memory.span().subspan(record.strips.size() * kStrip, size);
    if (!copy_payload(read->payload, into)) co_return std::nullopt;
    record.strips.push_back({.strip = strip, .bytes = static_cast<std::uint32_t>(size)});
  }
  // Only strips with bytes count as the segment's size, and the table has all of them in memory.
  if (record.strips.empty() || 2 * record.strips.size() < group.size()) co_return std::nullopt;
  memory.truncate(record.strips.size() * kStrip);
  for (std::size_t at = 0; at < memory.size(); at += kPiece) {
    const std::size_t size = std::min<std::size_t>(kPiece, memory.size() - at);
    record.sums.push_back(XXH64(memory.data() + at, size, 0));
  }
  co_return record;
}

Task<bool> SegmentBuilder::make_durable(const StripGroup& group, WriteVerifier before) {
  std::set<layout::ObjectId> objects;
  for (const Strip& strip : group) objects.insert(strip.object);
  for (const layout::ObjectId& object : objects) {
    if (disturbed()) co_return false;
    const auto committed = co_await call<Result<WriteVerifier>>(
        [&](auto done) { parts_.beneath.commit(object, std::move(done)); });
    if (!committed || *committed != before) co_return false;
  }
  co_return true;
}

}  // namespace weft::ds
