#include "rpc/peer/secure_channel.h"

#include <openssl/crypto.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::peer {
namespace {

using Bytes = SecureChannel::Bytes;

constexpr std::uint32_t kMagic = 0x57465443;  // "WFTC"
constexpr std::uint32_t kLastFragment = 0x80000000;
constexpr std::size_t kMarkBytes = 4;
constexpr std::size_t kSealBytes = 8 + kKeyBytes;

enum class Kind : std::uint32_t { kHello = 1, kChallenge = 2, kProof = 3, kRefusal = 4 };
enum class Refusal : std::uint32_t { kVersion = 1, kKey = 2, kMalformed = 3 };

xdr::Encoder begin(Kind kind) {
  xdr::Encoder out(128);
  out.u32(kMagic);
  out.u32(static_cast<std::uint32_t>(kind));
  return out;
}

// A decoder past the magic and kind of a handshake message; nothing when they are others.
std::optional<xdr::Decoder> open_as(Kind kind, std::span<const std::byte> body) {
  xdr::Decoder in(body);
  const std::uint32_t magic = in.u32();
  const std::uint32_t found = in.u32();
  if (!in.ok() || magic != kMagic || found != static_cast<std::uint32_t>(kind)) return {};
  return in;
}

bool whole(const xdr::Decoder& in) { return in.ok() && in.remaining() == 0; }

bool equal(const Key& a, const Key& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void refuse(SecureChannel::Received& received, Refusal why) {
  xdr::Encoder out = begin(Kind::kRefusal);
  out.u32(static_cast<std::uint32_t>(why));
  append(received.to_send, frame(out.bytes()));
}

Key record_mac(const Key& key, std::uint64_t sequence, std::span<const std::byte> payload) {
  xdr::Encoder header(12);
  header.u64(sequence);
  header.u32(static_cast<std::uint32_t>(payload.size()));
  return hmac(key, {header.bytes(), payload});
}

}  // namespace

Bytes frame(std::span<const std::byte> body) {
  WEFT_ASSERT(body.size() <= kMaxRecordBytes);
  xdr::Encoder out(kMarkBytes + body.size());
  out.u32(kLastFragment | static_cast<std::uint32_t>(body.size()));
  Bytes bytes = out.take();
  append(bytes, body);
  return bytes;
}

SecureChannel::SecureChannel(Role role, const ClusterKeys& keys, const Key& random,
                             Versions versions)
    : role_(role),
      keys_(keys),
      key_(keys.front()),
      random_(random),
      versions_(versions),
      state_(role == Role::kConnecting ? State::kChallenge : State::kHello) {}

Bytes SecureChannel::open() {
  if (role_ == Role::kAccepting) return {};
  WEFT_ASSERT(state_ == State::kChallenge && transcript_.empty());
  xdr::Encoder hello = begin(Kind::kHello);
  hello.u32(versions_.least);
  hello.u32(versions_.most);
  hello.fixed(random_);
  append(transcript_, hello.bytes());
  return frame(hello.bytes());
}

Result<> SecureChannel::receive(std::span<const std::byte> bytes, Received& received) {
  while (state_ != State::kFailed && !bytes.empty()) {
    // Takes only what the present record lacks, so that pending_ stays within one record.
    std::size_t wanted = kMarkBytes;
    if (pending_.size() >= kMarkBytes) {
      const std::uint32_t mark = xdr::Decoder(pending_).u32();
      wanted += mark & ~kLastFragment;
    }
    const std::size_t taken = std::min(wanted - pending_.size(), bytes.size());
    append(pending_, bytes.first(taken));
    bytes = bytes.subspan(taken);
    if (pending_.size() < kMarkBytes) break;

    const std::uint32_t mark = xdr::Decoder(pending_).u32();
    const std::size_t size = mark & ~kLastFragment;
    const std::size_t limit = established() ? kMaxRecordBytes : kMaxHandshakeBytes;
    Result<> step;
    if ((mark & kLastFragment) == 0) {
      step = fail(Errc::kProtocol, "record in fragments");
    } else if (size > limit) {
      step = fail(Errc::kTooLarge, "record of " + std::to_string(size) + " bytes");
    } else if (pending_.size() == kMarkBytes + size) {
      const Bytes record = std::exchange(pending_, {});
      step = on_record(std::span(record).subspan(kMarkBytes), received);
    }
    if (!step) {
      state_ = State::kFailed;
      error_ = step.error();
    }
  }
  if (state_ == State::kFailed) return std::unexpected(error_);
  return {};
}

Result<> SecureChannel::on_record(std::span<const std::byte> body, Received& received) {
  if (state_ != State::kOpen) {
    if (auto why = refusal(body)) return std::unexpected(std::move(*why));
  }
  switch (state_) {
    case State::kHello: return on_hello(body, received);
    case State::kChallenge: return on_challenge(body, received);
    case State::kProof: return on_proof(body, received);
    case State::kOpen: return on_sealed(body, received);
    case State::kFailed: break;
  }
  return std::unexpected(error_);
}

// A refusal is not authenticated: it can end a connection, as whoever can inject it could anyway.
std::optional<Error> SecureChannel::refusal(std::span<const std::byte> body) const {
  auto in = open_as(Kind::kRefusal, body);
  if (!in) return {};
  switch (static_cast<Refusal>(in->u32())) {
    case Refusal::kVersion:
      return Error{Errc::kNotSupported,
                   "the peer speaks another version of the control protocol: both servers must run "
                   "the same Weft"};
    case Refusal::kKey: return Error{Errc::kAuth, "the peer says our cluster key is another"};
    case Refusal::kMalformed: break;
  }
  return Error{Errc::kProtocol, "the peer did not understand our handshake"};
}

Result<> SecureChannel::on_hello(std::span<const std::byte> body, Received& received) {
  auto in = open_as(Kind::kHello, body);
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  Key random;
  if (in) {
    least = in->u32();
    most = in->u32();
    in->fixed(random);
  }
  if (!in || !whole(*in)) {
    refuse(received, Refusal::kMalformed);
    return fail(Errc::kProtocol, "no hello");
  }
  version_ = std::min(most, versions_.most);
  if (least > most || version_ < least || version_ < versions_.least) {
    refuse(received, Refusal::kVersion);
    return fail(
        Errc::kNotSupported,
        fmt::format("the peer speaks versions {} to {} of the control protocol, this server {} "
                    "to {}: both must run the same Weft",
                    least, most, versions_.least, versions_.most));
  }
  append(transcript_, body);
  xdr::Encoder challenge = begin(Kind::kChallenge);
  challenge.u32(version_);
  challenge.fixed(random_);
  append(transcript_, challenge.bytes());
  challenge.fixed(proof(key_, Role::kAccepting));
  append(received.to_send, frame(challenge.bytes()));
  state_ = State::kProof;
  return {};
}

Result<> SecureChannel::on_challenge(std::span<const std::byte> body, Received& received) {
  auto in = open_as(Kind::kChallenge, body);
  if (!in) return fail(Errc::kProtocol, "no challenge");
  const std::uint32_t version = in->u32();
  Key random;
  in->fixed(random);
  const std::size_t claimed = in->position();
  Key mac;
  in->fixed(mac);
  if (!whole(*in)) return fail(Errc::kProtocol, "malformed challenge");
  append(transcript_, body.first(claimed));
  const auto used = std::ranges::find_if(
      keys_, [&](const ClusterKey& key) { return equal(mac, proof(key, Role::kAccepting)); });
  if (used == keys_.end()) {
    refuse(received, Refusal::kKey);
    return fail(Errc::kAuth, "the peer does not use a cluster key of ours");
  }
  key_ = *used;
  // Checked after the MAC: the answer is then known to be the peer's own.
  if (version < versions_.least || version > versions_.most) {
    refuse(received, Refusal::kVersion);
    return fail(Errc::kNotSupported, "the peer chose a version that was not offered");
  }
  version_ = version;
  xdr::Encoder out = begin(Kind::kProof);
  out.fixed(proof(key_, Role::kConnecting));
  append(received.to_send, frame(out.bytes()));
  establish();
  return {};
}

Result<> SecureChannel::on_proof(std::span<const std::byte> body, Received& received) {
  auto in = open_as(Kind::kProof, body);
  if (!in) return fail(Errc::kProtocol, "no proof");
  Key mac;
  in->fixed(mac);
  if (!whole(*in)) return fail(Errc::kProtocol, "malformed proof");
  if (!equal(mac, proof(key_, Role::kConnecting))) {
    refuse(received, Refusal::kKey);
    return fail(Errc::kAuth, "the peer does not have our cluster key");
  }
  establish();
  return {};
}

Result<> SecureChannel::on_sealed(std::span<const std::byte> body, Received& received) {
  xdr::Decoder in(body);
  const std::uint64_t sequence = in.u64();
  Key mac;
  in.fixed(mac);
  if (!in.ok()) return fail(Errc::kAuth, "record too short");
  const auto payload = body.subspan(kSealBytes);
  if (sequence != received_ || !equal(mac, record_mac(receive_key_, sequence, payload))) {
    return fail(Errc::kAuth, "record " + std::to_string(received_) + " does not verify");
  }
  ++received_;
  received.messages.emplace_back(payload.begin(), payload.end());
  return {};
}

Result<Bytes> SecureChannel::seal(std::span<const std::byte> payload) {
  WEFT_ASSERT(established());
  if (payload.size() > kMaxPayloadBytes) {
    return fail(Errc::kTooLarge, "control message of " + std::to_string(payload.size()) + " bytes");
  }
  const std::uint64_t sequence = sent_++;
  xdr::Encoder out(kMarkBytes + kSealBytes + payload.size());
  out.u32(kLastFragment | static_cast<std::uint32_t>(kSealBytes + payload.size()));
  out.u64(sequence);
  out.fixed(record_mac(send_key_, sequence, payload));
  Bytes record = out.take();
  append(record, payload);
  return record;
}

Key SecureChannel::proof(const ClusterKey& key, Role of) const {
  return derive(key, of == Role::kAccepting ? "control accepting" : "control connecting",
                transcript_);
}

void SecureChannel::establish() {
  const Key to_accepting = derive(key_, "control to accepting", transcript_);
  const Key to_connecting = derive(key_, "control to connecting", transcript_);
  send_key_ = role_ == Role::kConnecting ? to_accepting : to_connecting;
  receive_key_ = role_ == Role::kConnecting ? to_connecting : to_accepting;
  state_ = State::kOpen;
}

}  // namespace weft::rpc::peer
