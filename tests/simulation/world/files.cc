// Names of files: opening, renaming, removing. The real call is made on the real files; the disk is
// told what changed.
#include "tests/simulation/world/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <memory>
#include <string>
#include <string_view>

#include "tests/simulation/world/bare_folders.h"
#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

namespace {

using disk::Change;
using disk::Node;
using NodePtr = std::shared_ptr<Node>;

struct Where : disk::Named {
  [[nodiscard]] bool tracked() const { return folder != nullptr && !folder->life->over; }
  [[nodiscard]] disk::Place place() const { return {folder->id, name}; }
  // Something is put there.
  void make_real() const {
    if (folder != nullptr) disk::make_real(folder);
  }
};

// The call is about to use the descriptor `folder`.
Where where(int folder, const char* path) {
  disk::make_real(folder);
  return {disk::named(folder, path)};
}

void journal_new(const Where& at, const NodePtr& node) {
  note(node->id);
  disk::journal(*node->life,
                {.names = {{at.place(), node}}, .gone = {}, .cut = nullptr, .size = 0});
}

// The new file at `at` belongs to the disk from now on.
void created(const Where& at, int folder, const char* path) {
  struct stat found{};
  if (WEFT_REAL(fstatat)(folder, path, &found, AT_SYMLINK_NOFOLLOW) != 0) {
    disk::broken(std::string("stat the new ") + path);
  }
  disk::Life& life = *at.folder->life;
  auto node = disk::add_node(life, found);
  if (!node->folder) {
    const std::string own = disk::own_path(*node);
    if (WEFT_REAL(linkat)(folder, path, AT_FDCWD, own.c_str(), 0) != 0) {
      disk::broken(std::string("link the new ") + path);
    }
  }
  journal_new(at, node);
}

// The disk reads what it overwrites by another descriptor; direct I/O is the same to it but for
// syncs that fail.
int real_flags(int flags) { return flags & ~(O_DIRECT | O_TRUNC); }

int open_known(const NodePtr& node, int folder, const char* path, int flags, mode_t mode) {
  if (node->bare && (flags & O_ACCMODE) == O_RDONLY && (flags & O_CREAT) == 0) {
    return disk::open_bare(node);
  }
  if (node->bare) disk::make_real(node);  // refuses to be written
  if ((flags & O_DIRECT) != 0) node->direct = true;
  const int fd = WEFT_REAL(openat)(folder, path, real_flags(flags), mode);
  if (fd < 0 || (flags & O_TRUNC) == 0 || (flags & O_ACCMODE) == O_RDONLY) return fd;
  if (!node->life->over && node->life->nodes.contains(node->id)) disk::before_resize(node, 0);
  if (WEFT_REAL(ftruncate)(fd, 0) != 0) disk::broken("truncate an opened file");
  if (!node->life->over && node->life->nodes.contains(node->id)) disk::after_write(*node);
  return fd;
}

int rename_file(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  preempt();
  const Where source = where(from_folder, from);
  const Where target = where(to_folder, to);
  const bool tracked = source.tracked() && target.tracked();
  if (!tracked && (source.tracked() || target.tracked())) {
    disk::broken("a rename between a disk and something else");
  }
  const NodePtr node = tracked ? disk::node_at(from_folder, from) : nullptr;
  const NodePtr replaced = tracked ? disk::node_at(to_folder, to) : nullptr;
  target.make_real();
  for (const NodePtr& folder : {node, replaced}) {
    if (folder != nullptr) disk::make_real(folder);
  }
  if (tracked && (flags & ~unsigned{RENAME_NOREPLACE}) != 0) disk::broken("such a rename");
  const int result = WEFT_REAL(renameat2)(from_folder, from, to_folder, to, flags);
  if (result != 0 || node == nullptr || node == replaced) return result;
  note(node->id);
  if (node->folder) {
    node->parent = target.folder;
    node->name = target.name;
  }
  Change change{.names = {{source.place(), nullptr}, {target.place(), node}},
                .gone = {node},
                .cut = nullptr,
                .size = 0};
  if (replaced != nullptr) change.gone.push_back(replaced);
  disk::journal(*node->life, std::move(change));
  return result;
}

int remove_name(int folder, const char* path, int flags) {
  preempt();
  const Where at = where(folder, path);
  const NodePtr node = at.folder != nullptr ? disk::node_at(folder, path) : nullptr;
  int result = 0;
  if (node == nullptr || !node->bare) {
    if (node != nullptr && node->folder) disk::make_real_in(*node);
    result = WEFT_REAL(unlinkat)(folder, path, flags);
  } else if ((flags & AT_REMOVEDIR) != 0) {
    disk::forget_bare(*node);
  } else {
    errno = EISDIR;
    result = -1;
  }
  if (result != 0 || node == nullptr || !at.tracked()) return result;
  note(node->id);
  disk::journal(*node->life,
                {.names = {{at.place(), nullptr}}, .gone = {node}, .cut = nullptr, .size = 0});
  return result;
}

int make_folder(int folder, const char* path, mode_t mode) {
  preempt();
  const Where at = where(folder, path);
  at.make_real();
  if (!at.tracked() || !at.folder->folder || at.folder->links == 0 || at.name.empty()) {
    return WEFT_REAL(mkdirat)(folder, path, mode);
  }
  if (disk::node_at(folder, path) != nullptr) {
    errno = EEXIST;
    return -1;
  }
  disk::Life& life = *at.folder->life;
  if (disk::space_of(life).free < disk::kPage) {
    errno = ENOSPC;
    return -1;
  }
  journal_new(at, disk::add_bare(life, at.folder, at.name));
  return 0;
}

int link_file(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  preempt();
  const Where target = where(to_folder, to);
  disk::make_real(from_folder);
  target.make_real();
  const NodePtr node = target.tracked() ? disk::node_at(from_folder, from) : nullptr;
  const int result = WEFT_REAL(linkat)(from_folder, from, to_folder, to, flags);
  if (result != 0 || node == nullptr) return result;
  disk::journal(*node->life,
                {.names = {{target.place(), node}}, .gone = {}, .cut = nullptr, .size = 0});
  return result;
}

}  // namespace

