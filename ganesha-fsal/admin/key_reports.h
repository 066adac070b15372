// What the metadata server answers about cluster keys (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

// Which cluster keys a server has.
struct ServerKeysReport {
  ServerName server;              // id 0: the metadata server
  std::vector<std::string> keys;  // fingerprints: the one that it uses, then those it accepts
  std::string why;                // they are not known; empty otherwise
};
template <class Io>
void describe(Io& io, ServerKeysReport& r) {
  io("server", r.server);
  io("keys", r.keys, cut_at(kShortList, kMaxReportText));
  io("why", r.why, cut_at(kMaxReportText));
}

struct KeysReport {
  std::vector<ServerKeysReport> servers;  // the metadata server first
};
template <class Io>
void describe(Io& io, KeysReport& r) {
  io("servers", r.servers, cut_at(kLongList));
}

}  // namespace weft::mds
