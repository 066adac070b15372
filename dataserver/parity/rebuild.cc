#include "dataserver/parity/rebuild.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <functional>

#include "dataserver/store/object_files.h"

namespace weft::ds::parity {

namespace {

// The rebuild's own end, which no operation sees.
std::unexpected<Error> ended() { return fail(Errc::kCancelled, "the member is out again"); }

}  // namespace

int Rebuild::offered(const Mode& mode) const {
  Replacements* replacements = group_.parts().replacements;
  if (replacements == nullptr) return -1;
  for (unsigned member = 0; member < members(); ++member) {
    if (mode.out >= 0 && mode.readable(member)) continue;
    if (replacements->offered(member)) return static_cast<int>(member);
  }
  return -1;
}

// The record first: if this process dies between the two, the new store is offered again.
Task<bool> Rebuild::replace(bool& accepted) {
  GroupRecord record = group_.record();
  record.everything = true;
  record.done = 0;
  record.place = {};
  if (!co_await group_.save_record(record)) co_return false;
  group_.member_lost();
  const auto member = static_cast<unsigned>(group_.record().out);
  group_.calls().room().forget(member);
  const auto taken = group_.parts().replacements->accept(member);
  accepted = taken.has_value();
  if (!accepted) {
    spdlog::error("event=parity_member_refused member={} error=\"{}\"", member,
                  taken.error().describe());
    co_return true;
  }
  spdlog::warn("event=parity_member_replaced member={} epoch={}", member, group_.record().epoch);
  co_return true;
}

Task<bool> Rebuild::note_progress() {
  const auto progress = group_.take_progress();
  GroupRecord record = group_.record();
  if (!progress || !record.everything) co_return true;
  record.done = progress->done;
  record.place = progress->place;
  co_return co_await group_.save_record(record);
}

Task<bool> Rebuild::probe() {
  const std::uint32_t there = std::uint32_t{1} << static_cast<unsigned>(group_.record().out);
  if (co_await group_.calls().probe(there) != 0) co_return false;
  // What put it out must not come after what it is given.
  co_return group_.calls().unsettled(there) == 0;
}

// From now on what is written is written there too; what was dirty before is what it misses.
Task<bool> Rebuild::begin() {
  const auto member = static_cast<unsigned>(group_.record().out);
  if (group_.calls().unsettled(std::uint32_t{1} << member) != 0) co_return false;
  std::optional<Progress> everything;
  if (group_.record().everything)
    everything = Progress{group_.record().done, group_.record().place};
  co_await Group::Quiesce(group_);
  auto objects = group_.begin_rebuild();
  group_.unblock();
  spdlog::info("event=parity_rebuild member={} dirty_objects={} everything={}", member,
               objects.size(), group_.record().everything);
  group_.task_begins();
  spawn(run(std::move(objects), everything), [this](bool good) {
    group_.rebuild_ended(good);
    group_.kick();
    group_.task_ended();  // the last that is touched: the group may go
  });
  co_return true;
}

Task<bool> Rebuild::run(Group::DirtyRegions objects, std::optional<Progress> everything) {
  lost_ = 0;
  group_.view().rebuilt_bytes.store(0);
  group_.view().rebuild_objects_left.store(objects.size());
  group_.view().rebuild_permille.store(0);
  TokenBucket rate(group_.rates().rebuild, group_.now());
  Result<> done;
  std::uint64_t count = 0;
  // The member may be full: first goes what it missed the end of.
  for (const auto& [object, regions] : objects) {
    if (regions.lower_bound(kCutFrom) == regions.end()) continue;
    Subject at{.object = object};
    done = co_await shape_object(at);
    if (!done) break;
  }
  for (auto& [object, regions] : objects) {
    if (!done) break;
    done = co_await rebuild_object({.object = object, .regions = std::move(regions)}, rate);
    if (!done) break;
    group_.view().rebuild_objects_left.fetch_sub(1);
    if (!everything) {
      group_.view().rebuild_permille.store(
          static_cast<std::uint32_t>(++count * 1000 / objects.size()));
    }
  }
  if (done && everything) done = co_await rebuild_everything(*everything, rate);
  if (done) co_return true;
  spdlog::warn("event=parity_rebuild_stopped error=\"{}\"", done.error().describe());
  co_return false;
}

Task<Result<>> Rebuild::rebuild_everything(Progress progress, TokenBucket& rate) {
  for (;;) {
    ObjectList page;
    auto listed = co_await group_.until_done(
        0, [&](Op& op) { return group_.calls().list(op, progress.place, page); });
    if (!listed) co_return listed;
    for (const ObjectId& object : page.objects) {
      auto done = co_await rebuild_object({.object = object, .all = true}, rate);
      if (!done) co_return done;
      const std::uint64_t all = std::max(group_.objects_in_all(), ++progress.done);
      group_.view().rebuild_objects_left.store(all - progress.done);
      group_.view().rebuild_permille.store(static_cast<std::uint32_t>(progress.done * 1000 / all));
      group_.note({.done = progress.done,
                   .place = {.folder = object_folder(sums_of(object)), .after = sums_of(object)}});
    }
    group_.kick();
    if (!page.more) co_return Result<>{};
    progress.place = page.next;
  }
}

// What is dirty is looked up with nobody at the object: the cut there takes what was written since
// the rebuild began, and is not of a region that was dirty then.
Task<Result<>> Rebuild::shape_object(Subject& at) {
  const Hold hold = co_await group_.lock(at.object, kWholeObject);
  for (const std::uint64_t region : group_.dirty_regions(at.object)) {
    if ((region & kCutFrom) == 0) {
      at.regions.insert(region);
    } else if (!at.cut) {  // the first is the least
      at.cut = (region & ~kCutFrom) * group_.options().region_bytes;
    }
  }
  co_return co_await group_.until_done(
      0, [&](Op& op) -> Task<Result<>> { return rebuild_shape(op, at); });
}

Task<Result<>> Rebuild::rebuild_object(Subject at, TokenBucket& rate) {
  if (auto shaped = co_await shape_object(at); !shaped) co_return shaped;
  const Object known = group_.look(at.state);
  if (!known.exists) co_return Result<>{};
  const std::uint64_t size = known.size;
  const std::uint64_t stripes = geometry().stripes(size);
  const std::uint64_t width = geometry().width();
  if (at.all) {
    std::uint64_t rows = 0;
    auto counted = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
      auto measured =
          co_await group_.calls().measure(op, at.object, group_.calls().writable(op.mode));
      if (measured) rows = measured->rows;
      co_return Result<>{};
    });
    if (!counted) co_return counted;
    const std::uint64_t in_chunk = geometry().blocks_in_chunk();
    const std::uint64_t end = (rows + in_chunk - 1) / in_chunk;
    auto done = co_await rebuild_range(at, {0, std::min(stripes, end)}, rate);
    if (!done) co_return done;
  } else {
    for (const std::uint64_t region : at.regions) {
      const ByteRange range = group_.stripe_range(region * group_.options().region_bytes,
                                                  (region + 1) * group_.options().region_bytes);
      const ByteRange there{range.begin / width, std::min(stripes, range.end / width)};
      if (auto done = co_await rebuild_range(at, there, rate); !done) co_return done;
    }
  }
  auto committed = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    if (!op.mode.rebuilding) co_return ended();
    co_await group_.calls().commit(op, at.object, std::uint32_t{1} << op.mode.out);
    co_return Result<>{};
  });
  if (!committed || !at.header_last) co_return committed;
  const Hold whole = co_await group_.lock(at.object, kWholeObject);  // it may be removed meanwhile
  co_return co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    if (!op.mode.rebuilding) co_return ended();
    const Hold hold = co_await group_.lock(at.object, kHeaderRange);
    if (!group_.look(at.state).exists) co_return Result<>{};
    co_return co_await write_header(op, at);
  });
}

