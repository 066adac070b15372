#include "dataserver/parity/rebuild.h"

#include <spdlog/spdlog.h>

#include <algorithm>

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

// From now on what is written is written there too; what was dirty before is what it misses.
Task<bool> Rebuild::begin() {
  const auto member = static_cast<unsigned>(group_.record().out);
  if (co_await group_.calls().probe(std::uint32_t{1} << member) != 0) co_return false;
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
  group_.view().rebuilt_bytes.store(0);
  group_.view().rebuild_objects_left.store(objects.size());
  group_.view().rebuild_permille.store(0);
  TokenBucket rate(group_.rates().rebuild, group_.now());
  Result<> done;
  std::uint64_t count = 0;
  for (auto& [object, regions] : objects) {
    done = co_await rebuild_object(object, {.regions = std::move(regions)}, rate);
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
      auto done = co_await rebuild_object(object, {.all = true}, rate);
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

Task<Result<>> Rebuild::rebuild_object(ObjectId object, Missed missed, TokenBucket& rate) {
  ObjectPtr state;
  std::uint64_t size = 0;
  {
    const Hold hold = co_await group_.lock(object, kWholeObject);
    auto shaped = co_await group_.until_done(
        0, [&](Op& op) -> Task<Result<>> { return rebuild_shape(op, object, state); });
    if (!shaped) co_return shaped;
    const Object known = group_.look(state);
    if (!known.exists) co_return Result<>{};
    size = known.size;
  }
  const std::uint64_t stripes = geometry().stripes(size);
  const std::uint64_t width = geometry().width();
  if (missed.all) {
    std::uint64_t rows = 0;
    auto counted = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
      auto measured = co_await group_.calls().measure(op, object);
      if (measured) rows = measured->rows;
      co_return Result<>{};
    });
    if (!counted) co_return counted;
    const std::uint64_t in_chunk = geometry().blocks_in_chunk();
    const std::uint64_t end = (rows + in_chunk - 1) / in_chunk;
    auto done = co_await rebuild_range(object, {0, std::min(stripes, end)}, true, rate);
    if (!done) co_return done;
  }
  for (const std::uint64_t region : missed.regions) {
    const ByteRange range = group_.stripe_range(region * group_.options().region_bytes,
                                                (region + 1) * group_.options().region_bytes);
    const ByteRange there{range.begin / width, std::min(stripes, range.end / width)};
    if (auto done = co_await rebuild_range(object, there, false, rate); !done) co_return done;
  }
  co_return co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    if (!op.mode.rebuilding) co_return ended();
    co_await group_.calls().commit(op, object, std::uint32_t{1} << op.mode.out);
    co_return Result<>{};
  });
}

// Stripes, some at a time.
Task<Result<>> Rebuild::rebuild_range(ObjectId object, ByteRange stripes, bool all,
                                      TokenBucket& rate) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t run = group_.stripes_at_once();
  for (std::uint64_t at = stripes.begin; at < stripes.end; at += run) {
    const std::uint64_t last = std::min(stripes.end, at + run);
    {
      const Hold hold = co_await group_.lock(object, {at * width, last * width});
      auto done = co_await group_.until_done(
          0, [&](Op& op) { return rebuild_stripes(op, object, at, last, all); });
      if (!done) co_return done;
    }
    rate.use((last - at) * geometry().chunk);
    group_.view().rebuilt_bytes.fetch_add((last - at) * geometry().chunk);
    for (;;) {
      const Nanoseconds wait = rate.wait(group_.now());
      if (wait.count() == 0 || !co_await group_.pause(timer_, wait)) break;
    }
  }
  co_return Result<>{};
}

// The object's size at the member, and nothing behind it.
Task<Result<>> Rebuild::rebuild_shape(Op& op, ObjectId object, ObjectPtr& state) {
  if (!op.mode.rebuilding) co_return ended();
  const std::uint32_t there = std::uint32_t{1} << op.mode.out;
  auto found = co_await group_.find_in(op, object);
  if (!found) co_return pass(found);
  state = *found;
  const Hold hold = co_await group_.lock(object, kHeaderRange);
  const Object known = group_.look(state);
  if (!known.exists) {
    co_await group_.calls().remove(op, object, there);
    co_return Result<>{};
  }
  if ((known.gone & there) == 0) {
    const SumHeader header{.sequence = known.sequence, .size = known.size};
    auto written = co_await group_.write_header(op, object, header, there);
    if (!written) co_return written;
  }
  co_await group_.calls().cut(op, object, known.size, there);
  co_return Result<>{};
}

Task<Result<>> Rebuild::rebuild_stripes(Op& op, ObjectId object, std::uint64_t first,
                                        std::uint64_t last, bool all) {
  if (!op.mode.rebuilding) co_return ended();
  const auto member = static_cast<unsigned>(op.mode.out);
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  Image image(members(), object, first * in_chunk, last * in_chunk);
  if (auto loaded = co_await group_.load(op, image, group_.calls().readable(op.mode)); !loaded) {
    co_return loaded;
  }
  if (auto computed = image.compute(group_.parts().pool); !computed) co_return computed;
  std::vector<MemberWrite> writes;
  // A row with another block damaged or lost has nothing to give. It stays as it is there, and is
  // what it was; but of a new store, or one that was given up, that is nothing that may be read.
  // Of one that lacked everything, zeros stay the hole that they are there.
  const bool lost = op.mode.lost;
  const auto wanted = [&](std::size_t row) {
    if (!image.good[member][row]) return lost;
    return !(all && all_zeros(image.block(member, row)));
  };
  std::uint64_t missing = 0;
  for (std::size_t row = 0; row < image.rows; ++row) {
    if (image.good[member][row]) continue;
    ++missing;
    image.lost[member][row] = lost;
  }
  group_.view().lost_blocks.fetch_add(missing);
  if (missing > 0) {
    spdlog::error("event=parity_rebuild_lost object={} member={} stripes={}-{} blocks={}",
                  to_string(object), member, first, last - 1, missing);
  }
  for (std::size_t row = 0; row < image.rows; ++row) {
    if (!wanted(row)) continue;
    std::size_t end = row + 1;
    while (end < image.rows && wanted(end)) ++end;
    if (auto added = group_.calls().add_write(writes, image, member, row, end); !added) {
      co_return added;
    }
    row = end - 1;
  }
  co_await group_.calls().write_all(op, object, std::move(writes), Stability::kUnstable);
  co_return Result<>{};
}

// The log first: contents in it must never be redone over what is written with all members.
Task<bool> Rebuild::end() {
  co_await Group::Quiesce(group_);
  if (group_.rebuild_holds()) {
    if (!co_await group_.renew_log()) co_return false;
    GroupRecord record = group_.record();
    const bool replaced = record.everything;
    record = {.epoch = record.epoch, .given_up = record.given_up};
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
