// Fencing a client at the data servers of a file: the Fencer of a running system.
//
// A client is fenced as a whole: its epoch is counted up, durably, and the file's data servers are
// told to refuse handles of that client below it. A client that lives loses nothing by it: its
// handles for other files are refused once at these data servers, and it asks for new layouts. The
// data servers that do not answer now get the fence before they serve again (Cluster::fence), but
// the call fails then, so that who waits for it goes on waiting.
//
// Of a file with copies the leaders are told first, and the others when those have answered or
// failed to. A leader answers when what it was bringing to the others is there. A copy that was
// told before would refuse that, and be marked as having missed it. This happens yet to copies of
// other files, which the client writes through leaders that are not among this file's.
//
// Threading: any thread. fence() blocks for a sync of the metadata store, never for a data server.
// While it does, calls for the same client wait for it, and no others.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class DsFencer final : public Fencer {
 public:
  DsFencer(Namespace& names, Cluster& cluster, const FileTable& files)
      : names_(names), cluster_(cluster), files_(files) {}

  void fence(FileId file, ClientId client, std::function<void(Result<>)> done) override;

  // The epoch to seal a client's handles with. What is sealed after this is above every fence
  // begun before.
  [[nodiscard]] Result<std::uint32_t> epoch_for(ClientId client);

 private:
  // The epoch that refuses everything sealed so far. Counted up only if something was.
  [[nodiscard]] Result<std::uint32_t> epoch_against(ClientId client);
  // Waits until nobody counts the client's epoch up.
  void await_counted(ClientId client) WEFT_REQUIRES(mutex_);

  // Forgets a client when there are many: any, since what is forgotten counts as used.
  void make_room() WEFT_REQUIRES(mutex_);

  static constexpr std::size_t kMostKnown = 65536;

  struct Epoch {
    std::uint32_t current = 1;
    bool used = false;  // handles may have been sealed with it
  };

  // Who leads, as far as that is known, and all others.
  struct Order {
    std::vector<std::uint32_t> leaders;
    std::vector<std::uint32_t> others;
  };
  [[nodiscard]] Order in_order(FileId file, const layout::LayoutMap& map) const;

  Namespace& names_;
  Cluster& cluster_;
  const FileTable& files_;
  Mutex mutex_;
  CondVar counted_;
  // What is not here is in the namespace. At most kMostKnown.
  std::map<ClientId, Epoch> epochs_ WEFT_GUARDED_BY(mutex_);
  std::set<ClientId> counting_ WEFT_GUARDED_BY(mutex_);  // whose epoch is being counted up
};

}  // namespace weft::mds
