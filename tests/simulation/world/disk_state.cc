#include "tests/simulation/world/disk_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "tests/simulation/world/bare_folders.h"

namespace weft::sim::disk {

namespace {

struct InodeHash {
  std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& inode) const {
    return inode.first * 0x9e3779b97f4a7c15ULL ^ inode.second;
  }
};
// Only looked up, never walked: its order is not the run's.
using ByInode =
    std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<Node>, InodeHash>;
ByInode& by_inode() {
  static auto* const nodes = new ByInode;
  return *nodes;
}

// Nobody can find it any more, not after a power failure either. Who has it open goes on.
void drop_if_gone(const std::shared_ptr<Node>& node) {
  if (node->links + node->durable_links + node->journaled > 0) return;
  Life& life = *node->life;
  if (life.nodes.erase(node->id) == 0) return;
  life.unsynced.erase(node->id);
  life.used -= node->used;
  const Real real;
  if (!node->folder) ::unlink(own_path(*node).c_str());
  by_inode().erase(node->inode);
}

// What is beyond `size` is gone for good: zeros, should the file grow again.
void cut_durably(Node& node, std::uint64_t size) {
  if (size >= node.durable_size) return;
  node.durable_size = size;
  for (auto page = node.pages.lower_bound(size / kPage); page != node.pages.end(); ++page) {
    if (page->second.old == nullptr) continue;
    const std::uint64_t begin = page->first * kPage;
    if (begin >= size) {
      page->second.old.reset();
    } else {
      std::memset(page->second.old.get() + (size - begin), 0, kPage - (size - begin));
    }
  }
}

// The first `count` changes of the journal are durable.
void commit_first(Life& life, std::size_t count) {
  for (; count > 0; --count) {
    const Change change = std::move(life.journal.front());
    life.journal.pop_front();
    for (const auto& [place, node] : change.names) {
      if (const auto old = life.names.find(place); old != life.names.end()) {
        --old->second->durable_links;
        life.names.erase(old);
      }
      if (node == nullptr) continue;
      ++node->durable_links;
      --node->journaled;
      life.names.emplace(place, node);
    }
    for (const auto& node : change.gone) {
      --node->journaled;
      drop_if_gone(node);
    }
    if (change.cut != nullptr) {
      --change.cut->journaled;
      cut_durably(*change.cut, change.size);
      drop_if_gone(change.cut);
    }
  }
}

// The sectors of page `page` that [from, to) touches.
std::uint8_t sectors_of(std::uint64_t page, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t begin = page * kPage;
  const std::uint64_t first = from <= begin ? 0 : (from - begin) / kSector;
  const std::uint64_t last = to >= begin + kPage ? kPage / kSector - 1 : (to - 1 - begin) / kSector;
  return static_cast<std::uint8_t>((1U << (last + 1)) - (1U << first));
}

class OwnFile {
 public:
  explicit OwnFile(const Node& node, int access = O_RDONLY)
      : fd_(::open(own_path(node).c_str(), access | O_CLOEXEC)) {
    if (fd_ < 0) broken("open " + own_path(node));
  }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  ~OwnFile() { ::close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

bool all_zero(const std::uint8_t* bytes) {
  return std::all_of(bytes, bytes + kSector, [](std::uint8_t byte) { return byte == 0; });
}

// Keeps what the sectors hold now.
void keep_old(Page& page, std::uint8_t sectors, const std::uint8_t* now) {
  for (unsigned sector = 0; sector < kPage / kSector; ++sector) {
    const std::uint8_t* const bytes = now + sector * kSector;
    if ((sectors >> sector & 1) == 0 || all_zero(bytes)) continue;
    if (page.old == nullptr) page.old = std::make_unique<std::uint8_t[]>(kPage);
    std::memcpy(page.old.get() + sector * kSector, bytes, kSector);
  }
}

}  // namespace

void broken(const std::string& what) {
  const Real real;
  std::fprintf(stderr, "simulation: disk: %s (errno %d)\n", what.c_str(), errno);
  std::fflush(stderr);
  ::_exit(3);
}

std::shared_ptr<Node> find_node(const struct stat& found) {
  const auto at = by_inode().find({found.st_dev, found.st_ino});
  return at == by_inode().end() ? nullptr : at->second;
}

std::string files_path(const Life& life) { return life.path + ".files"; }
std::string own_path(const Node& node) {
  return files_path(*node.life) + "/" + std::to_string(node.id);
}

std::shared_ptr<Node> add_node(Life& life, const struct stat& found) {
  auto node = std::make_shared<Node>();
  node->life = &life;
  node->id = life.next_id++;
  node->folder = S_ISDIR(found.st_mode);
  node->size = node->folder ? 0 : static_cast<std::uint64_t>(found.st_size);
  node->used = node->folder ? kPage : static_cast<std::uint64_t>(found.st_blocks) * kSector;
  life.used += node->used;
  life.nodes.emplace(node->id, node);
  if (found.st_ino != 0) has_inode(node, found);
  return node;
}

void has_inode(const std::shared_ptr<Node>& node, const struct stat& found) {
  node->inode = {found.st_dev, found.st_ino};
  by_inode()[node->inode] = node;
}

void journal(Life& life, Change change) {
  for (const auto& [place, node] : change.names) {
    if (node == nullptr) continue;
    ++node->links;
    ++node->journaled;
  }
  for (const auto& node : change.gone) {
    --node->links;
    ++node->journaled;
  }
  if (change.cut != nullptr) ++change.cut->journaled;
  life.journal.push_back(std::move(change));
}

void commit(Life& life) { commit_first(life, life.journal.size()); }

void before_write(Node& node, std::uint64_t from, std::uint64_t to) {
  if (from >= to) return;
  const Real real;
  // Bytes behind the end are zeros as long as nobody writes there: only what is written counts.
  const std::uint64_t known = std::min(node.durable_size, node.size);
  std::optional<OwnFile> file;
  for (std::uint64_t number = from / kPage; number <= (to - 1) / kPage; ++number) {
    const std::uint8_t touched = sectors_of(number, from, to);
    Page& page = node.pages[number];
    const auto fresh = static_cast<std::uint8_t>(touched & ~page.dirty);
    if (fresh != 0 && number * kPage < known) {
      if (!file) file.emplace(node);
      std::uint8_t now[kPage] = {};
      if (::pread(file->fd(), now, kPage, static_cast<off_t>(number * kPage)) < 0) {
        broken("read what is overwritten");
      }
      keep_old(page, fresh, now);
    }
    // Sectors before the present end are overwritten or filled in, others appended.
    const std::uint64_t end = std::max(node.size, node.durable_size);
    if (from < end && number * kPage < end) {
      page.loose |= static_cast<std::uint8_t>(fresh & sectors_of(number, number * kPage, end));
    }
    page.dirty |= touched;
    page.lost = 0;  // the whole page is dirty again, and written with what changed of it
  }
  node.life->unsynced.insert(node.id);
}

void after_write(Node& node) {
  const Real real;
  struct stat found{};
  if (::stat(own_path(node).c_str(), &found) != 0) broken("stat " + own_path(node));
  node.size = static_cast<std::uint64_t>(found.st_size);
  const std::uint64_t used =
      std::max(static_cast<std::uint64_t>(found.st_blocks) * kSector, node.reserved);
  node.life->used += used - node.used;
  node.used = used;
  if (node.size != node.durable_size) node.life->unsynced.insert(node.id);
}

void before_resize(const std::shared_ptr<Node>& node, std::uint64_t size) {
  node->reserved = std::min(node->reserved, size);
  if (size >= node->size) return;
  before_write(*node, size, node->size);
  // What is written there from now on is appended, if the file is found shortened at all.
  for (auto page = node->pages.lower_bound(size / kPage); page != node->pages.end(); ++page) {
    page->second.loose &=
        static_cast<std::uint8_t>(~sectors_of(page->first, size, (page->first + 1) * kPage));
  }
  journal(*node->life, {.names = {}, .gone = {}, .cut = node, .size = size});
}

void written_back(const std::shared_ptr<Node>& node, bool data_only, bool failed) {
  // What the kernel has written past its page cache it cannot give up: the device has it, and the
  // next flush is for it, too.
  if (failed && node->direct) return;
  if (!data_only || node->journaled > 0 || node->size != node->durable_size) {
    commit(*node->life);
  }
  bool all = true;
  for (auto at = node->pages.begin(); at != node->pages.end();) {
    Page& page = at->second;
    if (failed) page.lost |= static_cast<std::uint8_t>(page.dirty & choose(256));
    page.dirty = page.lost;
    page.loose = page.lost;
    if (page.lost == 0) {
      at = node->pages.erase(at);
    } else {
      all = false;
      ++at;
    }
  }
  node->durable_size = node->size;
  if (all) node->life->unsynced.erase(node->id);
}

void drop_clean(Node& node, std::uint64_t from, std::uint64_t to) {
  const Real real;
  std::optional<OwnFile> file;
  for (auto at = node.pages.lower_bound(from / kPage);
       at != node.pages.end() && at->first * kPage < to;) {
    const auto& [number, page] = *at;
    if (page.lost == 0 || page.dirty != page.lost) {
      ++at;
      continue;
    }
    if (!file) file.emplace(node, O_RDWR);
    for (unsigned sector = 0; sector < kPage / kSector; ++sector) {
      const std::uint64_t begin = number * kPage + sector * kSector;
      if ((page.lost >> sector & 1) == 0 || begin >= node.size) continue;
      static constexpr std::uint8_t kZeros[kSector] = {};
      const auto size = static_cast<std::size_t>(std::min(kSector, node.size - begin));
      const std::uint8_t* const old =
          page.old == nullptr ? kZeros : page.old.get() + sector * kSector;
      if (::pwrite(file->fd(), old, size, static_cast<off_t>(begin)) !=
          static_cast<ssize_t>(size)) {
        broken("read again what a failed sync gave up");
      }
    }
    at = node.pages.erase(at);
  }
}

// What follows makes the next life of a disk out of one that ends.
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 18;

void copy_range(int from, int to, off_t begin, off_t end) {
  static auto* const buffer = new std::uint8_t[kCopyBytes];
  while (begin < end) {
    const auto want = std::min<std::size_t>(kCopyBytes, static_cast<std::size_t>(end - begin));
    const ssize_t n = ::pread(from, buffer, want, begin);
    if (n <= 0) return;
    if (::pwrite(to, buffer, static_cast<std::size_t>(n), begin) != n) broken("copy a file");
    begin += n;
  }
}
void copy_data(int from, int to, off_t size) {
  for (off_t at = 0; at < size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0) break;
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    copy_range(from, to, data, std::min(hole, size));
    at = hole;
  }
}

enum class Luck { kNone, kAll, kSome };
Luck draw() { return static_cast<Luck>(choose(3)); }

// What of a file's unsynced changes is found.
class Found {
 public:
  // cut: to where the file was shortened by a change that is not found.
  Found(const Node& node, std::optional<std::uint64_t> cut, bool holes)
      : node_(node), cut_(cut), holes_(holes), size_(draw_size()) {}

