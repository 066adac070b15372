// The name-space and open operations our client side speaks: PUTFH, LOOKUP, OPEN, CLOSE, GETATTR,
// CREATE, REMOVE, RENAME, READDIR, GETFH, SAVEFH (RFC 8881 chapter 18).
//
// OPEN is limited to what a load generator and a proxy need: claims CLAIM_NULL and CLAIM_FH,
// creation UNCHECKED4 or GUARDED4; a reply's delegation is decoded past, a READ or WRITE
// delegation being rejected (we ask for none with OPEN4_SHARE_ACCESS_WANT_NO_DELEG).
//
// Threading: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rpc/nfs4/attributes.h"
#include "rpc/nfs4/codec.h"

namespace weft::rpc::nfs4 {

struct PutFhArgs {
  FileHandle handle;
  friend bool operator==(const PutFhArgs&, const PutFhArgs&) = default;
};

struct GetFhOk {
  FileHandle handle;
  friend bool operator==(const GetFhOk&, const GetFhOk&) = default;
};

struct LookupArgs {
  std::string name;
  friend bool operator==(const LookupArgs&, const LookupArgs&) = default;
};

constexpr std::uint32_t OPEN4_SHARE_ACCESS_READ = 1;
constexpr std::uint32_t OPEN4_SHARE_ACCESS_WRITE = 2;
constexpr std::uint32_t OPEN4_SHARE_ACCESS_BOTH = 3;
constexpr std::uint32_t OPEN4_SHARE_ACCESS_WANT_NO_DELEG = 0x400;

enum class CreateMode : std::uint32_t { UNCHECKED4 = 0, GUARDED4 = 1 };
enum class OpenClaim : std::uint32_t { CLAIM_NULL = 0, CLAIM_FH = 4 };

struct OpenCreate {
  CreateMode mode = CreateMode::UNCHECKED4;
  Attributes attributes;
  friend bool operator==(const OpenCreate&, const OpenCreate&) = default;
};

struct OpenArgs {
  std::uint32_t share_access = OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  std::uint32_t share_deny = 0;
  ClientId client_id = 0;  // 0 in minor version 1 and up
  std::vector<std::byte> owner;
  std::optional<OpenCreate> create;  // absent: OPEN4_NOCREATE
  OpenClaim claim = OpenClaim::CLAIM_NULL;
  std::string name;  // CLAIM_NULL: in the current directory
  friend bool operator==(const OpenArgs&, const OpenArgs&) = default;
};

struct OpenOk {
  Stateid stateid;
  ChangeInfo change;
  std::uint32_t flags = 0;
  AttrMask attributes_set;
  friend bool operator==(const OpenOk&, const OpenOk&) = default;
};

struct CloseArgs {
  std::uint32_t seqid = 0;  // not used since minor version 1
  Stateid stateid;
  friend bool operator==(const CloseArgs&, const CloseArgs&) = default;
};

struct CloseOk {
  Stateid stateid;
  friend bool operator==(const CloseOk&, const CloseOk&) = default;
};

struct GetAttrArgs {
  AttrMask mask;
  friend bool operator==(const GetAttrArgs&, const GetAttrArgs&) = default;
};

struct GetAttrOk {
  Attributes attributes;
  friend bool operator==(const GetAttrOk&, const GetAttrOk&) = default;
};

// Types without data of their own: a directory, a socket, a FIFO.
struct CreateArgs {
  FileType type = FileType::NF4DIR;
  std::string name;
  Attributes attributes;
  friend bool operator==(const CreateArgs&, const CreateArgs&) = default;
};

struct CreateOk {
  ChangeInfo change;
  AttrMask attributes_set;
  friend bool operator==(const CreateOk&, const CreateOk&) = default;
};

struct RemoveArgs {
  std::string name;
  friend bool operator==(const RemoveArgs&, const RemoveArgs&) = default;
};

struct RemoveOk {
  ChangeInfo change;
  friend bool operator==(const RemoveOk&, const RemoveOk&) = default;
};

// From the saved directory to the current one.
struct RenameArgs {
  std::string from;
  std::string to;
  friend bool operator==(const RenameArgs&, const RenameArgs&) = default;
};

struct RenameOk {
  ChangeInfo source;
  ChangeInfo target;
  friend bool operator==(const RenameOk&, const RenameOk&) = default;
};

struct ReadDirArgs {
  std::uint64_t cookie = 0;  // 0: from the beginning
  Verifier verifier = 0;     // of the answer before
  std::uint32_t dir_count = 0;
  std::uint32_t max_count = 0;  // bytes of the answer
  AttrMask mask;
  friend bool operator==(const ReadDirArgs&, const ReadDirArgs&) = default;
};

struct DirEntry {
  std::uint64_t cookie = 0;
  std::string name;
  Attributes attributes;
  friend bool operator==(const DirEntry&, const DirEntry&) = default;
};

struct ReadDirOk {
  Verifier verifier = 0;
  std::vector<DirEntry> entries;  // kMaxDirEntries at most
  bool eof = false;
  friend bool operator==(const ReadDirOk&, const ReadDirOk&) = default;
};

void encode(xdr::Encoder& out, const PutFhArgs& args);
void decode(xdr::Decoder& in, PutFhArgs& args);
void encode(xdr::Encoder& out, const GetFhOk& ok);
void decode(xdr::Decoder& in, GetFhOk& ok);
void encode(xdr::Encoder& out, const LookupArgs& args);
void decode(xdr::Decoder& in, LookupArgs& args);
void encode(xdr::Encoder& out, const OpenArgs& args);
void decode(xdr::Decoder& in, OpenArgs& args);
void encode(xdr::Encoder& out, const OpenOk& ok);
void decode(xdr::Decoder& in, OpenOk& ok);
void encode(xdr::Encoder& out, const CloseArgs& args);
void decode(xdr::Decoder& in, CloseArgs& args);
void encode(xdr::Encoder& out, const CloseOk& ok);
void decode(xdr::Decoder& in, CloseOk& ok);
void encode(xdr::Encoder& out, const GetAttrArgs& args);
void decode(xdr::Decoder& in, GetAttrArgs& args);
void encode(xdr::Encoder& out, const GetAttrOk& ok);
void decode(xdr::Decoder& in, GetAttrOk& ok);
void encode(xdr::Encoder& out, const CreateArgs& args);
void decode(xdr::Decoder& in, CreateArgs& args);
void encode(xdr::Encoder& out, const CreateOk& ok);
void decode(xdr::Decoder& in, CreateOk& ok);
void encode(xdr::Encoder& out, const RemoveArgs& args);
void decode(xdr::Decoder& in, RemoveArgs& args);
void encode(xdr::Encoder& out, const RemoveOk& ok);
void decode(xdr::Decoder& in, RemoveOk& ok);
void encode(xdr::Encoder& out, const RenameArgs& args);
void decode(xdr::Decoder& in, RenameArgs& args);
void encode(xdr::Encoder& out, const RenameOk& ok);
void decode(xdr::Decoder& in, RenameOk& ok);
void encode(xdr::Encoder& out, const ReadDirArgs& args);
void decode(xdr::Decoder& in, ReadDirArgs& args);
void encode(xdr::Encoder& out, const ReadDirOk& ok);
void decode(xdr::Decoder& in, ReadDirOk& ok);

}  // namespace weft::rpc::nfs4
