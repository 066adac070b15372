#include "ganesha-fsal/glue/attributes.h"

#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/export.h"

namespace weft::mds {
namespace {

constexpr std::uint32_t kPermissionBits = 07777;
constexpr attrmask_t kKnown = ATTRS_POSIX | ATTR_CREATION;

struct TypeRow {
  FileType ours;
  object_file_type_t ganesha;
};
constexpr TypeRow kTypes[] = {
    {FileType::kRegular, REGULAR_FILE},     {FileType::kDirectory, DIRECTORY},
    {FileType::kSymlink, SYMBOLIC_LINK},    {FileType::kBlock, BLOCK_FILE},
    {FileType::kCharacter, CHARACTER_FILE}, {FileType::kFifo, FIFO_FILE},
    {FileType::kSocket, SOCKET_FILE},
};

bool asks(const fsal_attrlist& list, attrmask_t bit) { return (list.valid_mask & bit) != 0; }

}  // namespace

object_file_type_t to_ganesha_type(FileType type) {
  for (const TypeRow& row : kTypes) {
    if (row.ours == type) return row.ganesha;
  }
  return NO_FILE_TYPE;
}

Result<FileType> from_ganesha_type(object_file_type_t type) {
  for (const TypeRow& row : kTypes) {
    if (row.ganesha == type) return row.ours;
  }
  return fail(Errc::kWrongType, "no type of an inode");
}

void fill_attributes(const InodeAttributes& from, std::uint32_t fsid, fsal_attrlist* out) {
  out->valid_mask = kKnown;
  out->supported = kKnown;
  out->type = to_ganesha_type(from.type);
  out->filesize = from.size;
  out->fsid = {.major = fsid, .minor = 0};
  out->fsid3 = fsid;
  out->fileid = from.id;
  out->mode = from.mode;
  out->numlinks = from.nlink;
  out->owner = from.uid;
  out->group = from.gid;
  out->rawdev = {.major = from.rdev.major, .minor = from.rdev.minor};
  out->atime = to_timespec(from.atime_ns);
  out->creation = to_timespec(from.btime_ns);
  out->ctime = to_timespec(from.ctime_ns);
  out->mtime = to_timespec(from.mtime_ns);
  // A file counts as full here (files/used_space.h), a directory as one block.
  constexpr std::uint64_t kBlock = 4096;
  out->spaceused = from.type == FileType::kDirectory
                       ? kBlock
                       : from.size / kBlock * kBlock + (from.size % kBlock != 0 ? kBlock : 0);
  out->change = from.change;
  out->generation = 0;
}

void fill_if_wanted(const InodeAttributes& from, std::uint32_t fsid, fsal_attrlist* out) {
  if (out != nullptr) fill_attributes(from, fsid, out);
}

void fill_found(Export& exp, const InodeAttributes& from, fsal_attrlist* out) {
  fill_attributes(from, exp.fsid(), out);
  if (from.type != FileType::kRegular) return;
  if (from.size >= UsedSpace::kLargeFile || exp.server().data().size_doubtful(from.id)) {
    out->valid_mask = ATTR_RDATTR_ERR;
  }
  if (from.size < UsedSpace::kLargeFile) {
    out->spaceused = exp.server().data().space().without_asking(from);
  }
}

void fill_listed(Export& exp, const InodeAttributes& from, fsal_attrlist* out) {
  fill_found(exp, from, out);
  if (from.type != FileType::kRegular || !exp.server().data().size_doubtful(from.id)) return;
  fill_attributes(from, exp.fsid(), out);
  out->expire_time_attr = kExpiresSoon;
}

void fill_directory_change(const DirectoryChange& change, std::uint32_t fsid, fsal_attrlist* before,
                           fsal_attrlist* after) {
  fill_if_wanted(change.before, fsid, before);
  fill_if_wanted(change.after, fsid, after);
}

// Ganesha squashes before it fills in creds: root whom the export squashes is an ordinary user
// here, with the anonymous uid and gid and no further groups.
Credentials credentials() {
  const user_cred& creds = op_ctx->creds;
  static_assert(sizeof(gid_t) == sizeof(std::uint32_t));
  return {.uid = creds.caller_uid,
          .gid = creds.caller_gid,
          .groups = {creds.caller_garray, creds.caller_garray == nullptr ? 0 : creds.caller_glen},
          .superuser = op_ctx->fsal_export->exp_ops.is_superuser(op_ctx->fsal_export, &creds)};
}

CreateRequest create_request(const fsal_attrlist* wanted) {
  CreateRequest request;
  request.mode = 0600;
  request.uid = op_ctx->creds.caller_uid;
  request.gid = op_ctx->creds.caller_gid;
  if (wanted == nullptr) return request;
  if (asks(*wanted, ATTR_MODE)) request.mode = wanted->mode & kPermissionBits;
  if (asks(*wanted, ATTR_OWNER)) request.uid = static_cast<std::uint32_t>(wanted->owner);
  if (asks(*wanted, ATTR_GROUP)) request.gid = static_cast<std::uint32_t>(wanted->group);
  if (asks(*wanted, ATTR_ATIME)) request.atime_ns = to_ns(wanted->atime);
  if (asks(*wanted, ATTR_MTIME)) request.mtime_ns = to_ns(wanted->mtime);
  if (asks(*wanted, ATTR_SIZE)) request.size = wanted->filesize;
  return request;
}

AttributeChange attribute_change(const fsal_attrlist& wanted) {
  AttributeChange change;
  if (asks(wanted, ATTR_MODE)) change.mode = wanted.mode & kPermissionBits;
  if (asks(wanted, ATTR_OWNER)) change.uid = static_cast<std::uint32_t>(wanted.owner);
  if (asks(wanted, ATTR_GROUP)) change.gid = static_cast<std::uint32_t>(wanted.group);
  if (asks(wanted, ATTR_SIZE)) change.size = wanted.filesize;
  if (asks(wanted, ATTR_ATIME)) change.atime_ns = to_ns(wanted.atime);
  if (asks(wanted, ATTR_MTIME)) change.mtime_ns = to_ns(wanted.mtime);
  change.atime_now = asks(wanted, ATTR_ATIME_SERVER);
  change.mtime_now = asks(wanted, ATTR_MTIME_SERVER);
  return change;
}

}  // namespace weft::mds
