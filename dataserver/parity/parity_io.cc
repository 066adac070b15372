#include "dataserver/parity/parity_io.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "dataserver/store/object_files.h"

namespace weft::ds::parity {

namespace {

constexpr std::uint64_t kMaxRead = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxWrite = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 61;

std::uint64_t block_begin(std::uint64_t offset) { return offset / kParityBlock * kParityBlock; }
std::uint64_t block_end(std::uint64_t offset) { return block_begin(offset + kParityBlock - 1); }

}  // namespace

// --- Read ----------------------------------------------------------------------------------------

Task<Result<ReadResult>> ParityIo::read(ObjectId object, std::uint64_t offset, std::uint32_t count,
                                        PoolShare share) {
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  ReadResult result;
  const Object known = group_.look(*state);
  if (!known.exists) co_return fail(Errc::kNotFound, "no object " + to_string(object));
  result.object_end = known.size;
  if (offset >= known.size || count == 0) co_return result;
  const std::uint64_t end = std::min(known.size, offset + std::min<std::uint64_t>(count, kMaxRead));
  bool odd = false;
  auto read = co_await group_.until_done(known.generation, [&](Op& op) -> Task<Result<>> {
    odd = false;
    result.payload = {};
    op.share = share;
    return read_plain(op, object, offset, end, result.payload, odd);
  });
  if (!read) co_return pass(read);
  if (!odd) co_return result;
  // A block did not match or cannot be read, was being written meanwhile, or is at a member that is
  // out.
  const Hold hold = co_await group_.lock(object, group_.stripe_range(offset, end));
  read = co_await group_.until_done(known.generation, [&](Op& op) -> Task<Result<>> {
    result.payload = {};
    op.share = share;
    return read_computed(op, object, offset, end, result.payload);
  });
  if (!read) co_return pass(read);
  co_return result;
}

// In the order of the object.
std::vector<ParityIo::Piece> ParityIo::pieces_of(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Piece> pieces;
  const std::uint64_t chunk = geometry().chunk;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t stripe = geometry().stripe_of(at);
    const std::uint64_t within = at % geometry().width();
    const std::uint64_t size = std::min(end - at, chunk - within % chunk);
    pieces.push_back({geometry().data_member(stripe, static_cast<unsigned>(within / chunk)),
                      stripe * chunk + within % chunk, size});
    at += size;
  }
  return pieces;
}

// `odd` when something must be computed, or looked at with nobody writing.
Task<Result<>> ParityIo::read_plain(Op& op, ObjectId object, std::uint64_t begin, std::uint64_t end,
                                    Payload& into, bool& odd) {
  const auto pieces = pieces_of(begin, end);
  auto gone = co_await group_.gone_in(op, object);
  if (!gone) co_return pass(gone);
  odd = std::ranges::any_of(pieces, [&](const Piece& p) {
    return !op.mode.readable(p.member) || (*gone >> p.member & 1) != 0;
  });
  if (odd) co_return Result<>{};
  std::vector<MemberRead> data(pieces.size());
  std::vector<ByteRange> range(members());  // blocks of a member
  for (const Piece& piece : pieces) {
    ByteRange& whole = range[piece.member];
    const std::uint64_t first = piece.offset / kParityBlock;
    if (whole.end == 0) whole.begin = first;
    whole.end = block_end(piece.offset + piece.size) / kParityBlock;
  }
  std::vector<MemberRead> sums(members());
  Join join;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t from = block_begin(pieces[i].offset);
    const std::uint64_t to = block_end(pieces[i].offset + pieces[i].size);
    group_.calls().read(op, join, pieces[i].member, object, from, to - from, data[i]);
  }
  for (unsigned member = 0; member < members(); ++member) {
    const ByteRange& blocks = range[member];
    if (blocks.end == 0) continue;
    group_.calls().read(op, join, member, sums_of(object), kSumsAt + blocks.begin * kSumBytes,
                        (blocks.end - blocks.begin) * kSumBytes, sums[member]);
  }
  co_await join;
  if (auto good = outcome(op); !good) co_return good;
  const auto unread = [](const MemberRead& one) { return one.unread; };
  odd = std::ranges::any_of(data, unread) || std::ranges::any_of(sums, unread);
  if (odd) co_return Result<>{};
  std::vector<Buffer> sum_bytes(members());
  for (unsigned member = 0; member < members(); ++member) {
    const std::size_t size = (range[member].end - range[member].begin) * kSumBytes;
    if (size == 0) continue;
    auto bytes = gather(std::move(sums[member].payload), size, pool());
    if (!bytes) co_return pass(bytes);
    sum_bytes[member] = std::move(*bytes);
  }
  std::uint32_t blank = 0;  // members that have nothing of some block
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const std::uint64_t from = block_begin(piece.offset);
    const std::size_t size = block_end(piece.offset + piece.size) - from;
    auto bytes = gather(std::move(data[i].payload), size, pool());
    if (!bytes) co_return pass(bytes);
    for (std::size_t at = 0; at < size && !odd; at += kParityBlock) {
      const std::uint64_t block = (from + at) / kParityBlock;
      const std::size_t where = (block - range[piece.member].begin) * kSumBytes;
      const auto sum = get_sum(sum_bytes[piece.member].span().subspan(where, kSumBytes));
      odd = sum != sum_block(bytes->span().subspan(at, kParityBlock), object, piece.member, block);
      if (sum == 0) blank |= std::uint32_t{1} << piece.member;
    }
    auto wanted = bytes->share(piece.offset - from, piece.size);
    if (!wanted) co_return pass(wanted);
    into.append(std::move(*wanted));
  }
  if (odd) co_return Result<>{};
  gone = co_await group_.gone_in(op, object, blank);
  if (!gone) co_return pass(gone);
  odd = (*gone & blank) != 0;
  co_return Result<>{};
}

