// Arguments and results of the session operations (RFC 8881 sections 18.34 to 18.37, 18.46,
// 18.50, 18.51): EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, BIND_CONN_TO_SESSION, SEQUENCE,
// DESTROY_CLIENTID, RECLAIM_COMPLETE.
//
// Only SP4_NONE state protection is spoken: other choices are decoded far enough to be refused
// with the right error (ExchangeIdArgs::protection) and are never encoded. A result type holds
// what follows NFS4_OK; the status itself is in OpResult (compound.h).
//
// Threading: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rpc/nfs4/codec.h"

namespace weft::rpc::nfs4 {

// eia_flags and eir_flags.
constexpr std::uint32_t EXCHGID4_FLAG_SUPP_MOVED_REFER = 0x1;
constexpr std::uint32_t EXCHGID4_FLAG_SUPP_MOVED_MIGR = 0x2;
constexpr std::uint32_t EXCHGID4_FLAG_BIND_PRINC_STATEID = 0x100;
constexpr std::uint32_t EXCHGID4_FLAG_USE_NON_PNFS = 0x10000;
constexpr std::uint32_t EXCHGID4_FLAG_USE_PNFS_MDS = 0x20000;
constexpr std::uint32_t EXCHGID4_FLAG_USE_PNFS_DS = 0x40000;
constexpr std::uint32_t EXCHGID4_FLAG_MASK_PNFS = 0x70000;
constexpr std::uint32_t EXCHGID4_FLAG_UPD_CONFIRMED_REC_A = 0x40000000;
constexpr std::uint32_t EXCHGID4_FLAG_CONFIRMED_R = 0x80000000;

enum class StateProtect : std::uint32_t { SP4_NONE = 0, SP4_MACH_CRED = 1, SP4_SSV = 2 };

// nfs_impl_id4: how the peer's software names itself; a Linux client puts its kernel's release
// in `name`.
struct ImplId {
  std::string domain;
  std::string name;
  Time date;
  friend bool operator==(const ImplId&, const ImplId&) = default;
};

struct ExchangeIdArgs {
  Verifier verifier = 0;  // changes when the client restarts
  std::vector<std::byte> owner;
  std::uint32_t flags = 0;
  StateProtect protection = StateProtect::SP4_NONE;
  std::optional<ImplId> impl;
  friend bool operator==(const ExchangeIdArgs&, const ExchangeIdArgs&) = default;
};

struct ExchangeIdOk {
  ClientId client_id = 0;
  std::uint32_t sequence = 0;  // what the first CREATE_SESSION must carry
  std::uint32_t flags = 0;
  std::uint64_t server_minor_id = 0;
  std::vector<std::byte> server_major_id;
  std::vector<std::byte> server_scope;
  std::optional<ImplId> impl;
  friend bool operator==(const ExchangeIdOk&, const ExchangeIdOk&) = default;
};

// channel_attrs4, without the RDMA inbound-read limit's array form: at most one value.
struct ChannelAttrs {
  std::uint32_t header_pad = 0;
  std::uint32_t max_request = 0;   // bytes of an RPC call, without record marks
  std::uint32_t max_response = 0;  // bytes of an RPC reply
  std::uint32_t max_response_cached = 0;
  std::uint32_t max_operations = 0;
  std::uint32_t max_requests = 0;  // slots
  std::optional<std::uint32_t> rdma_ird;
  friend bool operator==(const ChannelAttrs&, const ChannelAttrs&) = default;
};

constexpr std::uint32_t CREATE_SESSION4_FLAG_PERSIST = 0x1;
constexpr std::uint32_t CREATE_SESSION4_FLAG_CONN_BACK_CHAN = 0x2;
constexpr std::uint32_t CREATE_SESSION4_FLAG_CONN_RDMA = 0x4;

// The callback security parameters are decoded and dropped; AUTH_NONE is encoded.
struct CreateSessionArgs {
  ClientId client_id = 0;
  std::uint32_t sequence = 0;
  std::uint32_t flags = 0;
  ChannelAttrs fore;
  ChannelAttrs back;
  std::uint32_t callback_program = 0;
  friend bool operator==(const CreateSessionArgs&, const CreateSessionArgs&) = default;
};

struct CreateSessionOk {
  SessionId session{};
  std::uint32_t sequence = 0;
  std::uint32_t flags = 0;
  ChannelAttrs fore;
  ChannelAttrs back;
  friend bool operator==(const CreateSessionOk&, const CreateSessionOk&) = default;
};

struct DestroySessionArgs {
  SessionId session{};
  friend bool operator==(const DestroySessionArgs&, const DestroySessionArgs&) = default;
};

enum class BindDirection : std::uint32_t { FORE = 1, BACK = 2, FORE_OR_BOTH = 3, BACK_OR_BOTH = 7 };

struct BindConnArgs {
  SessionId session{};
  BindDirection direction = BindDirection::FORE;
  bool rdma = false;
  friend bool operator==(const BindConnArgs&, const BindConnArgs&) = default;
};

struct BindConnOk {
  SessionId session{};
  std::uint32_t direction = 1;  // CDFS4_FORE 1, CDFS4_BACK 2, CDFS4_BOTH 3
  bool rdma = false;
  friend bool operator==(const BindConnOk&, const BindConnOk&) = default;
};

struct SequenceArgs {
  SessionId session{};
  std::uint32_t sequence = 0;
  std::uint32_t slot = 0;
  std::uint32_t highest_slot = 0;
  bool cache_this = false;
  friend bool operator==(const SequenceArgs&, const SequenceArgs&) = default;
};

struct SequenceOk {
  SessionId session{};
  std::uint32_t sequence = 0;
  std::uint32_t slot = 0;
  std::uint32_t highest_slot = 0;
  std::uint32_t target_highest_slot = 0;
  std::uint32_t status_flags = 0;
  friend bool operator==(const SequenceOk&, const SequenceOk&) = default;
};

struct DestroyClientIdArgs {
  ClientId client_id = 0;
  friend bool operator==(const DestroyClientIdArgs&, const DestroyClientIdArgs&) = default;
};

struct ReclaimCompleteArgs {
  bool one_fs = false;
  friend bool operator==(const ReclaimCompleteArgs&, const ReclaimCompleteArgs&) = default;
};

void encode(xdr::Encoder& out, const ExchangeIdArgs& args);
void decode(xdr::Decoder& in, ExchangeIdArgs& args);
void encode(xdr::Encoder& out, const ExchangeIdOk& ok);
void decode(xdr::Decoder& in, ExchangeIdOk& ok);
void encode(xdr::Encoder& out, const ChannelAttrs& attrs);
void decode(xdr::Decoder& in, ChannelAttrs& attrs);
void encode(xdr::Encoder& out, const CreateSessionArgs& args);
void decode(xdr::Decoder& in, CreateSessionArgs& args);
void encode(xdr::Encoder& out, const CreateSessionOk& ok);
void decode(xdr::Decoder& in, CreateSessionOk& ok);
void encode(xdr::Encoder& out, const DestroySessionArgs& args);
void decode(xdr::Decoder& in, DestroySessionArgs& args);
void encode(xdr::Encoder& out, const BindConnArgs& args);
void decode(xdr::Decoder& in, BindConnArgs& args);
void encode(xdr::Encoder& out, const BindConnOk& ok);
void decode(xdr::Decoder& in, BindConnOk& ok);
void encode(xdr::Encoder& out, const SequenceArgs& args);
void decode(xdr::Decoder& in, SequenceArgs& args);
void encode(xdr::Encoder& out, const SequenceOk& ok);
void decode(xdr::Decoder& in, SequenceOk& ok);
void encode(xdr::Encoder& out, const DestroyClientIdArgs& args);
void decode(xdr::Decoder& in, DestroyClientIdArgs& args);
void encode(xdr::Encoder& out, const ReclaimCompleteArgs& args);
void decode(xdr::Decoder& in, ReclaimCompleteArgs& args);

}  // namespace weft::rpc::nfs4
