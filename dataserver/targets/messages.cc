#include "dataserver/targets/messages.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>

#include "rpc/peer/call.h"

namespace weft::ds {
namespace {

constexpr std::size_t kMaxText = 512;
constexpr std::uint32_t kMaxFolder = 1U << 16;  // far above any store's
constexpr std::uint32_t kUntold = 6;            // the version of who says nothing of others
constexpr std::uint32_t kUnbounded = ~0U;       // newest version of who says the oldest only

bool is_io(TargetOp op) { return op == TargetOp::kRead || op == TargetOp::kWrite; }

std::string text_of(TargetVersions versions) {
  if (versions.most == kUnbounded) return fmt::format("{} and later", versions.least);
  if (versions.least == versions.most) return std::to_string(versions.least);
  return fmt::format("{} to {}", versions.least, versions.most);
}

bool meet(TargetVersions a, TargetVersions b) { return a.least <= b.most && b.least <= a.most; }

constexpr std::string_view kTarget = "weft-target";
constexpr std::string_view kDataServer = "weft-ds";

std::unexpected<Error> nothing_in_common(std::string_view peer, TargetVersions theirs,
                                         TargetVersions ours) {
  const std::string_view self = peer == kTarget ? kDataServer : kTarget;
  return fail(Errc::kNotSupported,
              fmt::format("{} speaks version {} of the target protocol there, {} {} here: {} is to "
                          "be upgraded",
                          peer, text_of(theirs), self, text_of(ours),
                          theirs.least > ours.most ? self : peer));
}

// The bulk data, which must be of `size` bytes and all that is left.
std::size_t take_bulk(xdr::Decoder& in, std::uint64_t size, std::size_t beyond) {
  if (in.u32() != size || in.remaining() + beyond != xdr::padded(size)) in.reject();
  const std::size_t at = in.position();
  in.skip(in.remaining());
  return at;
}

}  // namespace

template <class Io>
void describe(Io& io, ObjectStat& r) {
  io("size", r.size);
  io("allocated", r.allocated);
  io("mtime_ns", r.mtime_ns);
}

template <class Io>
void describe(Io& io, StoreStat& r) {
  io("capacity_bytes", r.capacity_bytes);
  io("free_bytes", r.free_bytes);
  io("objects", r.objects);
}

template <class Io>
void describe(Io& io, ObjectList& r) {
  io("more", r.more);
  io("folder", r.next.folder);
  io("after", r.next.after);
  io("objects", r.objects, at_most(kMaxTargetList));
  io.check(r.next.folder <= kMaxFolder);
}

template <class Io>
void describe(Io& io, DataRun& r) {
  io("begin", r.begin);
  io("end", r.end);
  io.check(r.begin < r.end || r.end == kNoData);
}

template <class Io>
void describe(Io& io, TargetRequest& r) {
  io("op", r.op, among(TargetOp::kHello, TargetOp::kNote));
  io("tag", r.tag);
  if (r.op == TargetOp::kHello) return io("hello", r.hello);
  io("object", r.object);
  io("offset", r.offset);
  io("size", r.size);
  io("stability", r.stability, among(Stability::kUnstable, Stability::kFileSync));
  io("lent", r.lent);
  if (r.op == TargetOp::kRead) io("uncached", r.uncached);
  if (is_io(r.op)) io("descriptor", r.descriptor);
  if (r.op == TargetOp::kList) {
    io.check(r.size != 0 && r.size <= kMaxTargetList && r.offset <= kMaxFolder);
  }
  if (r.op == TargetOp::kNote) io.check(r.offset != 0 && r.offset != UINT64_MAX);
  io.check(is_io(r.op) ? r.size <= kMaxTargetIo : !r.lent);
}

// What follows the verifier, without bulk data.
template <class Io>
void describe_results(Io& io, TargetResponse& r) {
  switch (r.op) {
    case TargetOp::kHello:
      io("store", r.store);
      io("proof", r.proof);
      io("objects", r.objects);
      if (r.tag < kTargetVersionWithNote) return;
      io("instance", r.instance);
      return io("noted", r.noted);
    case TargetOp::kRead:
      io("object_end", r.object_end);
      io("size", r.size);
      io("at", r.at);
      io("descriptor", r.descriptor);
      io("lent", r.lent);
      return io.check(r.size <= kMaxTargetIo && r.at <= kMaxTargetIo);
    case TargetOp::kWrite: io("object_end", r.object_end); return io("descriptor", r.descriptor);
    case TargetOp::kTruncate:
    case TargetOp::kStat: return io("stat", r.stat);
    case TargetOp::kUsage: return io("usage", r.usage);
    case TargetOp::kList: return io("list", r.list);
    case TargetOp::kNextData: return io("run", r.run);
    case TargetOp::kKeys: return io("keys", r.keys, at_most(kMaxTargetKeys));
    case TargetOp::kAbout: return io("about", r.about);
    default: return;
  }
}

template <class Io>
void describe(Io& io, TargetResponse& r) {
  io("op", r.op, among(TargetOp::kHello, TargetOp::kNote));
  io("tag", r.tag);
  std::uint32_t status = r.good ? 0 : rpc::peer::wire_status(r.error);
  io("status", status);
  if constexpr (Io::kReads) {
    r.good = status == 0;
    if (!r.good) r.error = rpc::peer::errc_from_wire(status);
  }
  if (!r.good) return io("text", r.text, cut_at(kMaxText));
  io("verifier", r.verifier);
  describe_results(io, r);
}

void encode(xdr::Encoder& out, const TargetChallenge& challenge) { xdr::put(out, challenge); }
void encode(xdr::Encoder& out, const TargetRequest& request) { xdr::put(out, request); }
void encode(xdr::Encoder& out, const TargetResponse& response) { xdr::put(out, response); }

Result<TargetChallenge> decode_challenge(std::span<const std::byte> record, TargetVersions ours) {
  auto challenge = xdr::read_whole<TargetChallenge>(record, "target's challenge");
  if (!challenge) return challenge;
  const std::uint32_t least = challenge->version;
  const TargetVersions theirs{.least = least, .most = least < kUntold ? least : kUnbounded};
  if (!meet(theirs, ours)) return nothing_in_common(kTarget, theirs, ours);
  return challenge;
}

std::uint64_t offer(TargetVersions ours) { return std::uint64_t{ours.most} << 32 | ours.least; }

Result<std::uint32_t> choose_version(std::uint64_t offered, TargetVersions ours) {
  TargetVersions theirs{.least = static_cast<std::uint32_t>(offered),
                        .most = static_cast<std::uint32_t>(offered >> 32)};
  if (offered == 0) theirs = {.least = kUntold, .most = kUntold};
  if (theirs.least == 0 || theirs.least > theirs.most) {
    return fail(Errc::kProtocol, "a Hello with versions that make no sense");
  }
  if (!meet(theirs, ours)) return nothing_in_common(kDataServer, theirs, ours);
  return std::min(theirs.most, ours.most);
}

Result<std::uint32_t> chosen_version(std::uint64_t tag, TargetVersions ours) {
  const std::uint64_t version = tag == 0 ? kUntold : tag;
  if (version >= ours.least && version <= ours.most) return static_cast<std::uint32_t>(version);
  if (tag != 0) return fail(Errc::kProtocol, "a target that chooses what was not offered");
  return nothing_in_common(kTarget, {.least = kUntold, .most = kUntold}, ours);
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
  xdr::get(in, out.message);
  if (in.ok() && out.message.op == TargetOp::kWrite && !out.message.lent) {
    out.bulk = take_bulk(in, out.message.size, beyond);
  } else if (beyond != 0) {
    in.reject();
  }
  if (in.remaining() != 0) in.reject();
  if (auto good = in.finish("a target's request"); !good) return pass(good);
  return out;
}

Result<Decoded<TargetResponse>> decode_response(std::span<const std::byte> record,
                                                std::size_t beyond) {
  xdr::Decoder in(record);
  Decoded<TargetResponse> out;
  xdr::get(in, out.message);
  const TargetResponse& read = out.message;
  if (in.ok() && read.good && read.op == TargetOp::kRead && !read.lent) {
    out.bulk = take_bulk(in, read.size, beyond);
  } else if (beyond != 0) {
    in.reject();
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

rpc::peer::Key target_key(const rpc::peer::ClusterKey& key) {
  return rpc::peer::derive(key, "target");
}

namespace {

rpc::peer::Key proof(const rpc::peer::Key& key, std::string_view who, const Nonce& challenge,
                     const TargetHello& hello, const Uuid& store) {
  TargetHello signed_part = hello;
  signed_part.proof = {};
  xdr::Encoder bytes;
  bytes.string(who);
  bytes.fixed(challenge);
  xdr::put(bytes, signed_part);
  bytes.fixed(store);
  return rpc::peer::hmac(key, {bytes.bytes()});
}

}  // namespace

rpc::peer::Key hello_proof(const rpc::peer::Key& key, const Nonce& challenge,
                           const TargetHello& hello) {
  return proof(key, "data server", challenge, hello, Uuid{});
}

rpc::peer::Key welcome_proof(const rpc::peer::Key& key, const Nonce& challenge,
                             const TargetHello& hello, const Uuid& store) {
  return proof(key, "target", challenge, hello, store);
}

bool same_proof(const rpc::peer::Key& a, const rpc::peer::Key& b) {
  std::byte different{0};
  for (std::size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return different == std::byte{0};
}

}  // namespace weft::ds