// With the stripes held. What does not match, or cannot be read, is computed and written anew.
Task<Result<>> ParityIo::read_computed(Op& op, ObjectId object, std::uint64_t begin,
                                       std::uint64_t end, Payload& into) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  const std::uint64_t run = group_.stripes_at_once() * width;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t stop = std::min(end, at / width * width + run);
    std::uint64_t first = at / width * in_chunk;
    std::uint64_t last = geometry().stripes(stop) * in_chunk;
    const auto pieces = pieces_of(at, stop);
    if (pieces.size() == 1) {
      first = pieces[0].offset / kParityBlock;
      last = block_end(pieces[0].offset + pieces[0].size) / kParityBlock;
    }
    Image image(members(), object, first, last);
    if (auto loaded = co_await group_.load(op, image, group_.calls().readable(op.mode)); !loaded) {
      co_return loaded;
    }
    const auto was_good = image.good;
    if (auto computed = image.compute(pool()); !computed) co_return computed;
    if (auto repaired = co_await repair(op, image, was_good); !repaired) co_return repaired;
    for (const Piece& piece : pieces) {
      const std::uint64_t row = piece.offset / kParityBlock - first;
      const std::uint64_t rows = block_end(piece.offset + piece.size) / kParityBlock - first;
      for (std::uint64_t i = row; i < rows; ++i) {
        if (image.good[piece.member][i]) continue;
        group_.view().lost_blocks.fetch_add(1);
        co_return fail(Errc::kIo, "a block of " + to_string(object) + " is lost");
      }
      auto wanted = image.data[piece.member].share(piece.offset - first * kParityBlock, piece.size);
      if (!wanted) co_return pass(wanted);
      into.append(std::move(*wanted));
    }
    at = stop;
  }
  co_return Result<>{};
}

// Writes what was computed where it was found damaged.
Task<Result<>> ParityIo::repair(Op& op, Image& image,
                                const std::vector<std::vector<bool>>& was_good) {
  std::vector<MemberWrite> writes;
  std::uint64_t blocks = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (was_good[member][row] || !image.good[member][row]) continue;
      if (auto added = group_.calls().add_write(writes, image, member, row, row + 1); !added) {
        co_return added;
      }
      ++blocks;
    }
  }
  if (blocks == 0) co_return Result<>{};
  auto room = co_await group_.calls().ask_room(op, image.object, ranges_of(writes), 0);
  if (!room && room.error() == Errc::kNoSpace) {  // what is read is right all the same
    op.full = 0;
    co_return Result<>{};
  }
  if (!room) co_return room;
  auto written =
      co_await group_.calls().write_all(op, image.object, std::move(writes), Stability::kFileSync);
  if (!written) co_return written;
  group_.view().corrupt_blocks.fetch_add(blocks);
  spdlog::warn("event=parity_bad_blocks object={} at={} written_anew={}", to_string(image.object),
               image.offset(), blocks);
  co_return Result<>{};
}

