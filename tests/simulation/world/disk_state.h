// What a simulated disk knows beside the real files: which changes are not durable, and what was
// there before them. Internal to the disk's own files (disk*.cc, files*.cc, ring.cc).
//
// A Life is a disk between two power failures. Its nodes (files and folders) are found by the real
// inode. Each file has a second real name in the simulation's own folder, so that its bytes can be
// had as long as a power failure may bring it back.
//
// Invariants:
//   1. names + journal, applied in order, is what the real folder holds.
//   2. A sector that is not in Node::pages as dirty is durable as it is.
//   3. Page::old holds, for each dirty sector below durable_size, what a power failure would find.
//
// Threading: as scheduler.h. None of this waits.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/world/disk.h"

namespace weft::sim::disk {

constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kPage = 4096;

struct Page {
  std::uint8_t dirty = 0;               // a bit a sector: not as on the disk
  std::uint8_t loose = 0;               // of these: not appended, so written in any order
  std::uint8_t lost = 0;                // of these: a failed sync has given it up; reads show it
  std::unique_ptr<std::uint8_t[]> old;  // null: zeros
};

struct Life;

struct Node {
  Life* life = nullptr;
  std::uint64_t id = 0;  // counts up in a life, so that it is the same in each run
  bool folder = false;
  bool direct = false;                            // opened past the page cache, by any
  std::pair<std::uint64_t, std::uint64_t> inode;  // device and number of the real file
  bool bare = false;  // a folder that the real file system does not have (bare_folders.h)
  std::shared_ptr<Node> parent;  // of folders: what it is in, null for the root, and as what
  std::string name;
  std::uint64_t links = 0;  // names as the programs see it
  std::uint64_t durable_links = 0;
  std::uint64_t journaled = 0;  // entries of the journal that concern it
  std::uint64_t size = 0;
  std::uint64_t durable_size = 0;
  std::uint64_t reserved = 0;  // bytes that fallocate(2) has asked for
  std::uint64_t used = 0;      // bytes that count against the disk's capacity
  std::map<std::uint64_t, Page> pages;
};

// A place where a name is: the folder's id, and the name.
using Place = std::pair<std::uint64_t, std::string>;

// One change that is durable as a whole or not at all.
struct Change {
  std::vector<std::pair<Place, std::shared_ptr<Node>>> names;  // null: the name goes
  std::vector<std::shared_ptr<Node>> gone;                     // what had these names before
  std::shared_ptr<Node> cut;                                   // its size became `size`
  std::uint64_t size = 0;
};

struct Life {
  unsigned disk = 0;
  std::string path;
  bool over = false;  // power has failed: nothing is kept any more
  std::uint64_t next_id = 1;
  std::uint64_t used = 0;
  std::shared_ptr<Node> root;
  std::map<std::uint64_t, std::shared_ptr<Node>> nodes;
  std::map<Place, std::shared_ptr<Node>> names;  // the durable ones
  std::deque<Change> journal;
  std::set<std::uint64_t> unsynced;  // ids of files with dirty pages or another size
  std::map<Place, std::shared_ptr<Node>> bare;
};

// The file with this real inode; null: not on a simulated disk.
[[nodiscard]] std::shared_ptr<Node> find_node(const struct stat& found);
[[nodiscard]] std::shared_ptr<Node> add_node(Life& life, const struct stat& found);
// What was bare is that real folder.
void has_inode(const std::shared_ptr<Node>& node, const struct stat& found);
// The simulation's own name for it.
[[nodiscard]] std::string own_path(const Node& node);
[[nodiscard]] std::string files_path(const Life& life);

// Journals the change, which has been made to the real files. Counts links.
void journal(Life& life, Change change);
// All changes of names and sizes so far are durable.
void commit(Life& life);

// [from, to) is about to be overwritten or given up; to be called before it is.
void before_write(Node& node, std::uint64_t from, std::uint64_t to);
// The real file changed: its size and what it takes of the disk. Complains if it cannot be read.
void after_write(Node& node);
// Calls before_write() and journals what shrinks; to be called before the real truncation.
void before_resize(const std::shared_ptr<Node>& node, std::uint64_t size);
// Everything of the file is durable; `failed`: but for what the seed gives up.
void written_back(const std::shared_ptr<Node>& node, bool data_only, bool failed);

// Pages of [from, to) that are clean to the kernel go from its memory: what a failed sync has given
// up is read as the disk has it.
void drop_clean(Node& node, std::uint64_t from, std::uint64_t to);

// A folder as the disk might be found when power fails now. `all`: with everything, synced or not.
[[nodiscard]] std::unique_ptr<Life> next_life(Life& life, const std::string& path, bool all,
                                              bool holes);

// A failure of the simulation itself: says so and ends the process.
[[noreturn]] void broken(const std::string& what);

}  // namespace weft::sim::disk
