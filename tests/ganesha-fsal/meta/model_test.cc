// Random operations of random users against the namespace and against a model so simple that it is
// evidently right: the same answers, the same tree, and a clean fsck.
#include <rapidcheck.h>

#include <map>
#include <random>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;

namespace {

struct Node {
  FileType type = FileType::kRegular;
  std::map<std::string, FileId> children;  // of a directory
  FileId parent = 0;                       // of a directory
  std::uint32_t nlink = 1;
  std::uint64_t size = 0;
  int holds = 0;
  std::uint32_t mode = 0755;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

constexpr std::uint32_t kLinks = 5;
constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kGroupExecute = 010;

bool member(const Credentials& who, std::uint32_t gid) {
  return who.superuser || who.in_group(gid);
}

bool owns(const Credentials& who, const Node& node) { return who.superuser || who.uid == node.uid; }

bool can(const Credentials& who, const Node& node, std::uint32_t bits) {
  const std::uint32_t shift = who.uid == node.uid ? 6 : who.in_group(node.gid) ? 3 : 0;
  return who.superuser || ((node.mode >> shift) & bits) == bits;
}

class Model {
 public:
  Model() { nodes[kRootFileId] = {.type = FileType::kDirectory, .parent = kRootFileId}; }

  Errc make(const Credentials& who, FileId dir, const std::string& name, FileId id, FileType type,
            const CreateRequest& request) {
    if (const Errc bad = check_dir(who, dir); bad != kOk) return bad;
    if (nodes[dir].children.contains(name)) return Errc::kExists;
    if (!can(who, nodes[dir], 3)) return Errc::kAccess;
    if (type == FileType::kBlock && !who.superuser) return Errc::kPermission;
    if (!who.superuser && request.uid != who.uid) return Errc::kPermission;
    if (!member(who, request.gid)) return Errc::kPermission;
    const bool directory = type == FileType::kDirectory;
    nodes[dir].children[name] = id;
    Node made{.type = type,
              .parent = directory ? dir : 0,
              .mode = request.mode,
              .uid = request.uid,
              .gid = request.gid};
    if ((nodes[dir].mode & kSetGid) != 0) {
      made.gid = nodes[dir].gid;
      if (directory) made.mode |= kSetGid;
      const bool runs = (made.mode & kGroupExecute) != 0;
      if (!directory && runs && !member(who, made.gid)) made.mode &= ~kSetGid;
    }
    nodes[id] = made;
    return kOk;
  }

  Errc link(const Credentials& who, FileId file, FileId dir, const std::string& name) {
    if (const Errc bad = check_dir(who, dir); bad != kOk) return bad;
    if (!nodes.contains(file)) return Errc::kStale;
    Node& node = nodes[file];
    if (node.type == FileType::kDirectory) return Errc::kIsDirectory;
    if (node.nlink == 0) return Errc::kStale;
    if (nodes[dir].children.contains(name)) return Errc::kExists;
    if (!can(who, nodes[dir], 3)) return Errc::kAccess;
    if (node.nlink == kLinks) return Errc::kTooManyLinks;
    nodes[dir].children[name] = file;
    ++node.nlink;
    return kOk;
  }

  Errc remove(const Credentials& who, FileId dir, const std::string& name) {
    if (const Errc bad = check_dir(who, dir); bad != kOk) return bad;
    auto& children = nodes[dir].children;
    if (!children.contains(name)) return Errc::kNotFound;
    const FileId id = children[name];
    if (const Errc bad = check_take(who, dir, id); bad != kOk) return bad;
    if (!nodes[id].children.empty()) return Errc::kNotEmpty;
    children.erase(name);
    drop(id);
    return kOk;
  }

  Errc rename(const Credentials& who, FileId from, const std::string& from_name, FileId to,
              const std::string& to_name) {
    for (const FileId dir : {from, to}) {
      if (const Errc bad = check_kind(dir); bad != kOk) return bad;
    }
    if (!can(who, nodes[from], 1) || !can(who, nodes[to], 1)) return Errc::kAccess;
    if (!nodes[from].children.contains(from_name)) return Errc::kNotFound;
    const FileId id = nodes[from].children[from_name];
    const bool replaces = nodes[to].children.contains(to_name);
    const FileId old = replaces ? nodes[to].children[to_name] : 0;
    if (old == id) return kOk;
    const bool moves_dir = nodes[id].type == FileType::kDirectory;
    if (moves_dir) {
      for (FileId up = to; up != kRootFileId; up = nodes[up].parent) {
        if (up == id) return Errc::kInvalid;
      }
    }
    if (const Errc bad = check_take(who, from, id); bad != kOk) return bad;
    if (!can(who, nodes[to], 3)) return Errc::kAccess;
    if (replaces) {
      if (const Errc bad = check_take(who, to, old); bad != kOk) return bad;
      const bool over_dir = nodes[old].type == FileType::kDirectory;
      if (moves_dir && !over_dir) return Errc::kNotDirectory;
      if (!moves_dir && over_dir) return Errc::kIsDirectory;
    }
    if (moves_dir && from != to && !can(who, nodes[id], 2)) return Errc::kAccess;
    if (replaces) {
      if (!nodes[old].children.empty()) return Errc::kNotEmpty;
      drop(old);
    }
    nodes[from].children.erase(from_name);
    nodes[to].children[to_name] = id;
    if (moves_dir) nodes[id].parent = to;
    return kOk;
  }

