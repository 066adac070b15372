// RPC call and reply headers, AUTH_SYS, and the hint where bulk data lies.
#include <algorithm>
#include <cstdlib>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/rpc_header.h"

using namespace weft;
using namespace weft::rpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Program program{
      .number = 100003, .lowest_version = 4, .highest_version = 4, .last_procedure = 1};
  {
    xdr::Decoder in(bytes);
    if (const auto call = read_call(in, program)) {
      if (const auto* refusal = std::get_if<Refusal>(&*call)) {
        // A refusal is a reply that a client can read, and reads as a failure.
        xdr::Encoder out;
        encode_refusal(out, *refusal);
        xdr::Decoder reply(out.bytes());
        if (!read_reply_xid(reply) || read_reply_status(reply)) std::abort();
      } else if (!in.ok() || in.position() > size) {
        std::abort();
      }
    }
  }
  {
    xdr::Decoder in(bytes);
    if (read_reply_xid(in)) (void)read_reply_status(in);
  }
  {
    xdr::Decoder in(bytes);
    AuthSys auth;
    decode(in, auth);
    if (in.ok()) {
      xdr::Encoder out;
      encode(out, auth);
      xdr::Decoder second(out.bytes());
      AuthSys again;
      decode(second, again);
      if (!second.ok() || again != auth) std::abort();
    }
  }
  if (nfs4::locate_payload(bytes) > size) std::abort();
  if (const auto handle = nfs4::locate_handle(bytes)) {
    // It is in the call, behind the session.
    if (!nfs4::locate_session(bytes) || handle->size() > nfs4::kMaxHandleBytes) std::abort();
    if (!handle->empty() && std::ranges::search(bytes, *handle).empty()) std::abort();
  }
  return 0;
}
