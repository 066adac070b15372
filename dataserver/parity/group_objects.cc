// What is known of objects: their headers at the members, and who has lost one.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "dataserver/parity/group.h"
#include "dataserver/store/vectors.h"
#include "rpc/base/log_limit.h"

namespace weft::ds::parity {

namespace {

// Members that are loaded and have nothing of a row of which an object of this size may have some.
std::uint32_t blank_at(const ParityGeometry& geometry, const Image& image, std::uint64_t size) {
  std::uint32_t blank = 0;
  for (unsigned member = 0; member < image.members(); ++member) {
    if (!image.loaded(member)) continue;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (image.sums[member][row] != 0) continue;
      const std::uint64_t at = image.offset() + row * kParityBlock;
      const std::uint64_t stripe = at / geometry.chunk;
      const bool parity = geometry.parity_member(stripe) == member;
      const unsigned first = parity ? geometry.data_member(stripe, 0) : member;
      if (geometry.logical(first, at) < size) blank |= std::uint32_t{1} << member;
    }
  }
  return blank;
}

}  // namespace

Task<Hold> Group::lock(ObjectId object, ByteRange range) {
  auto start = [this, object, range](auto done) {
    locks_.acquire(object, range,
                   [done = std::move(done)](Hold hold) mutable { done(std::move(hold)); });
  };
  co_return co_await call<Hold>(std::move(start));
}

Task<Result<Group::ObjectPtr>> Group::find(ObjectId object) {
  ObjectPtr state;
  auto found = co_await until_done(0, [this, object, &state](Op& op) -> Task<Result<>> {
    auto one = co_await find_in(op, object);
    if (!one) co_return pass(one);
    state = std::move(*one);
    co_return Result<>{};
  });
  if (!found) co_return pass(found);
  co_return state;
}

// Holds the header's lock for a moment, never while it waits for the group: who holds that lock
// must not wait for those that are under way and wait for it. A member that was out may have lost
// the object meanwhile, so its headers are looked at anew.
Task<Result<Group::ObjectPtr>> Group::find_in(Op& op, ObjectId object) {
  const auto known = [this, &object]() -> ObjectPtr {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(object);
    const bool good = found != objects_.end() && found->second->returns == returns_;
    return good ? found->second : nullptr;
  };
  if (auto state = known()) co_return state;
  const Hold hold = co_await lock(object, kHeaderRange);
  if (auto state = known()) co_return state;
  Object read{.returns = returns()};
  if (auto good = co_await read_header(op, object, read); !good) co_return pass(good);
  std::uint32_t gone = 0;
  ObjectPtr state;
  {
    const MutexLock lock(mutex_);
    ObjectPtr& kept = objects_[object];
    if (kept == nullptr) {
      read.generation = generation_;
      gone = read.gone;
      kept = std::make_shared<Object>(read);
    } else {
      // The header that is written first, by a commit, is at none before; of a later one some
      // members may have the one before.
      if (kept->sequence > 0) gone = read.gone & ~kept->gone;
      kept->gone |= gone;
      kept->returns = read.returns;
    }
    state = kept;
    forget_some();
  }
  if (gone != 0) found_gone(object, gone);
  co_return state;
}

std::uint64_t Group::returns() const {
  const MutexLock lock(mutex_);
  return returns_;
}

bool Group::is_recovering() const {
  const MutexLock lock(mutex_);
  return recovering_;
}

void Group::forget_some() {
  if (objects_.size() < std::max(parts_.options.max_objects, forget_at_)) return;
  for (auto at = objects_.begin(); at != objects_.end();) {
    const bool kept =
        at->second.use_count() > 1 || at->second->header_dirty || dirty_.contains(at->first);
    at = kept ? std::next(at) : objects_.erase(at);
  }
  // Of what is dirty for long all may be kept: not looked through again for each that comes.
  forget_at_ = objects_.size() + objects_.size() / 8;
}

// kIo: there is a header, but none that can be read and is right.
Task<Result<>> Group::read_header(Op& op, ObjectId object, Object& into) {
  std::vector<MemberRead> headers(members());
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    calls_.read(op, join, member, sums_of(object), 0, SumHeader::kBytes, headers[member]);
  }
  co_await join;
  if (auto good = outcome(op); !good) co_return good;
  unsigned same = 0;
  unsigned asked = 0;
  bool unread = false;
  std::uint32_t blank = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    ++asked;
    unread = unread || headers[member].unread;
    if (headers[member].unread) continue;
    auto bytes = headers[member].payload.flatten();
    if (!bytes) co_return pass(bytes);
    const bool none = all_zeros(*bytes);
    if (none) blank |= std::uint32_t{1} << member;
    const auto header = decode_sum_header(*bytes);
    unread = unread || (!header && !none);
    if (!header) continue;
    if (into.exists && header->sequence == into.sequence && header->size == into.size) ++same;
    if (into.exists && header->sequence <= into.sequence) continue;
    same = 1;
    into.exists = true;
    into.size = header->size;
    into.sequence = header->sequence;
  }
  if (unread && !into.exists) {
    co_return fail(Errc::kIo, "no header of " + to_string(object) + " can be read");
  }
  into.gone = into.exists ? blank : 0;
  into.header_dirty =
      into.exists && same + static_cast<unsigned>(std::popcount(into.gone)) != asked;
  co_return Result<>{};
}

