// Room at the members of a parity group: no row is half written because one of them is full.
//
//  - Before anything of a write is written, members that are nearly full are asked for room
//    (Store::allocate). One that has none refuses it while nothing has been written. A member is
//    nearly full when what is free there is little for a second of writes, by anybody, since what
//    is known of it is about so old; or when it has no reserve.
//  - At each member an object of no file holds a reserve. It is for what must be written all the
//    same: by recovery, with the zeros behind a cut, where a member ran full between one look and
//    the next. The first of these that finds no room gives the reserve up. It is taken again when
//    there is room for it, and not so soon that it would be taken from them.
//
// Threading: any thread of the group's rings. Takes no lock.
#pragma once

#include <atomic>
#include <vector>

#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/base/task.h"

namespace weft::ds::parity {

class MemberRoom {
 public:
  MemberRoom(std::vector<Store*> members, Clock& clock, std::uint64_t reserve)
      : members_(std::move(members)), clock_(clock), reserve_(reserve), places_(members_.size()) {}

  [[nodiscard]] bool nearly_full(unsigned member) const;
  // The reserve is in use, or lost, or was never taken.
  [[nodiscard]] bool lacks_reserve(unsigned member) const {
    return reserve_ > 0 && !places_[member].reserved.load();
  }
  // At members that lack it, have twice as much free, and did not give it up within this time.
  Task<bool> take_reserve(std::uint32_t mask, Nanoseconds after);
  // What it held is free when this is done.
  Task<bool> give_reserve(unsigned member);
  // Another store is the member now.
  void forget_reserve(unsigned member) { places_[member].reserved.store(false); }
  // What is free there for others than the reserve.
  [[nodiscard]] Result<StoreStat> usage(unsigned member) const;

 private:
  struct Place {
    std::atomic<bool> reserved{false};
    std::atomic<TimePoint> given{TimePoint::min()};  // when
  };

  [[nodiscard]] std::uint64_t reserve_of(const StoreStat& usage) const;

  const std::vector<Store*> members_;
  Clock& clock_;
  const std::uint64_t reserve_;
  std::vector<Place> places_;
};

}  // namespace weft::ds::parity
