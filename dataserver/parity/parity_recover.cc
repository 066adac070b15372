// A parity group after a start, or after more failed than one member.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dataserver/parity/parity_internal.h"
#include "dataserver/parity/parity_scrub.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kRunBytes = std::uint64_t{512} << 10;  // at each member, at a time

}  // namespace

// Which of the members do not answer. What the others answered with is known from now on.
Task<std::uint32_t> ParityStore::probe(std::uint32_t mask) {
  std::uint32_t away = 0;
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    join.started();
    parts_.members[member]->stat(ObjectId{}, [&, member](Result<ObjectStat> result) {
      if (!result && !(result.error() == Errc::kNotFound)) {
        away |= std::uint32_t{1} << member;
      } else {
        known_[member].store(parts_.members[member]->verifier());
      }
      join.ended();
    });
  }
  co_await join;
  co_return away;
}

// The record, and what is to be done about the log.
Task<Result<LogState>> ParityStore::load_group() {
  auto kept = co_await call<Result<GroupDisk::Kept>>(
      [this](auto done) { parts_.disk.load(std::move(done)); });
  if (!kept) co_return pass(kept);
  co_await scrub_->load(std::move(kept->scrub));
  auto log = decode_group_log(kept->log);
  if (!log) co_return pass(log);
  if (kept->record.empty()) {
    record_ = {};
    if (!co_await save_record(record_)) co_return fail(Errc::kIo, "no record could be made");
    co_return replay(std::move(log->frames), geometry());
  }
  auto record = decode_group_record(kept->record);
  if (!record) co_return pass(record);
  if (record->geometry.members != members() || record->geometry.chunk != geometry().chunk) {
    co_return fail(Errc::kInvalid, "the group was made with other members or chunks");
  }
  record_ = *record;
  co_return replay(std::move(log->frames), geometry());
}

// Says what is waited for and why, once.
void ParityStore::wait_for(std::uint32_t away, const LogState& log) {
  if (view_.awaited.exchange(away) == away) return;
  std::string targets;
  for (unsigned member = 0; member < members(); ++member) {
    if ((away >> member & 1) != 0) targets += (targets.empty() ? "" : ",") + std::to_string(member);
  }
  std::set<ObjectId> objects;
  for (const auto& [object, regions] : log.dirty) objects.insert(object);
  std::string why = "stripes of " + std::to_string(objects.size()) +
                    " objects may be half written, which cannot be told without that target";
  if (std::popcount(away) > 1) why = "only one target may be lost";
  if (record_.out >= 0) {
    why = "target " + std::to_string(record_.out) + " is out, so all others are needed";
  }
  const bool one = record_.out < 0 && std::popcount(away) == 1;
  view_.may_give_up.store(one ? std::countr_zero(away) : -1);
  spdlog::error("event=parity_waits targets={} why=\"{}\" next=\"{}\"", targets, why,
                one ? "start it, or, if it is lost for ever, weft ds give-up" : "start them");
}

// Finds out who is there. One may be away when all others are and nothing is in doubt: it is out.
Task<bool> ParityStore::go_without(Op& op, const LogState& log) {
  const std::uint32_t away = co_await probe(readable(op.mode));
  if (away == 0) co_return true;
  const bool clean = log.dirty.empty() && log.cuts.empty() && log.redo.empty();
  const bool one = record_.out < 0 && std::popcount(away) == 1;
  if (one && !clean && give_up_.load() == std::countr_zero(away)) {
    co_return co_await go_on_without(op, static_cast<unsigned>(give_up_.load()), log);
  }
  if (!clean || !one) {
    wait_for(away, log);
    co_return false;
  }
  GroupRecord without = record_;
  without.out = std::countr_zero(away);
  if (!co_await save_record(without)) co_return false;
  op.mode.out = record_.out;
  view_.put_out.fetch_add(1);
  co_return true;
}

// What is dirty from now on, and a log that says so.
Task<bool> ParityStore::begin_log(const Mode& mode, const LogState& log) {
  auto start = [&](auto done) {
    const MutexLock lock(mutex_);
    mode_ = mode;
    dirty_.clear();
    for (const auto& [object, regions] : log.dirty) {
      for (const std::uint64_t region : regions) {
        dirty_[object][region] = {.version = next_version_++, .logged = true};
      }
    }
    cuts_.clear();
    live_contents_ = 0;
    compact(std::move(done));
  };
  co_return (co_await call<Result<>>(start)).has_value();
}