// --- Write ---------------------------------------------------------------------------------------

// The bytes in one piece, of which those at multiples of 4096 of the object are at multiples of 32
// in memory.
Result<Buffer> ParityIo::one_buffer(std::uint64_t offset, std::vector<Buffer> data) {
  const std::size_t lead = offset % kParityBlock;
  std::size_t size = 0;
  for (const Buffer& piece : data) size += piece.size();
  if (data.size() == 1) {
    const auto at = reinterpret_cast<std::uintptr_t>(data[0].data());
    if (at % 32 == lead % 32) return std::move(data[0]);
  }
  auto made = pool().allocate(lead + size);
  if (!made) return made;
  std::byte* at = made->data() + lead;
  for (const Buffer& piece : data) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  return made->share(lead, size);
}

// Whole chunks where a stripe is written in more than one.
std::vector<MemberRange> ParityIo::takes(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t width = geometry().width();
  const std::uint64_t chunk = geometry().chunk;
  std::vector<ByteRange> rows(members());
  const auto add = [&rows](unsigned member, std::uint64_t first, std::uint64_t last) {
    ByteRange& of = rows[member];
    of = of.end == 0 ? ByteRange{first, last}
                     : ByteRange{std::min(of.begin, first), std::max(of.end, last)};
  };
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t stripe = geometry().stripe_of(at);
    const std::uint64_t step = std::min(end, (stripe + 1) * width) - at;
    const std::uint64_t first = at % width / chunk;
    const std::uint64_t last = (at % width + step - 1) / chunk;
    std::uint64_t from = stripe * chunk;
    std::uint64_t to = from + chunk;
    if (first == last) {
      from = block_begin(from + at % chunk);
      to = block_end(stripe * chunk + at % chunk + step);
    }
    for (std::uint64_t k = first; k <= last; ++k) {
      add(geometry().data_member(stripe, static_cast<unsigned>(k)), from / kParityBlock,
          to / kParityBlock);
    }
    add(geometry().parity_member(stripe), from / kParityBlock, to / kParityBlock);
    at += step;
  }
  std::vector<MemberRange> ranges;
  for (unsigned member = 0; member < members(); ++member) {
    const auto [first, last] = rows[member];
    if (last == 0) continue;
    ranges.push_back({member, false, first * kParityBlock, (last - first) * kParityBlock});
    ranges.push_back({member, true, kSumsAt + first * kSumBytes, (last - first) * kSumBytes});
  }
  return ranges;
}

Task<Result<WriteResult>> ParityIo::write(ObjectId object, std::uint64_t offset,
                                          std::vector<Buffer> data, Stability wanted) {
  std::uint64_t size = 0;
  for (const Buffer& piece : data) size += piece.size();
  if (size > kMaxWrite) co_return fail(Errc::kTooLarge, "a write of too many bytes");
  if (offset > kMaxSize) co_return fail(Errc::kFileTooLarge, "a write beyond what a group holds");
  Buffer bytes;
  if (size > 0) {
    auto one = one_buffer(offset, std::move(data));
    if (!one) co_return pass(one);
    bytes = std::move(*one);
  }
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  const std::uint64_t end = offset + size;
  Hold hold = co_await group_.lock(object, group_.stripe_range(offset, std::max(end, offset + 1)));
  const Object before = group_.look(*state);
  const std::uint64_t after = std::max(before.size, size == 0 ? 0 : end);  // the object's end
  WriteVerifier verifier = 0;
  auto written = co_await group_.until_done(before.generation, [&](Op& op) -> Task<Result<>> {
    verifier = group_.verifier();
    if (!group_.calls().surely_fits(op, geometry().stripes(end))) {
      auto may = co_await group_.calls().ask_length(op, geometry().stripes(end));
      if (!may) co_return may;
    }
    auto marked = co_await group_.mark(object, size == 0 ? 0 : offset, size == 0 ? 0 : end);
    if (!marked) co_return pass(marked);
    // All of it, or nothing: a part that is written would be behind the object's end.
    const std::uint32_t all = group_.calls().writable(op.mode);
    auto room = co_await group_.calls().ask_room(op, object, takes(offset, end),
                                                 before.sequence == 0 ? all : 0);
    if (!room) co_return room;
    op.reserved = true;
    if (size > 0) {
      auto put = co_await stripes_.write(op, object, offset, bytes, after, wanted);
      if (!put) co_return put;
    }
    co_return co_await after_write(op, object, *state, size == 0 ? 0 : end, wanted);
  });
  if (!written && written.error() == Errc::kNoSpace) {
    hold = {};
    co_await give_back(object, *state);
  }
  if (!written) co_return pass(written);
  co_return WriteResult{.bytes = size,
                        .stability = wanted,
                        .verifier = verifier,
                        .object_end = group_.look(*state).size};
}