int open_file(int folder, const char* path, int flags, mode_t mode) {
  preempt();
  if (const auto canned = open_canned(path)) return *canned;
  disk::make_real(folder);
  const auto node = disk::node_at(folder, path);
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    if (node != nullptr) disk::make_real(node);
    return WEFT_REAL(openat)(folder, path, flags, mode);
  }
  if (node != nullptr) {
    return open_known(node, folder, path, flags, mode);
  }
  if ((flags & O_CREAT) == 0) return WEFT_REAL(openat)(folder, path, flags, mode);
  const Where at = where(folder, path);
  at.make_real();
  const int fd =
      WEFT_REAL(openat)(folder, path, at.folder == nullptr ? flags : real_flags(flags), mode);
  if (fd >= 0 && at.tracked()) created(at, folder, path);
  return fd;
}

}  // namespace weft::sim

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

// The third argument of open(2) is there only for these.
bool has_mode(int flags) { return (flags & (O_CREAT | O_TMPFILE)) != 0; }

}  // namespace

#define WEFT_MODE(flags)                                \
  mode_t mode = 0;                                      \
  if (has_mode(flags)) {                                \
    va_list more;                                       \
    va_start(more, flags);                              \
    mode = static_cast<mode_t>(va_arg(more, unsigned)); \
    va_end(more);                                       \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  WEFT_MODE(flags)
  if (!sim::active()) return WEFT_REAL(open)(path, flags, mode);
  return sim::open_file(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  WEFT_MODE(flags)
  if (!sim::active()) return WEFT_REAL(open64)(path, flags, mode);
  return sim::open_file(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  WEFT_MODE(flags)
  if (!sim::active()) return WEFT_REAL(openat)(folder, path, flags, mode);
  return sim::open_file(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  WEFT_MODE(flags)
  if (!sim::active()) return WEFT_REAL(openat64)(folder, path, flags, mode);
  return sim::open_file(folder, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  if (!sim::active()) return WEFT_REAL(creat)(path, mode);
  return sim::open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int rename(const char* from, const char* to) {
  if (!sim::active()) return WEFT_REAL(rename)(from, to);
  return sim::rename_file(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (!sim::active()) return WEFT_REAL(renameat)(from_folder, from, to_folder, to);
  return sim::rename_file(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (!sim::active()) return WEFT_REAL(renameat2)(from_folder, from, to_folder, to, flags);
  return sim::rename_file(from_folder, from, to_folder, to, flags);
}

int link(const char* from, const char* to) {
  if (!sim::active()) return WEFT_REAL(link)(from, to);
  return sim::link_file(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  if (!sim::active()) return WEFT_REAL(linkat)(from_folder, from, to_folder, to, flags);
  return sim::link_file(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  if (!sim::active()) return WEFT_REAL(unlink)(path);
  return sim::remove_name(AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char* path, int flags) {
  if (!sim::active()) return WEFT_REAL(unlinkat)(folder, path, flags);
  return sim::remove_name(folder, path, flags);
}
int rmdir(const char* path) {
  if (!sim::active()) return WEFT_REAL(rmdir)(path);
  return sim::remove_name(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) {
  if (!sim::active()) return WEFT_REAL(remove)(path);
  const int result = sim::remove_name(AT_FDCWD, path, 0);
  if (result == 0 || (errno != EISDIR && errno != EPERM)) return result;
  return sim::remove_name(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char* path, mode_t mode) {
  if (!sim::active()) return WEFT_REAL(mkdir)(path, mode);
  return sim::make_folder(AT_FDCWD, path, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) {
  if (!sim::active()) return WEFT_REAL(mkdirat)(folder, path, mode);
  return sim::make_folder(folder, path, mode);
}

}  // extern "C"
