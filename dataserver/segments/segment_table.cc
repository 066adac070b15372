#include "dataserver/segments/segment_table.h"

#include <algorithm>
#include <bitset>
#include <unordered_set>
#include <utility>

#include "dataserver/segments/segment_memory.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

std::uint64_t first_strip(std::uint64_t begin) { return begin / kStrip; }
// The first that is not touched.
std::uint64_t last_strip(std::uint64_t end) { return end / kStrip + (end % kStrip == 0 ? 0 : 1); }

}  // namespace

// Guarded by the table's mutex, but for what is const.
class SegmentTable::Segment {
 public:
  Segment(SegmentRecord what, StripGroup without)
      : record(std::move(what)), absent(std::move(without)) {}
  [[nodiscard]] std::uint64_t bytes() const { return record.strips.size() * kStrip; }
  [[nodiscard]] std::size_t pieces() const { return record.sums.size(); }

  const SegmentRecord record;
  const StripGroup absent;  // of the group, but without bytes
  bool is_doomed = false;
  std::size_t coming = 0;                               // pieces that are being read
  Buffer memory;                                        // empty: not in memory
  std::bitset<kMostPieces> there;                       // of the memory
  std::vector<std::pair<std::size_t, Waiter>> waiters;  // each for a piece
  Age::iterator use;                                    // in by_use_, unless doomed
  Age::iterator kept;  // in in_memory_, while there is memory and nothing is coming
};

SegmentTable::SegmentTable(const SegmentOptions& options)
    : options_(options), memory_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

std::uint64_t SegmentTable::number_of(const SegmentPtr& segment) { return segment->record.number; }
std::size_t SegmentTable::pieces_of(const SegmentPtr& segment) { return segment->pieces(); }
std::uint64_t SegmentTable::sum_of(const SegmentPtr& segment, std::size_t piece) {
  return segment->record.sums[piece];
}

// --- Reading -------------------------------------------------------------------------------------

const SegmentTable::Place* SegmentTable::place_of(const Strip& strip) const {
  const auto object = objects_.find(strip.object);
  if (object == objects_.end()) return nullptr;
  const auto place = object->second.strips.find(strip.index);
  return place == object->second.strips.end() ? nullptr : &place->second;
}

// What is asked for, or told, under the numbers that entries had is not heard.
void SegmentTable::forget_ends() {
  for (auto& [id, object] : objects_) {
    object.end = 0;
    object.end_known = false;
    object.entry = ++last_entry_;
  }
}

SegmentTable::Found SegmentTable::find(const layout::ObjectId& id, std::uint64_t offset,
                                       std::uint32_t count, WriteVerifier verifier) {
  Found found;
  const MutexLock lock(mutex_);
  if (std::exchange(verifier_, verifier) != verifier) forget_ends();
  const auto known = objects_.find(id);
  if (known == objects_.end() || count == 0) return found;
  Object& object = known->second;
  const auto begins_in = object.strips.find(first_strip(offset));
  if (begins_in == object.strips.end() || begins_in->second.bytes == 0) return found;
  if (begins_in->second.segment->is_doomed) return found;
  if (!object.end_known) {
    found.kind = Found::Kind::kEnd;
    found.entry = object.entry;
    return found;
  }
  if (offset >= object.end) return found;
  const std::uint64_t end = offset + std::min<std::uint64_t>(count, object.end - offset);
  Payload payload;
  auto at = begins_in;
  for (std::uint64_t from = offset; from < end; ++at) {
    const std::uint64_t index = first_strip(from);
    if (at == object.strips.end() || at->first != index) return found;
    const auto& [segment, slot, bytes] = at->second;
    const std::uint64_t skip = from - index * kStrip;
    const std::uint64_t size = std::min(end - from, kStrip - skip);
    if (segment->is_doomed || skip + size > bytes) return found;
    if (const std::size_t piece = slot / kStripsInPiece; !segment->there[piece]) {
      found.kind = Found::Kind::kLoad;
      found.segment = segment;
      found.piece = piece;
      return found;
    }
    by_use_.splice(by_use_.begin(), by_use_, segment->use);
    if (segment->coming == 0) {
      in_memory_.splice(in_memory_.begin(), in_memory_, segment->kept);
    }
    auto part = segment->memory.share(slot * kStrip + skip, size);
    WEFT_ASSERT(part.has_value());
    payload.append(std::move(*part));
    from += size;
  }
  found.kind = Found::Kind::kBytes;
  found.result = {.payload = std::move(payload), .object_end = object.end};
  return found;
}

