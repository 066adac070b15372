// A SizeAuthority that asks another once for many, and waits for it while it cannot be reached.
//
// While the metadata server is away, READs at an object's end and FILE_SYNC4 writes wait here, in
// bounded number and time, instead of being answered NFS4ERR_DELAY, which would make a Linux client
// sleep 15 s. Then they fail with kFenced: the client drops its layout and goes elsewhere. It
// keeps a layout that is recalled for as long as it waits here, so that is to be well within the
// time that it has for a recall.
//
// Threading: called on I/O threads; completions run on the thread that asked. The state is one for
// each thread. The source may answer on any thread; see rounds.h for lifetimes.
//
// Invariants:
//  1. Once a fence is answered (writes_in_flight.h) no report is sent for whom it is against: who
//     waits is refused instead. One that was sent before is ahead of the fence's answer on its way.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "dataserver/nfs/handle_gate.h"
#include "dataserver/nfs/size_authority.h"
#include "dataserver/ring/rounds.h"

namespace weft::ds {

class PatientSizes final : public SizeAuthority {
 public:
  static constexpr std::chrono::milliseconds kPatience{20'000};

  // One ring for each I/O thread, in the order of their index. All outlive this.
  PatientSizes(SizeAuthority& source, const HandleGate& gate, const std::vector<IoRing*>& rings,
               Clock& clock, RoundLimits limits);

  void query(const layout::ObjectId& object, Done<std::uint64_t> done) override;
  void report(const layout::Handle& by, std::uint64_t end, std::int64_t mtime_ns,
              Done<void> done) override;

 private:
  struct Query {
    void merge(const Query& /*other*/) {}
  };
  struct Report {
    layout::Handle by;
    std::uint64_t end = 0;
    std::int64_t mtime_ns = 0;
    void merge(const Report& other) {
      end = std::max(end, other.end);
      mtime_ns = std::max(mtime_ns, other.mtime_ns);
    }
  };
  struct PerThread {
    Rounds<Query, std::uint64_t> queries;
    Rounds<Report, void> reports;
  };
  PerThread& mine();

  std::vector<std::unique_ptr<PerThread>> threads_;
};

}  // namespace weft::ds
