// A target's side of the protocol (messages.h): stores served over channels of any kind.
//
// A connection proves that it has the cluster key and names its space; then its requests are
// carried out as they come, many at a time, on the thread of its channel. A READ with room lent is
// read into the room, a WRITE's data is written from where it was lent or received: nothing is
// copied here.
//
// Nothing is carried out late. A data server that reconnects asks again what was not answered, and
// then may go on to write the same bytes anew; an operation of the old connection that came after
// would undo that. So before a Hello is answered, every connection of an earlier process of that
// data server, and an earlier one of the same link, is closed and has ended its operations.
//
// Threading: serve() on the channel's thread, which has an IoRing; counts() from any.
//
// Ownership: Parts outlive this and every connection. Connections keep the server's state alive.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "dataserver/targets/messages.h"
#include "dataserver/targets/spaces.h"
#include "rpc/base/clock.h"
#include "rpc/base/latency.h"
#include "rpc/transport/channel.h"

namespace weft::ds {

struct TargetCounts {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t commits = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t lent_bytes = 0;  // of those, in memory that was lent
  std::uint64_t readers = 0;     // descriptors handed over, to read by
  std::uint64_t writers = 0;     // and to write by
  std::uint64_t errors = 0;
  std::uint64_t refused = 0;  // connections without the key, or that broke the protocol
  std::uint64_t running = 0;  // requests now
  std::uint64_t connections = 0;
};

// Operations whose time is taken, from when a request is there to its answer.
enum class TargetTimed : std::uint8_t { kRead, kWrite, kCommit };
using TargetTimes = std::array<LatencyTotals, 3>;  // in this order

class TargetServer {
 public:
  struct Parts {
    Spaces& spaces;
    std::shared_ptr<const rpc::peer::Keyring> keys;
    std::string socket;  // for processes of this machine; empty: none
    MachineId machine{};
    Random& random;
    const Clock& clock = system_clock();
    // What this program says of itself; from any thread.
    std::function<rpc::control::About()> about = [] { return rpc::control::About(); };
    std::size_t max_running = 512;  // requests of one connection; beyond it is not read
  };

  explicit TargetServer(Parts parts);
  ~TargetServer();
  TargetServer(const TargetServer&) = delete;
  TargetServer& operator=(const TargetServer&) = delete;

  void serve(std::shared_ptr<rpc::Channel> channel);
  // Closes the connections of those who proved that they have a key that is accepted no more. They
  // come back, if they have another. Call it when the keys have changed; from any thread.
  void keys_changed();
  // Refuses new connections, closes those there are; true when all have ended within `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);
  [[nodiscard]] TargetCounts counts() const;
  [[nodiscard]] TargetTimes times() const;

  struct Shared;  // defined in target_connection.h
  class Connection;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft::ds