// Stripes, some at a time.
Task<Result<>> Rebuild::rebuild_range(const Subject& at, ByteRange stripes, TokenBucket& rate) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t run = group_.stripes_at_once();
  std::uint64_t next = 0;
  for (std::uint64_t from = stripes.begin; from < stripes.end; from = next) {
    std::uint64_t last = std::min(stripes.end, from + run);
    bool empty = false;
    {
      const Hold hold = co_await group_.lock(at.object, {from * width, last * width});
      // It may have been cut or removed meanwhile, at the member too.
      last = next = std::min(last, geometry().stripes(group_.look(at.state).size));
      if (from >= last) co_return Result<>{};
      auto done = co_await group_.until_done(
          0, [&](Op& op) { return rebuild_stripes(op, at, from, last, empty); });
      if (!done) co_return done;
    }
    if (at.all && empty) {
      auto found = co_await next_stripe(at, last);
      if (!found) co_return pass(found);
      next = *found;
    }
    rate.use((last - from) * geometry().chunk);
    group_.view().rebuilt_bytes.fetch_add((last - from) * geometry().chunk);
    for (;;) {
      const Nanoseconds wait = rate.wait(group_.now());
      if (wait.count() == 0 || !co_await group_.pause(timer_, wait)) break;
    }
  }
  co_return Result<>{};
}

