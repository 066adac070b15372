// Folders of simulated disks that the real file system does not have, because nothing is in them.
//
// A store has a thousand folders, and few of them ever hold an object. Making, opening, copying and
// removing them all for each disk of each seed takes as long as everything else. So a folder is
// "bare" when it is made, and until something is put into it: a node that is found by its place
// alone. An open descriptor of it is a number of /dev/null, which refuses whatever comes past us.
// Internal to the disk's own files.
//
// Invariants:
//   1. A bare folder is empty, and the folder that it is in is not bare.
//   2. Descriptors of a folder that is bare no longer are of the real one.
//
// Threading: as scheduler.h. None of this waits.
#pragma once

#include <memory>
#include <string>

#include "tests/simulation/world/disk_state.h"

namespace weft::sim::disk {

// A new one, not journaled; what it is in becomes real.
[[nodiscard]] std::shared_ptr<Node> add_bare(Life& life, const std::shared_ptr<Node>& parent,
                                             const std::string& name);
// The bare folder of that name; null: there is none.
[[nodiscard]] std::shared_ptr<Node> find_bare(const Node& parent, const std::string& name);
// The bare folder that the descriptor is of; null: it is of something else.
[[nodiscard]] std::shared_ptr<Node> bare_of(int fd);
// Its name is gone.
void forget_bare(Node& node);

// The real file system has the folder when this returns. A no-op for others.
void make_real(const std::shared_ptr<Node>& node);
// The same for the folder of a descriptor, which some call is about to use.
void make_real(int fd);
// For all that are in the folder: it is listed, or goes.
void make_real_in(const Node& folder);

// A new descriptor of a bare folder; -1 and errno.
[[nodiscard]] int open_bare(const std::shared_ptr<Node>& node);

}  // namespace weft::sim::disk
