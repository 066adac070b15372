// Bringing a member back that was out. The manager begins and ends it while nothing else goes on;
// between that a task goes through what the member missed, holding stripes as an operation does.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/parity/parity_internal.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kRunBytes = std::uint64_t{512} << 10;  // at each member, at a time

// The rebuild's own end, which no operation sees.
std::unexpected<Error> ended() { return fail(Errc::kCancelled, "the member is out again"); }

}  // namespace

// From now on what is written is written there too; what was dirty before is what it misses.
Task<bool> ParityStore::begin_rebuild() {
  const auto member = static_cast<unsigned>(record_.out);
  if (co_await probe(std::uint32_t{1} << member) != 0) co_return false;
  std::map<ObjectId, std::set<std::uint64_t>> objects;
  std::optional<Progress> everything;
  if (record_.everything) everything = Progress{record_.done, record_.place};
  co_await Quiesce(*this);
  {
    const MutexLock lock(mutex_);
    progress_.reset();
    mode_.rebuilding = true;
    rebuild_running_ = true;
    for (const auto& [object, regions] : dirty_) {
      for (const auto& [region, state] : regions) objects[object].insert(region);
    }
  }
  unblock();
  spdlog::info("event=parity_rebuild member={} dirty_objects={} everything={}", member,
               objects.size(), record_.everything);
  ++tasks_;
  spawn(rebuild(std::move(objects), everything), [this](bool good) {
    {
      const MutexLock lock(mutex_);
      rebuild_running_ = false;
      rebuild_ended_ = good && mode_.rebuilding;
      if (!good) mode_.rebuilding = false;
    }
    kick();
    --tasks_;
  });
  co_return true;
}

Task<bool> ParityStore::rebuild(std::map<ObjectId, std::set<std::uint64_t>> objects,
                                std::optional<Progress> everything) {
  view_.rebuilt_bytes.store(0);
  view_.rebuild_objects_left.store(objects.size());
  view_.rebuild_permille.store(0);
  TokenBucket rate(parts_.options.rebuild_rate, parts_.clock.now());
  Result<> done;
  std::uint64_t count = 0;
  for (auto& [object, regions] : objects) {
    done = co_await rebuild_object(object, {.regions = std::move(regions)}, rate);
    if (!done) break;
    view_.rebuild_objects_left.fetch_sub(1);
    if (!everything) {
      view_.rebuild_permille.store(static_cast<std::uint32_t>(++count * 1000 / objects.size()));
    }
  }
  if (done && everything) done = co_await rebuild_everything(*everything, rate);
  if (done) co_return true;
  spdlog::warn("event=parity_rebuild_stopped error=\"{}\"", done.error().describe());
  co_return false;
}

Task<Result<>> ParityStore::rebuild_object(ObjectId object, Missed missed, TokenBucket& rate) {
  ObjectPtr state;
  std::uint64_t size = 0;
  {
    const Hold hold = co_await lock(object, kWholeObject);
    auto shaped = co_await until_done(
        0, [&](Op& op) -> Task<Result<>> { return rebuild_shape(op, object, state); });
    if (!shaped) co_return shaped;
    const MutexLock lock(mutex_);
    if (!state->exists) co_return Result<>{};
    size = state->size;
  }
  const std::uint64_t stripes = geometry().stripes(size);
  const std::uint64_t width = geometry().width();
  if (missed.all) {
    std::uint64_t rows = 0;
    auto known = co_await until_done(0, [&](Op& op) { return count_rows(op, object, rows); });
    if (!known) co_return known;
    const std::uint64_t in_chunk = geometry().blocks_in_chunk();
    const std::uint64_t end = (rows + in_chunk - 1) / in_chunk;
    auto done = co_await rebuild_range(object, {0, std::min(stripes, end)}, true, rate);
    if (!done) co_return done;
  }
  for (const std::uint64_t region : missed.regions) {
    const ByteRange range = stripe_range(region * parts_.options.region_bytes,
                                         (region + 1) * parts_.options.region_bytes);
    const ByteRange there{range.begin / width, std::min(stripes, range.end / width)};
    if (auto done = co_await rebuild_range(object, there, false, rate); !done) co_return done;
  }
  co_return co_await until_done(0, [&](Op& op) -> Task<Result<>> {
    if (!op.mode.rebuilding) co_return ended();
    co_await commit_children(op, object, std::uint32_t{1} << op.mode.out);
    co_return Result<>{};
  });
}

// Stripes, some at a time.
Task<Result<>> ParityStore::rebuild_range(ObjectId object, ByteRange stripes, bool all,
                                          TokenBucket& rate) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t run = std::max<std::uint64_t>(1, kRunBytes / geometry().chunk);
  for (std::uint64_t at = stripes.begin; at < stripes.end; at += run) {
    const std::uint64_t last = std::min(stripes.end, at + run);
    {
      const Hold hold = co_await lock(object, {at * width, last * width});
      auto done = co_await until_done(
          0, [&](Op& op) { return rebuild_stripes(op, object, at, last, all); });
      if (!done) co_return done;
    }
    rate.use((last - at) * geometry().chunk);
    view_.rebuilt_bytes.fetch_add((last - at) * geometry().chunk);
    for (;;) {
      const Nanoseconds wait = rate.wait(parts_.clock.now());
      if (wait.count() == 0 || !co_await pause(pause_, wait)) break;
    }
  }
  co_return Result<>{};
}

