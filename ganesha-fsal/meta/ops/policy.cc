// Policies of directories, and those that files took from them when they were made.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

Result<std::optional<layout::Policy>> to_policy(Result<std::optional<std::string>> value) {
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto policy = decode_policy(**value);
  if (!policy) return pass(policy);
  return *policy;
}

}  // namespace

Result<std::optional<layout::Policy>> peek_policy(const KvReader& reader, FileId id) {
  return to_policy(reader.peek(keys::policy(id)));
}

Result<layout::Policy> Tree::policy_in(FileId dir) {
  layout::Policy policy;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    auto own = to_policy(transaction_.get(keys::policy(dir)));
    if (!own) return pass(own);
    if (*own) policy = inherit(**own, policy);
    if (dir == kRootFileId) return policy;
    auto above = transaction_.get(keys::parent(dir));
    if (!above) return pass(above);
    if (!*above) break;
    auto parent = decode_parent(**above);
    if (!parent) return pass(parent);
    dir = parent->dir;
  }
  return fail(Errc::kCorrupt, "no way up to the root");
}

void Tree::put_policy(FileId id, const layout::Policy& policy) {
  if (policy == layout::Policy{}) {
    transaction_.erase(keys::policy(id));
  } else {
    transaction_.put(keys::policy(id), encode(policy));
  }
}

Result<layout::Policy> Namespace::policy_in(Tree& tree, FileId dir) {
  const auto known = inherited_.find(dir);
  if (known.policy) return *known.policy;
  auto found = tree.policy_in(dir);
  if (found) {
    inherited_.keep(dir, *found, known.state);
  } else if (found.error() == Errc::kCorrupt && inherited_.changed_since(known.state)) {
    return fail(Errc::kConflict, "a directory above was moved, and the one it was in removed");
  }
  return found;
}

Result<layout::Policy> Namespace::policy(FileId id) const {
  if (!policies_) return layout::Policy{};
  auto kept = peek_policy(store_.latest(), id);
  if (auto noted = told({id}); !noted) return pass(noted);
  if (!kept) return pass(kept);
  return kept->value_or(layout::Policy{});
}

Result<std::vector<Namespace::PolicyAt>> Namespace::policies_above(FileId dir) const {
  std::vector<PolicyAt> found;
  const KvReader& reader = store_.latest();
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    auto own = peek_policy(reader, dir);
    if (auto noted = told({dir}); !noted) return pass(noted);
    if (!own) return pass(own);
    if (*own) found.push_back({dir, **own});
    if (dir == kRootFileId) return found;
    auto parent = peek_parent(reader, dir);
    if (!parent) return pass(parent);
    dir = parent->dir;
  }
  return fail(Errc::kCorrupt, "no way up to the root");
}

Result<InodeAttributes> Namespace::set_policy(FileId dir, const layout::Policy& policy) {
  InodeAttributes out;
  // Before it is there, so that no file is made in between without looking.
  if (policy != layout::Policy{}) policies_ = true;
  const InheritedPolicies::Change change(inherited_);
  auto done = change_told(locks_.lock({dir}), [&](Tree& tree) -> Result<> {
    auto inode = tree.directory(dir);
    if (!inode) return pass(inode);
    if (policy != layout::Policy{}) {
      if (auto room = store_.room(); !room) return room;
    }
    tree.put_policy(dir, policy);
    tree.touch_ctime(*inode);
    tree.store(*inode);
    out = inode->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<> Namespace::look_for_policies() {
  const keys::Range range = keys::all(keys::Prefix::kPolicy);
  return store_.latest().scan(range.begin, range.end, 1, [this](auto, auto) {
    policies_ = true;
    return false;
  });
}

}  // namespace weft::mds
