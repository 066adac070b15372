// Everything but reading and writing: commits, sizes, holes, removal.
#include <algorithm>
#include <cstring>

#include "dataserver/parity/parity_internal.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 61;

}  // namespace

// --- Commit --------------------------------------------------------------------------------------

void ParityStore::commit(const ObjectId& object, Done<WriteVerifier> done) {
  run<WriteVerifier>(do_commit(object), std::move(done));
}

Task<Result<WriteVerifier>> ParityStore::do_commit(ObjectId object) {
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  std::uint64_t generation = 0;
  {
    const MutexLock lock(mutex_);
    generation = (*state)->generation;
  }
  WriteVerifier verifier = 0;
  auto committed = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
    verifier = verifier_.load();
    std::map<std::uint64_t, std::uint64_t> versions;
    bool exists = false;
    {
      const MutexLock lock(mutex_);
      exists = (*state)->exists;
      const auto found = dirty_.find(object);
      if (found != dirty_.end()) {
        for (const auto& [region, of] : found->second) {
          if (of.writers == 0) versions[region] = of.version;
        }
      }
    }
    if (!exists) co_return Result<>{};
    if (auto flushed = co_await flush_header(op, object, *state); !flushed) co_return flushed;
    std::uint32_t mask = readable(op.mode);
    if (op.mode.rebuilding) mask |= std::uint32_t{1} << op.mode.out;
    if (!co_await commit_children(op, object, mask)) co_return Result<>{};
    if (op.mode.out < 0) forget_dirty(object, versions);
    co_return Result<>{};
  });
  if (!committed) co_return pass(committed);
  co_return verifier;
}

// --- Size ----------------------------------------------------------------------------------------

void ParityStore::truncate(const ObjectId& object, std::uint64_t size, Done<ObjectStat> done) {
  run<ObjectStat>(do_truncate(object, size), std::move(done));
}

Task<Result<ObjectStat>> ParityStore::do_truncate(ObjectId object, std::uint64_t size) {
  if (size > kMaxSize) co_return fail(Errc::kFileTooLarge, "a size beyond what a group holds");
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  {
    const Hold hold = co_await lock(object, kWholeObject);
    std::uint64_t generation = 0;
    std::uint64_t before = 0;
    {
      const MutexLock lock(mutex_);
      if (!(*state)->exists && size == 0) co_return ObjectStat{};
      generation = (*state)->generation;
      before = (*state)->size;
    }
    auto done = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
      // The tail is written, and a member that is out misses the cut.
      auto marked = co_await mark(object, size, size + 1);
      if (!marked) co_return pass(marked);
      if (size < before) co_return co_await cut(op, object, *state, size);
      co_return co_await after_write(op, object, *state, size, Stability::kFileSync);
    });
    if (!done) co_return pass(done);
  }
  co_return co_await do_stat(object);
}

// Whatever fails after the log has it is for recovery to end.
Task<Result<>> ParityStore::cut(Op& op, ObjectId object, ObjectPtr state, std::uint64_t size) {
  const LogCut frame{.object = object, .size = size};
  if (op.mode.out >= 0 && !op.mode.lost) {
    if (auto may = co_await may_clear_tail(op, object, size); !may) co_return may;
  }
  {
    const MutexLock lock(mutex_);
    cuts_[object] = frame;
  }
  auto done = co_await append(encode(frame));
  if (done) done = co_await clear_tail(op, object, size);
  if (done) {
    {
      const MutexLock lock(mutex_);
      state->size = size;
      state->header_dirty = true;
    }
    done = co_await flush_header(op, object, state);
  }
  if (done) {
    std::uint32_t mask = readable(op.mode);
    if (op.mode.rebuilding) mask |= std::uint32_t{1} << op.mode.out;
    if (!co_await cut_children(op, object, size, mask)) {
      done = fail(Errc::kIo, "a member of the parity group failed");
    }
  }
  if (done) {
    done = co_await append(encode(LogCutDone{object}));
    const MutexLock lock(mutex_);
    if (done) cuts_.erase(object);
  }
  if (!done && op.failed == 0) break_group();
  co_return done;
}

// Zeros from here to the end of the stripe.
Task<Result<>> ParityStore::clear_tail(Op& op, ObjectId object, std::uint64_t size) {
  const std::uint64_t width = geometry().width();
  if (size % width == 0) co_return Result<>{};
  const std::uint64_t count = width - size % width;
  auto room = parts_.pool.allocate(size % kParityBlock + count);
  if (!room) co_return pass(room);
  std::memset(room->data(), 0, room->size());
  auto zeros = room->share(size % kParityBlock, count);
  if (!zeros) co_return pass(zeros);
  op.cutting = true;
  auto done = co_await write_range(op, object, size, *zeros, size, Stability::kFileSync);
  op.cutting = false;
  co_return done;
}

