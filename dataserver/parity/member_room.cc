#include "dataserver/parity/member_room.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

namespace weft::ds::parity {

namespace {

// Of no file, and beside the objects of checksums by which a group's objects are listed.
constexpr layout::ObjectId kReserve{.fileid = 0, .generation = 1, .fsid = 0};
constexpr std::uint32_t kAskedFrom = 2;  // generations

}  // namespace

// Little of a small disk.
std::uint64_t MemberRoom::reserve_of(const StoreStat& usage) const {
  return std::min(reserve_, usage.capacity_bytes / 256);
}

bool MemberRoom::nearly_full(unsigned member) const {
  if (reserve_ == 0) return false;
  if (lacks_reserve(member)) return true;
  const auto usage = members_[member]->usage();
  if (!usage) return true;
  return usage->free_bytes < std::clamp(usage->capacity_bytes / 64, 16 * reserve_, 256 * reserve_);
}

Task<bool> MemberRoom::take_reserve(std::uint32_t mask, Nanoseconds after) {
  for (unsigned member = 0; member < members_.size(); ++member) {
    if ((mask >> member & 1) == 0 || !lacks_reserve(member)) continue;
    Place& place = places_[member];
    const TimePoint given = place.given.load();
    if (given != TimePoint::min() && clock_.now() - given < after) continue;
    const auto usage = members_[member]->usage();
    if (!usage || usage->free_bytes < 2 * reserve_of(*usage)) continue;
    auto taken = co_await call<Result<>>([&](auto done) {
      members_[member]->allocate(kReserve, 0, reserve_of(*usage), std::move(done));
    });
    // Where space cannot be reserved there is nothing to ask for, either.
    if (!taken && taken.error() == Errc::kNotSupported) taken = {};
    // Somebody may have needed it meanwhile: it is taken again at the next time.
    if (taken && place.given.load() == given) place.reserved.store(true);
    if (!taken && taken.error() == Errc::kNoSpace) co_await give_reserve(member);
  }
  co_return true;
}

Task<bool> MemberRoom::give_reserve(unsigned member) {
  Place& place = places_[member];
  place.given.store(clock_.now());
  if (place.reserved.exchange(false)) {
    spdlog::warn("event=parity_reserve_used member={}", member);
  }
  auto given = co_await call<Result<ObjectStat>>(
      [&](auto done) { members_[member]->truncate(kReserve, 0, std::move(done)); });
  co_return given.has_value();
}

void MemberRoom::forget(unsigned member) {
  Place& place = places_[member];
  place.reserved.store(false);
  place.fits.store(sure_length_);
  place.exceeds.store(kNoData);
}

Task<Result<bool>> MemberRoom::fits(unsigned member, std::uint64_t length) {
  Place& place = places_[member];
  while (length > place.fits.load() && length < place.exceeds.load()) {
    // Of another's question it would lose the length.
    const layout::ObjectId object{
        .fileid = 0, .generation = kAskedFrom + asked_.fetch_add(1), .fsid = 0};
    // More than is wanted, so that longer and longer ones are seldom asked for.
    const std::uint64_t ample = std::bit_ceil(length);
    const std::uint64_t asked = ample < place.exceeds.load() ? ample : length;
    auto given = co_await call<Result<ObjectStat>>(
        [&](auto done) { members_[member]->truncate(object, asked, std::move(done)); });
    auto removed = co_await call<Result<>>(
        [&](auto done) { members_[member]->remove(object, std::move(done)); });
    if (!given) co_return pass(given);
    if (!removed && !(removed.error() == Errc::kNotFound)) co_return pass(removed);
    (given->size >= asked ? place.fits : place.exceeds).store(asked);
  }
  co_return length <= place.fits.load();
}

Result<StoreStat> MemberRoom::usage(unsigned member) const {
  auto usage = members_[member]->usage();
  if (!usage || !lacks_reserve(member)) return usage;
  usage->free_bytes -= std::min(usage->free_bytes, reserve_of(*usage));
  return usage;
}

}  // namespace weft::ds::parity