Task<bool> ParityStore::recover() {
  co_await Quiesce(*this);
  {
    const MutexLock lock(mutex_);
    ++generation_;
    objects_.clear();
    failed_ = 0;
    rebuild_ended_ = none_lost_ = false;
    verifier_.store(parts_.random.u64());
    wake(reporting_);  // what they began is to be asked for anew
  }
  auto log = co_await load_group();
  if (!log) {
    spdlog::error("event=parity_recovery_failed error=\"{}\"", log.error().describe());
    co_return false;
  }
  Op op;
  op.mode = {.out = record_.out, .lost = record_.everything || record_.lost};
  if (!co_await go_without(op, *log)) co_return false;
  if (!co_await redo_contents(op, *log)) co_return false;
  if (op.mode.out < 0) {
    std::uint64_t none = 0;
    for (const auto& [object, regions] : log->dirty) {
      if (!co_await recover_object(op, object, regions, none)) co_return false;
    }
    log->dirty.clear();
  }
  if (!co_await redo_cuts(op, *log)) co_return false;
  if (!co_await begin_log(op.mode, *log)) co_return false;
  {
    const MutexLock lock(mutex_);
    broken_ = false;
  }
  give_up_.store(-1);
  view_.may_give_up.store(-1);
  view_.awaited.store(0);
  view_.recoveries.fetch_add(1);
  unblock();
  co_return true;
}

// Contents and punches of writes without a member, in order.
Task<bool> ParityStore::redo_contents(Op& op, const LogState& log) {
  std::map<ObjectId, std::uint64_t> sizes;
  for (const LogFrame& frame : log.redo) {
    if (const auto* punch = std::get_if<LogPunch>(&frame)) {
      if (!co_await punch_stripes(op, punch->object, punch->begin, punch->end)) co_return false;
      continue;
    }
    const auto& content = std::get<LogContent>(frame);
    std::uint64_t& size = sizes[content.object];
    size = std::max(size, content.size);
    Join join;
    for (const LogContent::Piece& piece : content.pieces) {
      if (piece.member >= members() || !op.mode.readable(piece.member)) continue;
      auto buffer = parts_.pool.allocate(piece.bytes.size());
      if (!buffer) {
        co_await join;
        co_return false;
      }
      std::ranges::copy(piece.bytes, buffer->data());
      std::vector<Buffer> data;
      data.push_back(std::move(*buffer));
      child_write(op, join, piece.member, piece.sums ? sums_of(content.object) : content.object,
                  piece.offset, std::move(data), Stability::kFileSync);
    }
    co_await join;
    if (op.failed != 0) co_return false;
  }
  for (const auto& [object, size] : sizes) {
    Object state;
    if (!co_await read_header(op, object, state)) co_return false;
    const std::uint32_t gone = surely_gone(state);
    const bool right = state.exists && state.size >= size && !state.header_dirty;
    if (right && gone == state.gone) continue;
    const SumHeader header{.sequence = state.sequence + 1, .size = std::max(size, state.size)};
    const std::uint32_t there = readable(op.mode) & ~gone;
    if (!co_await write_header(op, object, header, there)) co_return false;
  }
  co_return true;
}

// What was being cut; nothing of these objects came after. Their stripes are consistent by now.
Task<bool> ParityStore::redo_cuts(Op& op, const LogState& log) {
  for (const auto& [object, cut] : log.cuts) {
    if (cut.remove) {
      if (!co_await remove_children(op, object, readable(op.mode))) co_return false;
      continue;
    }
    Object state;
    if (!co_await read_header(op, object, state)) co_return false;
    auto tail = co_await clear_tail(op, object, cut.size);
    if (!tail) co_return false;
    const SumHeader header{.sequence = state.sequence + 1, .size = cut.size};
    const std::uint32_t there = readable(op.mode) & ~surely_gone(state);
    if (!co_await write_header(op, object, header, there)) co_return false;
    if (!co_await cut_children(op, object, cut.size, readable(op.mode))) co_return false;
  }
  co_return true;
}

// Members that have lost the object. Where a crash came between the first header that was written
// of it and the last, they have not: then others have that one, the first.
std::uint32_t ParityStore::surely_gone(const Object& state) {
  return state.sequence > 1 && std::popcount(state.gone) == 1 ? state.gone : 0;
}

Task<bool> ParityStore::recover_object(Op& op, ObjectId object, std::set<std::uint64_t> regions,
                                       std::uint64_t& given_up) {
  Object state;
  if (!co_await read_header(op, object, state)) co_return false;
  const std::uint32_t all = readable(op.mode);
  if (!state.exists) co_return co_await remove_children(op, object, all);
  const std::uint32_t gone = surely_gone(state);
  if (state.header_dirty || gone != state.gone) {
    const SumHeader header{.sequence = state.sequence + 1, .size = state.size};
    if (!co_await write_header(op, object, header, all & ~gone)) co_return false;
  }
  if (!co_await cut_children(op, object, state.size, all)) co_return false;
  const std::uint64_t stripes = geometry().stripes(state.size);
  const std::uint64_t run = std::max<std::uint64_t>(1, kRunBytes / geometry().chunk);
  for (const std::uint64_t region : regions) {
    const ByteRange range = stripe_range(region * parts_.options.region_bytes,
                                         (region + 1) * parts_.options.region_bytes);
    const std::uint64_t end = std::min(stripes, range.end / geometry().width());
    Settled settled{.size = state.size, .gone = gone};
    for (std::uint64_t at = range.begin / geometry().width(); at < end; at += run) {
      if (!co_await resync(op, object, at, std::min(end, at + run), settled)) co_return false;
    }
    if (settled.given_up == 0) continue;
    given_up += settled.given_up;
    spdlog::warn("event=parity_given_up object={} between={} and={} blocks={}", to_string(object),
                 settled.lost.begin, settled.lost.end, settled.given_up);
  }
  co_return co_await commit_children(op, object, all);
}

