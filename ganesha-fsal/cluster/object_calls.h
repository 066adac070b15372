// What is asked of the data servers of a file at once, about its objects. Cluster has the
// descriptions of truncate, stat, allocate and punch.
//
// Which copies: changes go to those that are current or being repaired, a repair must not bring
// back what was cut off; questions go to current ones. What is stale is told nothing: its server
// may be away, and repair makes it equal.
//
// Threading: any thread; completions run on a thread of the control server.
//
// Ownership: server and registry outlive it.
#pragma once

#include <chrono>
#include <memory>

#include "ganesha-fsal/cluster/cluster.h"

namespace weft::mds {

class ObjectCalls {
 public:
  ObjectCalls(control::Server& server, Registry& registry, std::chrono::milliseconds timeout)
      : server_(server), registry_(registry), timeout_(timeout) {}

  void truncate(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t size,
                Finished<void> done);
  void stat(const layout::LayoutMap& map, const layout::ObjectId& object, Cluster::Silent silent,
            Done<Cluster::ObjectsStat> done);
  void allocate(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t offset,
                std::uint64_t length, Finished<void> done);
  void punch(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t offset,
             std::uint64_t length, Finished<void> done);

 private:
  struct Allocation;
  struct Stat;

  control::Server& server_;
  Registry& registry_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace weft::mds
