// What the metadata server answers about paths: whether data servers reach each other (requests.h);
// as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

// A connection that did not come about, or a path that swallows large packets.
struct BrokenPathReport {
  ServerName to;
  std::string address;  // "192.0.2.7:2051"
  std::string why;
};
template <class Io>
void describe(Io& io, BrokenPathReport& r) {
  io("to", r.to);
  io("address", r.address, cut_at(kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
}

// What a data server tried.
struct ServerPathsReport {
  ServerName server;
  std::uint32_t tried = 0;  // addresses of other data servers
  std::vector<BrokenPathReport> broken;
  std::string why;  // it tried none, or not all; empty otherwise
};
template <class Io>
void describe(Io& io, ServerPathsReport& r) {
  io("server", r.server);
  io("tried", r.tried);
  io("broken", r.broken, cut_at(kLongList));
  io("why", r.why, cut_at(kMaxReportText));
}

struct PathsReport {
  std::vector<ServerPathsReport> servers;  // by id
};
template <class Io>
void describe(Io& io, PathsReport& r) {
  io("servers", r.servers, cut_at(kLongList));
}
// In ServerPathsReport::why.
constexpr const char* kTooOldForPaths = "too old to try whether it reaches others";

}  // namespace weft::mds
