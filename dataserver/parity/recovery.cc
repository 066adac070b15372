#include "dataserver/parity/recovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dataserver/parity/scrub.h"

namespace weft::ds::parity {

namespace {

std::string numbers_of(std::uint32_t members) {
  std::string text;
  for (unsigned member = 0; member < kMaxMembers; ++member) {
    if ((members >> member & 1) != 0) text += (text.empty() ? "" : ",") + std::to_string(member);
  }
  return text;
}

}  // namespace

Task<Result<LogState>> Recovery::load_group() {
  auto kept = co_await call<Result<GroupDisk::Kept>>(
      [this](auto done) { group_.parts().disk.load(std::move(done)); });
  if (!kept) co_return pass(kept);
  co_await scrub_.load(std::move(kept->scrub));
  // The log is made after the record.
  if (kept->record.empty() && !kept->log.empty()) {
    co_return fail(Errc::kCorrupt,
                   "the folder has the group's log, but not its record, which says whether a "
                   "target is out");
  }
  auto log = decode_group_log(kept->log);
  if (!log) co_return pass(log);
  // What recovery logs is to be found by the next one, if this does not get to its end.
  auto begun = co_await group_.begin_log(std::move(kept->log), log->good_bytes);
  if (!begun) co_return pass(begun);
  if (kept->record.empty()) {
    if (!co_await group_.save_record({})) co_return fail(Errc::kIo, "no record could be made");
    co_return replay(std::move(log->frames), geometry());
  }
  auto record = decode_group_record(kept->record);
  if (!record) co_return pass(record);
  if (record->geometry.members != members() || record->geometry.chunk != geometry().chunk) {
    co_return fail(Errc::kInvalid, "the group was made with other members or chunks");
  }
  group_.set_record(*record);
  co_return replay(std::move(log->frames), geometry());
}

// Says what is waited for and why, once.
void Recovery::wait_for(std::uint32_t away, const LogState& log) {
  group_.view().awaited.store(away);
  if (std::exchange(told_, away) == away) return;
  std::set<ObjectId> objects;
  for (const auto& [object, regions] : log.dirty) objects.insert(object);
  std::string why = "stripes of " + std::to_string(objects.size()) +
                    " objects may be half written, which cannot be told without that target";
  if (std::popcount(away) > 1) why = "only one target may be lost";
  if (group_.record().out >= 0) {
    why = "target " + std::to_string(group_.record().out) + " is out, so all others are needed";
  }
  const bool one = group_.record().out < 0 && std::popcount(away) == 1;
  group_.view().may_give_up.store(one ? std::countr_zero(away) : -1);
  spdlog::error("event=parity_waits targets={} why=\"{}\" next=\"{}\"", numbers_of(away), why,
                one ? "start it, or, if it is lost for ever, weft ds give-up" : "start them");
}

void Recovery::wait_for_late(std::uint32_t late) {
  group_.view().awaited.store(late);
  if (std::exchange(told_, late) == late) return;
  group_.view().may_give_up.store(-1);
  spdlog::warn(
      "event=parity_waits targets={} why=\"calls that failed may be carried out there yet\" "
      "next=\"until these targets are connected anew\"",
      numbers_of(late));
}

// The room that is told is what there will be without it.
void Recovery::will_be_out(Mode mode, int member) {
  mode.out = member;
  group_.recover_in(mode);
  group_.view().away.store(0);
}

// Those that no call can reach now.
std::uint32_t Recovery::unreachable() const {
  std::uint32_t found = 0;
  for (unsigned member = 0; member < members(); ++member) {
    const auto usage = group_.parts().members[member]->usage();
    if (!usage && usage.error() == Errc::kUnreachable) found |= 1U << member;
  }
  return found;
}

// Finds out who is there. One may be away when all others are and nothing is in doubt: it is out.
Task<bool> Recovery::go_without(Op& op, const LogState& log) {
  const std::uint32_t readable = group_.calls().readable(op.mode);
  // To ask who is away costs the group's patience. Who was found away stays so until it connects.
  const std::uint32_t still_away = away_ & readable & unreachable();
  const std::uint32_t away = still_away | co_await group_.calls().probe(readable & ~still_away);
  away_ = away;
  const std::uint32_t late = group_.calls().unsettled(readable & ~away);
  group_.view().away.store(away | late);
  const bool clean = log.dirty.empty() && log.cuts.empty() && log.redo.empty();
  const bool one = group_.record().out < 0 && std::popcount(away) == 1;
  if (!may_change_.load()) {
    if (late == 0 && one && clean) will_be_out(op.mode, std::countr_zero(away));
    co_return false;
  }
  if (late != 0) {
    wait_for_late(late);
    co_return false;
  }
  if (away == 0) co_return true;
  if (one && !clean && give_up_.load() == std::countr_zero(away)) {
    co_return co_await go_on_without(op, static_cast<unsigned>(give_up_.load()), log);
  }
  if (!clean || !one) {
    wait_for(away, log);
    co_return false;
  }
  GroupRecord without = group_.record();
  without.out = std::countr_zero(away);
  if (!co_await group_.save_record(without)) co_return false;
  op.mode.out = group_.record().out;
  group_.view().put_out.fetch_add(1);
  co_return true;
}

Task<bool> Recovery::recover() {
  co_await Group::Quiesce(group_);
  group_.begin_recovery();
  unread_.clear();
  auto log = co_await load_group();
  if (!log) {
    spdlog::error("event=parity_recovery_failed error=\"{}\"", log.error().describe());
    co_return false;
  }
  Op op;
  op.mode = {.out = group_.record().out,
             .lost = group_.record().everything || group_.record().lost};
  group_.recover_in(op.mode);
  if (!co_await go_without(op, *log)) co_return false;
  if (!co_await free_room(op, *log)) co_return false;
  if (!co_await redo_contents(op, *log)) co_return false;
  if (op.mode.out < 0) {
    std::uint64_t lost = 0;
    for (const auto& [object, regions] : log->dirty) {
      if (!co_await recover_object(op, object, regions, lost)) co_return false;
    }
    if (lost > 0) {
      GroupRecord record = group_.record();
      record.given_up += lost;
      if (!co_await group_.save_record(record)) co_return false;
    }
    std::erase_if(log->dirty, [this](const auto& one) { return !unread_.contains(one.first); });
  } else if (!co_await cut_ends(op, *log)) {
    co_return false;
  }
  if (!co_await redo_cuts(op, *log)) co_return false;
  if (!co_await group_.adopt(op.mode, *log)) co_return false;
  group_.end_recovery();
  give_up_.store(-1);
  group_.view().may_give_up.store(-1);
  group_.view().awaited.store(0);
  group_.view().away.store(0);
  told_ = 0;
  away_ = 0;
  group_.view().recoveries.fetch_add(1);
  group_.unblock();
  co_return true;
}

// Objects that were being removed are gone, and of those that were being cut nothing is behind the
// stripe of their end: nothing of them came after, and members may be full. A member that is out
// misses it.
Task<bool> Recovery::free_room(Op& op, LogState& log) {
  for (auto at = log.cuts.begin(); at != log.cuts.end();) {
    const LogCut& cut = at->second;
    const std::uint32_t there = group_.calls().readable(op.mode);
    if (!cut.remove) {
      if (!co_await group_.calls().cut(op, cut.object, cut.size, there)) co_return false;
      ++at;
      continue;
    }
    if (!co_await group_.calls().remove(op, cut.object, there)) co_return false;
    log.dirty.erase(cut.object);
    if (op.mode.out >= 0) log.dirty[cut.object].insert({0, kCutFrom});
    at = log.cuts.erase(at);
  }
  co_return true;
}

// Contents and punches of writes without a member, in order.
Task<bool> Recovery::redo_contents(Op& op, const LogState& log) {
  std::map<ObjectId, std::uint64_t> sizes;
  for (const LogFrame& frame : log.redo) {
    if (const auto* punch = std::get_if<LogPunch>(&frame)) {
      if (!co_await stripes_.punch_unlogged(op, punch->object, punch->begin, punch->end)) {
        co_return false;
      }
      continue;
    }
    const auto& content = std::get<LogContent>(frame);
    std::uint64_t& size = sizes[content.object];
    size = std::max(size, content.size);
    Join join;
    for (const LogContent::Piece& piece : content.pieces) {
      if (piece.member >= members() || !op.mode.readable(piece.member)) continue;
      auto buffer = pool().allocate(piece.bytes.size());
      if (!buffer) {
        co_await join;
        co_return false;
      }
      std::ranges::copy(piece.bytes, buffer->data());
      std::vector<Buffer> data;
      data.push_back(std::move(*buffer));
      group_.calls().write(op, join, piece.member,
                           piece.sums ? sums_of(content.object) : content.object, piece.offset,
                           std::move(data), Stability::kFileSync);
    }
    co_await join;
    if (op.failed != 0) co_return false;
  }
  for (const auto& [object, size] : sizes) {
    Object state;
    if (!co_await read_header(op, object, state)) co_return false;
    if (unread_.contains(object)) continue;
    const std::uint32_t gone = surely_gone(state);
    const bool right = state.exists && state.size >= size && !state.header_dirty;
    if (right && gone == state.gone) continue;
    const SumHeader header{.sequence = state.sequence + 1, .size = std::max(size, state.size)};
    const std::uint32_t there = group_.calls().readable(op.mode) & ~gone;
    if (!co_await group_.write_header(op, object, header, there)) co_return false;
  }
  co_return true;
}

// While a member is out: what a write that was not answered has left behind an object's end. It
// was begun with all members, so its contents are not in the log, and only its header says how far
// the object goes. A stripe in which blocks are lost stays as it is.
Task<bool> Recovery::cut_ends(Op& op, const LogState& log) {
  const std::uint32_t there = group_.calls().readable(op.mode);
  for (const auto& [object, regions] : log.dirty) {
    Object state;
    if (!co_await read_header(op, object, state)) co_return false;
    if (unread_.contains(object)) continue;
    const auto cut = state.exists ? co_await group_.calls().cut(op, object, state.size, there)
                                  : co_await group_.calls().remove(op, object, there);
    if (!cut) co_return false;
    const std::uint64_t within = state.size % geometry().width();
    if (!state.exists || within == 0) continue;
    const auto cleared =
        co_await stripes_.clear(op, object, state.size, geometry().width() - within, state.size);
    if (!cleared && (op.failed != 0 || !(cleared.error() == Errc::kIo))) co_return false;
  }
  co_return true;
}

// What was being cut, to its end. Their stripes are consistent by now. A member that is out misses
// them.
Task<bool> Recovery::redo_cuts(Op& op, LogState& log) {
  for (const auto& [object, cut] : log.cuts) {
    if (op.mode.out >= 0) {
      const std::uint64_t region = cut.size / group_.options().region_bytes;
      log.dirty[object].insert({region, region | kCutFrom});
    }
    Object state;
    if (!co_await read_header(op, object, state)) co_return false;
    if (unread_.contains(object)) continue;
    auto tail = co_await stripes_.clear_tail(op, object, cut.size);
    if (!tail) co_return false;
    const SumHeader header{.sequence = state.sequence + 1, .size = cut.size};
    const std::uint32_t there = group_.calls().readable(op.mode) & ~surely_gone(state);
    if (!co_await group_.write_header(op, object, header, there)) co_return false;
    if (!co_await group_.calls().cut(op, object, cut.size, group_.calls().readable(op.mode))) {
      co_return false;
    }
  }
  co_return true;
}

Task<bool> Recovery::read_header(Op& op, ObjectId object, Object& into) {
  auto read = co_await group_.read_header(op, object, into);
  if (read) co_return true;
  if (op.failed != 0 || !(read.error() == Errc::kIo)) co_return false;
  if (unread_.insert(object).second) {
    spdlog::error("event=parity_header_lost object={} next=\"it stays as it is: I/O errors\"",
                  to_string(object));
  }
  co_return true;
}

// Members that have lost the object. Where a crash came between the first header that was written
// of it and the last, they have not: then others have that one, the first.
std::uint32_t Recovery::surely_gone(const Object& state) {
  return state.sequence > 1 && std::popcount(state.gone) == 1 ? state.gone : 0;
}

Task<bool> Recovery::recover_object(Op& op, ObjectId object, std::set<std::uint64_t> regions,
                                    std::uint64_t& given_up) {
  Object state;
  if (!co_await read_header(op, object, state)) co_return false;
  if (unread_.contains(object)) co_return true;
  const std::uint32_t all = group_.calls().readable(op.mode);
  if (!state.exists) co_return co_await group_.calls().remove(op, object, all);
  const std::uint32_t gone = surely_gone(state);
  if (state.header_dirty || gone != state.gone) {
    const SumHeader header{.sequence = state.sequence + 1, .size = state.size};
    if (!co_await group_.write_header(op, object, header, all & ~gone)) co_return false;
  }
  if (!co_await group_.calls().cut(op, object, state.size, all)) co_return false;
  const std::uint64_t stripes = geometry().stripes(state.size);
  const std::uint64_t run = group_.stripes_at_once();
  for (const std::uint64_t region : regions) {
    if ((region & kCutFrom) != 0) continue;
    const ByteRange range = group_.stripe_range(region * group_.options().region_bytes,
                                                (region + 1) * group_.options().region_bytes);
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
  co_return co_await group_.calls().commit(op, object, all);
}

// Makes the rows of stripes [first, last) consistent from the data that is there. Of a member that
// is out nothing is: that is for giving it up.
Task<bool> Recovery::resync(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last,
                            Settled& settled) {
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  Image image(members(), object, first * in_chunk, last * in_chunk);
  // Not as operations do: who has lost the object is known from its headers, read just now.
  if (!co_await group_.calls().load(op, image, group_.calls().readable(op.mode))) co_return false;
  image.distrust(settled.gone);
  if (op.mode.out >= 0) {
    const auto member = static_cast<unsigned>(op.mode.out);
    if (!image.make_room(member, pool())) co_return false;
    settled.absent = op.mode.out;
    if (!co_await find_holes(op, image, settled)) co_return false;
  }
  settled.changed.assign(members(), std::vector<bool>(image.rows));
  for (std::size_t row = 0; row < image.rows; ++row) settle_row(image, row, settled);
  std::vector<MemberWrite> writes;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (!settled.changed[member][row]) continue;
      std::size_t end = row + 1;
      while (end < image.rows && settled.changed[member][end]) ++end;
      if (!group_.calls().add_write(writes, image, member, row, end)) co_return false;
      row = end;
    }
  }
  auto written =
      co_await group_.calls().write_all(op, object, std::move(writes), Stability::kUnstable);
  co_return written.has_value();
}

