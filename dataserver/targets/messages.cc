#include "dataserver/targets/messages.h"

#include <string_view>

#include "rpc/control/call.h"

namespace weft::ds {
namespace {

constexpr std::size_t kMaxText = 512;
constexpr std::uint32_t kMaxFolder = 1U << 16;  // far above any store's

void put(xdr::Encoder& out, const layout::ObjectId& object) {
  out.u64(object.fileid);
  out.u32(object.generation);
  out.u32(object.fsid);
}

layout::ObjectId take_object(xdr::Decoder& in) {
  layout::ObjectId object;
  object.fileid = in.u64();
  object.generation = in.u32();
  object.fsid = in.u32();
  return object;
}

void put(xdr::Encoder& out, const TargetHello& hello) {
  out.fixed(hello.space);
  out.u64(hello.boot);
  out.u32(hello.link);
  out.fixed(hello.nonce);
  out.fixed(hello.proof);
}

TargetHello take_hello(xdr::Decoder& in) {
  TargetHello hello;
  in.fixed(hello.space);
  hello.boot = in.u64();
  hello.link = in.u32();
  in.fixed(hello.nonce);
  in.fixed(hello.proof);
  return hello;
}

void put(xdr::Encoder& out, const ObjectList& list) {
  out.boolean(list.more);
  out.u32(list.next.folder);
  put(out, list.next.after);
  out.u32(static_cast<std::uint32_t>(list.objects.size()));
  for (const layout::ObjectId& object : list.objects) put(out, object);
}

void take_list(xdr::Decoder& in, ObjectList& list) {
  list.more = in.boolean();
  list.next.folder = in.u32();
  list.next.after = take_object(in);
  const std::uint32_t count = in.u32();
  if (list.next.folder > kMaxFolder || count > kMaxTargetList ||
      in.remaining() != std::size_t{count} * 16) {
    return in.reject();
  }
  list.objects.reserve(count);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) list.objects.push_back(take_object(in));
}

bool known(std::uint32_t op) {
  return op >= static_cast<std::uint32_t>(TargetOp::kHello) &&
         op <= static_cast<std::uint32_t>(TargetOp::kList);
}

bool is_io(TargetOp op) { return op == TargetOp::kRead || op == TargetOp::kWrite; }

// The bulk data, which must be of `size` bytes and all that is left.
std::size_t take_bulk(xdr::Decoder& in, std::uint64_t size, std::size_t beyond) {
  if (in.u32() != size || in.remaining() + beyond != xdr::padded(size)) in.reject();
  const std::size_t at = in.position();
  in.skip(in.remaining());
  return at;
}

}  // namespace

void encode(xdr::Encoder& out, const TargetChallenge& challenge) {
  out.u32(challenge.version);
  out.fixed(challenge.nonce);
  out.fixed(challenge.machine);
  out.string(challenge.socket);
}

Result<TargetChallenge> decode_challenge(std::span<const std::byte> record) {
  xdr::Decoder in(record);
  TargetChallenge challenge;
  challenge.version = in.u32();
  in.fixed(challenge.nonce);
  in.fixed(challenge.machine);
  challenge.socket = in.string(kMaxSocketPath);
  if (in.remaining() != 0) in.reject();
  if (auto good = in.finish("a target's challenge"); !good) return pass(good);
  if (challenge.version != kTargetProtocol) {
    return fail(Errc::kNotSupported,
                "a target that speaks version " + std::to_string(challenge.version));
  }
  return challenge;
}

void encode(xdr::Encoder& out, const TargetRequest& request) {
  out.u32(static_cast<std::uint32_t>(request.op));
  out.u64(request.tag);
  if (request.op == TargetOp::kHello) return put(out, request.hello);
  put(out, request.object);
  out.u64(request.offset);
  out.u64(request.size);
  out.u32(static_cast<std::uint32_t>(request.stability));
  out.boolean(request.lent);
  if (request.op == TargetOp::kRead) out.boolean(request.uncached);
  if (is_io(request.op)) out.boolean(request.descriptor);
}

void begin_bulk(xdr::Encoder& out, std::size_t size) { out.u32(static_cast<std::uint32_t>(size)); }

void end_bulk(xdr::Encoder& out, std::size_t size) {
  constexpr std::array<std::byte, 4> kZeros{};
  out.raw(std::span(kZeros).first(xdr::padded(size) - size));
}

Result<Decoded<TargetRequest>> decode_request(std::span<const std::byte> record,
                                              std::size_t beyond) {
  xdr::Decoder in(record);
  Decoded<TargetRequest> out;
  TargetRequest& request = out.message;
  const std::uint32_t op = in.u32();
  if (!known(op)) in.reject();
  request.op = static_cast<TargetOp>(op);
  request.tag = in.u64();
  if (request.op == TargetOp::kHello) {
    request.hello = take_hello(in);
  } else {
    request.object = take_object(in);
    request.offset = in.u64();
    request.size = in.u64();
    const std::uint32_t stability = in.u32();
    if (stability > static_cast<std::uint32_t>(Stability::kFileSync)) in.reject();
    request.stability = static_cast<Stability>(stability);
    request.lent = in.boolean();
    if (request.op == TargetOp::kRead) request.uncached = in.boolean();
    if (is_io(request.op)) request.descriptor = in.boolean();
    if (request.op == TargetOp::kList &&
        (request.size == 0 || request.size > kMaxTargetList || request.offset > kMaxFolder)) {
      in.reject();
    }
    if (is_io(request.op) ? request.size > kMaxTargetIo : request.lent) in.reject();
  }
  if (in.ok() && request.op == TargetOp::kWrite && !request.lent) {
    out.bulk = take_bulk(in, request.size, beyond);
  } else if (beyond != 0) {
    in.reject();
  }
  if (in.remaining() != 0) in.reject();
  if (auto good = in.finish("a target's request"); !good) return pass(good);
  return out;
}

