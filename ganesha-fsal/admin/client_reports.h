// What the metadata server tells of NFSv4 clients (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"
#include "rpc/xdr/newer.h"

namespace weft::mds {

// One with a lease, and what it holds of this metadata server's files.
struct ClientReport {
  std::uint64_t id = 0;
  std::string address;              // empty: not known
  std::string owner;                // what it calls itself
  std::uint32_t minor_version = 0;  // of NFSv4
  std::uint64_t opens = 0;          // of all exports
  std::uint64_t reading = 0;        // layouts for reading
  std::uint64_t writing = 0;        // and for writing
  std::uint64_t recalled = 0;       // of these, asked for and not back
  std::uint64_t oldest_recall_ms = 0;
  std::uint64_t renewed_ms = 0;  // so long ago its lease was; 0 while it asks for something
  // Through the metadata server, since it came or the server started.
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::vector<ServerName> no_way;  // data servers none of whose networks it is in
};
template <class Io>
void describe(Io& io, ClientReport& r) {
  io("id", r.id);
  io("address", r.address, cut_at(kMaxReportText));
  io("owner", r.owner, cut_at(kMaxReportText));
  io("minor_version", r.minor_version);
  io("opens", r.opens);
  io("layouts_reading", r.reading);
  io("layouts_writing", r.writing);
  io("recalls_pending", r.recalled);
  io("oldest_recall_ms", r.oldest_recall_ms);
  io("renewed_ms", r.renewed_ms, newer());
  io("mds_read_calls", r.reads, newer());
  io("mds_read_bytes", r.read_bytes, newer());
  io("mds_write_calls", r.writes, newer());
  io("mds_written_bytes", r.written_bytes, newer());
  io("no_way", r.no_way, newer(cut_at(kShortList)));
}

struct ClientsReport {
  std::uint64_t lease_ms = 0;  // for which a client has to say nothing
  std::uint64_t count = 0;     // of all, also when the list is cut
  std::vector<ClientReport> clients;
};
template <class Io>
void describe(Io& io, ClientsReport& r) {
  io("lease_ms", r.lease_ms);
  io("count", r.count);
  io("clients", r.clients, cut_at(kLongList));
}

}  // namespace weft::mds