  void write(int to) const {
    OwnFile file(node_);
    copy_data(file.fd(), to, static_cast<off_t>(std::min(size_, node_.size)));
    for (const auto& [number, page] : node_.pages) {
      for (unsigned sector = 0; sector < kPage / kSector; ++sector) {
        const std::uint64_t at = number * kPage + sector * kSector;
        if ((page.dirty >> sector & 1) != 0 && at < size_ && is_old(page, at, sector)) {
          put_old(to, page, at, sector);
        }
      }
    }
    if (::ftruncate(to, static_cast<off_t>(size_)) != 0) broken("size of a file");
  }

 private:
  std::uint64_t draw_size() const {
    if (cut_ || node_.size <= node_.durable_size) return node_.durable_size;
    switch (draw()) {
      case Luck::kNone: return node_.durable_size;
      case Luck::kAll: return node_.size;
      case Luck::kSome: break;
    }
    return node_.durable_size + choose(node_.size - node_.durable_size + 1);
  }
  bool is_old(const Page& page, std::uint64_t at, unsigned sector) const {
    if ((page.lost >> sector & 1) != 0 || (cut_ && at + kSector > *cut_)) return true;
    if ((page.loose >> sector & 1) == 0 && !holes_) return false;
    return luck_ == Luck::kNone || (luck_ == Luck::kSome && choose(2) == 0);
  }
  void put_old(int to, const Page& page, std::uint64_t at, unsigned sector) const {
    static constexpr std::uint8_t kZeros[kSector] = {};
    const std::uint8_t* const old =
        page.old == nullptr ? kZeros : page.old.get() + sector * kSector;
    if (::pwrite(to, old, kSector, static_cast<off_t>(at)) != ssize_t{kSector}) {
      broken("put back what was overwritten");
    }
  }

