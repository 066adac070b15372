#include "dataserver/nfs/patient_sizes.h"

#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

// What is transient for us is final for the client: it must not wait here any longer.
template <class T>
Result<T> settle(Result<T> answer) {
  if (answer || !is_transient(answer.error())) return answer;
  return fail(Errc::kFenced, "the metadata server does not answer: " + answer.error().describe());
}

}  // namespace

PatientSizes::PatientSizes(SizeAuthority& source, const HandleGate& gate,
                           const std::vector<IoRing*>& rings, Clock& clock, RoundLimits limits) {
  const auto send_query = [&source](const layout::ObjectId& object, const Query&,
                                    Done<std::uint64_t> done) {
    source.query(object, std::move(done));
  };
  const auto send_report = [&source](const layout::ObjectId&, const Report& report,
                                     Done<void> done) {
    source.report(report.by, report.end, report.mtime_ns, std::move(done));
  };
  const auto may_report = [&gate](const Report& report) { return gate.still_admits(report.by); };
  for (IoRing* ring : rings) {
    threads_.push_back(std::unique_ptr<PerThread>(new PerThread{
        {*ring, clock, limits, send_query}, {*ring, clock, limits, send_report, may_report}}));
  }
}

PatientSizes::PerThread& PatientSizes::mine() {
  const IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr && ring->index() < threads_.size());
  return *threads_[ring->index()];
}

void PatientSizes::query(const layout::ObjectId& object, Done<std::uint64_t> done) {
  mine().queries.ask(object, {}, [done = std::move(done)](Result<std::uint64_t> size) mutable {
    done(settle(std::move(size)));
  });
}

void PatientSizes::report(const layout::Handle& by, std::uint64_t end, std::int64_t mtime_ns,
                          Done<void> done) {
  mine().reports.ask(
      by.object, {by, end, mtime_ns},
      [done = std::move(done)](Result<> told) mutable { done(settle(std::move(told))); });
}

}  // namespace weft::ds