void ParityStore::remove(const ObjectId& object, Done<void> done) {
  run<void>(do_remove(object), std::move(done));
}

Task<Result<>> ParityStore::do_remove(ObjectId object) {
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  const Hold hold = co_await lock(object, kWholeObject);
  std::uint64_t generation = 0;
  {
    const MutexLock lock(mutex_);
    if (!(*state)->exists) co_return Result<>{};
    generation = (*state)->generation;
  }
  std::map<std::uint64_t, std::uint64_t> versions;
  auto done = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
    auto marked = co_await mark(object, 0, 1);
    if (!marked) co_return pass(marked);
    const LogCut frame{.object = object, .remove = true};
    {
      const MutexLock lock(mutex_);
      cuts_[object] = frame;
    }
    auto removed = co_await append(encode(frame));
    std::uint32_t mask = readable(op.mode);
    if (op.mode.rebuilding) mask |= std::uint32_t{1} << op.mode.out;
    if (removed && !co_await remove_children(op, object, mask)) {
      removed = fail(Errc::kIo, "a member of the parity group failed");
    }
    if (removed) removed = co_await append(encode(LogCutDone{object}));
    if (!removed) {
      if (op.failed == 0) break_group();
      co_return removed;
    }
    const MutexLock lock(mutex_);
    cuts_.erase(object);
    (*state)->exists = (*state)->header_dirty = false;
    // The next header is the first again (surely_gone()).
    (*state)->size = (*state)->sequence = (*state)->gone = 0;
    if (op.mode.out < 0) {
      for (auto& [region, of] : dirty_[object]) versions[region] = of.version;
    }
    co_return removed;
  });
  if (done && !versions.empty()) forget_dirty(object, versions);
  co_return done;
}

void ParityStore::stat(const ObjectId& object, Done<ObjectStat> done) {
  run<ObjectStat>(do_stat(object), std::move(done));
}

Task<Result<ObjectStat>> ParityStore::do_stat(ObjectId object) {
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  ObjectStat result;
  auto asked = co_await until_done(0, [&](Op& op) -> Task<Result<>> {
    result = {};
    Join join;
    for (unsigned member = 0; member < members(); ++member) {
      if (!op.mode.readable(member)) continue;
      for (const ObjectId& part : {object, sums_of(object)}) {
        join.started();
        parts_.members[member]->stat(part, [&, member](Result<ObjectStat> found) {
          after(op, member, found ? nullptr : &found.error(), nullptr);
          if (found) {
            result.allocated += found->allocated;
            result.mtime_ns = std::max(result.mtime_ns, found->mtime_ns);
          }
          join.ended();
        });
      }
    }
    co_await join;
    co_return Result<>{};
  });
  if (!asked) co_return pass(asked);
  const MutexLock lock(mutex_);
  if (!(*state)->exists) co_return fail(Errc::kNotFound, "no object " + to_string(object));
  result.size = (*state)->size;
  co_return result;
}

bool ParityStore::settled() const {
  Mode mode;
  {
    const MutexLock lock(mutex_);
    mode = mode_;
  }
  for (unsigned member = 0; member < members(); ++member) {
    if (mode.readable(member) && !parts_.members[member]->settled()) return false;
  }
  return true;
}

Result<StoreStat> ParityStore::usage() const {
  int out = -1;
  {
    const MutexLock lock(mutex_);
    out = mode_.out;
  }
  StoreStat sum;
  bool first = true;
  const std::uint32_t awaited = view_.awaited.load();
  for (unsigned member = 0; member < members(); ++member) {
    if (static_cast<int>(member) == out || (awaited >> member & 1) != 0) continue;
    auto usage = parts_.members[member]->usage();
    if (!usage) return usage;
    sum.capacity_bytes =
        first ? usage->capacity_bytes : std::min(sum.capacity_bytes, usage->capacity_bytes);
    sum.free_bytes = first ? usage->free_bytes : std::min(sum.free_bytes, usage->free_bytes);
    sum.objects = std::max(sum.objects, usage->objects / 2);  // with checksums beside each
    first = false;
  }
  if (first) return fail(Errc::kUnreachable, "no target of the parity group is there");
  const std::uint64_t reserve = parts_.options.reserve_bytes;
  sum.free_bytes = sum.free_bytes > reserve ? sum.free_bytes - reserve : 0;
  sum.capacity_bytes *= members() - 1;
  sum.free_bytes *= members() - 1;
  if (awaited != 0) sum.free_bytes = 0;  // nothing can be written
  return sum;
}

// --- Space ---------------------------------------------------------------------------------------

void ParityStore::allocate(const ObjectId& object, std::uint64_t offset, std::uint64_t size,
                           Done<void> done) {
  run<void>(do_allocate(object, offset, size), std::move(done));
}

