// What the disks hold of an object: in a data server's own folder, at its target, or at the members
// of its parity group.
//
// Threading: by the thread that directs the run, when nothing is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layout/object_id.h"
#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

// A data server and where its objects are: no target, one, or the members of a group in their
// order.
struct Storage {
  const Machine* server = nullptr;
  std::vector<const Machine*> targets;
};

// The object's bytes, with zeros up to `size`. Nothing: there is no such object.
[[nodiscard]] std::optional<std::string> stored_object(const Storage& storage,
                                                       const layout::ObjectId& object,
                                                       std::size_t size);
// The data server's own folder, whose program does not run, loses the object. False: it has none.
[[nodiscard]] bool lose_object(const Storage& storage, const layout::ObjectId& object);
// Names of all objects in the data server's own folder; none when they are at targets.
[[nodiscard]] std::vector<layout::ObjectId> objects_in_folder(const Storage& storage);
// Of a group: whether all members' bytes at each place have the exclusive or zero. Without one it
// holds.
[[nodiscard]] bool parity_fits(const Storage& storage, const layout::ObjectId& object,
                               std::size_t size);

}  // namespace weft::sim
