// The basic types of NFSv4.1 and 4.2 on the wire (RFC 8881 section 3, RFC 7862).
//
// Identifiers of the protocol keep the RFC's spelling, so that they can be searched for; the
// names of our own constants do not. Every type here is a plain value with an encode() and a
// decode() in codec.h or beside the operation that uses it.
//
// Threading: values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "rpc/base/error.h"

namespace weft::rpc::nfs4 {

constexpr std::uint32_t kProgram = 100003;
constexpr std::uint32_t kVersion = 4;
constexpr std::uint16_t kPort = 2049;

// Limits of ours on what a peer may send; the RFC's own where it has one.
constexpr std::size_t kMaxTagBytes = 1024;
constexpr std::size_t kMaxHandleBytes = 128;    // NFS4_FHSIZE
constexpr std::size_t kMaxOwnerBytes = 1024;    // NFS4_OPAQUE_LIMIT
constexpr std::size_t kMaxNameBytes = 255;      // a component; longer is NFS4ERR_NAMETOOLONG
constexpr std::size_t kMaxOpsPerCompound = 64;  // decoded at all; a session may allow fewer
constexpr std::size_t kMaxAttributeBytes = 64 << 10;
constexpr std::size_t kMaxLayoutBodyBytes = 64 << 10;
constexpr std::size_t kMaxDirEntries = 16384;  // of a READDIR's reply, in 1 MiB
constexpr std::size_t kMaxIoBytes = std::size_t{4} << 20;

enum class Status : std::uint32_t {
  NFS4_OK = 0,
  NFS4ERR_PERM = 1,
  NFS4ERR_NOENT = 2,
  NFS4ERR_IO = 5,
  NFS4ERR_NXIO = 6,
  NFS4ERR_ACCESS = 13,
  NFS4ERR_EXIST = 17,
  NFS4ERR_XDEV = 18,
  NFS4ERR_NOTDIR = 20,
  NFS4ERR_ISDIR = 21,
  NFS4ERR_INVAL = 22,
  NFS4ERR_FBIG = 27,
  NFS4ERR_NOSPC = 28,
  NFS4ERR_ROFS = 30,
  NFS4ERR_MLINK = 31,
  NFS4ERR_NAMETOOLONG = 63,
  NFS4ERR_NOTEMPTY = 66,
  NFS4ERR_DQUOT = 69,
  NFS4ERR_STALE = 70,
  NFS4ERR_BADHANDLE = 10001,
  NFS4ERR_BAD_COOKIE = 10003,
  NFS4ERR_NOTSUPP = 10004,
  NFS4ERR_TOOSMALL = 10005,
  NFS4ERR_SERVERFAULT = 10006,
  NFS4ERR_BADTYPE = 10007,
  NFS4ERR_DELAY = 10008,
  NFS4ERR_SAME = 10009,
  NFS4ERR_DENIED = 10010,
  NFS4ERR_EXPIRED = 10011,
  NFS4ERR_LOCKED = 10012,
  NFS4ERR_GRACE = 10013,
  NFS4ERR_FHEXPIRED = 10014,
  NFS4ERR_SHARE_DENIED = 10015,
  NFS4ERR_WRONGSEC = 10016,
  NFS4ERR_CLID_INUSE = 10017,
  NFS4ERR_MOVED = 10019,
  NFS4ERR_NOFILEHANDLE = 10020,
  NFS4ERR_MINOR_VERS_MISMATCH = 10021,
  NFS4ERR_STALE_CLIENTID = 10022,
  NFS4ERR_STALE_STATEID = 10023,
  NFS4ERR_OLD_STATEID = 10024,
  NFS4ERR_BAD_STATEID = 10025,
  NFS4ERR_BAD_SEQID = 10026,
  NFS4ERR_NOT_SAME = 10027,
  NFS4ERR_SYMLINK = 10029,
  NFS4ERR_RESTOREFH = 10030,
  NFS4ERR_ATTRNOTSUPP = 10032,
  NFS4ERR_NO_GRACE = 10033,
  NFS4ERR_RECLAIM_BAD = 10034,
  NFS4ERR_BADXDR = 10036,
  NFS4ERR_LOCKS_HELD = 10037,
  NFS4ERR_OPENMODE = 10038,
  NFS4ERR_BADOWNER = 10039,
  NFS4ERR_BADCHAR = 10040,
  NFS4ERR_BADNAME = 10041,
  NFS4ERR_OP_ILLEGAL = 10044,
  NFS4ERR_FILE_OPEN = 10046,
  NFS4ERR_ADMIN_REVOKED = 10047,
  NFS4ERR_BADIOMODE = 10049,
  NFS4ERR_BADLAYOUT = 10050,
  NFS4ERR_BAD_SESSION_DIGEST = 10051,
  NFS4ERR_BADSESSION = 10052,
  NFS4ERR_BADSLOT = 10053,
  NFS4ERR_COMPLETE_ALREADY = 10054,
  NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
  NFS4ERR_BACK_CHAN_BUSY = 10057,
  NFS4ERR_LAYOUTTRYLATER = 10058,
  NFS4ERR_LAYOUTUNAVAILABLE = 10059,
  NFS4ERR_NOMATCHING_LAYOUT = 10060,
  NFS4ERR_RECALLCONFLICT = 10061,
  NFS4ERR_UNKNOWN_LAYOUTTYPE = 10062,
  NFS4ERR_SEQ_MISORDERED = 10063,
  NFS4ERR_SEQUENCE_POS = 10064,
  NFS4ERR_REQ_TOO_BIG = 10065,
  NFS4ERR_REP_TOO_BIG = 10066,
  NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067,
  NFS4ERR_RETRY_UNCACHED_REP = 10068,
  NFS4ERR_UNSAFE_COMPOUND = 10069,
  NFS4ERR_TOO_MANY_OPS = 10070,
  NFS4ERR_OP_NOT_IN_SESSION = 10071,
  NFS4ERR_HASH_ALG_UNSUPP = 10072,
  NFS4ERR_CLIENTID_BUSY = 10074,
  NFS4ERR_PNFS_IO_HOLE = 10075,
  NFS4ERR_SEQ_FALSE_RETRY = 10076,
  NFS4ERR_BAD_HIGH_SLOT = 10077,
  NFS4ERR_DEADSESSION = 10078,
  NFS4ERR_ENCR_ALG_UNSUPP = 10079,
  NFS4ERR_PNFS_NO_LAYOUT = 10080,
  NFS4ERR_NOT_ONLY_OP = 10081,
  NFS4ERR_WRONG_CRED = 10082,
  NFS4ERR_WRONG_TYPE = 10083,
};

enum class Op : std::uint32_t {
  OP_CLOSE = 4,
  OP_COMMIT = 5,
  OP_CREATE = 6,
  OP_GETATTR = 9,
  OP_GETFH = 10,
  OP_LOOKUP = 15,
  OP_OPEN = 18,
  OP_PUTFH = 22,
  OP_PUTROOTFH = 24,
  OP_READ = 25,
  OP_READDIR = 26,
  OP_REMOVE = 28,
  OP_RENAME = 29,
  OP_SAVEFH = 32,
  OP_WRITE = 38,
  OP_BIND_CONN_TO_SESSION = 41,
  OP_EXCHANGE_ID = 42,
  OP_CREATE_SESSION = 43,
  OP_DESTROY_SESSION = 44,
  OP_GETDEVICEINFO = 47,
  OP_LAYOUTCOMMIT = 49,
  OP_LAYOUTGET = 50,
  OP_LAYOUTRETURN = 51,
  OP_SEQUENCE = 53,
  OP_DESTROY_CLIENTID = 57,
  OP_RECLAIM_COMPLETE = 58,
  OP_ILLEGAL = 10044,
};

// Operation numbers some minor version defines: 3..58 in 4.1 (RFC 8881), up to 71 in 4.2.
[[nodiscard]] constexpr bool is_defined_op(std::uint32_t op, std::uint32_t minor_version) {
  return op >= 3 && op <= (minor_version >= 2 ? 71U : 58U);
}

[[nodiscard]] std::string_view to_string(Status status);  // "NFS4ERR_STALE", "NFS4ERR_unknown"
[[nodiscard]] std::string_view to_string(Op op);

// The one place where our errors become the protocol's, and back. An Errc with no counterpart is
// NFS4ERR_SERVERFAULT; a data server's fencing (kFenced) is NFS4ERR_ACCESS.
[[nodiscard]] Status status_from(Errc code);
[[nodiscard]] Errc errc_from(Status status);

using ClientId = std::uint64_t;
using SessionId = std::array<std::byte, 16>;
using Verifier = std::uint64_t;  // opaque[8], read big-endian; compared, never interpreted
using DeviceId = std::array<std::byte, 16>;

struct Stateid {
  std::uint32_t seqid = 0;
  std::array<std::byte, 12> other{};
  friend bool operator==(const Stateid&, const Stateid&) = default;
};

// nfs_fh4, kept in place.
class FileHandle {
 public:
  FileHandle() = default;
  // Precondition: bytes.size() <= kMaxHandleBytes.
  explicit FileHandle(std::span<const std::byte> bytes);
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  friend bool operator==(const FileHandle& a, const FileHandle& b) {
    return a.size_ == b.size_ && std::memcmp(a.bytes_.data(), b.bytes_.data(), a.size_) == 0;
  }

 private:
  std::array<std::byte, kMaxHandleBytes> bytes_;  // only the first size_ are meaningful
  std::size_t size_ = 0;
};

enum class StableHow : std::uint32_t { UNSTABLE4 = 0, DATA_SYNC4 = 1, FILE_SYNC4 = 2 };

enum class FileType : std::uint32_t {
  NF4REG = 1,
  NF4DIR = 2,
  NF4BLK = 3,
  NF4CHR = 4,
  NF4LNK = 5,
  NF4SOCK = 6,
  NF4FIFO = 7,
};

enum class LayoutType : std::uint32_t { LAYOUT4_NFSV4_1_FILES = 1, LAYOUT4_FLEX_FILES = 4 };
enum class IoMode : std::uint32_t { LAYOUTIOMODE4_READ = 1, LAYOUTIOMODE4_RW = 2, ANY = 3 };

struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  friend bool operator==(const Time&, const Time&) = default;
};

// change_info4
struct ChangeInfo {
  bool atomic = false;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  friend bool operator==(const ChangeInfo&, const ChangeInfo&) = default;
};

}  // namespace weft::rpc::nfs4