Task<Result<>> ParityStore::do_allocate(ObjectId object, std::uint64_t offset, std::uint64_t size) {
  if (size > kMaxSize || offset > kMaxSize - size) {
    co_return fail(Errc::kFileTooLarge, "a range beyond what a group holds");
  }
  if (size == 0) co_return Result<>{};
  const auto usage = this->usage();
  if (usage && usage->free_bytes < size) {
    co_return fail(Errc::kNoSpace, "a member of the parity group is full");
  }
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  const ByteRange range = stripe_range(offset, offset + size);
  const Hold hold = co_await lock(object, range);
  std::uint64_t generation = 0;
  {
    const MutexLock lock(mutex_);
    generation = (*state)->generation;
  }
  co_return co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
    auto marked = co_await mark(object, offset, offset + 1);
    if (!marked) co_return pass(marked);
    const std::uint64_t first = geometry().stripe_of(range.begin) * geometry().chunk;
    const std::uint64_t last = geometry().stripe_of(range.end) * geometry().chunk;
    Join join;
    for (unsigned member = 0; member < members(); ++member) {
      if (!op.mode.writable(member)) continue;
      join.started();
      parts_.members[member]->allocate(object, first, last - first, [&, member](Result<> made) {
        after(op, member, made ? nullptr : &made.error(), nullptr);
        join.ended();
      });
    }
    co_await join;
    if (op.failed != 0) co_return Result<>{};
    co_return co_await after_write(op, object, *state, offset + size, Stability::kFileSync);
  });
}

void ParityStore::punch(const ObjectId& object, std::uint64_t offset, std::uint64_t size,
                        Done<void> done) {
  run<void>(do_punch(object, offset, size), std::move(done));
}

Task<Result<>> ParityStore::do_punch(ObjectId object, std::uint64_t offset, std::uint64_t size) {
  if (size > kMaxSize || offset > kMaxSize - size) {
    co_return fail(Errc::kFileTooLarge, "a range beyond what a group holds");
  }
  auto state = co_await find(object);
  if (!state) co_return pass(state);
  std::uint64_t generation = 0;
  std::uint64_t length = 0;
  {
    const MutexLock lock(mutex_);
    generation = (*state)->generation;
    length = (*state)->exists ? (*state)->size : 0;
  }
  const std::uint64_t end = std::min(length, offset + size);
  // A piece at a time, so that neither memory nor the time that stripes are held depends on what
  // is asked for. Whole stripes become holes at the members, parts are written as zeros.
  const std::uint64_t width = geometry().width();
  for (std::uint64_t at = offset; at < end;) {
    const bool whole = at % width == 0 && (end - at) / width > 0;
    const std::uint64_t step =
        whole ? std::min((end - at) / width * width,
                         std::max(width, parts_.options.region_bytes / width * width))
              : std::min(end - at, width - at % width);
    const Hold hold = co_await lock(object, stripe_range(at, at + step));
    auto done = co_await until_done(generation, [&](Op& op) -> Task<Result<>> {
      auto marked = co_await mark(object, at, at + step);
      if (!marked) co_return pass(marked);
      if (whole) {
        co_return co_await punch_logged(op, object, at / width, (at + step) / width);
      }
      auto room = parts_.pool.allocate(at % kParityBlock + step);
      if (!room) co_return pass(room);
      std::memset(room->data(), 0, room->size());
      auto zeros = room->share(at % kParityBlock, step);
      if (!zeros) co_return pass(zeros);
      co_return co_await write_range(op, object, at, *zeros, length, Stability::kFileSync);
    });
    if (!done) co_return done;
    at += step;
  }
  co_return Result<>{};
}

Task<Result<>> ParityStore::punch_logged(Op& op, ObjectId object, std::uint64_t first,
                                         std::uint64_t last) {
  if (op.mode.out < 0) co_return co_await punch_stripes(op, object, first, last);
  {
    const MutexLock lock(mutex_);
    ++live_contents_;
  }
  auto done = co_await append(encode(LogPunch{object, first, last}));
  if (done) done = co_await punch_stripes(op, object, first, last);
  if (done || (op.failed & readable(op.mode)) == 0) {
    const MutexLock lock(mutex_);
    --live_contents_;
  }
  co_return done;
}

Task<Result<>> ParityStore::punch_stripes(Op& op, ObjectId object, std::uint64_t first,
                                          std::uint64_t last) {
  const std::uint64_t chunk = geometry().chunk;
  const std::uint64_t sums = geometry().blocks_in_chunk() * kSumBytes;
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.writable(member)) continue;
    child_punch(op, join, member, object, first * chunk, (last - first) * chunk);
    child_punch(op, join, member, sums_of(object), kSumsAt + first * sums, (last - first) * sums);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  co_return Result<>{};
}

}  // namespace weft::ds
