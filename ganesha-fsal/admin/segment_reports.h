// What the metadata server answers about data servers' segments (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"
#include "rpc/control/messages.h"

namespace weft::mds {

struct ServerSegmentsReport {
  ServerName server;
  bool kept = false;  // it keeps segments, and the counts are its own
  rpc::control::SegmentCounts counts;
  std::string why;  // it keeps none, or that is not known
};
template <class Io>
void describe(Io& io, ServerSegmentsReport& r) {
  io("server", r.server);
  io("kept", r.kept);
  io("counts", r.counts);
  io("why", r.why, cut_at(kMaxReportText));
}

struct SegmentsReport {
  std::vector<ServerSegmentsReport> data_servers;
};
template <class Io>
void describe(Io& io, SegmentsReport& r) {
  io("data_servers", r.data_servers, cut_at(kLongList));
}

}  // namespace weft::mds
