// What keeps calls between servers from being read or forged: TLS 1.3 (RFC 8446) whose only
// credential is the cluster key, as an external pre-shared key. There are no certificates, no
// tickets, no resumption and no early data.
//
// The end that accepts the TCP connection is TLS's client, and the end that connects its server (as
// in RFC 8071): in TLS the client says which key it uses and the server finds it among its own, and
// while the key is being changed it is the accepting end, the metadata server, that decides which
// is in use. The identity that it sends is the key's fingerprint. ALPN names the protocol and its
// version: the accepting end offers all that it speaks, and the connecting end takes the newest
// that it speaks, too (RFC 7301). So servers whose versions are next to each other work together
// while one after the other is upgraded.
//
// Within TLS messages are framed as ONC RPC's (RFC 5531 section 11): a word with the top bit set
// and the length, then the payload.
//
// A sans-io state machine: bytes in, bytes and messages out. After an error it is dead, and
// receive() answers the same error again.
//
// Threading: used by one thread at a time.
//
// Invariants:
//  1. No payload is delivered, and none is sent, before the peer has proved that it has the key.
//  2. Of what was received no more is kept than a message and a TLS record. Before the proof no
//  more
//     than kMaxHandshakeBytes are taken at all.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/peer/keys.h"

namespace weft::rpc::peer {

constexpr std::size_t kMaxPayloadBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxHandshakeBytes = 4096;  // until both ends have proved themselves

// The versions of the protocol that this code speaks: the present one, and the one before if it
// still speaks it. Before 3 there was no TLS, so there is none before.
struct Versions {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};
constexpr std::uint32_t kVersion = 6;
constexpr Versions kVersions{.least = 3, .most = kVersion};

class SecureChannel {
 public:
  enum class Role { kConnecting, kAccepting };
  using Bytes = std::vector<std::byte>;

  // The accepting end uses the first key, the connecting end the one that the peer turns out to
  // use.
  // Requires: 0 < versions.least <= versions.most.
  SecureChannel(Role role, ClusterKeys keys, Versions versions = kVersions);

  // The bytes the accepting end sends first; none for the connecting end.
  [[nodiscard]] Bytes open();

  struct Received {
    Bytes to_send;                // also on an error: why, for the peer, before closing
    std::vector<Bytes> messages;  // payloads, in order
  };
  // Takes in any number of bytes from the peer. kAuth: the peer has another key, or bytes were
  // tampered with; kNotSupported: no version in common; kProtocol, kTooLarge: not our protocol.
  [[nodiscard]] Result<> receive(std::span<const std::byte> bytes, Received& received);

  [[nodiscard]] bool established() const { return established_; }
  // The key and the version in use, once established.
  [[nodiscard]] const ClusterKey& key() const { return key_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }

  // What to send to carry `payload`. Requires: established. kTooLarge over kMaxPayloadBytes,
  // kClosed after an error.
  [[nodiscard]] Result<Bytes> seal(std::span<const std::byte> payload);

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  // What OpenSSL calls back within open() and receive().
  struct Callbacks;

  Result<> take(std::span<const std::byte> bytes, Received& received);
  Result<> shake(std::span<const std::byte>& bytes, Received& received);
  Result<> advance();
  Result<> read(Received& received);
  Result<> on_plain(std::span<const std::byte> bytes, Received& received);
  [[nodiscard]] Error failure();
  [[nodiscard]] Bytes output();

  const Role role_;
  const ClusterKeys keys_;
  const Versions versions_;
  std::uint32_t version_ = 0;
  ClusterKey key_;
  std::unique_ptr<SSL, Free> ssl_;
  bool established_ = false;
  std::size_t handshake_bytes_ = 0;  // received
  std::optional<Error> refusal_;     // why a callback refused the peer
  Bytes pending_;                    // of a message that is not whole yet
  std::optional<Error> error_;
};

// `body` with its record mark before it.
[[nodiscard]] std::vector<std::byte> frame(std::span<const std::byte> body);

}  // namespace weft::rpc::peer
