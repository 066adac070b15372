#include "ganesha-fsal/meta/ops/rights.h"

namespace weft::mds {
namespace {

constexpr std::uint32_t kSetUid = 04000;
constexpr std::uint32_t kSetGid = 02000;
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kGroupExecute = 010;
constexpr std::uint32_t kWrite = 02;
constexpr std::uint32_t kSearch = 01;

bool owns(const Credentials& who, const InodeAttributes& inode) {
  return who.superuser || who.uid == inode.uid;
}

bool is_member(const Credentials& who, std::uint32_t group) {
  return who.superuser || who.in_group(group);
}

// Without group execution set-group-id only marks mandatory locking, which members keep.
std::uint32_t without_set_id(const Credentials& who, const InodeAttributes& inode) {
  std::uint32_t mode = inode.mode & ~kSetUid;
  if ((mode & kGroupExecute) != 0 || !is_member(who, inode.gid)) mode &= ~kSetGid;
  return mode;
}

}  // namespace

// The first class that the caller is in decides, even when a later one would allow more.
Result<> may_use(const Credentials& who, const InodeAttributes& inode, std::uint32_t bits) {
  if (who.superuser) return {};
  std::uint32_t allowed = inode.mode;
  if (who.uid == inode.uid) {
    allowed >>= 6;
  } else if (who.in_group(inode.gid)) {
    allowed >>= 3;
  }
  if ((allowed & bits) == bits) return {};
  return fail(Errc::kAccess);
}

Result<> may_search(const Credentials& who, const InodeAttributes& dir) {
  return may_use(who, dir, kSearch);
}

Result<> may_add(const Credentials& who, const InodeAttributes& dir) {
  return may_use(who, dir, kWrite | kSearch);
}

Result<> may_take(const Credentials& who, const InodeAttributes& dir,
                  const InodeAttributes& inode) {
  if (auto good = may_use(who, dir, kWrite | kSearch); !good) return good;
  if ((dir.mode & kSticky) == 0 || owns(who, inode) || owns(who, dir)) return {};
  return fail(Errc::kPermission, "a sticky directory");
}

Result<> may_make(const Credentials& who, FileType type, const CreateRequest& request) {
  if (who.superuser) return {};
  if (type == FileType::kBlock || type == FileType::kCharacter) {
    return fail(Errc::kPermission, "devices are the superuser's to make");
  }
  if (request.uid != who.uid) return fail(Errc::kPermission, "another owner");
  if (!who.in_group(request.gid)) return fail(Errc::kPermission, "a group of others");
  return {};
}

std::uint32_t mode_made(const Credentials& who, FileType type, std::uint32_t wanted,
                        const InodeAttributes& dir) {
  if ((dir.mode & kSetGid) == 0) return wanted;
  if (type == FileType::kDirectory) return wanted | kSetGid;
  if ((wanted & kGroupExecute) != 0 && !is_member(who, dir.gid)) return wanted & ~kSetGid;
  return wanted;
}

Result<> may_set(const Credentials& who, const InodeAttributes& inode,
                 const AttributeChange& change) {
  if (who.superuser) return {};
  if (owns(who, inode)) {
    if (change.uid && *change.uid != inode.uid) return fail(Errc::kPermission, "another owner");
    if (change.gid && *change.gid != inode.gid && !who.in_group(*change.gid)) {
      return fail(Errc::kPermission, "a group of others");
    }
    return {};
  }
  if (change.mode || change.uid || change.gid || (change.atime_ns && !change.atime_now) ||
      (change.mtime_ns && !change.mtime_now)) {
    return fail(Errc::kPermission, "another's");
  }
  if (!change.size && !change.atime_now && !change.mtime_now) return {};
  return may_use(who, inode, kWrite);
}

std::uint32_t mode_set(const Credentials& who, const InodeAttributes& inode,
                       const AttributeChange& change) {
  if (change.mode) {
    const bool member = is_member(who, change.gid.value_or(inode.gid));
    return member ? *change.mode : *change.mode & ~kSetGid;
  }
  const bool new_owner = (change.uid || change.gid) && inode.type != FileType::kDirectory;
  const bool written = change.size && !who.superuser;
  return new_owner || written ? without_set_id(who, inode) : inode.mode;
}

}  // namespace weft::mds