// What writes have moved it to meanwhile stays; nothing makes it shorter while the entry is there.
void SegmentTable::learn_end(const layout::ObjectId& object, std::uint64_t entry,
                             std::uint64_t end) {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end() || found->second.entry != entry) return;
  found->second.end = std::max(found->second.end, end);
  found->second.end_known = true;
}

// Memory that counts until the last reply that has a part of it is gone. Empty: no room.
Buffer SegmentTable::memory_for(std::uint64_t bytes) {
  if (bytes > options_.cache_bytes) return {};  // of a time when there was more memory
  while (memory_->load() + bytes > options_.cache_bytes) {
    if (in_memory_.empty()) return {};
    forget_memory(*in_memory_.back());
  }
  Buffer memory = segment_memory(bytes, [bytes, sum = memory_] { sum->fetch_sub(bytes); });
  if (memory.empty()) return memory;
  memory_->fetch_add(bytes);
  return memory;
}

void SegmentTable::forget_memory(Segment& segment) {
  if (segment.memory.empty()) return;
  if (segment.coming == 0) in_memory_.erase(segment.kept);
  segment.memory.reset();
  segment.there.reset();
}

SegmentTable::Load SegmentTable::begin_load(const SegmentPtr& segment, std::size_t piece,
                                            Waiter waiter, Buffer& memory) {
  const MutexLock lock(mutex_);
  if (segment->is_doomed) return Load::kRefused;
  if (segment->there[piece]) return Load::kThere;
  if (segment->coming > 0) {
    segment->waiters.emplace_back(piece, std::move(waiter));
    return Load::kJoined;
  }
  memory = memory_for(segment->bytes());
  if (memory.empty()) return Load::kRefused;
  auto shared = memory.share(0, memory.size());
  WEFT_ASSERT(shared.has_value());
  segment->memory = std::move(*shared);
  segment->coming = segment->pieces();
  segment->waiters.emplace_back(piece, std::move(waiter));
  return Load::kStart;
}

bool SegmentTable::is_doomed(const SegmentPtr& segment) const {
  const MutexLock lock(mutex_);
  return segment->is_doomed;
}

// The last of them says whether it can be kept.
void SegmentTable::piece_came(const SegmentPtr& segment, std::size_t piece, bool whole) {
  if (whole && !segment->memory.empty()) segment->there.set(piece);
  if (segment->coming > 1) {
    --segment->coming;
    return;
  }
  const bool all = segment->there.count() == segment->pieces();
  if (!all) forget_memory(*segment);
  segment->coming = 0;
  if (!all) return;
  view_.loads.fetch_add(1);
  view_.loaded_bytes.fetch_add(segment->bytes());
  in_memory_.push_front(segment);
  segment->kept = in_memory_.begin();
}

SegmentTable::Loaded SegmentTable::end_load(const SegmentPtr& segment, std::size_t piece,
                                            Came came) {
  const MutexLock lock(mutex_);
  Loaded loaded{.waiters = {}, .dropped = came == Came::kDamaged && !segment->is_doomed};
  if (loaded.dropped) {
    view_.damaged.fetch_add(1);
    doom(segment);
  }
  piece_came(segment, piece, came == Came::kWhole);
  const bool ended = segment->coming == 0 || segment->is_doomed;
  std::erase_if(segment->waiters, [&](auto& waiter) {
    if (!ended && waiter.first != piece) return false;
    loaded.waiters.push_back(std::move(waiter.second));
    return true;
  });
  return loaded;
}