// The object's size at the member, and nothing behind it or behind a cut that it missed.
Task<Result<>> Rebuild::rebuild_shape(Op& op, Subject& at) {
  if (!op.mode.rebuilding) co_return ended();
  const std::uint32_t there = std::uint32_t{1} << op.mode.out;
  auto found = co_await group_.find_in(op, at.object);
  if (!found) co_return pass(found);
  at.state = *found;
  const Hold hold = co_await group_.lock(at.object, kHeaderRange);
  const Object known = group_.look(at.state);
  if (!known.exists) {
    co_await group_.calls().remove(op, at.object, there);
    co_return Result<>{};
  }
  auto lacking = co_await group_.lack_header(op, at.object, there);
  if (!lacking) co_return pass(lacking);
  at.header_last = *lacking != 0;
  if (at.header_last) {
    // It is new to the member, or the member has lost it: then that is not in dirty regions only.
    at.all = true;
  } else if (auto written = co_await write_header(op, at); !written) {
    co_return written;
  }
  std::uint64_t end = known.size;
  if (at.cut) end = std::min(end, group_.stripe_range(*at.cut, *at.cut).begin);
  co_await group_.calls().cut(op, at.object, end, there);
  co_return Result<>{};
}

// Nothing is held: what is written meanwhile is written at the member, too.
Task<Result<std::uint64_t>> Rebuild::next_stripe(const Subject& at, std::uint64_t from) {
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  std::uint64_t row = kNoData;
  auto asked = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    auto found = co_await group_.calls().next_row(op, at.object, from * in_chunk,
                                                  group_.calls().writable(op.mode));
    if (!found) co_return pass(found);
    row = *found;
    co_return Result<>{};
  });
  if (!asked) co_return pass(asked);
  co_return std::max(from, row / in_chunk);
}

// Precondition: nobody else writes the object's headers.
Task<Result<>> Rebuild::write_header(Op& op, const Subject& at) {
  const Object known = group_.look(at.state);
  const std::uint32_t there = std::uint32_t{1} << op.mode.out;
  if ((known.gone & there) != 0) co_return Result<>{};
  const SumHeader header{.sequence = known.sequence, .size = known.size};
  co_return co_await group_.write_header(op, at.object, header, there);
}

Task<Result<>> Rebuild::rebuild_stripes(Op& op, const Subject& at, std::uint64_t first,
                                        std::uint64_t last, bool& empty) {
  if (!op.mode.rebuilding) co_return ended();
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  Part part{.image = {members(), at.object, first * in_chunk, last * in_chunk},
            .old = {members(), at.object, first * in_chunk, last * in_chunk},
            .size = group_.look(at.state).size,
            .member = static_cast<unsigned>(op.mode.out),
            .known = !op.mode.lost,
            .blank = at.header_last};
  Image& image = part.image;
  if (auto loaded = co_await group_.load(op, image, group_.calls().readable(op.mode)); !loaded) {
    co_return loaded;
  }
  // Of one that lacks all, zeros stay the hole that they are there: if they are one.
  std::vector<bool> holes(image.rows, false);
  if (at.all) {
    if (auto loaded = co_await load_old(op, part); !loaded) co_return loaded;
    for (std::size_t row = 0; row < image.rows; ++row) {
      holes[row] = part.old.zeros(part.member, row);
    }
  }
  empty = image.empty() && std::ranges::all_of(holes, std::identity{});
  if (auto computed = image.compute(group_.parts().pool); !computed) co_return computed;
  part.wanted.assign(image.rows, true);
  if (!image.all_good()) {
    if (auto settled = co_await settle_rest(op, part); !settled) co_return settled;
  }
  for (std::size_t row = 0; row < image.rows; ++row) {
    const bool hole = holes[row] && !image.lost[part.member][row];
    if (hole && all_zeros(image.block(part.member, row))) part.wanted[row] = false;
  }
  if (auto written = co_await write_part(op, part); !written) co_return written;
  group_.view().lost_blocks.fetch_add(part.lost);
  group_.view().corrupt_blocks.fetch_add(part.mended);
  lost_ += part.lost_anew;
  if (part.lost > 0) {
    spdlog::error("event=parity_rebuild_lost object={} member={} stripes={}-{} blocks={}",
                  to_string(at.object), part.member, first, last - 1, part.lost);
  }
  co_return Result<>{};
}

Task<Result<>> Rebuild::load_old(Op& op, Part& part) {
  co_return co_await group_.calls().load(op, part.old, std::uint32_t{1} << part.member,
                                         MemberCalls::From::kDisk);
}

// The rows that computed nothing.
Task<Result<>> Rebuild::settle_rest(Op& op, Part& part) {
  if (part.known) {
    if (auto loaded = co_await load_old(op, part); !loaded) co_return loaded;
    if (part.blank) part.old.distrust(std::uint32_t{1} << part.member);
  }
  for (std::size_t row = 0; row < part.image.rows; ++row) {
    if (!part.image.good[part.member][row]) settle_row(part, row);
  }
  co_return Result<>{};
}

void Rebuild::settle_row(Part& part, std::size_t row) const {
  Image& image = part.image;
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  if (part.member != parity && geometry().logical(part.member, offset) >= part.size) {
    image.good[part.member][row] = true;  // zeros
    return;
  }
  if (part.known) {
    if (prove(part, row) || keep_beside_lost(part, row, parity)) return;
  }
  give_up_row(part, row, parity);
}

