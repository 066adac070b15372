// What keeps the control protocol's bytes from being forged: a handshake in which both ends prove
// that they have the cluster key, and records that carry a sequence number and a MAC.
//
// Records are framed as ONC RPC's (RFC 5531 section 11): a word with the top bit set and the body's
// length. The connecting end sends Hello (versions it speaks, 32 random bytes); the accepting end
// answers Challenge (the version chosen, its own 32 random bytes, a MAC over both messages); the
// connecting end answers Proof (another MAC over both). From then on a body is
//
//   u64 sequence | 32 bytes HMAC-SHA-256 over (sequence, payload length, payload) | payload
//
// under a key of this connection and direction, derived from the cluster key and both random
// values. A record that was changed, dropped, repeated, reordered, sent back to its sender or taken
// from another connection does not verify, and ends the connection. Payloads are not encrypted.
//
// A sans-io state machine: bytes in, bytes and messages out. After an error it is dead, and
// receive() answers the same error again.
//
// Threading: used by one thread at a time.
//
// Invariants:
//  1. No payload is delivered before the peer has proved that it has the cluster key.
//  2. No more than kMaxRecordBytes + 4 received bytes are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/peer/keys.h"

namespace weft::rpc::peer {

constexpr std::size_t kMaxRecordBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxPayloadBytes = kMaxRecordBytes - 8 - kKeyBytes;
constexpr std::size_t kMaxHandshakeBytes = 512;  // records before both ends have proved themselves

// The versions of the protocol that this code speaks.
struct Versions {
  std::uint32_t least = 2;
  std::uint32_t most = 2;
};

class SecureChannel {
 public:
  enum class Role { kConnecting, kAccepting };
  using Bytes = std::vector<std::byte>;

  // `random` must be fresh for each channel.
  // The accepting end uses the first key, the connecting end the one that the peer turns out to
  // use.
  SecureChannel(Role role, const ClusterKeys& keys, const Key& random, Versions versions = {});

  // The bytes the connecting end sends first; none for the accepting end.
  [[nodiscard]] Bytes open();

  struct Received {
    Bytes to_send;                // also on an error: why, for the peer, before closing
    std::vector<Bytes> messages;  // payloads, in order
  };
  // Takes in any number of bytes from the peer. kAuth: the peer has another key, or bytes were
  // tampered with; kNotSupported: no version in common; kProtocol, kTooLarge: not our protocol.
  [[nodiscard]] Result<> receive(std::span<const std::byte> bytes, Received& received);

  [[nodiscard]] bool established() const { return state_ == State::kOpen; }
  // The key and version in use, once established.
  [[nodiscard]] const ClusterKey& key() const { return key_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }

  // The record that carries `payload`. Precondition: established. kTooLarge over kMaxPayloadBytes.
  [[nodiscard]] Result<Bytes> seal(std::span<const std::byte> payload);

 private:
  enum class State { kHello, kChallenge, kProof, kOpen, kFailed };

  Result<> on_record(std::span<const std::byte> body, Received& received);
  Result<> on_hello(std::span<const std::byte> body, Received& received);
  Result<> on_challenge(std::span<const std::byte> body, Received& received);
  Result<> on_proof(std::span<const std::byte> body, Received& received);
  Result<> on_sealed(std::span<const std::byte> body, Received& received);
  std::optional<Error> refusal(std::span<const std::byte> body) const;
  [[nodiscard]] Key proof(const ClusterKey& key, Role of) const;
  void establish();

  const Role role_;
  const ClusterKeys keys_;
  ClusterKey key_;
  const Key random_;
  const Versions versions_;

  State state_;
  std::uint32_t version_ = 0;
  Bytes transcript_;  // Hello's body and Challenge's without its MAC
  Key send_key_{};
  Key receive_key_{};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  Bytes pending_;  // bytes of a record not yet whole
  Error error_{};
};

// `body` with its record mark before it.
[[nodiscard]] std::vector<std::byte> frame(std::span<const std::byte> body);

}  // namespace weft::rpc::peer
