// Objects of a parity group: their sizes, their dirty regions, and the log of these.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "dataserver/parity/parity_internal.h"
#include "dataserver/parity/parity_scrub.h"

namespace weft::ds {

ParityStore::Mark::~Mark() {
  if (store_ == nullptr) return;
  const MutexLock lock(store_->mutex_);
  const auto found = store_->dirty_.find(object_);
  if (found == store_->dirty_.end()) return;  // forgotten meanwhile by recovery
  for (auto at = found->second.lower_bound(first_); at != found->second.end() && at->first <= last_;
       ++at) {
    if (at->second.writers > 0) --at->second.writers;
  }
}

Task<ParityStore::Hold> ParityStore::lock(ObjectId object, ByteRange range) {
  auto start = [this, object, range](auto done) {
    locks_.acquire(object, range,
                   [done = std::move(done)](Hold hold) mutable { done(std::move(hold)); });
  };
  co_return co_await call<Hold>(std::move(start));
}

ByteRange ParityStore::stripe_range(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t width = geometry().width();
  return {begin / width * width, geometry().stripes(end) * width};
}

// --- Sizes ---------------------------------------------------------------------------------------

Task<Result<ParityStore::ObjectPtr>> ParityStore::find(ObjectId object) {
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
Task<Result<ParityStore::ObjectPtr>> ParityStore::find_in(Op& op, ObjectId object) {
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

void ParityStore::forget_some() {
  if (objects_.size() < parts_.options.max_objects) return;
  for (auto at = objects_.begin(); at != objects_.end();) {
    const bool kept =
        at->second.use_count() > 1 || at->second->header_dirty || dirty_.contains(at->first);
    at = kept ? std::next(at) : objects_.erase(at);
  }
}

Task<Result<>> ParityStore::read_header(Op& op, ObjectId object, Object& into) {
  std::vector<Payload> payloads(members());
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    child_read(op, join, member, sums_of(object), 0, SumHeader::kBytes, payloads[member]);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  unsigned same = 0;
  unsigned asked = 0;
  std::uint32_t blank = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.readable(member)) continue;
    ++asked;
    auto bytes = payloads[member].flatten();
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
  into.gone = into.exists ? blank : 0;
  into.header_dirty =
      into.exists && same + static_cast<unsigned>(std::popcount(into.gone)) != asked;
  co_return Result<>{};
}

// A member without a header has lost the object, and gets one only when it has all of the object
// again: until then what it does not have is computed (Image::distrust). A scrub brings it back.
void ParityStore::found_gone(const ObjectId& object, std::uint32_t at) {
  spdlog::error("event=parity_object_gone object={} members={:#x} next=\"a scrub brings it back\"",
                to_string(object), at);
  scrub_->object_gone();
}

std::uint32_t ParityStore::gone_of(const ObjectId& object) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  return found == objects_.end() ? 0 : found->second->gone;
}

Task<Result<>> ParityStore::write_header(Op& op, ObjectId object, SumHeader header,
                                         std::uint32_t mask) {
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
    child_write(op, join, member, sums_of(object), 0, std::move(data), Stability::kFileSync);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  co_return Result<>{};
}

// Durable at all members that are written.
Task<Result<>> ParityStore::flush_header(Op& op, ObjectId object, ObjectPtr state) {
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
  std::uint32_t mask = readable(op.mode);
  if (op.mode.rebuilding) mask |= std::uint32_t{1} << op.mode.out;
  mask &= ~gone;
  auto written = co_await write_header(op, object, header, mask);
  if (!written) {
    const MutexLock lock(mutex_);
    state->header_dirty = true;
  }
  co_return written;
}

// --- Dirty regions -------------------------------------------------------------------------------

Task<Result<>> ParityStore::append(std::vector<std::byte> bytes) {
  auto start = [this, &bytes](auto done) {
    const MutexLock lock(mutex_);
    if (log_bytes_ == 0) {
      auto header = group_log_header();
      bytes.insert(bytes.begin(), header.begin(), header.end());
    }
    log_bytes_ += bytes.size();
    parts_.disk.append(std::move(bytes), true, std::move(done));
    if (log_bytes_ > parts_.options.log_limit) kick();
  };
  auto kept = co_await call<Result<>>(std::move(start));
  if (!kept) break_group();  // what is in the log now is not known
  co_return kept;
}

// What a log must say that begins now, if nothing of its contents is live.
std::vector<std::byte> ParityStore::log_snapshot() const {
  auto bytes = group_log_header();
  const auto add = [&bytes](const LogFrame& frame) {
    const auto encoded = encode(frame);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  };
  for (const auto& [object, regions] : dirty_) {
    for (const auto& [region, state] : regions) add(LogDirty{object, region});
  }
  for (const auto& [object, cut] : cuts_) add(cut);
  return bytes;
}

// With the mutex held, so that everything logged before is in the new log and all else comes after.
void ParityStore::compact(GroupDisk::Done done) {
  auto bytes = log_snapshot();
  log_bytes_ = bytes.size();
  parts_.disk.replace_log(std::move(bytes), std::move(done));
}

Task<Result<ParityStore::Mark>> ParityStore::mark(ObjectId object, std::uint64_t begin,
                                                  std::uint64_t end) {
  const std::uint64_t region = parts_.options.region_bytes;
  const std::uint64_t first = begin / region;
  const std::uint64_t last = std::max(end, begin + 1) - 1;
  std::vector<std::byte> frames;
  {
    const MutexLock lock(mutex_);
    Regions& regions = dirty_[object];
    for (std::uint64_t at = first; at <= last / region; ++at) {
      Region& state = regions[at];
      ++state.writers;
      state.version = next_version_++;
      if (state.logged) continue;
      const auto frame = encode(LogDirty{object, at});
      frames.insert(frames.end(), frame.begin(), frame.end());
    }
  }
  Mark made(*this, object, first, last / region);
  if (frames.empty()) co_return made;
  if (auto kept = co_await append(std::move(frames)); !kept) co_return pass(kept);
  std::size_t count = 0;
  {
    const MutexLock lock(mutex_);
    Regions& regions = dirty_[object];
    for (std::uint64_t at = first; at <= last / region; ++at) regions[at].logged = true;
    for (const auto& [name, of] : dirty_) count += of.size();
  }
  view_.dirty_regions.store(count);
  if (count > parts_.options.max_dirty) kick();
  co_return made;
}

// Regions that nobody has written to since they had these versions are stable everywhere.
void ParityStore::forget_dirty(const ObjectId& object,
                               const std::map<std::uint64_t, std::uint64_t>& versions) {
  const MutexLock lock(mutex_);
  const auto found = dirty_.find(object);
  if (found == dirty_.end()) return;
  for (const auto& [region, version] : versions) {
    const auto at = found->second.find(region);
    if (at == found->second.end()) continue;
    if (at->second.writers == 0 && at->second.version == version) found->second.erase(at);
  }
  if (!found->second.empty()) return;
  dirty_.erase(found);
  auto frame = encode(LogClean{object});
  log_bytes_ += frame.size();
  parts_.disk.append(std::move(frame), false, [](const Result<>&) {});
}

}  // namespace weft::ds
