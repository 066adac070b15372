// Who may do what: the rules of Linux's VFS, as a local file system behind the kernel's NFS server
// would have them (fs/namei.c, fs/attr.c, fs/inode.c). Private to the namespace.
//
// Functions that begin with "may" give kAccess where permission bits refuse (EACCES), and
// kPermission where only the owner or the superuser may (EPERM). The superuser may do
// everything.
//
// Threading: pure functions.
#pragma once

#include "ganesha-fsal/meta/schema/credentials.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "rpc/base/error.h"

namespace weft::mds {

// Every one of these permission bits (04 read, 02 write, 01 search), of the owner, the group or
// others, whichever the caller is.
[[nodiscard]] Result<> may_use(const Credentials& who, const InodeAttributes& inode,
                               std::uint32_t bits);
[[nodiscard]] Result<> may_search(const Credentials& who, const InodeAttributes& dir);
// To make a name in it.
[[nodiscard]] Result<> may_add(const Credentials& who, const InodeAttributes& dir);
// To take away a name of `inode`. In a sticky directory only the owner of either may.
[[nodiscard]] Result<> may_take(const Credentials& who, const InodeAttributes& dir,
                                const InodeAttributes& inode);
// To make an inode of this type with the owner and group that the request names.
[[nodiscard]] Result<> may_make(const Credentials& who, FileType type,
                                const CreateRequest& request);
// The mode of what is made in `dir`: a set-group-id directory hands the bit to directories, and
// takes it from a group-executable file whose maker is not in the directory's group.
[[nodiscard]] std::uint32_t mode_made(const Credentials& who, FileType type, std::uint32_t wanted,
                                      const InodeAttributes& dir);
// Mode, times and owners are the owner's to change; the size, and times to "now", also of those who
// may write. An owner may always set the size: NFS clients do so for files opened before a chmod.
[[nodiscard]] Result<> may_set(const Credentials& who, const InodeAttributes& inode,
                               const AttributeChange& change);
// The mode after `change`: who is not in the group cannot set set-group-id; a new owner, or a new
// size of the caller's making, clears set-user-id and set-group-id.
[[nodiscard]] std::uint32_t mode_set(const Credentials& who, const InodeAttributes& inode,
                                     const AttributeChange& change);

}  // namespace weft::mds