  Errc resize(const Credentials& who, FileId id, std::uint64_t size) {
    if (!nodes.contains(id)) return Errc::kStale;
    Node& node = nodes[id];
    if (node.type == FileType::kDirectory) return Errc::kIsDirectory;
    if (node.type != FileType::kRegular) return Errc::kInvalid;
    if (!owns(who, node) && !can(who, node, 2)) return Errc::kAccess;
    node.size = size;
    if (!who.superuser) clear_set_id(who, node);
    return kOk;
  }

  Errc chmod(const Credentials& who, FileId id, std::uint32_t mode) {
    if (!nodes.contains(id)) return Errc::kStale;
    if (!owns(who, nodes[id])) return Errc::kPermission;
    nodes[id].mode = member(who, nodes[id].gid) ? mode : mode & ~kSetGid;
    return kOk;
  }

  Errc chown(const Credentials& who, FileId id, std::uint32_t uid, std::uint32_t gid) {
    if (!nodes.contains(id)) return Errc::kStale;
    Node& node = nodes[id];
    if (!owns(who, node)) return Errc::kPermission;
    if (!who.superuser && uid != node.uid) return Errc::kPermission;
    if (gid != node.gid && !member(who, gid)) return Errc::kPermission;
    if (node.type != FileType::kDirectory) clear_set_id(who, node);
    node.uid = uid;
    node.gid = gid;
    return kOk;
  }

  void release(FileId id) {
    Node& node = nodes[id];
    if (--node.holds == 0 && node.nlink == 0) nodes.erase(id);
  }

  static constexpr Errc kOk{};
  std::map<FileId, Node> nodes;

 private:
  Errc check_kind(FileId dir) {
    if (!nodes.contains(dir)) return Errc::kStale;
    return nodes[dir].type == FileType::kDirectory ? kOk : Errc::kNotDirectory;
  }
  Errc check_dir(const Credentials& who, FileId dir) {
    if (const Errc bad = check_kind(dir); bad != kOk) return bad;
    return can(who, nodes[dir], 1) ? kOk : Errc::kAccess;
  }
  Errc check_take(const Credentials& who, FileId dir, FileId id) {
    if (!can(who, nodes[dir], 3)) return Errc::kAccess;
    const bool sticky = (nodes[dir].mode & kSticky) != 0;
    return sticky && !owns(who, nodes[dir]) && !owns(who, nodes[id]) ? Errc::kPermission : kOk;
  }
  static void clear_set_id(const Credentials& who, Node& node) {
    node.mode &= ~kSetUid;
    if ((node.mode & kGroupExecute) != 0 || !member(who, node.gid)) node.mode &= ~kSetGid;
  }
  void drop(FileId id) {
    Node& node = nodes[id];
    if (--node.nlink == 0 && node.holds == 0) nodes.erase(id);
  }
};

template <class T>
Errc code_of(const Result<T>& result) {
  return result ? Model::kOk : result.error().code;
}

class Walk : public NamespaceTest {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed) {}

  void step() {
    const FileId dir = any();
    const std::string name = any_name();
    const Credentials who = anybody();
    switch (random_() % 12) {
      case 0:
      case 1: return make_file(who, dir, name);
      case 2:
      case 3: return make_directory(who, dir, name);
      case 4: {
        const FileId file = any();
        return same(code_of(names->link(who, file, dir, name)), model_.link(who, file, dir, name));
      }
      case 5: return same(code_of(names->remove(who, dir, name)), model_.remove(who, dir, name));
      case 6:
      case 7: {
        const FileId to = any();
        const std::string to_name = any_name();
        return same(code_of(names->rename(who, dir, name, to, to_name)),
                    model_.rename(who, dir, name, to, to_name));
      }
      case 8: return hold_or_release();
      case 9: {
        const std::uint32_t mode = any_mode();
        return same(code_of(names->setattr(who, dir, {.mode = mode})),
                    model_.chmod(who, dir, mode));
      }
      case 10: {
        const std::uint32_t uid = any_id();
        const std::uint32_t gid = any_id();
        return same(code_of(names->setattr(who, dir, {.uid = uid, .gid = gid})),
                    model_.chown(who, dir, uid, gid));
      }
      default: {
        const std::uint64_t size = random_() % 1000;
        return same(code_of(names->setattr(who, dir, {.size = size})),
                    model_.resize(who, dir, size));
      }
    }
  }