  const Node& node_;
  const std::optional<std::uint64_t> cut_;
  const bool holes_;
  const Luck luck_ = draw();
  const std::uint64_t size_;
};

// Makes the folder tree of the next life out of the durable names.
class Rebuild {
 public:
  Rebuild(Life& from, Life& to, bool holes) : from_(from), to_(to), holes_(holes) {
    for (const Change& change : from.journal) {
      if (change.cut == nullptr) continue;
      const auto [at, first] = cuts_.try_emplace(change.cut->id, change.size);
      at->second = std::min(at->second, change.size);
    }
  }
  void folder(const Node& node, const std::shared_ptr<Node>& made, const std::string& path) {
    const auto end = from_.names.lower_bound({node.id + 1, ""});
    for (auto at = from_.names.lower_bound({node.id, ""}); at != end; ++at) {
      const std::string below = path + "/" + at->first.second;
      auto child = at->second->folder ? make_folder(*at->second, made, at->first.second, below)
                                      : make_file(*at->second, below);
      ++child->links;
      ++child->durable_links;
      to_.names.emplace(Place{made->id, at->first.second}, child);
      if (at->second->folder) folder(*at->second, child, below);
    }
  }

 private:
  std::shared_ptr<Node> make_folder(const Node& node, const std::shared_ptr<Node>& parent,
                                    const std::string& name, const std::string& path) {
    const auto inside = from_.names.lower_bound({node.id, ""});
    if (inside == from_.names.end() || inside->first.first != node.id) {
      return add_bare(to_, parent, name);
    }
    struct stat found{};
    if (::mkdir(path.c_str(), 0700) != 0 || ::stat(path.c_str(), &found) != 0) {
      broken("make " + path);
    }
    auto made = add_node(to_, found);
    made->parent = parent;
    made->name = name;
    return made;
  }
  std::shared_ptr<Node> make_file(const Node& node, const std::string& path) {
    if (const auto known = made_.find(node.id); known != made_.end()) {
      if (::link(own_path(*known->second).c_str(), path.c_str()) != 0) broken("link " + path);
      return known->second;
    }
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) broken("make " + path);
    const auto cut = cuts_.find(node.id);
    Found(node, cut == cuts_.end() ? std::nullopt : std::optional(cut->second), holes_).write(fd);
    struct stat found{};
    if (::fstat(fd, &found) != 0) broken("stat " + path);
    ::close(fd);
    auto made = add_node(to_, found);
    made->durable_size = made->size;
    if (::link(path.c_str(), own_path(*made).c_str()) != 0) broken("link " + path);
    made_.emplace(node.id, made);
    return made;
  }

