#include "dataserver/mirror/missed_reports.h"

namespace weft::ds {

namespace control = rpc::control;

MissedReports::PerCopy& MissedReports::rounds(std::uint32_t ds_id) {
  auto& found = copies_[ds_id];
  if (found == nullptr) {
    const auto send = [this, ds_id](const layout::ObjectId& object, const Request& request,
                                    PerCopy::Done done) {
      control::CopyMissed missed{.object = object,
                                 .ds_id = ds_id,
                                 .object_epoch = request.epoch,
                                 .extents = {},
                                 .failed_here = request.failed_here};
      for (const ByteRange& range : request.extents.extents()) {
        missed.extents.push_back({range.begin, range.end - range.begin});
      }
      authority_.copy_missed(missed, std::move(done));
    };
    found = std::make_unique<PerCopy>(ring_, clock_, limits_, send);
  }
  return *found;
}

MissedReports::Request MissedReports::request_of(What what, const ExtentSet& extents) {
  Request request{.epoch = what.epoch, .extents = {}, .failed_here = what.failed_here};
  for (const ByteRange& range : extents.extents()) {
    request.extents.add(whole_regions(range), control::kMaxExtents);
  }
  return request;
}

Result<> MissedReports::answer_of(Result<> answer) {
  if (answer || !is_transient(answer.error())) return answer;
  return fail(Errc::kBusy, "the metadata server does not answer: " + answer.error().describe());
}

void MissedReports::report(const layout::ObjectId& object, std::uint32_t partner, What what,
                           const ExtentSet& extents, Done done) {
  const Request request = request_of(what, extents);
  rounds(partner).ask(object, request,
                      [this, object, partner, epoch = what.epoch, told = request.extents,
                       done = std::move(done)](Result<> answer) mutable {
                        if (answer) book_.mark_missed(object, partner, epoch, told);
                        done(answer_of(std::move(answer)));
                      });
}

void MissedReports::report_own(const layout::ObjectId& object, std::uint32_t own,
                               std::uint32_t epoch, const ExtentSet& extents, Done done) {
  rounds(own).ask(
      object, request_of({epoch, false}, extents),
      [done = std::move(done)](Result<> answer) mutable { done(answer_of(std::move(answer))); });
}

}  // namespace weft::ds