// --- Changing ------------------------------------------------------------------------------------

void SegmentTable::doom(const SegmentPtr& segment) {
  if (std::exchange(segment->is_doomed, true)) return;
  forget_memory(*segment);
  by_use_.erase(segment->use);
  view_.segments.store(by_use_.size());
}

void SegmentTable::spoil(const layout::ObjectId& object, std::uint64_t first, std::uint64_t last) {
  if (!build_) return;
  build_->spoiled |= std::ranges::any_of(build_->group, [&](const Strip& strip) {
    return strip.object == object && strip.index >= first && strip.index < last;
  });
}

std::vector<std::uint64_t> SegmentTable::begin_change(const layout::ObjectId& id,
                                                      std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> numbers;
  std::unordered_set<std::uint64_t> seen;  // an object may be in any number of segments
  const std::uint64_t first = first_strip(begin);
  const std::uint64_t last = last_strip(end);
  const MutexLock lock(mutex_);
  ++changing_[id];
  spoil(id, first, last);
  const auto known = objects_.find(id);
  if (known == objects_.end()) return numbers;
  const auto& strips = known->second.strips;
  for (auto at = strips.lower_bound(first); at != strips.end() && at->first < last; ++at) {
    const SegmentPtr& segment = at->second.segment;
    if (!seen.insert(segment->record.number).second) continue;
    if (!segment->is_doomed) view_.invalidated.fetch_add(1);
    doom(segment);
    numbers.push_back(segment->record.number);
  }
  return numbers;
}

void SegmentTable::removed(std::uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;  // by another change, a moment ago
  const SegmentPtr segment = found->second;
  WEFT_ASSERT(segment->is_doomed);
  for (const SegmentStrip& strip : segment->record.strips) forget(strip.strip);
  for (const Strip& strip : segment->absent) forget(strip);
  bytes_ -= segment->bytes();
  view_.bytes.store(bytes_);
  segments_.erase(found);
}

void SegmentTable::end_change(const layout::ObjectId& object,
                              std::optional<std::uint64_t> object_end) {
  const MutexLock lock(mutex_);
  const auto changing = changing_.find(object);
  WEFT_ASSERT(changing != changing_.end());
  if (--changing->second == 0) changing_.erase(changing);
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  if (object_end) {
    found->second.end = std::max(found->second.end, *object_end);
  } else {
    found->second.end_known = false;
    found->second.entry = ++last_entry_;  // an answer that is on its way may be of before
  }
}

// --- Building ------------------------------------------------------------------------------------

// Whether the group is, strip for strip, what a segment has.
bool SegmentTable::is_segment(const StripGroup& group) const {
  const Place* first = place_of(group.front());
  if (first == nullptr) return false;
  const Segment& segment = *first->segment;
  if (segment.record.strips.size() + segment.absent.size() != group.size()) return false;
  return std::ranges::all_of(group, [&](const Strip& strip) WEFT_REQUIRES(mutex_) {
    const Place* place = place_of(strip);
    return place != nullptr && place->segment == first->segment;
  });
}

bool SegmentTable::buildable(const StripGroup& group) const {
  return std::ranges::none_of(group, [&](const Strip& strip) WEFT_REQUIRES(mutex_) {
    const Place* place = place_of(strip);
    return changing_.contains(strip.object) || (place != nullptr && place->segment->is_doomed);
  });
}

std::optional<std::uint64_t> SegmentTable::begin_build(const StripGroup& group) {
  WEFT_ASSERT(!group.empty() && group.size() <= kStripsInSegment);
  const MutexLock lock(mutex_);
  WEFT_ASSERT(!build_);
  if (group.size() * kStrip > options_.size || group.size() * kStrip > options_.cache_bytes) {
    return {};
  }
  if (!buildable(group) || is_segment(group)) return {};
  build_.emplace(Build{next_number_++, group});
  return build_->number;
}

