// Who may be connected to a server: counts of connections, in all and by IP address, apart for
// those that have shown nothing yet, clients, and servers (rpc/base/standing.h).
//
// A connection has a place from when it is accepted until it is closed. One stranger too many takes
// the place of the one that has been one for longest. One client too many takes that of the guest
// that has been one for longest, and is refused if there is none; a server too many is refused.
//
// Threading: any thread. Ownership: shared with its places. Nothing here belongs to an io_context,
// so that channels may be destroyed with theirs, in any order.
//
// Invariant: a place's `cut` is not called once leave() has returned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "rpc/base/mutex.h"
#include "rpc/base/standing.h"
#include "rpc/transport/channel.h"

namespace weft::rpc {

// What a server has admitted a connection as, for its channel. On the connection's thread.
struct ConnectionPlace {
  std::move_only_function<void()> gone;                 // the connection is closed
  std::move_only_function<bool(Standing)> promoted;     // as Channel::promote()
  std::function<bool()> is_cut = [] { return false; };  // nothing is delivered any more
  std::shared_ptr<HostShare> host;                      // null: nobody counts
};

struct AdmissionLimits {
  Standing standing = Standing::kStranger;  // of those who come
  // Of clients and guests.
  std::size_t max_connections = 4096;
  std::size_t max_connections_per_peer = 256;  // by IP address
  std::size_t max_strangers = 2048;
  std::size_t max_strangers_per_peer = 256;
  std::size_t max_servers = 16'384;
};

class Admission : public std::enable_shared_from_this<Admission> {
 public:
  struct Place;
  using PlacePtr = std::shared_ptr<Place>;

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // How often cut() was called.
  [[nodiscard]] std::uint64_t cuts() const { return cuts_.load(); }
  // Null: beyond a limit, or cut: `cuts` is what cuts() was before the connection was accepted.
  // `cut` ends the connection, whatever its own thread does.
  [[nodiscard]] PlacePtr admit(const std::string& peer, std::uint64_t cuts,
                               std::move_only_function<void()> cut);
  // For the connection's channel, which is to be told here once it exists.
  [[nodiscard]] ConnectionPlace place_of(const PlacePtr& place);
  // The connection is closed at once if it has given way meanwhile.
  void has_channel(const PlacePtr& place, const std::shared_ptr<Channel>& channel);
  void leave(const PlacePtr& place);
  // Ends the connections there are, also those that are accepted and have no place yet. Their
  // places say so before.
  void cut();

  [[nodiscard]] std::size_t connections() const { return open_count_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // since the start

 private:
  // Connections of a kind.
  struct Counts {
    std::size_t strangers = 0;
    std::size_t clients = 0;  // and guests
    std::size_t servers = 0;
    [[nodiscard]] std::size_t& of(Standing standing) {
      return standing == Standing::kStranger ? strangers
             : standing == Standing::kServer ? servers
                                             : clients;
    }
  };
  struct Host : Counts {
    std::shared_ptr<HostShare> share = std::make_shared<HostShare>();
    [[nodiscard]] bool empty() const { return strangers + clients + servers == 0; }
  };

  [[nodiscard]] bool promote(const PlacePtr& place, Standing to);
  [[nodiscard]] bool has_room(const Host& host, Standing standing) const WEFT_REQUIRES(mutex_);
  void enter(Host& host, const PlacePtr& place) WEFT_REQUIRES(mutex_);
  void exit(Host& host, const PlacePtr& place) WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::list<PlacePtr>* queue_of(Standing standing) WEFT_REQUIRES(mutex_);
  void make_way(const std::string& peer, Host& host, Standing standing) WEFT_REQUIRES(mutex_);
  void give_way(const PlacePtr& place) WEFT_REQUIRES(mutex_);

  const AdmissionLimits limits_;
  std::atomic<std::size_t> open_count_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> cuts_{0};  // changes under the mutex
  Mutex mutex_;
  std::map<std::string, Host> hosts_ WEFT_GUARDED_BY(mutex_);
  Counts all_ WEFT_GUARDED_BY(mutex_);
  // Who gives way, the oldest first.
  std::list<PlacePtr> strangers_ WEFT_GUARDED_BY(mutex_);
  std::list<PlacePtr> guests_ WEFT_GUARDED_BY(mutex_);
  std::set<PlacePtr> open_ WEFT_GUARDED_BY(mutex_);  // until just before they are closed
};

}  // namespace weft::rpc
