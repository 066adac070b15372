#include "rpc/session/client_request.h"

#include "rpc/onc/rpc_header.h"

namespace weft::rpc {

ClientRequest make_request(const SessionClientOptions& client, std::vector<nfs4::OpArgs> ops,
                           CallOptions options, SessionClient::Done done, const Clock& clock) {
  ClientRequest request;
  request.options = std::move(options);
  request.done = std::move(done);
  request.expires = clock.now() + request.options.deadline;
  xdr::Encoder& bytes = request.message.bytes();
  encode_call(bytes, 0, nfs4::kProgram, nfs4::kVersion, 1, &client.credential);
  nfs4::encode(bytes, nfs4::CompoundHeader{
                          {}, client.minor_version, static_cast<std::uint32_t>(ops.size()) + 1});
  bytes.u32(static_cast<std::uint32_t>(nfs4::Op::OP_SEQUENCE));
  request.sequence_at = bytes.size();
  nfs4::encode(bytes, nfs4::SequenceArgs{});
  const auto* read = ops.empty() ? nullptr : std::get_if<nfs4::ReadArgs>(&ops.back().args);
  if (read != nullptr) request.message.expect_bulk(read->count);
  if (request.options.urgent) request.message.set_urgent();
  for (nfs4::OpArgs& op : ops) nfs4::encode(request.message, std::move(op));
  return request;
}

void make_closing(ClientRequest& request, const SessionClientOptions& client) {
  ClientRequest lone = make_request(client, {}, {}, {});
  request.message = std::move(lone.message);
  request.sequence_at = lone.sequence_at;
  request.closing = true;
}

void address_request(ClientRequest& request, const nfs4::SequenceArgs& sequence) {
  xdr::Encoder& bytes = request.message.bytes();
  bytes.patch_u32(0, request.xid);
  xdr::Encoder words;
  nfs4::encode(words, sequence);
  bytes.patch(request.sequence_at, words.bytes());
}

}  // namespace weft::rpc