bool SegmentTable::spoiled() const {
  const MutexLock lock(mutex_);
  return !build_ || build_->spoiled;
}

std::vector<std::uint64_t> SegmentTable::make_room(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  WEFT_ASSERT(build_.has_value());
  std::vector<std::uint64_t> numbers;
  std::uint64_t freed = 0;
  const auto replace = [&](const SegmentPtr& segment) WEFT_REQUIRES(mutex_) {
    if (segment->is_doomed) return;
    view_.replaced.fetch_add(1);
    freed += segment->bytes();
    numbers.push_back(segment->record.number);
    doom(segment);
  };
  for (const Strip& strip : build_->group) {
    if (const Place* place = place_of(strip)) replace(SegmentPtr(place->segment));
  }
  while (bytes_ - freed + bytes > options_.size && !by_use_.empty()) {
    replace(SegmentPtr(by_use_.back()));
  }
  return numbers;
}

void SegmentTable::place(const Strip& strip, Place at) {
  Object& object = objects_[strip.object];
  if (object.strips.empty()) object.entry = ++last_entry_;
  const bool fresh = object.strips.emplace(strip.index, std::move(at)).second;
  WEFT_ASSERT(fresh);
}

void SegmentTable::forget(const Strip& strip) {
  const auto object = objects_.find(strip.object);
  WEFT_ASSERT(object != objects_.end());
  object->second.strips.erase(strip.index);
  if (object->second.strips.empty()) objects_.erase(object);
}

void SegmentTable::add(SegmentRecord record, StripGroup absent) {
  const auto segment = std::make_shared<Segment>(std::move(record), std::move(absent));
  std::uint32_t slot = 0;
  for (const SegmentStrip& strip : segment->record.strips) {
    place(strip.strip, {segment, slot++, strip.bytes});
  }
  for (const Strip& strip : segment->absent) place(strip, {segment, 0, 0});
  by_use_.push_front(segment);
  segment->use = by_use_.begin();
  bytes_ += segment->bytes();
  segments_.emplace(segment->record.number, segment);
  view_.segments.store(by_use_.size());
  view_.bytes.store(bytes_);
}

bool SegmentTable::end_build(std::optional<SegmentRecord> record) {
  const MutexLock lock(mutex_);
  WEFT_ASSERT(build_.has_value());
  Build build = std::move(*std::exchange(build_, {}));
  if (!record || build.spoiled) return false;
  // Room was made for it, and may not be there: a removal has failed.
  const std::uint64_t bytes = record->strips.size() * kStrip;
  const auto is_taken = [&](const Strip& strip)
                            WEFT_REQUIRES(mutex_) { return place_of(strip) != nullptr; };
  const bool taken = std::ranges::any_of(build.group, is_taken);
  if (taken || bytes_ + bytes > options_.size) return false;
  view_.built.fetch_add(1);
  view_.built_bytes.fetch_add(bytes);
  std::erase_if(build.group, [&](const Strip& strip) {
    return std::ranges::find(record->strips, strip, &SegmentStrip::strip) != record->strips.end();
  });
  add(std::move(*record), std::move(build.group));
  return true;
}

// --- Starting and keeping ------------------------------------------------------------------------

void SegmentTable::restore(SegmentIndex index) {
  const MutexLock lock(mutex_);
  WEFT_ASSERT(segments_.empty());
  next_number_ = std::max(next_number_, index.next_number);
  for (SegmentRecord& record : index.segments) add(std::move(record), {});
}

SegmentIndex SegmentTable::index() const {
  const MutexLock lock(mutex_);
  SegmentIndex index{.next_number = next_number_, .segments = {}};
  for (const SegmentPtr& segment : by_use_) index.segments.push_back(segment->record);
  std::ranges::sort(index.segments, {}, &SegmentRecord::number);
  return index;
}

std::vector<std::uint64_t> SegmentTable::doomed() const {
  const MutexLock lock(mutex_);
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, segment] : segments_) {
    if (segment->is_doomed) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace weft::ds