// A member without a header has lost the object, and gets one only when it has all of the object
// again: until then what it does not have is computed (Image::distrust). A scrub brings it back.
void Group::found_gone(const ObjectId& object, std::uint32_t at) {
  static LogLimit& log = *new LogLimit;
  log.write(spdlog::level::err,
            "event=parity_object_gone object={} members={:#x} next=\"a scrub brings it back\"",
            to_string(object), at);
  view().objects_gone.fetch_add(1);
  manager_.object_gone();
}

// While the group is being recovered nothing is kept of objects: their headers are about to change.
Task<Result<std::uint32_t>> Group::gone_in(Op& op, ObjectId object, std::uint32_t blank) {
  if (is_recovering()) co_return 0;
  auto state = co_await find_in(op, object);
  if (!state) co_return pass(state);
  const Object known = look(*state);
  blank &= ~known.gone;
  if (blank == 0 || known.sequence == 0) co_return known.gone;
  auto lacking = co_await lack_header(op, object, blank);
  if (!lacking) co_return lacking;
  if (*lacking != 0) {
    const Hold hold = co_await lock(object, kHeaderRange);
    auto looked = co_await look_for_gone(op, object, *state, calls_.readable(op.mode));
    if (!looked) co_return pass(looked);
  }
  co_return look(*state).gone;
}

// Precondition: the header's lock is held, or nothing is under way, so a first header is at none of
// the members that are asked, or at all.
Task<Result<>> Group::look_for_gone(Op& op, ObjectId object, ObjectPtr state, std::uint32_t asked) {
  if (look(state).sequence == 0) co_return Result<>{};
  auto lacking = co_await lack_header(op, object, asked);
  if (!lacking) co_return pass(lacking);
  std::uint32_t gone = 0;
  {
    const MutexLock lock(mutex_);
    gone = *lacking & ~state->gone;
    state->gone |= gone;
  }
  if (gone != 0) found_gone(object, gone);
  co_return Result<>{};
}

Task<Result<>> Group::write_header(Op& op, ObjectId object, SumHeader header, std::uint32_t mask) {
  const auto bytes = encode(header);
  std::vector<Buffer> data(1);
  auto buffer = parts_.pool.allocate(bytes.size());
  if (!buffer) co_return pass(buffer);
  std::ranges::copy(bytes, buffer->data());
  data[0] = std::move(*buffer);
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    calls_.write(op, join, member, sums_of(object), 0, share_all(data), Stability::kFileSync);
  }
  co_await join;
  if (op.failed != 0) co_return parity::member_failed();
  co_return Result<>{};
}

Task<Result<std::uint32_t>> Group::lack_header(Op& op, ObjectId object, std::uint32_t asked) {
  std::vector<MemberRead> headers(members());
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((asked >> member & 1) == 0) continue;
    calls_.read(op, join, member, sums_of(object), 0, SumHeader::kBytes, headers[member]);
  }
  co_await join;
  if (auto good = outcome(op); !good) co_return pass(good);
  std::uint32_t lacking = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if ((asked >> member & 1) == 0 || headers[member].unread) continue;
    auto bytes = headers[member].payload.flatten();
    if (!bytes) co_return pass(bytes);
    if (all_zeros(*bytes)) lacking |= std::uint32_t{1} << member;
  }
  co_return lacking;
}

Task<Result<>> Group::flush_header(Op& op, ObjectId object, ObjectPtr state) {
  if (auto known = co_await gone_in(op, object); !known) co_return pass(known);
  const Hold hold = co_await lock(object, kHeaderRange);
  if (!look(state).header_dirty) co_return Result<>{};
  // A header at a member hides that the member has lost the object, so that is looked for before.
  auto looked = co_await look_for_gone(op, object, state, calls_.readable(op.mode));
  if (!looked) co_return looked;
  co_return co_await flush_held(op, object, state);
}

Task<Result<>> Group::is_back(Op& op, ObjectId object, ObjectPtr state) {
  const Hold hold = co_await lock(object, kHeaderRange);
  {
    const MutexLock lock(mutex_);
    if (!state->exists || state->gone == 0) co_return Result<>{};
    state->gone = 0;
    state->header_dirty = true;
  }
  co_return co_await flush_held(op, object, state);
}

