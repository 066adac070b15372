// Room at the members of a parity group: no row is half written because one of them is full, or
// cannot hold an object of that length.
//
//  - Before anything of a write is written, members that are nearly full are asked for room
//    (Store::allocate). One that has none refuses it while nothing has been written. A member is
//    nearly full when what is free there is little for a second of writes, by anybody, since what
//    is known of it is about so old; or when it has no reserve.
//  - At each member an object of no file holds a reserve. It is for what must be written all the
//    same: by recovery, with the zeros behind a cut, where a member ran full between one look and
//    the next. The first of these that finds no room gives the reserve up. It is taken again when
//    there is room for it, and not so soon that it would be taken from them.
//  - How long an object may be is its file system's to say, 16 TiB less a block with ext4. Before a
//    longer one than any was, an object of no file is given that length, which takes no room.
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
  struct Limits {
    std::uint64_t reserve = 0;                           // bytes at each member
    std::uint64_t sure_length = std::uint64_t{1} << 40;  // of objects, that nobody asks for
  };
  MemberRoom(std::vector<Store*> members, Clock& clock, Limits limits)
      : members_(std::move(members)),
        clock_(clock),
        reserve_(limits.reserve),
        sure_length_(limits.sure_length),
        places_(members_.size()) {
    for (Place& place : places_) place.fits.store(sure_length_);
  }

  [[nodiscard]] bool nearly_full(unsigned member) const;
  // The reserve is in use, or lost, or was never taken.
  [[nodiscard]] bool lacks_reserve(unsigned member) const {
    return reserve_ > 0 && !places_[member].reserved.load();
  }
  // At members that lack it, have twice as much free, and did not give it up within this time.
  Task<bool> take_reserve(std::uint32_t mask, Nanoseconds after);
  // What it held is free when this is done.
  Task<bool> give_reserve(unsigned member);
  // It is known to.
  [[nodiscard]] bool surely_fits(unsigned member, std::uint64_t length) const {
    return length <= places_[member].fits.load();
  }
  // Whether an object of this many bytes fits into the member's file system. The error is the
  // member's: it could not be asked.
  Task<Result<bool>> fits(unsigned member, std::uint64_t length);
  // Another store is the member now.
  void forget(unsigned member);
  // What is free there for others than the reserve.
  [[nodiscard]] Result<StoreStat> usage(unsigned member) const;

 private:
  struct Place {
    std::atomic<bool> reserved{false};
    std::atomic<TimePoint> given{TimePoint::min()};  // when
    std::atomic<std::uint64_t> fits{0};              // objects of that many bytes
    std::atomic<std::uint64_t> exceeds{kNoData};     // and none of that many
  };

  [[nodiscard]] std::uint64_t reserve_of(const StoreStat& usage) const;

  const std::vector<Store*> members_;
  Clock& clock_;
  const std::uint64_t reserve_;
  const std::uint64_t sure_length_;
  std::atomic<std::uint32_t> asked_{0};
  std::vector<Place> places_;
};

}  // namespace weft::ds::parity
