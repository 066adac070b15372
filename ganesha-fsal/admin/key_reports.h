// What the metadata server answers about cluster keys (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/newer.h"

namespace weft::mds {

// Which cluster keys a target has, as it told its data server.
struct TargetKeysReport {
  std::string address;            // empty: of all that the data server may have
  std::vector<std::string> keys;  // as of a server
  std::string why;                // they are not known; empty otherwise
};
template <class Io>
void describe(Io& io, TargetKeysReport& r) {
  io("address", r.address, cut_at(kMaxReportText));
  io("keys", r.keys, cut_at(kShortList, kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
}

// Which cluster keys a server has, and its targets.
struct ServerKeysReport {
  ServerName server;              // id 0: the metadata server
  std::vector<std::string> keys;  // fingerprints: the one that it uses, then those it accepts
  std::string why;                // they are not known; empty otherwise
  std::vector<TargetKeysReport> targets;
};
template <class Io>
void describe(Io& io, ServerKeysReport& r) {
  io("server", r.server);
  io("keys", r.keys, cut_at(kShortList, kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
  io("targets", r.targets, newer(cut_at(kShortList)));
}

struct KeysReport {
  std::vector<ServerKeysReport> servers;  // the metadata server first
  bool asks_targets = false;              // false: of a version that does not
};
template <class Io>
void describe(Io& io, KeysReport& r) {
  io("servers", r.servers, cut_at(kLongList));
  io("asks_targets", r.asks_targets, newer());
}

}  // namespace weft::mds
