// Random operations against the namespace and against a model so simple that it is evidently right:
// the same answers, the same tree, and a clean fsck.
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
};

constexpr std::uint32_t kLinks = 5;

class Model {
 public:
  Model() { nodes[kRootFileId] = {.type = FileType::kDirectory, .parent = kRootFileId}; }

  Errc make(FileId dir, const std::string& name, FileId id, FileType type) {
    if (const Errc bad = check_dir(dir); bad != kOk) return bad;
    if (nodes[dir].children.contains(name)) return Errc::kExists;
    nodes[dir].children[name] = id;
    nodes[id] = {.type = type, .parent = type == FileType::kDirectory ? dir : 0};
    return kOk;
  }

  Errc link(FileId file, FileId dir, const std::string& name) {
    if (const Errc bad = check_dir(dir); bad != kOk) return bad;
    if (!nodes.contains(file)) return Errc::kStale;
    Node& node = nodes[file];
    if (node.type == FileType::kDirectory) return Errc::kIsDirectory;
    if (node.nlink == 0) return Errc::kStale;
    if (node.nlink == kLinks) return Errc::kTooManyLinks;
    if (nodes[dir].children.contains(name)) return Errc::kExists;
    nodes[dir].children[name] = file;
    ++node.nlink;
    return kOk;
  }

  Errc remove(FileId dir, const std::string& name) {
    if (const Errc bad = check_dir(dir); bad != kOk) return bad;
    auto& children = nodes[dir].children;
    if (!children.contains(name)) return Errc::kNotFound;
    const FileId id = children[name];
    if (!nodes[id].children.empty()) return Errc::kNotEmpty;
    children.erase(name);
    drop(id);
    return kOk;
  }

  Errc rename(FileId from, const std::string& from_name, FileId to, const std::string& to_name) {
    if (const Errc bad = check_dir(from); bad != kOk) return bad;
    if (const Errc bad = check_dir(to); bad != kOk) return bad;
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
    if (replaces) {
      const bool over_dir = nodes[old].type == FileType::kDirectory;
      if (moves_dir && !over_dir) return Errc::kNotDirectory;
      if (!moves_dir && over_dir) return Errc::kIsDirectory;
      if (!nodes[old].children.empty()) return Errc::kNotEmpty;
      drop(old);
    }
    nodes[from].children.erase(from_name);
    nodes[to].children[to_name] = id;
    if (moves_dir) nodes[id].parent = to;
    return kOk;
  }

  void release(FileId id) {
    Node& node = nodes[id];
    if (--node.holds == 0 && node.nlink == 0) nodes.erase(id);
  }

  static constexpr Errc kOk{};
  std::map<FileId, Node> nodes;

 private:
  Errc check_dir(FileId dir) {
    if (!nodes.contains(dir)) return Errc::kStale;
    return nodes[dir].type == FileType::kDirectory ? kOk : Errc::kNotDirectory;
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
    switch (random_() % 10) {
      case 0:
      case 1: return made(names->create(dir, name, {}), dir, name, FileType::kRegular);
      case 2:
      case 3: return made(names->mkdir(dir, name, {}), dir, name, FileType::kDirectory);
      case 4: {
        const FileId file = any();
        return same(code_of(names->link(file, dir, name)), model_.link(file, dir, name));
      }
      case 5: return same(code_of(names->remove(dir, name)), model_.remove(dir, name));
      case 6:
      case 7: {
        const FileId to = any();
        const std::string to_name = any_name();
        return same(code_of(names->rename(dir, name, to, to_name)),
                    model_.rename(dir, name, to, to_name));
      }
      case 8: return hold_or_release();
      default: return resize(any());
    }
  }

  void compare() {
    for (const auto& [id, node] : model_.nodes) {
      auto got = names->getattr(id);
      RC_ASSERT(got.has_value());
      RC_ASSERT(got->type == node.type);
      if (node.type != FileType::kDirectory) {
        RC_ASSERT(got->nlink == node.nlink);
        RC_ASSERT(got->size == node.size);
        continue;
      }
      RC_ASSERT(*names->parent(id) == node.parent);
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

  void made(const Result<Created>& result, FileId dir, const std::string& name, FileType type) {
    const FileId id = result ? result->attributes.id : 0;
    same(code_of(result), model_.make(dir, name, id, type));
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

  void resize(FileId id) {
    const std::uint64_t size = random_() % 1000;
    auto done = names->setattr(id, {.size = size});
    const auto node = model_.nodes.find(id);
    if (node == model_.nodes.end()) return same(code_of(done), Errc::kStale);
    if (node->second.type == FileType::kDirectory) return same(code_of(done), Errc::kIsDirectory);
    same(code_of(done), Model::kOk);
    node->second.size = size;
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
