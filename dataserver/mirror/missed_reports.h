// Tells the metadata server which regions of an object a copy missed, once for all writes that
// wait for it, and again while it cannot be reached (ring/rounds.h).
//
// What was told of partners is entered in the CopyBook, so that a region is reported once.
//
// Threading: an instance belongs to one I/O thread. Ownership: as Rounds.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "dataserver/mirror/copy_book.h"
#include "dataserver/mirror/mirror_authority.h"
#include "dataserver/ring/rounds.h"

namespace weft::ds {

class MissedReports {
 public:
  using Done = std::move_only_function<void(Result<>)>;

  MissedReports(IoRing& ring, Clock& clock, RoundLimits limits, MirrorAuthority& authority,
                CopyBook& book)
      : ring_(ring), clock_(clock), limits_(limits), authority_(authority), book_(book) {}

  // Success: durable at the metadata server. kBusy when it could not be reached in time; else its
  // own error. The extents are made whole regions.
  struct What {
    std::uint32_t epoch = 0;
    bool failed_here = false;  // the own store failed too
  };
  void report(const layout::ObjectId& object, std::uint32_t partner, What what,
              const ExtentSet& extents, Done done);
  // As report(), of what this server's own copy lacks. `own` is its id.
  void report_own(const layout::ObjectId& object, std::uint32_t own, std::uint32_t epoch,
                  const ExtentSet& extents, Done done);

 private:
  struct Request {
    std::uint32_t epoch = 0;
    ExtentSet extents;
    bool failed_here = false;
    void merge(const Request& other) {
      epoch = std::max(epoch, other.epoch);
      failed_here = failed_here || other.failed_here;
      extents.add(other.extents, rpc::control::kMaxExtents);
    }
  };
  using PerCopy = Rounds<Request, void>;
  [[nodiscard]] PerCopy& rounds(std::uint32_t ds_id);
  [[nodiscard]] static Request request_of(What what, const ExtentSet& extents);
  [[nodiscard]] static Result<> answer_of(Result<> answer);

  IoRing& ring_;
  Clock& clock_;
  const RoundLimits limits_;
  MirrorAuthority& authority_;
  CopyBook& book_;
  std::map<std::uint32_t, std::unique_ptr<PerCopy>> copies_;
};

}  // namespace weft::ds
