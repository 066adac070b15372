// What a data server tells the metadata server of itself, again and again, and the lease that it is
// answered with; as messages.h.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "layout/load.h"
#include "rpc/control/messages.h"

namespace weft::rpc::control {

struct Load {
  std::uint32_t requests_in_progress = 0;
  layout::ServerLoad measured;
  friend bool operator==(const Load&, const Load&) = default;
};
template <class Io>
void describe(Io& io, Load& r) {
  io("requests_in_progress", r.requests_in_progress);
  io("measured", r.measured);
}

// What a data server owes to its partners (server-side duplication).
struct MirrorLoad {
  std::uint64_t pending_bytes = 0;      // written here, answered, and not yet at every partner
  std::uint32_t oldest_pending_ms = 0;  // 0: nothing is pending
  std::uint32_t partners_away = 0;      // that are not written to just now
  std::uint64_t forwarded_bytes = 0;    // since the data server's process started, as below
  std::uint64_t missed_writes = 0;      // acknowledged without a partner, which is marked stale
  friend bool operator==(const MirrorLoad&, const MirrorLoad&) = default;
};
template <class Io>
void describe(Io& io, MirrorLoad& r) {
  io("pending_bytes", r.pending_bytes);
  io("oldest_pending_ms", r.oldest_pending_ms);
  io("partners_away", r.partners_away);
  io("forwarded_bytes", r.forwarded_bytes);
  io("missed_writes", r.missed_writes);
}

// Since the data server's process started.
struct Counters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t commits = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t errors = 0;   // READ, WRITE, COMMIT answered with an error
  std::uint64_t refused = 0;  // bad, foreign or fenced handles
  std::uint64_t size_queries = 0;
  std::uint64_t connections = 0;  // open now
  std::uint64_t sessions = 0;     // open now
  friend bool operator==(const Counters&, const Counters&) = default;
};
template <class Io>
void describe(Io& io, Counters& r) {
  io("reads", r.reads);
  io("writes", r.writes);
  io("commits", r.commits);
  io("read_bytes", r.read_bytes);
  io("write_bytes", r.write_bytes);
  io("errors", r.errors);
  io("refused", r.refused);
  io("size_queries", r.size_queries);
  io("connections", r.connections);
  io("sessions", r.sessions);
}

// The scrub of the parity group that the data server's objects are in: the one that goes on, or
// the last. What is found: of that one.
struct GroupScrub {
  bool group = false;  // there is one; otherwise the rest means nothing
  bool running = false;
  bool only_tell = false;
  bool waiting = false;  // until the group is whole
  std::uint32_t permille = 0;
  std::uint64_t remaining_s = 0;  // 0: not known
  std::uint64_t bytes = 0;        // gone through
  std::uint64_t mended = 0;       // blocks, checksums, parity, headers that were wrong
  std::uint64_t lost = 0;         // blocks that cannot be computed
  std::uint64_t failed = 0;       // parts of objects that could not be looked at
  std::uint32_t rounds = 0;       // that ended, since the data server's process started
  std::uint64_t ended_s_ago = 0;  // the last one
  // And of the group itself:
  std::uint32_t awaited = 0;   // targets, a bit each, without which nothing can be served
  bool may_give_up = false;    // it is one, and can be done without, at a price
  std::uint64_t given_up = 0;  // blocks that were that price, until a scrub finds none
  friend bool operator==(const GroupScrub&, const GroupScrub&) = default;
};
template <class Io>
void describe(Io& io, GroupScrub& r) {
  io("group", r.group);
  io("running", r.running);
  io("only_tell", r.only_tell);
  io("waiting", r.waiting);
  io("permille", r.permille);
  io("remaining_s", r.remaining_s);
  io("bytes", r.bytes);
  io("mended", r.mended);
  io("lost", r.lost);
  io("failed", r.failed);
  io("rounds", r.rounds);
  io("ended_s_ago", r.ended_s_ago);
  io("awaited", r.awaited);
  io("may_give_up", r.may_give_up);
  io("given_up", r.given_up);
}

// The data server may serve clients for so long, from when it sent the heartbeat; 0: not until
// another is answered, since it does not have all its fences yet.
struct Lease {
  std::uint32_t seconds = 0;
  friend bool operator==(const Lease&, const Lease&) = default;
};
template <class Io>
void describe(Io& io, Lease& r) {
  io("seconds", r.seconds);
}

struct Heartbeat {
  static constexpr std::uint32_t kVerb = 2;
  using Reply = Lease;
  Space space;
  Load load;
  Counters counters;
  MirrorLoad mirror;
  std::string store;  // where its objects are and how it reaches them, for people
  GroupScrub scrub;
  // Why its store is not there, for people; empty: it is. It serves no client until it says so
  // again, has stopped before it said this, and needs a lease anew then.
  std::string trouble;
  StoreState state;  // that the store is in, durably
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
template <class Io>
void describe(Io& io, Heartbeat& r) {
  io("space", r.space);
  io("load", r.load);
  io("counters", r.counters);
  io("mirror", r.mirror);
  io("store", r.store, at_most(kMaxText));
  io("scrub", r.scrub);
  io("trouble", r.trouble, cut_at(kMaxText));
  io("state", r.state);
  io("disk_others", r.load.measured.disk_others, newer());  // from version 6 on
}

}  // namespace weft::rpc::control
