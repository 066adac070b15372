#include "tests/simulation/world/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/simulation/world/bare_folders.h"
#include "tests/simulation/world/disk_work.h"
#include "tests/simulation/world/real.h"

namespace weft::sim::disk {

namespace {

struct Disk {
  std::string folder;
  std::uint64_t capacity = 0;
  unsigned lives = 0;
  Behaviour behaviour;
  WaitList stuck;
  std::vector<std::move_only_function<void()>> parked;  // work of rings while it is stuck
  std::vector<std::unique_ptr<Life>> all;               // the last one is the present one
};

std::vector<std::unique_ptr<Disk>>& disks() {
  static auto* const made = new std::vector<std::unique_ptr<Disk>>;
  return *made;
}
Disk& disk_of(const Life& life) { return *disks()[life.disk]; }
Life& present(unsigned disk) { return *disks().at(disk)->all.back(); }

std::vector<std::shared_ptr<Node>>& open_files() {
  static auto* const files = new std::vector<std::shared_ptr<Node>>;
  return *files;
}

// The average is what was asked for; now and then a disk takes much longer.
Ns spread(Ns time) {
  if (time <= 0) return 0;
  const Ns usual = time / 2 + static_cast<Ns>(choose(static_cast<std::uint64_t>(time)));
  return chance(1'000) ? usual * 20 : usual;
}

// A read that finds everything in memory and a write that only goes there take no time.
constexpr std::uint64_t kReadsInMillion = 50'000;
constexpr std::uint64_t kWritesInMillion = 250'000;

Ns time_of(const Behaviour& behaviour, Work work) {
  switch (work) {
    case Work::kRead: return chance(kReadsInMillion) ? spread(behaviour.read_time) : 0;
    case Work::kWrite:
      return chance(kWritesInMillion)
                 ? spread(behaviour.write_time) * (1'000'000 / kWritesInMillion)
                 : 0;
    case Work::kSync: break;
  }
  return spread(behaviour.sync_time);
}

int error_of(const Life& life) {
  const Behaviour& behaviour = disk_of(life).behaviour;
  if (life.over || behaviour.errors_in_million == 0) return 0;
  return chance(behaviour.errors_in_million) ? EIO : 0;
}

void move_on(Disk& disk) {
  wake_all(disk.stuck);
  for (auto& work : std::exchange(disk.parked, {})) after(0, std::move(work));
}

std::string begin_life(unsigned number, bool all) {
  Disk& disk = *disks().at(number);
  auto next = next_life(*disk.all.back(), disk.folder + "/" + std::to_string(++disk.lives), all,
                        disk.behaviour.holes);
  note(next->used);
  disk.all.push_back(std::move(next));
  move_on(disk);  // what is stuck belongs to the old life: it goes on, to no effect
  return path(number);
}

std::size_t bytes_of(const iovec* vectors, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += vectors[i].iov_len;
  return bytes;
}

constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

unsigned make(const std::string& folder, std::uint64_t capacity_bytes) {
  const Real real;
  const auto number = static_cast<unsigned>(disks().size());
  auto disk = std::make_unique<Disk>();
  disk->folder = folder;
  disk->capacity = capacity_bytes;
  Life none;
  none.disk = number;
  none.root = std::make_shared<Node>();
  if (::mkdir(folder.c_str(), 0700) != 0) broken("make " + folder);
  disk->all.push_back(next_life(none, folder + "/0", true, false));
  disks().push_back(std::move(disk));
  return number;
}

std::string path(unsigned disk) { return present(disk).path; }
unsigned count() { return static_cast<unsigned>(disks().size()); }

void behave(unsigned disk, const Behaviour& behaviour) {
  disks().at(disk)->behaviour = behaviour;
  if (!behaviour.stuck) move_on(*disks().at(disk));
}

std::string lose_power(unsigned disk) { return begin_life(disk, false); }
std::string keep_all(unsigned disk) { return begin_life(disk, true); }

std::shared_ptr<Node> node_of(int fd) {
  if (fd < 0) return nullptr;
  auto& files = open_files();
  const auto at = static_cast<std::size_t>(fd);
  if (at < files.size() && files[at] != nullptr) return files[at];
  struct stat found{};
  if (WEFT_REAL(fstat)(fd, &found) != 0) return nullptr;
  auto node = find_node(found);
  if (node == nullptr) return nullptr;
  is_of(fd, node);
  return node;
}

void is_of(int fd, std::shared_ptr<Node> node) {
  auto& files = open_files();
  const auto at = static_cast<std::size_t>(fd);
  if (at >= files.size()) files.resize(at + 1);
  files[at] = std::move(node);
}

std::vector<int> descriptors_of(const Node& node) {
  std::vector<int> found;
  for (std::size_t fd = 0; fd < open_files().size(); ++fd) {
    if (open_files()[fd].get() == &node) found.push_back(static_cast<int>(fd));
  }
  return found;
}

std::shared_ptr<Node> bare_of(int fd) {
  const auto& files = open_files();
  const auto at = static_cast<std::size_t>(fd);
  if (fd < 0 || at >= files.size() || files[at] == nullptr || !files[at]->bare) return nullptr;
  return files[at];
}

Named named(int folder, const char* path) {
  std::string_view text = path;
  while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  const std::size_t slash = text.rfind('/');
  if (slash == text.npos) {
    return {folder == AT_FDCWD ? node_at(AT_FDCWD, ".") : node_of(folder), std::string(text)};
  }
  const std::string above(text.substr(0, slash == 0 ? 1 : slash));
  return {node_at(folder, above.c_str()), std::string(text.substr(slash + 1))};
}

std::shared_ptr<Node> node_at(int folder, const char* path) {
  // Most are folders of a store, by their names in it: no need to ask.
  if (folder != AT_FDCWD && std::strchr(path, '/') == nullptr) {
    const auto above = node_of(folder);
    if (auto bare = above == nullptr ? nullptr : find_bare(*above, path); bare != nullptr) {
      return bare;
    }
  }
  struct stat found{};
  if (WEFT_REAL(fstatat)(folder, path, &found, AT_SYMLINK_NOFOLLOW) == 0) return find_node(found);
  if (errno != ENOENT || std::string_view(path).find('/') == std::string_view::npos) return nullptr;
  const Named at = named(folder, path);
  return at.folder == nullptr ? nullptr : find_bare(*at.folder, at.name);
}

void forget(int fd) {
  auto& files = open_files();
  if (fd >= 0 && static_cast<std::size_t>(fd) < files.size()) files[fd].reset();
}

int take_time(Life& life, Work work) {
  preempt();
  Disk& disk = disk_of(life);
  if (life.over) return 0;
  if (const Ns time = time_of(disk.behaviour, work); time > 0) sleep_until(now() + time);
  while (!life.over && disk.behaviour.stuck) wait(disk.stuck);
  return error_of(life);
}

void after_time(Life& life, Work work, std::move_only_function<void(int)> done) {
  Disk& disk = disk_of(life);
  const Ns time = life.over ? 0 : time_of(disk.behaviour, work);
  after(time, [&life, &disk, done = std::move(done)]() mutable {
    if (life.over || !disk.behaviour.stuck) return done(error_of(life));
    disk.parked.push_back([&life, done = std::move(done)]() mutable { done(error_of(life)); });
  });
}

Space space_of(const Life& life) {
  const std::uint64_t capacity = disk_of(life).capacity;
  const bool full = disk_of(life).behaviour.full;
  return {capacity, full || life.used >= capacity ? 0 : capacity - life.used};
}

int find_room(const Node& node, std::uint64_t from, std::uint64_t to) {
  if (node.life->over || from >= to) return 0;
  const Space space = space_of(*node.life);
  if (round_up(to) - from / kPage * kPage <= space.free || to <= node.reserved) return 0;
  // Exactly, now: pages that are there already need no room.
  const Real real;
  const int file = ::open(own_path(node).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;  // unlinked: nothing counts any more
  std::uint64_t need = 0;
  for (std::uint64_t page = from / kPage; page * kPage < to; ++page) {
    if ((page + 1) * kPage <= node.reserved) continue;
    const auto begin = static_cast<off_t>(page * kPage);
    if (page * kPage >= node.size || ::lseek(file, begin, SEEK_DATA) != begin) need += kPage;
  }
  ::close(file);
  return need <= space.free ? 0 : ENOSPC;
}

ssize_t read_now(int fd, const iovec* into, int count, off_t offset, int flags) {
  if (offset < 0) return WEFT_REAL(readv)(fd, into, count);
  return WEFT_REAL(preadv2)(fd, into, count, offset, flags & ~RWF_NOWAIT);
}

ssize_t write_now(const std::shared_ptr<Node>& node, int fd, const iovec* from, int count,
                  off_t offset, int flags) {
  if (node->life->over || node->life->nodes.count(node->id) == 0) {
    return offset < 0 ? WEFT_REAL(writev)(fd, from, count)
                      : WEFT_REAL(pwritev2)(fd, from, count, offset, flags);
  }
  const bool append = (WEFT_REAL(fcntl)(fd, F_GETFL) & O_APPEND) != 0;
  off_t at = offset;
  if (append) {
    at = static_cast<off_t>(node->size);
  } else if (offset < 0) {
    at = WEFT_REAL(lseek)(fd, 0, SEEK_CUR);
  }
  const auto begin = static_cast<std::uint64_t>(at);
  const std::uint64_t end = begin + bytes_of(from, count);
  if (const int error = find_room(*node, begin, end); error != 0) {
    errno = error;
    return -1;
  }
  before_write(*node, begin, end);
  const ssize_t done =
      offset < 0 ? WEFT_REAL(writev)(fd, from, count) : WEFT_REAL(pwritev)(fd, from, count, offset);
  const int error = errno;
  after_write(*node);
  note(end);
  errno = error;
  return done;
}

ssize_t preadv(int fd, const iovec* into, int count, off_t offset, int flags) {
  const auto node = node_of(fd);
  if (node == nullptr) {
    return offset < 0 && flags == 0 ? WEFT_REAL(readv)(fd, into, count)
                                    : WEFT_REAL(preadv2)(fd, into, count, offset, flags);
  }
  if (!node->life->over && (flags & RWF_NOWAIT) != 0 && chance(kReadsInMillion)) {
    errno = EAGAIN;
    return -1;
  }
  const int error = (flags & RWF_NOWAIT) != 0 ? 0 : take_time(*node->life, Work::kRead);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return read_now(fd, into, count, offset, flags);
}

ssize_t pwritev(int fd, const iovec* from, int count, off_t offset, int flags) {
  const auto node = node_of(fd);
  if (node == nullptr) {
    return offset < 0 && flags == 0 ? WEFT_REAL(writev)(fd, from, count)
                                    : WEFT_REAL(pwritev2)(fd, from, count, offset, flags);
  }
  if (const int error = take_time(*node->life, Work::kWrite); error != 0) {
    errno = error;
    return -1;
  }
  const ssize_t done = write_now(node, fd, from, count, offset, flags);
  const bool synced =
      (WEFT_REAL(fcntl)(fd, F_GETFL) & O_DSYNC) != 0 || (flags & (RWF_DSYNC | RWF_SYNC)) != 0;
  if (done > 0 && synced && sync(fd, true) != 0) return -1;
  return done;
}

int sync(int fd, bool data_only) {
  const auto node = node_of(fd);
  if (node == nullptr) return data_only ? WEFT_REAL(fdatasync)(fd) : WEFT_REAL(fsync)(fd);
  const int error = take_time(*node->life, Work::kSync);
  note(node->id);
  if (!node->life->over) written_back(node, data_only, error != 0);
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace weft::sim::disk
