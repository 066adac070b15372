// What each NFS client reads and writes through the metadata server. What data servers move for it
// is not counted here: they do not tell by client.
//
// A client is forgotten when it had no lease at two looks, one after the other: one that has just
// come may be missing in the list of those that have one. At most kMost are counted; who comes
// beyond that is counted once others are forgotten.
//
// Threading: any thread; nothing waits under the lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class ClientTraffic {
 public:
  static constexpr std::size_t kMost = 65536;

  struct Counts {
    std::uint64_t reads = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t writes = 0;
    std::uint64_t written_bytes = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  // One READ or WRITE that was answered well. 0, a caller without a client id, is not counted.
  void read(ClientId client, std::uint64_t bytes);
  void wrote(ClientId client, std::uint64_t bytes);
  [[nodiscard]] std::map<ClientId, Counts> all() const;
  // A look: who has a lease now.
  void look(const std::set<ClientId>& alive);

 private:
  struct Row {
    Counts counts;
    bool absent = false;  // at the last look
  };
  // Null: there is no place for another.
  [[nodiscard]] Counts* of(ClientId client) WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<ClientId, Row> rows_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
