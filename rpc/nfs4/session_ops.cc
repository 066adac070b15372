#include "rpc/nfs4/session_ops.h"

#include "rpc/base/assert.h"
#include "rpc/onc/auth.h"

namespace weft::rpc::nfs4 {
namespace {

constexpr std::size_t kMaxSecurityParams = 8;

void encode_impl(xdr::Encoder& out, const std::optional<ImplId>& impl) {
  out.u32(impl ? 1 : 0);
  if (!impl) return;
  out.string(impl->domain);
  out.string(impl->name);
  encode(out, impl->date);
}

std::optional<ImplId> decode_impl(xdr::Decoder& in) {
  if (in.count(1) == 0) return std::nullopt;
  ImplId impl;
  impl.domain = in.string(kMaxOwnerBytes);
  impl.name = in.string(kMaxOwnerBytes);
  decode(in, impl.date);
  return impl;
}

// callback_sec_parms4: walked over, since nothing here calls back.
void skip_callback_security(xdr::Decoder& in) {
  const std::uint32_t params = in.count(kMaxSecurityParams);
  for (std::uint32_t i = 0; i < params && in.ok(); ++i) {
    switch (in.u32()) {
      case static_cast<std::uint32_t>(AuthFlavor::AUTH_NONE): break;
      case static_cast<std::uint32_t>(AuthFlavor::AUTH_SYS): {
        AuthSys ignored;
        decode(in, ignored);
        break;
      }
      case static_cast<std::uint32_t>(AuthFlavor::RPCSEC_GSS):
        static_cast<void>(in.u32());  // gcbp_service
        static_cast<void>(in.opaque(kMaxOwnerBytes));
        static_cast<void>(in.opaque(kMaxOwnerBytes));
        break;
      default: in.reject();
    }
  }
}

}  // namespace

void encode(xdr::Encoder& out, const ExchangeIdArgs& args) {
  WEFT_ASSERT(args.protection == StateProtect::SP4_NONE);
  out.u64(args.verifier);
  out.opaque(args.owner);
  out.u32(args.flags);
  encode_enum(out, args.protection);
  encode_impl(out, args.impl);
}

void decode(xdr::Decoder& in, ExchangeIdArgs& args) {
  args.verifier = in.u64();
  args.owner = decode_bytes(in, kMaxOwnerBytes);
  args.flags = in.u32();
  decode_enum(in, args.protection, StateProtect::SP4_NONE, StateProtect::SP4_SSV);
  // What follows another choice is not read: the answer is an error, which ends the compound.
  if (args.protection == StateProtect::SP4_NONE) args.impl = decode_impl(in);
}

void encode(xdr::Encoder& out, const ExchangeIdOk& ok) {
  out.u64(ok.client_id);
  out.u32(ok.sequence);
  out.u32(ok.flags);
  encode_enum(out, StateProtect::SP4_NONE);
  out.u64(ok.server_minor_id);
  out.opaque(ok.server_major_id);
  out.opaque(ok.server_scope);
  encode_impl(out, ok.impl);
}

void decode(xdr::Decoder& in, ExchangeIdOk& ok) {
  ok.client_id = in.u64();
  ok.sequence = in.u32();
  ok.flags = in.u32();
  StateProtect protection{};
  decode_enum(in, protection, StateProtect::SP4_NONE, StateProtect::SP4_NONE);
  ok.server_minor_id = in.u64();
  ok.server_major_id = decode_bytes(in, kMaxOwnerBytes);
  ok.server_scope = decode_bytes(in, kMaxOwnerBytes);
  ok.impl = decode_impl(in);
}

void encode(xdr::Encoder& out, const ChannelAttrs& attrs) {
  out.u32(attrs.header_pad);
  out.u32(attrs.max_request);
  out.u32(attrs.max_response);
  out.u32(attrs.max_response_cached);
  out.u32(attrs.max_operations);
  out.u32(attrs.max_requests);
  out.u32(attrs.rdma_ird ? 1 : 0);
  if (attrs.rdma_ird) out.u32(*attrs.rdma_ird);
}

void decode(xdr::Decoder& in, ChannelAttrs& attrs) {
  attrs.header_pad = in.u32();
  attrs.max_request = in.u32();
  attrs.max_response = in.u32();
  attrs.max_response_cached = in.u32();
  attrs.max_operations = in.u32();
  attrs.max_requests = in.u32();
  attrs.rdma_ird.reset();
  if (in.count(1) == 1) attrs.rdma_ird = in.u32();
}

void encode(xdr::Encoder& out, const CreateSessionArgs& args) {
  out.u64(args.client_id);
  out.u32(args.sequence);
  out.u32(args.flags);
  encode(out, args.fore);
  encode(out, args.back);
  out.u32(args.callback_program);
  out.u32(1);
  out.u32(static_cast<std::uint32_t>(AuthFlavor::AUTH_NONE));
}

void decode(xdr::Decoder& in, CreateSessionArgs& args) {
  args.client_id = in.u64();
  args.sequence = in.u32();
  args.flags = in.u32();
  decode(in, args.fore);
  decode(in, args.back);
  args.callback_program = in.u32();
  skip_callback_security(in);
}

void encode(xdr::Encoder& out, const CreateSessionOk& ok) {
  out.fixed(ok.session);
  out.u32(ok.sequence);
  out.u32(ok.flags);
  encode(out, ok.fore);
  encode(out, ok.back);
}

void decode(xdr::Decoder& in, CreateSessionOk& ok) {
  in.fixed(ok.session);
  ok.sequence = in.u32();
  ok.flags = in.u32();
  decode(in, ok.fore);
  decode(in, ok.back);
}

void encode(xdr::Encoder& out, const DestroySessionArgs& args) { out.fixed(args.session); }
void decode(xdr::Decoder& in, DestroySessionArgs& args) { in.fixed(args.session); }

void encode(xdr::Encoder& out, const BindConnArgs& args) {
  out.fixed(args.session);
  encode_enum(out, args.direction);
  out.boolean(args.rdma);
}

void decode(xdr::Decoder& in, BindConnArgs& args) {
  in.fixed(args.session);
  decode_enum(in, args.direction, BindDirection::FORE, BindDirection::BACK_OR_BOTH);
  args.rdma = in.boolean();
}

void encode(xdr::Encoder& out, const BindConnOk& ok) {
  out.fixed(ok.session);
  out.u32(ok.direction);
  out.boolean(ok.rdma);
}

void decode(xdr::Decoder& in, BindConnOk& ok) {
  in.fixed(ok.session);
  ok.direction = in.u32();
  ok.rdma = in.boolean();
}

void encode(xdr::Encoder& out, const SequenceArgs& args) {
  out.fixed(args.session);
  out.u32(args.sequence);
  out.u32(args.slot);
  out.u32(args.highest_slot);
  out.boolean(args.cache_this);
}

void decode(xdr::Decoder& in, SequenceArgs& args) {
  in.fixed(args.session);
  args.sequence = in.u32();
  args.slot = in.u32();
  args.highest_slot = in.u32();
  args.cache_this = in.boolean();
}

void encode(xdr::Encoder& out, const SequenceOk& ok) {
  out.fixed(ok.session);
  out.u32(ok.sequence);
  out.u32(ok.slot);
  out.u32(ok.highest_slot);
  out.u32(ok.target_highest_slot);
  out.u32(ok.status_flags);
}

void decode(xdr::Decoder& in, SequenceOk& ok) {
  in.fixed(ok.session);
  ok.sequence = in.u32();
  ok.slot = in.u32();
  ok.highest_slot = in.u32();
  ok.target_highest_slot = in.u32();
  ok.status_flags = in.u32();
}

void encode(xdr::Encoder& out, const DestroyClientIdArgs& args) { out.u64(args.client_id); }
void decode(xdr::Decoder& in, DestroyClientIdArgs& args) { args.client_id = in.u64(); }

void encode(xdr::Encoder& out, const ReclaimCompleteArgs& args) { out.boolean(args.one_fs); }
void decode(xdr::Decoder& in, ReclaimCompleteArgs& args) { args.one_fs = in.boolean(); }

}  // namespace weft::rpc::nfs4