  void compare() {
    for (const auto& [id, node] : model_.nodes) {
      auto got = names->getattr(id);
      RC_ASSERT(got.has_value());
      RC_ASSERT(got->type == node.type);
      RC_ASSERT(got->mode == node.mode);
      RC_ASSERT(got->uid == node.uid);
      RC_ASSERT(got->gid == node.gid);
      if (node.type != FileType::kDirectory) {
        RC_ASSERT(got->nlink == node.nlink);
        RC_ASSERT(got->size == node.size);
        continue;
      }
      RC_ASSERT(names->lookup(id, "..")->id == node.parent);
      auto page = names->readdir(id, 0, 1000, false);
      RC_ASSERT(page.has_value());
      std::map<std::string, FileId> listed;
      for (const auto& entry : page->entries) listed[entry.name] = entry.id;
      RC_ASSERT(listed == node.children);
    }
    auto report = fsck(store.latest());
    RC_ASSERT(report.has_value());
    RC_ASSERT(report->clean());
    RC_ASSERT(report->inodes == model_.nodes.size());
  }

 private:
  // Mostly inodes that are there, sometimes one that was.
  FileId any() {
    if (ever_.empty() || random_() % 6 == 0) return kRootFileId;
    return ever_[random_() % ever_.size()];
  }
  std::string any_name() { return std::string(1, static_cast<char>('a' + random_() % 4)); }

  void same(Errc got, Errc wanted) { RC_ASSERT(got == wanted); }

  // Half of the time the superuser, or little would ever be made.
  Credentials anybody() {
    static constexpr std::array<std::uint32_t, 1> kGroups{2};
    if (random_() % 2 == 0) return kSuperuser;
    const std::uint32_t id = 1 + random_() % 3;
    Credentials who{.uid = id, .gid = id};
    if (id == 1) who.groups = kGroups;
    return who;
  }
  std::uint32_t any_id() { return random_() % 4; }
  // Mostly such that something may be done.
  std::uint32_t any_mode() {
    constexpr std::uint32_t kModes[] = {0755, 0775, 0777, 01777, 02775, 02777, 0555, 0700, 06755};
    return random_() % 4 == 0 ? random_() % 010000 : kModes[random_() % std::size(kModes)];
  }
  // Mostly their own.
  CreateRequest any_request(const Credentials& who) {
    const bool other = random_() % 8 == 0;
    return {.mode = any_mode(),
            .uid = other ? any_id() : who.uid,
            .gid = random_() % 8 == 0 ? any_id() : who.gid};
  }

  void make_file(const Credentials& who, FileId dir, const std::string& name) {
    const CreateRequest request = any_request(who);
    if (random_() % 4 != 0) {
      return made(names->create(who, dir, name, request), who, dir, name, FileType::kRegular,
                  request);
    }
    const FileType type = random_() % 2 == 0 ? FileType::kFifo : FileType::kBlock;
    made(names->mknod(who, dir, name, type, {}, request), who, dir, name, type, request);
  }

  void make_directory(const Credentials& who, FileId dir, const std::string& name) {
    const CreateRequest request = any_request(who);
    made(names->mkdir(who, dir, name, request), who, dir, name, FileType::kDirectory, request);
  }

  void made(const Result<Created>& result, const Credentials& who, FileId dir,
            const std::string& name, FileType type, const CreateRequest& request) {
    const FileId id = result ? result->attributes.id : 0;
    same(code_of(result), model_.make(who, dir, name, id, type, request));
    if (id != 0) ever_.push_back(id);
  }

  void hold_or_release() {
    const FileId id = any();
    const auto node = model_.nodes.find(id);
    if (node == model_.nodes.end()) return same(code_of(names->hold(id)), Errc::kStale);
    if (node->second.type != FileType::kRegular) return;
    if (node->second.holds > 0 && random_() % 2 == 0) {
      RC_ASSERT(names->release(id).has_value());
      return model_.release(id);
    }
    RC_ASSERT(names->hold(id).has_value());
    ++node->second.holds;
  }

  std::mt19937_64 random_;
  Model model_;
  std::vector<FileId> ever_;
};

}  // namespace

TEST_CASE("random operations give what the model gives") {
  CHECK(rc::check([](std::uint64_t seed) {
    Walk walk(seed);
    for (int i = 0; i < 300; ++i) walk.step();
    walk.compare();
  }));
}

TEST_CASE("and also when transactions conflict at random") {
  CHECK(rc::check([](std::uint64_t seed) {
    Walk walk(seed);
    walk.store.conflict_at_random(4);
    for (int i = 0; i < 100; ++i) walk.step();
    walk.compare();
  }));
}