Task<Result<>> ParityIo::after_write(Op& op, ObjectId object, ObjectPtr state, std::uint64_t end,
                                     Stability wanted) {
  group_.extend(state, end);
  if (wanted == Stability::kUnstable && op.mode.out < 0) co_return Result<>{};
  co_return co_await group_.flush_header(op, object, state);
}

// What some members gave where another had no room: it is behind the object's end, or all there is.
Task<Result<>> ParityIo::give_back(ObjectId object, ObjectPtr state) {
  const Hold hold = co_await group_.lock(object, kWholeObject);
  const Object now = group_.look(state);
  co_return co_await group_.until_done(now.generation, [&](Op& op) -> Task<Result<>> {
    const std::uint32_t mask = group_.calls().writable(op.mode);
    if (now.exists) {
      co_await group_.calls().cut(op, object, now.size, mask);
      co_return Result<>{};
    }
    const auto versions = group_.quiet_regions(object);
    const bool removed = co_await group_.calls().remove(op, object, mask);
    if (removed && op.mode.out < 0) group_.forget_dirty(object, versions);
    co_return Result<>{};
  });
}

// --- Commit --------------------------------------------------------------------------------------

Task<Result<WriteVerifier>> ParityIo::commit(ObjectId object) {
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  WriteVerifier verifier = 0;
  auto committed =
      co_await group_.until_done(group_.look(*state).generation, [&](Op& op) -> Task<Result<>> {
        verifier = group_.verifier();
        const auto versions = group_.quiet_regions(object);
        if (!group_.look(*state).exists) {
          if (op.mode.out < 0) group_.forget_dirty(object, versions);
          co_return Result<>{};
        }
        if (auto flushed = co_await group_.flush_header(op, object, *state); !flushed) {
          co_return flushed;
        }
        const std::uint32_t mask = group_.calls().writable(op.mode);
        if (!co_await group_.calls().commit(op, object, mask)) co_return Result<>{};
        if (op.mode.out < 0) group_.forget_dirty(object, versions);
        co_return Result<>{};
      });
  if (!committed) co_return pass(committed);
  co_return verifier;
}

// --- Size ----------------------------------------------------------------------------------------

Task<Result<ObjectStat>> ParityIo::truncate(ObjectId object, std::uint64_t size) {
  if (size > kMaxSize) co_return fail(Errc::kFileTooLarge, "a size beyond what a group holds");
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  {
    const Hold hold = co_await group_.lock(object, kWholeObject);
    const Object before = group_.look(*state);
    if (!before.exists && size == 0) co_return ObjectStat{};
    auto done = co_await group_.until_done(before.generation, [&](Op& op) -> Task<Result<>> {
      // The tail is written, and a member that is out misses the cut.
      auto marked = co_await group_.mark(object, size, size + 1);
      if (!marked) co_return pass(marked);
      if (size < before.size) co_return co_await cut(op, object, *state, size);
      co_return co_await after_write(op, object, *state, size, Stability::kFileSync);
    });
    if (!done) {
      // It was begun, and memory was short for too long.
      if (done.error() == Errc::kBusy && group_.is_cutting(object)) group_.break_group();
      co_return pass(done);
    }
  }
  co_return co_await stat(object);
}

// A member that is out has missed it. Before that is known the log has the cut as one to be done.
Task<Result<>> ParityIo::end_cut(Op& op, ObjectId object, std::uint64_t size) {
  if (op.mode.out >= 0) {
    auto marked = co_await group_.mark_cut(object, size);
    if (!marked) co_return pass(marked);
  }
  co_return co_await group_.end_cut(object);
}