// Precondition: the header's lock is held.
Task<Result<>> Group::flush_held(Op& op, ObjectId object, ObjectPtr state) {
  std::uint32_t lacks = 0;
  if (op.mode.rebuilding && look(state).sequence > 0) {
    auto lacking = co_await lack_header(op, object, std::uint32_t{1} << op.mode.out);
    if (!lacking) co_return pass(lacking);
    lacks = *lacking;
  }
  SumHeader header;
  std::uint32_t gone = 0;
  {
    const MutexLock lock(mutex_);
    if (!state->header_dirty) co_return Result<>{};
    state->header_dirty = false;
    header = {.sequence = ++state->sequence, .size = state->size};
    gone = state->gone | lacks;
  }
  const std::uint32_t mask = calls_.writable(op.mode) & ~gone;
  const bool first = header.sequence == 1;
  auto room = co_await calls_.ask_room(op, object, {}, first ? mask : 0);
  if (mask == 0) room = fail(Errc::kIo, "all members have lost " + to_string(object));
  if (!room) {
    const MutexLock lock(mutex_);
    state->header_dirty = true;
    --state->sequence;
    co_return room;
  }
  auto written = co_await write_header(op, object, header, mask);
  if (!written) {
    const MutexLock lock(mutex_);
    state->header_dirty = true;
    if (op.failed == 0) --state->sequence;  // for want of memory it is at none
  }
  co_return written;
}

// With nothing under way, and one member failing: its header at the others, if that is dirty. As in
// flush_header() it must not hide that one of them has lost the object. False: another one fails.
Task<bool> Group::flush_at(Op& op, ObjectId object, ObjectPtr state, std::uint32_t there) {
  const Object known = look(state);
  if (!known.exists || !known.header_dirty) co_return true;
  for (;;) {
    auto looked = co_await look_for_gone(op, object, state, there);
    if (looked) break;
    if (op.failed != 0 || !(looked.error() == Errc::kBusy)) co_return false;
    op.busy = false;
    co_await wait_a_moment();
  }
  SumHeader header;
  std::uint32_t gone = 0;
  {
    const MutexLock lock(mutex_);
    state->header_dirty = false;
    header = {.sequence = ++state->sequence, .size = state->size};
    gone = state->gone;
  }
  for (;;) {
    auto written = co_await write_header(op, object, header, there & ~gone);
    if (written) co_return true;
    if (op.failed != 0 || !(written.error() == Errc::kBusy)) co_return false;
    co_await wait_a_moment();
  }
}

Object Group::look(const ObjectPtr& state) const {
  const MutexLock lock(mutex_);
  return *state;
}

void Group::extend(const ObjectPtr& state, std::uint64_t end) {
  const MutexLock lock(mutex_);
  if (!state->exists || end > state->size) state->header_dirty = true;
  state->exists = true;
  state->size = std::max(state->size, end);
}

void Group::set_size(const ObjectPtr& state, std::uint64_t size) {
  const MutexLock lock(mutex_);
  state->size = size;
  state->header_dirty = true;
}

void Group::header_is_wrong(const ObjectPtr& state, std::uint32_t gone) {
  const MutexLock lock(mutex_);
  state->header_dirty = true;
  state->gone = gone;
}

Task<Result<>> Group::load(Op& op, Image& image, std::uint32_t mask) {
  if (auto loaded = co_await calls_.load(op, image, mask); !loaded) co_return loaded;
  if (is_recovering()) co_return Result<>{};
  auto state = co_await find_in(op, image.object);
  if (!state) co_return pass(state);
  auto gone = co_await gone_in(op, image.object, blank_at(geometry(), image, look(*state).size));
  if (!gone) co_return pass(gone);
  image.distrust(*gone);
  co_return Result<>{};
}

Task<Result<>> Group::write(Op& op, ObjectId object, std::vector<MemberWrite> writes,
                            std::uint64_t size, Stability wanted) {
  std::erase_if(writes, [&op](const MemberWrite& w) { return !op.mode.writable(w.member); });
  auto room = co_await calls_.ask_room(op, object, ranges_of(writes), 0);
  if (!room) co_return room;
  const bool logged = op.mode.out >= 0;
  if (logged) {
    wanted = Stability::kFileSync;
    LogContent content{.object = object, .size = size};
    for (const MemberWrite& w : writes) {
      if (!op.mode.readable(w.member)) continue;
      LogContent::Piece piece{.member = w.member, .sums = w.sums, .offset = w.offset};
      for (const Buffer& part : w.pieces) {
        piece.bytes.insert(piece.bytes.end(), part.span().begin(), part.span().end());
      }
      content.pieces.push_back(std::move(piece));
    }
    if (auto kept = co_await log_content(encode(content)); !kept) co_return kept;
  }
  auto written = co_await calls_.write_all(op, object, std::move(writes), wanted);
  // One that did not get in place stays: only recovery can go on from there.
  if (logged && (op.failed & calls_.readable(op.mode)) == 0) content_in_place();
  co_return written;
}

}  // namespace weft::ds::parity