// If it is the parity that is lost, what is damaged of the data gets its own mark: a write over
// that makes the parity good, and must not be taken for whole after a crash. What only cannot be
// read may be readable again.
void Rebuild::give_up_row(Part& part, std::size_t row, unsigned parity) const {
  Image& image = part.image;
  ++part.lost;
  if (!image.given_up(row)) ++part.lost_anew;
  image.set_lost(part.member, row);
  if (part.member != parity) return;
  for (unsigned other = 0; other < members(); ++other) {
    if (image.good[other][row] || image.lost[other][row]) continue;
    if (image.unread[other][row] || image.no_sum[other][row]) continue;
    image.set_lost(other, row);
    part.others.emplace_back(other, row);
  }
}

// Whether what the member has gives what the checksum of the only other block that is not good is
// of. That a damaged block fits by itself proves nothing: it may be from before a write, too, if a
// disk lost that.
bool Rebuild::prove(Part& part, std::size_t row) const {
  Image& image = part.image;
  unsigned missing = 0;
  unsigned which = 0;
  for (unsigned other = 0; other < members(); ++other) {
    if (other == part.member || image.good[other][row]) continue;
    ++missing;
    which = other;
  }
  if (missing != 1 || image.lost[which][row]) return false;
  if (image.no_sum[which][row] && image.unread[which][row]) return false;
  std::array<std::byte, kParityBlock> before;
  std::ranges::copy(image.block(which, row), before.begin());
  std::ranges::copy(part.old.block(part.member, row), image.block(part.member, row).begin());
  image.compute_block(which, row);
  const bool fits = image.no_sum[which][row]
                        ? std::ranges::equal(before, image.block(which, row))
                        : image.sums[which][row] == sum_block(image.block(which, row), image.object,
                                                              which, image.first + row);
  image.good[which][row] = image.good[part.member][row] = fits;
  if (fits) {
    part.others.emplace_back(which, row);
    ++part.mended;
  } else {
    std::ranges::copy(before, image.block(which, row).begin());
  }
  return fits;
}

// Of a row that was given up before, nothing could be written at the member while it was out, but
// that the object may have been cut.
bool Rebuild::keep_beside_lost(Part& part, std::size_t row, unsigned parity) const {
  const unsigned member = part.member;
  if (member == parity || !part.image.lost[parity][row] || !part.old.good[member][row]) {
    return false;
  }
  auto block = part.old.block(member, row);
  const std::uint64_t at =
      geometry().logical(member, part.image.offset() + row * kParityBlock);  // less than the size
  if (part.size < at + kParityBlock) {
    std::ranges::fill(block.subspan(part.size - at), std::byte{0});
  }
  std::ranges::copy(block, part.image.block(member, row).begin());
  part.image.good[member][row] = true;
  return true;
}

// What is of another member is stable at once, as with a read that mends.
Task<Result<>> Rebuild::write_part(Op& op, Part& part) {
  std::vector<MemberWrite> writes;
  for (const auto& [member, row] : part.others) {
    auto added = group_.calls().add_write(writes, part.image, member, row, row + 1);
    if (!added) co_return added;
  }
  if (!writes.empty()) {
    auto written = co_await group_.calls().write_all(op, part.image.object, std::move(writes),
                                                     Stability::kFileSync);
    if (!written) co_return written;
    writes.clear();
  }
  for (std::size_t row = 0; row < part.image.rows; ++row) {
    if (!part.wanted[row]) continue;
    std::size_t end = row + 1;
    while (end < part.image.rows && part.wanted[end]) ++end;
    auto added = group_.calls().add_write(writes, part.image, part.member, row, end);
    if (!added) co_return added;
    row = end - 1;
  }
  co_await group_.calls().write_all(op, part.image.object, std::move(writes), Stability::kUnstable);
  co_return Result<>{};
}

// The log first: contents in it must never be redone over what is written with all members.
Task<bool> Rebuild::end() {
  co_await Group::Quiesce(group_);
  if (group_.rebuild_holds()) {
    if (!co_await group_.renew_log()) co_return false;
    GroupRecord record = group_.record();
    const bool replaced = record.everything;
    record = {.epoch = record.epoch, .given_up = record.given_up + lost_};
    if (!co_await group_.save_record(record)) co_return false;
    spdlog::info("event=parity_member_in epoch={} bytes={}", group_.record().epoch,
                 group_.view().rebuilt_bytes.load());
    group_.view().rebuilds.fetch_add(1);
    if (replaced) group_.view().replaced.fetch_add(1);
    group_.member_is_back();
  }
  group_.unblock();
  co_return true;
}

}  // namespace weft::ds::parity