// Zeros behind the object's end, where nothing is lost. Whether something of the row changed.
bool Recovery::clear_behind(Image& image, std::size_t row, Settled& settled) {
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

// Of the only block of a row that is not good: computed from the others. True if that gives what
// its checksum is of, which proves that the others are what they were when the row was last whole:
// then the block was torn or damaged, and is right now.
bool Recovery::compute_torn(Image& image, std::size_t row, unsigned which, Settled& settled) {
  std::array<std::byte, kParityBlock> kept;
  std::ranges::copy(image.block(which, row), kept.begin());
  image.compute_block(which, row);
  settled.changed[which][row] = true;
  // A member that has lost the object has no checksum left to compare with.
  if ((settled.gone >> which & 1) != 0 && image.sums[which][row] == 0) return true;
  if (sum_block(image.block(which, row), image.object, which, image.first + row) ==
      image.sums[which][row]) {
    return true;
  }
  std::ranges::copy(kept, image.block(which, row).begin());
  return false;
}

// Makes one row consistent. It may have been half written when the data server died, so its parity
// may be of the data before or after, and a block may be of neither: whatever the data is now is
// right, since nobody was told that the write is done.
void Recovery::settle_row(Image& image, std::size_t row, Settled& settled) {
  auto& changed = settled.changed;
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  const int absent = settled.absent;
  const bool no_parity = absent == static_cast<int>(parity);
  const bool was_given_up = image.given_up(row);
  const bool cut = clear_behind(image, row, settled);
  if (absent >= 0 && !no_parity) give_up_block(image, row, settled);
  unsigned bad = 0;
  unsigned which = 0;
  bool lost = false;  // some data
  for (unsigned member = 0; member < members(); ++member) {
    // One that was lost and is half written has its mark still; zeros were written before there
    // was one.
    const bool half = !image.good[member][row] && member != parity && !image.lost[member][row] &&
                      static_cast<int>(member) != absent;
    if (half && (has_lost_mark(image.block(member, row)) ||
                 (image.lost[parity][row] && all_zeros(image.block(member, row))))) {
      image.set_lost(member, row);
      changed[member][row] = true;
    }
    lost = lost || (member != parity && image.lost[member][row]);
    if (static_cast<int>(member) == absent || image.good[member][row]) continue;
    ++bad;
    which = member;
  }
  // Computing needs all others of the row as they were: not when one was just cut, is lost, or is
  // the parity of the member that is given up.
  if (bad == 1 && !cut && !lost && !no_parity && compute_torn(image, row, which, settled)) return;
  lost = give_up_unread(image, row, settled) || lost;
  if (was_given_up && give_up_damaged(image, row, settled)) lost = true;
  // The bytes of every block that does not match are taken as they are, with a new checksum.
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
  // The data decides: the parity follows it.
  image.lost[parity][row] = false;
  std::array<std::byte, kParityBlock> before;
  std::ranges::copy(image.block(parity, row), before.begin());
  image.compute_block(parity, row);
  if (!image.good[parity][row]) changed[parity][row] = true;
  if (std::ranges::equal(before, image.block(parity, row))) return;
  changed[parity][row] = true;
  group_.view().parity_fixed.fetch_add(1);
}

// --- Giving a member up --------------------------------------------------------------------------

Result<> Recovery::give_up(unsigned member) {
  const std::string name = "target " + std::to_string(member);
  if (member >= members()) return fail(Errc::kInvalid, "the parity group has no " + name);
  if (group_.view().may_give_up.load() != static_cast<int>(member)) {
    return fail(Errc::kInvalid, "the parity group does not wait for " + name + ", or not alone");
  }
  give_up_.store(static_cast<int>(member));
  group_.kick();
  return {};
}

// The member is lost, and what is dirty with it: that is settled at the others, as after any crash,
// but for what only that member had. Then the record says that it is out. If this process dies
// before that, nothing has happened: the member may come back yet, and all is settled anew.
Task<bool> Recovery::go_on_without(Op& op, unsigned member, const LogState& log) {
  spdlog::warn("event=parity_gives_up target={} objects={}", member, log.dirty.size());
  scrub_.gave_up();
  op.mode.out = static_cast<int>(member);
  op.settling = true;
  std::uint64_t blocks = 0;
  for (const auto& [object, regions] : log.dirty) {
    const auto cut = log.cuts.find(object);
    if (cut != log.cuts.end() && cut->second.remove) continue;
    if (!co_await recover_object(op, object, regions, blocks)) co_return false;
  }
  op.settling = false;
  op.mode.lost = true;
  GroupRecord without = group_.record();
  without.out = static_cast<int>(member);
  without.lost = true;
  without.given_up += blocks;
  if (!co_await group_.save_record(without)) co_return false;
  give_up_.store(-1);
  group_.view().put_out.fetch_add(1);
  spdlog::warn("event=parity_given_up target={} blocks={} epoch={}", member, blocks,
               group_.record().epoch);
  co_return true;
}

// The rows of which nothing was ever written at those that are there. Zeros that were written are
// none: they may be the parity of two blocks that are equal, of which one was not durable yet.
Task<bool> Recovery::find_holes(Op& op, const Image& image, Settled& settled) {
  settled.holes.assign(image.rows, false);
  const std::uint32_t there = group_.calls().readable(op.mode);
  std::uint64_t next = 0;  // the row from which on somebody has a block
  for (std::size_t row = 0; row < image.rows; ++row) {
    bool zeros = true;
    bool nothing = true;
    for (unsigned member = 0; member < members(); ++member) {
      if (!op.mode.readable(member)) continue;
      zeros = zeros && image.zeros(member, row);
      nothing = nothing && image.nothing(member, row);
    }
    const std::uint64_t at = image.first + row;
    if (zeros && !nothing && next <= at) {
      auto found =
          co_await group_.calls().next_row(op, image.object, at, there, MemberCalls::Of::kBlocks);
      if (!found) co_return false;
      next = *found;
    }
    settled.holes[row] = zeros && (nothing || next > at);
  }
  co_return true;
}

// Of the member that is given up: its block is lost, unless it is behind the end of the object, or
// nobody has anything in this row, so that it had nothing either.
void Recovery::give_up_block(Image& image, std::size_t row, Settled& settled) {
  const auto absent = static_cast<unsigned>(settled.absent);
  const std::uint64_t at = geometry().logical(absent, image.offset() + row * kParityBlock);
  if (at < settled.size && !settled.holes[row]) give_up_at(image, row, absent, settled);
}

// What a disk cannot read, and the others do not tell, is lost: some of the row may be from before
// the crash and some from after. Whether any is.
bool Recovery::give_up_unread(Image& image, std::size_t row, Settled& settled) {
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  bool some = false;
  for (unsigned member = 0; member < members(); ++member) {
    if (member == parity || !image.unread[member][row] || image.lost[member][row]) continue;
    const bool zeros = !image.no_sum[member][row] && image.sums[member][row] == 0;
    if (zeros || geometry().logical(member, offset) >= settled.size) continue;
    settled.changed[member][row] = true;
    give_up_at(image, row, member, settled);
    some = true;
  }
  return some;
}

// Of a row that was given up before, what is damaged may have been so for long: it need not be what
// is left of a write. Whether any is.
bool Recovery::give_up_damaged(Image& image, std::size_t row, Settled& settled) {
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = geometry().parity_member(offset / geometry().chunk);
  bool some = false;
  for (unsigned member = 0; member < members(); ++member) {
    if (member == parity || static_cast<int>(member) == settled.absent) continue;
    if (image.good[member][row] || image.lost[member][row]) continue;
    if (geometry().logical(member, offset) >= settled.size) continue;
    settled.changed[member][row] = true;
    give_up_at(image, row, member, settled);
    some = true;
  }
  return some;
}

void Recovery::give_up_at(Image& image, std::size_t row, unsigned member, Settled& settled) {
  const std::uint64_t at = geometry().logical(member, image.offset() + row * kParityBlock);
  image.set_lost(member, row);
  if (settled.given_up++ == 0) settled.lost.begin = at;
  settled.lost.begin = std::min(settled.lost.begin, at);
  settled.lost.end = std::max(settled.lost.end, std::min(settled.size, at + kParityBlock));
}

}  // namespace weft::ds::parity