// As far as members that are read have blocks or checksums of it: behind that there are holes only.
Task<Result<>> ParityStore::count_rows(Op& op, ObjectId object, std::uint64_t& rows) {
  rows = 0;
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (const bool sums : {false, true}) {
      join.started();
      parts_.members[member]->stat(
          sums ? sums_of(object) : object, [&, member, sums](Result<ObjectStat> stat) {
            after(op, member, stat ? nullptr : &stat.error(), nullptr);
            if (stat && !sums)
              rows = std::max(rows, (stat->size + kParityBlock - 1) / kParityBlock);
            if (stat && sums && stat->size > kSumsAt) {
              rows = std::max(rows, (stat->size - kSumsAt + kSumBytes - 1) / kSumBytes);
            }
            join.ended();
          });
    }
  }
  co_await join;
  co_return Result<>{};
}

// The object's size at the member, and nothing behind it.
Task<Result<>> ParityStore::rebuild_shape(Op& op, ObjectId object, ObjectPtr& state) {
  if (!op.mode.rebuilding) co_return ended();
  const std::uint32_t there = std::uint32_t{1} << op.mode.out;
  auto found = co_await find_in(op, object);
  if (!found) co_return pass(found);
  state = *found;
  const Hold hold = co_await lock(object, kHeaderRange);
  SumHeader header;
  bool exists = false;
  bool gone = false;
  {
    const MutexLock lock(mutex_);
    exists = state->exists;
    gone = (state->gone & there) != 0;
    header = {.sequence = state->sequence, .size = state->size};
  }
  if (!exists) {
    co_await remove_children(op, object, there);
    co_return Result<>{};
  }
  if (!gone) {
    auto written = co_await write_header(op, object, header, there);
    if (!written) co_return written;
  }
  co_await cut_children(op, object, header.size, there);
  co_return Result<>{};
}

Task<Result<>> ParityStore::rebuild_stripes(Op& op, ObjectId object, std::uint64_t first,
                                            std::uint64_t last, bool all) {
  if (!op.mode.rebuilding) co_return ended();
  const auto member = static_cast<unsigned>(op.mode.out);
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  Image image(members(), object, first * in_chunk, last * in_chunk);
  if (auto loaded = co_await load(op, image, readable(op.mode)); !loaded) co_return loaded;
  if (auto computed = image.compute(parts_.pool); !computed) co_return computed;
  std::vector<ChildWrite> writes;
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
  view_.lost_blocks.fetch_add(missing);
  if (missing > 0) {
    spdlog::error("event=parity_rebuild_lost object={} member={} stripes={}-{} blocks={}",
                  to_string(object), member, first, last - 1, missing);
  }
  for (std::size_t row = 0; row < image.rows; ++row) {
    if (!wanted(row)) continue;
    std::size_t end = row + 1;
    while (end < image.rows && wanted(end)) ++end;
    if (auto added = add_write(writes, image, member, row, end); !added) co_return added;
    row = end - 1;
  }
  Join join;
  for (ChildWrite& w : writes) {
    child_write(op, join, w.member, w.sums ? sums_of(object) : object, w.offset,
                std::move(w.pieces), Stability::kUnstable);
  }
  co_await join;
  co_return Result<>{};
}

// The log first: contents in it must never be redone over what is written with all members.
Task<bool> ParityStore::end_rebuild() {
  co_await Quiesce(*this);
  bool good = false;
  {
    const MutexLock lock(mutex_);
    rebuild_ended_ = false;
    good = mode_.rebuilding && live_contents_ == 0 && failed_ == 0 && !broken_ &&
           parts_.members[static_cast<unsigned>(mode_.out)]->verifier() ==
               known_[static_cast<unsigned>(mode_.out)].load();
    if (!good) mode_.rebuilding = false;
  }
  if (good) {
    auto start = [this](auto done) {
      const MutexLock lock(mutex_);
      compact(std::move(done));
    };
    if (!co_await call<Result<>>(start)) co_return false;
    GroupRecord record = record_;
    const bool replaced = record.everything;
    record = {.epoch = record.epoch, .given_up = record.given_up};
    if (!co_await save_record(record)) co_return false;
    spdlog::info("event=parity_member_in epoch={} bytes={}", record_.epoch,
                 view_.rebuilt_bytes.load());
    view_.rebuilds.fetch_add(1);
    if (replaced) view_.replaced.fetch_add(1);
    const MutexLock lock(mutex_);
    mode_ = {};
    sweep_wanted_ = true;
  }
  unblock();
  co_return true;
}

// Commits what is dirty, so that the log need not name it.
Task<bool> ParityStore::sweep() {
  std::vector<ObjectId> objects;
  {
    const MutexLock lock(mutex_);
    sweep_wanted_ = false;
    for (const auto& [object, regions] : dirty_) objects.push_back(object);
  }
  bool good = true;
  for (const ObjectId& object : objects) {
    if (!co_await do_commit(object)) good = false;
  }
  const MutexLock lock(mutex_);
  sweep_running_ = false;
  co_return good;
}

Task<bool> ParityStore::pause(boost::asio::steady_timer& timer, Nanoseconds time) {
  const auto closed = [this] {
    const MutexLock lock(mutex_);
    return closed_;
  };
  if (closed()) co_return false;
  Join join;
  join.started();
  timer.expires_after(std::min<Nanoseconds>(time, std::chrono::seconds(1)));
  timer.async_wait([&join](const boost::system::error_code&) { join.ended(); });
  co_await join;
  co_return !closed();
}

}  // namespace weft::ds
