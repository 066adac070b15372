// CREATE and OPEN's making of files: regular files, directories, symbolic links, special files.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/rights.h"
#include "ganesha-fsal/meta/ops/tree.h"

namespace weft::mds {

struct Namespace::MakeRequest {
  const Credentials& who;
  FileId dir = 0;
  std::string_view name;
  FileType type = FileType::kRegular;
  const CreateRequest& base;
  std::string_view target;
  DeviceNumber rdev;
  CreateHow how = CreateHow::kGuarded;
  CreateVerifier verifier{};
};

namespace {

constexpr std::uint32_t kSetGid = 02000;

InodeRecord new_inode(const Tree& tree, const Credentials& who, FileId id, FileType type,
                      const CreateRequest& base, const InodeAttributes& dir) {
  InodeRecord inode;
  InodeAttributes& a = inode.attributes;
  a.id = id;
  a.type = type;
  a.mode = mode_made(who, type, base.mode & 07777, dir);
  a.uid = base.uid;
  a.gid = (dir.mode & kSetGid) != 0 ? dir.gid : base.gid;
  a.nlink = type == FileType::kDirectory ? 2 : 1;
  a.atime_ns = base.atime_ns.value_or(tree.now_ns());
  a.mtime_ns = base.mtime_ns.value_or(tree.now_ns());
  a.ctime_ns = a.btime_ns = tree.now_ns();
  a.change = 1;
  return inode;
}

// The name is taken: whether that is success for this way of creating.
Result<> accept_existing(const InodeRecord& inode, CreateHow how, const CreateVerifier& verifier) {
  if (how == CreateHow::kGuarded) return fail(Errc::kExists);
  if (how == CreateHow::kExclusive) {
    if (inode.verifier == verifier) return {};
    return fail(Errc::kExists);
  }
  switch (inode.attributes.type) {
    case FileType::kRegular: return {};
    case FileType::kDirectory: return fail(Errc::kIsDirectory);
    case FileType::kSymlink: return fail(Errc::kSymlink);
    default: return fail(Errc::kExists);
  }
}

}  // namespace

Result<Created> Namespace::make(const MakeRequest& request) {
  if (auto good = check_name(request.name); !good) return pass(good);
  auto id = ids_.next();
  if (!id) return pass(id);
  // What the name may name already is not changed, and keeps the name while its directory is
  // locked.
  auto guard = locks_.lock({request.dir, *id});
  Created out;
  auto seq = commit(guard, [&](Tree& tree) { return make_in(tree, request, *id, out); });
  const CommitSeq upto = seq ? *seq : guard.seen();
  const bool made = seq && !out.existed;
  if (made && request.base.hold) locks_.hold(*id);
  guard.unlock();
  auto noted = told(std::max(upto, out.existed ? locks_.seen({out.attributes.id}) : 0));
  if (!noted && made && request.base.hold) static_cast<void>(release(*id));
  if (!noted) return pass(noted);
  if (!seq) return pass(seq);
  if (out.existed && locks_.untold(out.attributes.id)) {
    auto inode = tell_write(out.attributes.id);
    if (!inode) return pass(inode);
    out.attributes = inode->attributes;
  }
  return out;
}

Result<> Namespace::make_in(Tree& tree, const MakeRequest& request, FileId id, Created& out) {
  out = {};
  auto dir = tree.directory(request.dir);
  if (!dir) return pass(dir);
  if (auto good = may_search(request.who, dir->attributes); !good) return good;
  out.parent.before = out.parent.after = dir->attributes;
  auto entry = tree.entry(request.dir, request.name);
  if (!entry) return pass(entry);
  if (*entry) {
    auto there = peek_inode(tree.transaction(), (*entry)->id);
    if (!there) return pass(there);
    out.attributes = there->attributes;
    out.existed = true;
    return accept_existing(*there, request.how, request.verifier);
  }
  if (auto good = may_add(request.who, dir->attributes); !good) return good;
  if (auto good = may_make(request.who, request.type, request.base); !good) return good;
  if (auto room = store_.room(); !room) return room;
  InodeRecord made = new_inode(tree, request.who, id, request.type, request.base, dir->attributes);
  made.target = request.target;
  made.attributes.size =
      request.type == FileType::kRegular ? request.base.size : request.target.size();
  made.attributes.rdev = request.rdev;
  if (request.how == CreateHow::kExclusive) made.verifier = request.verifier;
  if (auto added = tree.add_entry(*dir, request.name, id, request.type); !added) return added;
  tree.touch_mtime(*dir);
  tree.store(*dir);
  tree.store(made);
  if (request.type == FileType::kRegular && policies_) {
    auto policy = policy_in(tree, request.dir);
    if (!policy) return pass(policy);
    // Later nothing says in which directory it was made.
    if (policy->first == layout::kFirstByDirectory) policy->first = request.dir;
    if (*policy != layout::Policy{}) tree.put_policy(id, *policy);
  }
  out = {made.attributes, false, {out.parent.before, dir->attributes}};
  return {};
}

Result<Created> Namespace::create(const Credentials& who, FileId dir, std::string_view name,
                                  const CreateRequest& request, CreateHow how,
                                  CreateVerifier verifier) {
  if (request.size > kMaxFileSize) return fail(Errc::kFileTooLarge);
  return make(
      {.who = who, .dir = dir, .name = name, .base = request, .how = how, .verifier = verifier});
}

Result<Created> Namespace::mkdir(const Credentials& who, FileId dir, std::string_view name,
                                 const CreateRequest& request) {
  return make(
      {.who = who, .dir = dir, .name = name, .type = FileType::kDirectory, .base = request});
}

Result<Created> Namespace::symlink(const Credentials& who, FileId dir, std::string_view name,
                                   std::string_view target, const CreateRequest& request) {
  if (target.empty() || target.find('\0') != target.npos) return fail(Errc::kInvalid, "target");
  if (target.size() > kMaxSymlinkBytes) return fail(Errc::kNameTooLong, "target");
  return make({.who = who,
               .dir = dir,
               .name = name,
               .type = FileType::kSymlink,
               .base = request,
               .target = target});
}

Result<Created> Namespace::mknod(const Credentials& who, FileId dir, std::string_view name,
                                 FileType type, DeviceNumber rdev, const CreateRequest& request) {
  switch (type) {
    case FileType::kBlock:
    case FileType::kCharacter: break;
    case FileType::kFifo:
    case FileType::kSocket: rdev = {}; break;
    default: return fail(Errc::kInvalid, "no special file");
  }
  return make({.who = who, .dir = dir, .name = name, .type = type, .base = request, .rdev = rdev});
}

}  // namespace weft::mds