// Whatever fails after the log has it is for recovery to end, but for want of memory, when it is
// tried again.
Task<Result<>> ParityIo::cut(Op& op, ObjectId object, ObjectPtr state, std::uint64_t size) {
  if (op.mode.out >= 0 && !op.mode.lost) {
    if (auto may = co_await stripes_.may_clear_tail(op, object, size); !may) co_return may;
  }
  op.reserved = true;
  auto done = co_await group_.begin_cut({.object = object, .size = size});
  if (done) done = co_await stripes_.clear_tail(op, object, size);
  if (done) {
    group_.set_size(state, size);
    done = co_await group_.flush_header(op, object, state);
  }
  if (done) {
    const std::uint32_t mask = group_.calls().writable(op.mode);
    if (!co_await group_.calls().cut(op, object, size, mask)) {
      done = member_failed();
    }
  }
  if (done) done = co_await end_cut(op, object, size);
  const bool again = !done && done.error() == Errc::kBusy;
  if (!done && op.failed == 0 && !again) group_.break_group();
  co_return done;
}

Task<Result<>> ParityIo::remove(ObjectId object) {
  auto state = co_await group_.find(object);
  // Without a good header nobody knows whether there is one: what there is goes.
  if (!state && !(state.error() == Errc::kIo)) co_return pass(state);
  const Hold hold = co_await group_.lock(object, kWholeObject);
  const Object before = state ? group_.look(*state) : Object{.exists = true};
  if (!before.exists) co_return Result<>{};
  Group::Versions versions;
  auto done = co_await group_.until_done(before.generation, [&](Op& op) -> Task<Result<>> {
    auto marked = co_await group_.mark(object, 0, 1);
    if (!marked) co_return pass(marked);
    // A commit, which holds no stripes, writes no header of what is gone.
    const Hold header = co_await group_.lock(object, kHeaderRange);
    auto removed = co_await group_.begin_cut({.object = object, .remove = true});
    const std::uint32_t mask = group_.calls().writable(op.mode);
    if (removed && !co_await group_.calls().remove(op, object, mask)) {
      removed = member_failed();
    }
    if (removed) removed = co_await end_cut(op, object, 0);
    if (!removed) {
      if (op.failed == 0) group_.break_group();
      co_return removed;
    }
    versions = group_.removed(op, object);
    co_return removed;
  });
  if (done && !versions.empty()) group_.forget_dirty(object, versions);
  co_return done;
}

Task<Result<ObjectStat>> ParityIo::stat(ObjectId object) {
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  ObjectStat result;
  auto asked = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    auto measured = co_await group_.calls().measure(op, object, group_.calls().readable(op.mode));
    if (measured) result = {.allocated = measured->allocated, .mtime_ns = measured->mtime_ns};
    co_return Result<>{};
  });
  if (!asked) co_return pass(asked);
  const Object known = group_.look(*state);
  if (!known.exists) co_return fail(Errc::kNotFound, "no object " + to_string(object));
  result.size = known.size;
  co_return result;
}

// By whole stripes.
Task<Result<DataRun>> ParityIo::next_data(ObjectId object, std::uint64_t offset) {
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  DataRun run;
  auto asked = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
    run = {};
    const Object known = group_.look(*state);
    if (!known.exists) co_return fail(Errc::kNotFound, "no object " + to_string(object));
    if (offset >= known.size) co_return Result<>{};
    // With another member away, what one has lost of the object is nowhere.
    if (op.mode.out >= 0 && known.gone != 0) {
      run.begin = offset;
      co_return Result<>{};
    }
    const std::uint64_t in_chunk = geometry().blocks_in_chunk();
    auto row = co_await group_.calls().next_row(op, object, geometry().stripe_of(offset) * in_chunk,
                                                group_.calls().readable(op.mode));
    if (!row) co_return pass(row);
    if (*row == kNoData || *row / in_chunk >= geometry().stripes(known.size)) co_return Result<>{};
    run.begin = std::max(offset, *row / in_chunk * geometry().width());
    co_return Result<>{};
  });
  if (!asked) co_return pass(asked);
  co_return run;
}

Task<Result<ObjectList>> ParityIo::list(ListPlace from, std::uint32_t max) {
  ObjectList page;
  auto listed =
      co_await group_.until_done(0, [&](Op& op) { return group_.calls().list(op, from, page); });
  if (!listed) co_return pass(listed);
  if (page.objects.size() > max) {
    page.objects.resize(max);
    const ObjectId last = sums_of(page.objects.back());
    page.next = {.folder = object_folder(last), .after = last};
    page.more = true;
  }
  co_return page;
}