void encode(xdr::Encoder& out, const TargetResponse& response) {
  out.u32(static_cast<std::uint32_t>(response.op));
  out.u64(response.tag);
  if (!response.good) {
    out.u32(rpc::control::wire_status(response.error));
    return out.string(std::string_view(response.text).substr(0, kMaxText));
  }
  out.u32(0);
  out.u64(response.verifier);
  switch (response.op) {
    case TargetOp::kHello:
      out.fixed(response.store);
      out.fixed(response.proof);
      return out.u64(response.objects);
    case TargetOp::kRead:
      out.u64(response.object_end);
      out.u64(response.size);
      out.u64(response.at);
      out.boolean(response.descriptor);
      return out.boolean(response.lent);
    case TargetOp::kWrite: out.u64(response.object_end); return out.boolean(response.descriptor);
    case TargetOp::kTruncate:
    case TargetOp::kStat:
      out.u64(response.stat.size);
      out.u64(response.stat.allocated);
      return out.i64(response.stat.mtime_ns);
    case TargetOp::kUsage:
      out.u64(response.usage.capacity_bytes);
      out.u64(response.usage.free_bytes);
      return out.u64(response.usage.objects);
    case TargetOp::kList: return put(out, response.list);
    default: return;
  }
}

namespace {

// What follows the verifier; where the bulk data is, if there is any.
std::size_t take_results(xdr::Decoder& in, TargetResponse& response) {
  switch (response.op) {
    case TargetOp::kHello:
      in.fixed(response.store);
      in.fixed(response.proof);
      response.objects = in.u64();
      return 0;
    case TargetOp::kRead:
      response.object_end = in.u64();
      response.size = in.u64();
      response.at = in.u64();
      response.descriptor = in.boolean();
      response.lent = in.boolean();
      if (response.size > kMaxTargetIo || response.at > kMaxTargetIo) in.reject();
      return in.ok() && !response.lent ? take_bulk(in, response.size, 0) : 0;
    case TargetOp::kWrite:
      response.object_end = in.u64();
      response.descriptor = in.boolean();
      return 0;
    case TargetOp::kTruncate:
    case TargetOp::kStat:
      response.stat.size = in.u64();
      response.stat.allocated = in.u64();
      response.stat.mtime_ns = in.i64();
      return 0;
    case TargetOp::kUsage:
      response.usage.capacity_bytes = in.u64();
      response.usage.free_bytes = in.u64();
      response.usage.objects = in.u64();
      return 0;
    case TargetOp::kList: take_list(in, response.list); return 0;
    default: return 0;
  }
}

}  // namespace

Result<Decoded<TargetResponse>> decode_response(std::span<const std::byte> record) {
  xdr::Decoder in(record);
  Decoded<TargetResponse> out;
  TargetResponse& response = out.message;
  const std::uint32_t op = in.u32();
  if (!known(op)) in.reject();
  response.op = static_cast<TargetOp>(op);
  response.tag = in.u64();
  const std::uint32_t status = in.u32();
  if (status != 0) {
    response.good = false;
    response.error = rpc::control::errc_from_wire(status);
    response.text = in.string(kMaxText);
  } else if (in.ok()) {
    response.verifier = in.u64();
    out.bulk = take_results(in, response);
  }
  if (in.remaining() != 0) in.reject();
  if (auto good = in.finish("a target's response"); !good) return pass(good);
  return out;
}

std::size_t locate_request(std::span<const std::byte> head) {
  xdr::Decoder in(head);
  if (in.u32() != static_cast<std::uint32_t>(TargetOp::kWrite)) return 0;
  in.skip(8 + 16 + 8 + 8 + 4);  // tag, object, offset, size, stability
  if (in.boolean()) return 0;
  in.skip(4 + 4);  // descriptor, length
  return in.ok() ? in.position() : 0;
}

std::size_t locate_response(std::span<const std::byte> head) {
  xdr::Decoder in(head);
  if (in.u32() != static_cast<std::uint32_t>(TargetOp::kRead)) return 0;
  in.skip(8);  // tag
  if (in.u32() != 0) return 0;
  in.skip(8 + 8 + 8 + 8 + 4);  // verifier, object's end, size, where, descriptor
  if (in.boolean()) return 0;
  in.skip(4);  // length
  return in.ok() ? in.position() : 0;
}

rpc::control::Key target_key(const rpc::control::ClusterKey& key) {
  return rpc::control::derive(key, "target");
}

namespace {

rpc::control::Key proof(const rpc::control::Key& key, std::string_view who, const Nonce& challenge,
                        const TargetHello& hello, const Uuid& store) {
  TargetHello signed_part = hello;
  signed_part.proof = {};
  xdr::Encoder bytes;
  bytes.string(who);
  bytes.fixed(challenge);
  put(bytes, signed_part);
  bytes.fixed(store);
  return rpc::control::hmac(key, {bytes.bytes()});
}

}  // namespace

rpc::control::Key hello_proof(const rpc::control::Key& key, const Nonce& challenge,
                              const TargetHello& hello) {
  return proof(key, "data server", challenge, hello, Uuid{});
}

rpc::control::Key welcome_proof(const rpc::control::Key& key, const Nonce& challenge,
                                const TargetHello& hello, const Uuid& store) {
  return proof(key, "target", challenge, hello, store);
}

bool same_proof(const rpc::control::Key& a, const rpc::control::Key& b) {
  std::byte different{0};
  for (std::size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return different == std::byte{0};
}

}  // namespace weft::ds
