// What is known of objects: their headers at the members, and who has lost one.
#include "dataserver/parity/group.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

namespace weft::ds::parity {

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
// must not wait for those that are under way and wait for it.
Task<Result<Group::ObjectPtr>> Group::find_in(Op& op, ObjectId object) {
  const auto known = [this, &object]() -> ObjectPtr {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(object);
    return found == objects_.end() ? nullptr : found->second;
  };
  if (auto state = known()) co_return state;
  const Hold hold = co_await lock(object, kHeaderRange);
  if (auto state = known()) co_return state;
  auto state = std::make_shared<Object>();
  if (auto read = co_await read_header(op, object, *state); !read) co_return pass(read);
  if (state->gone != 0) found_gone(object, state->gone);
  const MutexLock lock(mutex_);
  state->generation = generation_;
  forget_some();
  objects_[object] = state;
  co_return state;
}

void Group::forget_some() {
  if (objects_.size() < parts_.options.max_objects) return;
  for (auto at = objects_.begin(); at != objects_.end();) {
    const bool kept =
        at->second.use_count() > 1 || at->second->header_dirty || dirty_.contains(at->first);
    at = kept ? std::next(at) : objects_.erase(at);
  }
}

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
    if (all_zeros(*bytes)) blank |= std::uint32_t{1} << member;
    const auto header = decode_sum_header(*bytes);
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
  spdlog::error("event=parity_object_gone object={} members={:#x} next=\"a scrub brings it back\"",
                to_string(object), at);
  manager_.object_gone();
}

std::uint32_t Group::gone_of(const ObjectId& object) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  return found == objects_.end() ? 0 : found->second->gone;
}

Task<Result<>> Group::write_header(Op& op, ObjectId object, SumHeader header, std::uint32_t mask) {
  const auto bytes = encode(header);
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    auto buffer = parts_.pool.allocate(bytes.size());
    if (!buffer) {
      co_await join;
      co_return pass(buffer);
    }
    std::ranges::copy(bytes, buffer->data());
    std::vector<Buffer> data;
    data.push_back(std::move(*buffer));
    calls_.write(op, join, member, sums_of(object), 0, std::move(data), Stability::kFileSync);
  }
  co_await join;
  if (op.failed != 0) co_return parity::member_failed();
  co_return Result<>{};
}

Task<Result<>> Group::flush_header(Op& op, ObjectId object, ObjectPtr state) {
  const Hold hold = co_await lock(object, kHeaderRange);
  SumHeader header;
  std::uint32_t gone = 0;
  {
    const MutexLock lock(mutex_);
    if (!state->header_dirty) co_return Result<>{};
    state->header_dirty = false;
    header = {.sequence = ++state->sequence, .size = state->size};
    gone = state->gone;
  }
  const std::uint32_t mask = calls_.writable(op.mode) & ~gone;
  auto written = co_await write_header(op, object, header, mask);
  if (!written) {
    const MutexLock lock(mutex_);
    state->header_dirty = true;
  }
  co_return written;
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

bool Group::is_back(const ObjectPtr& state) {
  const MutexLock lock(mutex_);
  if (!state->exists || state->gone == 0) return false;
  state->gone = 0;
  state->header_dirty = true;
  return true;
}

Task<Result<>> Group::load(Op& op, Image& image, std::uint32_t mask) {
  auto loaded = co_await calls_.load(op, image, mask);
  if (loaded) image.distrust(gone_of(image.object));
  co_return loaded;
}

Task<Result<>> Group::write(Op& op, ObjectId object, std::vector<MemberWrite> writes,
                            std::uint64_t size, Stability wanted) {
  std::erase_if(writes, [&op](const MemberWrite& w) { return !op.mode.writable(w.member); });
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