// --- Space ---------------------------------------------------------------------------------------

Result<StoreStat> ParityIo::usage() const {
  return group_.calls().usage(group_.mode(), group_.view().away.load());
}

Task<Result<>> ParityIo::allocate(ObjectId object, std::uint64_t offset, std::uint64_t size) {
  if (size > kMaxSize || offset > kMaxSize - size) {
    co_return fail(Errc::kFileTooLarge, "a range beyond what a group holds");
  }
  if (size == 0) co_return Result<>{};
  const auto usage = this->usage();
  // While members are waited for nothing is free, and "later" is the answer.
  if (usage && usage->free_bytes < size && group_.view().away.load() == 0) {
    co_return fail(Errc::kNoSpace, "a member of the parity group is full");
  }
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  const ByteRange range = group_.stripe_range(offset, offset + size);
  Hold hold = co_await group_.lock(object, range);
  auto done =
      co_await group_.until_done(group_.look(*state).generation, [&](Op& op) -> Task<Result<>> {
        const std::uint64_t stripes = geometry().stripes(offset + size);
        if (!group_.calls().surely_fits(op, stripes)) {
          auto may = co_await group_.calls().ask_length(op, stripes);
          if (!may) co_return may;
        }
        auto marked = co_await group_.mark(object, offset, offset + 1);
        if (!marked) co_return pass(marked);
        const std::uint64_t first = geometry().stripe_of(range.begin) * geometry().chunk;
        const std::uint64_t last = geometry().stripe_of(range.end) * geometry().chunk;
        Join join;
        for (unsigned member = 0; member < members(); ++member) {
          if (!op.mode.writable(member)) continue;
          group_.calls().allocate(op, join, member, object, first, last - first);
          group_.calls().allocate(op, join, member, sums_of(object),
                                  kSumsAt + first / kParityBlock * kSumBytes,
                                  (last - first) / kParityBlock * kSumBytes);
        }
        co_await join;
        if (auto good = outcome(op); !good) co_return good;
        if (op.unable) co_return fail(Errc::kNotSupported, "a member that cannot reserve space");
        co_return co_await after_write(op, object, *state, offset + size, Stability::kFileSync);
      });
  if (!done && done.error() == Errc::kNoSpace) {
    hold = {};
    co_await give_back(object, *state);
  }
  co_return done;
}

Task<Result<>> ParityIo::punch(ObjectId object, std::uint64_t offset, std::uint64_t size) {
  if (size > kMaxSize || offset > kMaxSize - size) {
    co_return fail(Errc::kFileTooLarge, "a range beyond what a group holds");
  }
  auto state = co_await group_.find(object);
  if (!state) co_return pass(state);
  const Object known = group_.look(*state);
  const std::uint64_t length = known.exists ? known.size : 0;
  const std::uint64_t end = std::min(length, offset + size);
  // A piece at a time, so that neither memory nor the time that stripes are held depends on what
  // is asked for. Whole stripes become holes at the members, parts are written as zeros.
  const std::uint64_t width = geometry().width();
  for (std::uint64_t at = offset; at < end;) {
    if (end - at > 2 * group_.options().region_bytes) {
      auto next = co_await next_data(object, at);
      if (!next) co_return pass(next);
      if (next->begin >= end) break;
      at = std::max(at, next->begin / width * width);
    }
    const bool whole = at % width == 0 && (end - at) / width > 0;
    const std::uint64_t step =
        whole ? std::min((end - at) / width * width,
                         std::max(width, group_.options().region_bytes / width * width))
              : std::min(end - at, width - at % width);
    const Hold hold = co_await group_.lock(object, group_.stripe_range(at, at + step));
    auto done = co_await group_.until_done(known.generation, [&](Op& op) -> Task<Result<>> {
      auto marked = co_await group_.mark(object, at, at + step);
      if (!marked) co_return pass(marked);
      if (whole) {
        co_return co_await stripes_.punch(op, object, at / width, (at + step) / width);
      }
      co_return co_await stripes_.clear(op, object, at, step, length);
    });
    if (!done) co_return done;
    at += step;
  }
  co_return Result<>{};
}

}  // namespace weft::ds::parity
