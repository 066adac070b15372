#include "tests/simulation/world/bare_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/real.h"

namespace weft::sim::disk {

namespace {

std::string real_path(const Node& folder) {
  if (folder.parent == nullptr) return folder.life->path;
  return real_path(*folder.parent) + "/" + folder.name;
}

// What readdir(3) tells of a folder that is bare when it is opened.
struct Listing {
  int fd = -1;
  int told = 0;
  dirent entry{};
};
std::vector<std::unique_ptr<Listing>>& listings() {
  static auto* const all = new std::vector<std::unique_ptr<Listing>>;
  return *all;
}
auto find_listing(const DIR* stream) {
  return std::ranges::find_if(listings(), [stream](const auto& listing) {
    return static_cast<const void*>(listing.get()) == static_cast<const void*>(stream);
  });
}

}  // namespace

std::shared_ptr<Node> add_bare(Life& life, const std::shared_ptr<Node>& parent,
                               const std::string& name) {
  make_real(parent);
  struct stat nothing{};
  nothing.st_mode = S_IFDIR;
  auto node = add_node(life, nothing);
  node->bare = true;
  node->parent = parent;
  node->name = name;
  life.bare.emplace(Place{parent->id, name}, node);
  return node;
}

std::shared_ptr<Node> find_bare(const Node& parent, const std::string& name) {
  const auto& bare = parent.life->bare;
  if (bare.empty()) return nullptr;
  const auto found = bare.find({parent.id, name});
  return found == bare.end() ? nullptr : found->second;
}

void forget_bare(Node& node) {
  if (node.bare) node.life->bare.erase({node.parent->id, node.name});
}

void make_real(const std::shared_ptr<Node>& node) {
  if (!node->bare || find_bare(*node->parent, node->name) != node) return;
  const Real real;
  const std::string path = real_path(*node);
  struct stat found{};
  if (::mkdir(path.c_str(), 0700) != 0 || ::stat(path.c_str(), &found) != 0) broken("make " + path);
  forget_bare(*node);
  node->bare = false;
  has_inode(node, found);
  for (const int fd : descriptors_of(*node)) {
    const int opened = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0 || ::dup3(opened, fd, O_CLOEXEC) != fd) broken("open " + path);
    ::close(opened);
  }
}

void make_real(int fd) {
  if (const auto node = bare_of(fd); node != nullptr) make_real(node);
}

void make_real_in(const Node& folder) {
  auto& bare = folder.life->bare;
  for (;;) {
    const auto next = bare.lower_bound({folder.id, ""});
    if (next == bare.end() || next->first.first != folder.id) return;
    make_real(std::shared_ptr(next->second));
  }
}

int open_bare(const std::shared_ptr<Node>& node) {
  int fd = -1;
  {
    const Real real;
    static const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    fd = ::fcntl(nothing, F_DUPFD_CLOEXEC, 0);
  }
  if (fd >= 0) is_of(fd, node);
  return fd;
}

}  // namespace weft::sim::disk

using namespace weft;  // NOLINT: what follows has names of the C library

extern "C" {

DIR* fdopendir(int fd) {
  const auto node = sim::active() ? sim::disk::node_of(fd) : nullptr;
  if (node == nullptr) return WEFT_REAL(fdopendir)(fd);
  if (!node->bare) {
    sim::disk::make_real_in(*node);
    return WEFT_REAL(fdopendir)(fd);
  }
  auto& made = sim::disk::listings().emplace_back(std::make_unique<sim::disk::Listing>());
  made->fd = fd;
  return reinterpret_cast<DIR*>(made.get());
}
DIR* opendir(const char* path) {
  if (sim::active()) {
    if (const auto node = sim::disk::node_at(AT_FDCWD, path); node != nullptr) {
      sim::disk::make_real(node);
      sim::disk::make_real_in(*node);
    }
  }
  return WEFT_REAL(opendir)(path);
}
dirent* readdir(DIR* stream) {
  const auto found = sim::disk::find_listing(stream);
  if (found == sim::disk::listings().end()) return WEFT_REAL(readdir)(stream);
  sim::disk::Listing& listing = **found;
  if (listing.told == 2) return nullptr;
  listing.entry.d_type = DT_DIR;
  listing.entry.d_name[0] = '.';
  listing.entry.d_name[1] = listing.told++ == 0 ? '\0' : '.';
  return &listing.entry;
}
dirent64* readdir64(DIR* stream) {
  static_assert(sizeof(dirent) == sizeof(dirent64));
  return reinterpret_cast<dirent64*>(readdir(stream));
}
int closedir(DIR* stream) {
  const auto found = sim::disk::find_listing(stream);
  if (found == sim::disk::listings().end()) {
    if (sim::active()) sim::disk::forget(::dirfd(stream));
    return WEFT_REAL(closedir)(stream);
  }
  const int fd = (*found)->fd;
  sim::disk::listings().erase(found);
  return ::close(fd);
}

}  // extern "C"