  Life& from_;
  Life& to_;
  const bool holes_;
  std::map<std::uint64_t, std::uint64_t> cuts_;
  std::map<std::uint64_t, std::shared_ptr<Node>> made_;
};

}  // namespace

std::unique_ptr<Life> next_life(Life& life, const std::string& path, bool all, bool holes) {
  const Real real;
  if (all) {
    commit(life);
    for (const auto& [id, node] : life.nodes) {
      node->pages.clear();
      node->durable_size = node->size;
    }
  } else if (!life.journal.empty()) {
    const Luck luck = draw();
    const std::size_t count = life.journal.size();
    commit_first(life, luck == Luck::kNone ? 0 : luck == Luck::kAll ? count : choose(count + 1));
  }
  auto next = std::make_unique<Life>();
  next->disk = life.disk;
  next->path = path;
  struct stat found{};
  if (::mkdir(path.c_str(), 0700) != 0 || ::mkdir(files_path(*next).c_str(), 0700) != 0 ||
      ::stat(path.c_str(), &found) != 0) {
    broken("make " + path);
  }
  next->root = add_node(*next, found);
  next->root->links = next->root->durable_links = 1;
  Rebuild(life, *next, holes).folder(*life.root, next->root, path);
  life.over = true;
  return next;
}

}  // namespace weft::sim::disk
