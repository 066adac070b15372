#include "dataserver/mirror/missed_reports.h"

namespace weft::ds {

namespace control = rpc::control;

MissedReports::PerPartner& MissedReports::rounds(std::uint32_t partner) {
  auto& found = partners_[partner];
  if (found == nullptr) {
    const auto send = [this, partner](const layout::ObjectId& object, const Request& request,
                                      PerPartner::Done done) {
      control::CopyMissed missed{
          .object = object, .ds_id = partner, .object_epoch = request.epoch, .extents = {}};
      for (const ByteRange& range : request.extents.extents()) {
        missed.extents.push_back({range.begin, range.end - range.begin});
      }
      authority_.copy_missed(missed, std::move(done));
    };
    found = std::make_unique<PerPartner>(ring_, clock_, limits_, send);
  }
  return *found;
}

void MissedReports::report(const layout::ObjectId& object, std::uint32_t partner,
                           std::uint32_t epoch, const ExtentSet& extents, Done done) {
  Request request{.epoch = epoch, .extents = {}};
  for (const ByteRange& range : extents.extents()) {
    request.extents.add(whole_regions(range), control::kMaxExtents);
  }
  auto told = request.extents;
  rounds(partner).ask(object, request,
                      [this, object, partner, epoch, told = std::move(told),
                       done = std::move(done)](Result<> answer) mutable {
                        if (answer) {
                          book_.mark_missed(object, partner, epoch, told);
                        } else if (is_transient(answer.error())) {
                          answer = fail(Errc::kBusy, "the metadata server does not answer: " +
                                                         answer.error().describe());
                        }
                        done(std::move(answer));
                      });
}

}  // namespace weft::ds