// Makes the rows of stripes [first, last) consistent from the data that is there. Of a member that
// is out nothing is: that is for giving it up.
Task<bool> ParityStore::resync(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                               Settled& settled) {
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  Image image(members(), object, first * in_chunk, last * in_chunk);
  if (!co_await load(op, image, readable(op.mode))) co_return false;
  image.distrust(settled.gone);
  if (op.mode.out >= 0) {
    const auto member = static_cast<unsigned>(op.mode.out);
    if (!image.make_room(member, parts_.pool)) co_return false;
    settled.absent = op.mode.out;
  }
  settled.changed.assign(members(), std::vector<bool>(image.rows));
  for (std::size_t row = 0; row < image.rows; ++row) settle_row(image, row, settled);
  std::vector<ChildWrite> writes;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (!settled.changed[member][row]) continue;
      std::size_t end = row + 1;
      while (end < image.rows && settled.changed[member][end]) ++end;
      if (!add_write(writes, image, member, row, end)) co_return false;
      row = end;
    }
  }
  Join join;
  for (ChildWrite& w : writes) {
    child_write(op, join, w.member, w.sums ? sums_of(object) : object, w.offset,
                std::move(w.pieces), Stability::kUnstable);
  }
  co_await join;
  co_return op.failed == 0;
}

// Zeros behind the object's end, where nothing is lost. Whether something of the row changed.
bool ParityStore::clear_behind(Image& image, std::size_t row, Settled& settled) {
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  bool cut = false;
  for (unsigned member = 0; member < members(); ++member) {
    if (member == parity) continue;
    const std::uint64_t at = geometry().logical(member, offset);
    if (at + kParityBlock <= settled.size) continue;
    if (image.lost[member][row] && at < settled.size) continue;
    const std::uint64_t from = at < settled.size ? settled.size - at : 0;
    auto tail = image.block(member, row).subspan(from);
    if (all_zeros(tail) && !image.lost[member][row]) continue;
    std::memset(tail.data(), 0, tail.size());
    image.lost[member][row] = false;
    cut = settled.changed[member][row] = true;
  }
  return cut;
}

void ParityStore::settle_row(Image& image, std::size_t row, Settled& settled) {
  auto& changed = settled.changed;
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  const int absent = settled.absent;
  const bool no_parity = absent == static_cast<int>(parity);
  const bool cut = clear_behind(image, row, settled);
  if (absent >= 0 && !no_parity) give_up_block(image, row, settled);
  unsigned bad = 0;
  unsigned which = 0;
  bool lost = false;  // some data
  for (unsigned member = 0; member < members(); ++member) {
    // One that was lost and is half written is zeros still (rebuild_stripes()).
    if (image.lost[parity][row] && !image.good[member][row] && member != parity &&
        all_zeros(image.block(member, row))) {
      image.lost[member][row] = changed[member][row] = true;
    }
    lost = lost || (member != parity && image.lost[member][row]);
    if (static_cast<int>(member) == absent || image.good[member][row]) continue;
    ++bad;
    which = member;
  }
  if (bad == 1 && !cut && !lost && !no_parity) {
    // If the rest of the row gives what the checksum is of, the block was torn or damaged.
    std::array<std::byte, kParityBlock> kept;
    std::ranges::copy(image.block(which, row), kept.begin());
    image.compute_block(which, row);
    changed[which][row] = true;
    if ((settled.gone >> which & 1) != 0 && image.sums[which][row] == 0) return;
    if (sum_block(image.block(which, row), image.object, which, image.first + row) ==
        image.sums[which][row]) {
      return;
    }
    std::ranges::copy(kept, image.block(which, row).begin());
  }
  for (unsigned member = 0; member < members(); ++member) {
    const bool kept = image.good[member][row] || image.lost[member][row];
    if (!kept && static_cast<int>(member) != absent) changed[member][row] = true;
  }
  if (no_parity) return;
  if (lost) {  // then the parity is too, until what is lost is written anew
    changed[parity][row] = !image.lost[parity][row];
    image.lost[parity][row] = true;
    return;
  }
  image.lost[parity][row] = false;
  std::array<std::byte, kParityBlock> before;
  std::ranges::copy(image.block(parity, row), before.begin());
  image.compute_block(parity, row);
  if (!image.good[parity][row]) changed[parity][row] = true;
  if (std::ranges::equal(before, image.block(parity, row))) return;
  changed[parity][row] = true;
  view_.parity_fixed.fetch_add(1);
}

}  // namespace weft::ds
