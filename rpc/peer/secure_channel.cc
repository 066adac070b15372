#include "rpc/peer/secure_channel.h"

#include <openssl/err.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "rpc/base/assert.h"
#include "rpc/base/log_text.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::peer {
namespace {

using Bytes = SecureChannel::Bytes;

constexpr std::uint32_t kLastFragment = 0x80000000;
constexpr std::size_t kMarkBytes = 4;
constexpr std::byte kTlsAlert{21};
constexpr std::byte kTlsHandshake{22};
// The first byte of the protocol of before: a record mark.
constexpr std::byte kOldMark{0x80};

constexpr std::string_view kOtherVersion =
    "the peer speaks another version of the control protocol: both servers must run the same Weft";

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::string protocol_name(std::uint32_t version) { return fmt::format("weft-control/{}", version); }

// As ALPN has them: the newest first, each with its length before it.
std::string alpn_of(Versions versions) {
  std::string list;
  for (std::uint32_t version = versions.most; version >= versions.least; --version) {
    const std::string name = protocol_name(version);
    list += static_cast<char>(name.size());
    list += name;
  }
  return list;
}

// The names in a list of a peer's. OpenSSL has seen to its form, which is not relied on.
std::vector<std::string_view> names_of(std::string_view alpn) {
  std::vector<std::string_view> names;
  while (!alpn.empty()) {
    const auto size = static_cast<unsigned char>(alpn.front());
    names.push_back(alpn.substr(1, size));
    alpn.remove_prefix(std::min<std::size_t>(alpn.size(), 1U + size));
  }
  return names;
}

std::string list_text(std::string_view alpn) {
  std::string text;
  for (const std::string_view name : names_of(alpn)) {
    text += (text.empty() ? "" : ", ") + log_text(name);
  }
  return text;
}

// What a peer of versions before 3 understands: a refusal for our version.
Bytes old_refusal() {
  xdr::Encoder out(12);
  out.u32(0x57465443);  // "WFTC"
  out.u32(4);
  out.u32(1);
  return frame(out.bytes());
}

// A TLS session that was never: what OpenSSL takes for an external key. Null without memory.
SSL_SESSION* session_with(SSL* ssl, const ClusterKey& key) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const Key secret = derive(key, "control tls");
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()),
                                  secret.size()) != 1 ||
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

}  // namespace

struct SecureChannel::Callbacks {
  static SecureChannel& of(SSL* ssl) { return *static_cast<SecureChannel*>(SSL_get_app_data(ssl)); }

  // The accepting end: which key to use. OpenSSL copies the identity.
  static int use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
                     std::size_t* size, SSL_SESSION** session) {
    static thread_local std::string name;
    const SecureChannel& self = of(ssl);
    name = fingerprint_text(self.key_);
    *identity = reinterpret_cast<const unsigned char*>(name.data());
    *size = name.size();
    *session = session_with(ssl, self.key_);
    return *session != nullptr ? 1 : 0;
  }

  // The connecting end: whether it has the peer's key. Without a session the handshake fails, since
  // there is no certificate either.
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t size,
                      SSL_SESSION** session) {
    SecureChannel& self = of(ssl);
    *session = nullptr;
    const std::string_view name(reinterpret_cast<const char*>(identity), size);
    const auto used = std::ranges::find(self.keys_, name, fingerprint_text);
    if (used == self.keys_.end()) {
      self.refusal_ = Error{Errc::kAuth, "the peer does not use a cluster key of ours"};
      return 1;
    }
    self.key_ = *used;
    *session = session_with(ssl, self.key_);
    return *session != nullptr ? 1 : 0;
  }

  // The connecting end: the newest version that both speak.
  static int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                             const unsigned char* offered, unsigned size, void* /*context*/) {
    SecureChannel& self = of(ssl);
    const std::string_view theirs(reinterpret_cast<const char*>(offered), size);
    const auto names = names_of(theirs);
    for (std::uint32_t version = self.versions_.most; version >= self.versions_.least; --version) {
      const auto found = std::ranges::find(names, protocol_name(version));
      if (found == names.end()) continue;
      *chosen = reinterpret_cast<const unsigned char*>(found->data());
      *chosen_size = static_cast<unsigned char>(found->size());
      return SSL_TLSEXT_ERR_OK;
    }
    self.refusal_ =
        Error{Errc::kNotSupported,
              fmt::format("the peer speaks {}, this server {}: both must run the same Weft",
                          list_text(theirs), list_text(alpn_of(self.versions_)))};
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  // What all channels of a role have in common; lives for ever.
  static SSL_CTX* context(Role role) {
    static SSL_CTX* const accepting = make(Role::kAccepting);
    static SSL_CTX* const connecting = make(Role::kConnecting);
    return role == Role::kAccepting ? accepting : connecting;
  }

  static SSL_CTX* make(Role role) {
    SSL_CTX* const made = SSL_CTX_new(TLS_method());
    WEFT_ASSERT(made != nullptr);
    WEFT_ASSERT(SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) == 1);
    WEFT_ASSERT(SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) == 1);
    WEFT_ASSERT(SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256") == 1);
    WEFT_ASSERT(SSL_CTX_set1_groups_list(made, "X25519") == 1);
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(made, SSL_OP_NO_TICKET);
    WEFT_ASSERT(SSL_CTX_set_num_tickets(made, 0) == 1);
    if (role == Role::kAccepting) {
      // No certificate that a peer has instead of a key is right: there are no authorities.
      SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
      SSL_CTX_set_psk_use_session_callback(made, use_key);
    } else {
      SSL_CTX_set_psk_find_session_callback(made, find_key);
      SSL_CTX_set_alpn_select_cb(made, choose_protocol, nullptr);
    }
    return made;
  }
};

Bytes frame(std::span<const std::byte> body) {
  WEFT_ASSERT(body.size() <= kMaxPayloadBytes);
  xdr::Encoder out(kMarkBytes + body.size());
  out.u32(kLastFragment | static_cast<std::uint32_t>(body.size()));
  Bytes bytes = out.take();
  append(bytes, body);
  return bytes;
}

SecureChannel::SecureChannel(Role role, ClusterKeys keys, Versions versions)
    : role_(role),
      keys_(std::move(keys)),
      versions_(versions),
      key_(keys_.front()),
      ssl_(SSL_new(Callbacks::context(role))) {
  WEFT_ASSERT(0 < versions_.least && versions_.least <= versions_.most);
  WEFT_ASSERT(ssl_ != nullptr);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  WEFT_ASSERT(in != nullptr && out != nullptr);
  BIO_set_mem_eof_return(in, -1);  // an empty one is to be tried again
  SSL_set_bio(ssl_.get(), in, out);
  if (role_ == Role::kAccepting) {
    const std::string alpn = alpn_of(versions_);
    WEFT_ASSERT(SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(alpn.data()),
                                    static_cast<unsigned>(alpn.size())) == 0);
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

Bytes SecureChannel::open() {
  if (role_ == Role::kConnecting) return {};
  if (auto begun = advance(); !begun) error_ = begun.error();
  return output();
}

Bytes SecureChannel::output() {
  BIO* const out = SSL_get_wbio(ssl_.get());
  Bytes bytes(BIO_ctrl_pending(out));
  if (bytes.empty()) return bytes;
  const int got = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  WEFT_ASSERT(got == static_cast<int>(bytes.size()));
  return bytes;
}

Result<> SecureChannel::receive(std::span<const std::byte> bytes, Received& received) {
  if (!error_) {
    if (auto taken = take(bytes, received); !taken) error_ = taken.error();
    append(received.to_send, output());
  }
  if (error_) return std::unexpected(*error_);
  return {};
}

Result<> SecureChannel::take(std::span<const std::byte> bytes, Received& received) {
  if (!established_) {
    if (auto step = shake(bytes, received); !step) return step;
    if (!established_) return {};
  }
  if (!bytes.empty()) {
    BIO* const in = SSL_get_rbio(ssl_.get());
    const int put = BIO_write(in, bytes.data(), static_cast<int>(bytes.size()));
    WEFT_ASSERT(put == static_cast<int>(bytes.size()));
  }
  return read(received);
}

// Leaves in `bytes` what comes after the handshake, if it ends.
Result<> SecureChannel::shake(std::span<const std::byte>& bytes, Received& received) {
  while (!bytes.empty() && !established_) {
    if (handshake_bytes_ == 0 && bytes.front() == kOldMark) {
      append(received.to_send, old_refusal());
      return fail(Errc::kNotSupported, std::string(kOtherVersion));
    }
    if (handshake_bytes_ == 0 && bytes.front() != kTlsHandshake && bytes.front() != kTlsAlert) {
      return fail(Errc::kProtocol, "the peer does not speak TLS");
    }
    const std::size_t room = kMaxHandshakeBytes - handshake_bytes_;
    if (room == 0) return fail(Errc::kTooLarge, "handshake");
    const auto part = bytes.first(std::min(room, bytes.size()));
    bytes = bytes.subspan(part.size());
    handshake_bytes_ += part.size();
    const int put = BIO_write(SSL_get_rbio(ssl_.get()), part.data(), static_cast<int>(part.size()));
    WEFT_ASSERT(put == static_cast<int>(part.size()));
    if (auto step = advance(); !step) return step;
  }
  return {};
}

Result<> SecureChannel::advance() {
  SSL_set_app_data(ssl_.get(), this);  // a channel may have been moved
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1) {
    if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) return {};
    return std::unexpected(failure());
  }
  // Neither can be otherwise, as there are no certificates and every peer of ours has ALPN.
  if (SSL_session_reused(ssl_.get()) != 1) return fail(Errc::kAuth, "the peer has no cluster key");
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &chosen, &size);
  const std::string_view name(reinterpret_cast<const char*>(chosen), size);
  for (version_ = versions_.most; name != protocol_name(version_); --version_) {
    if (version_ == versions_.least) return fail(Errc::kNotSupported, std::string(kOtherVersion));
  }
  established_ = true;
  return {};
}

Error SecureChannel::failure() {
  if (refusal_) return *refusal_;
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (!established_) {
    switch (reason - SSL_AD_REASON_OFFSET) {
      case SSL_AD_NO_APPLICATION_PROTOCOL:
      case SSL_AD_PROTOCOL_VERSION: return {Errc::kNotSupported, std::string(kOtherVersion)};
      case SSL_AD_HANDSHAKE_FAILURE:
      case SSL_AD_UNKNOWN_PSK_IDENTITY:
        return {Errc::kAuth, "the peer says our cluster key is another"};
      default: break;
    }
  }
  const char* const text = ERR_reason_error_string(code);
  const bool forged = reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC ||
                      reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_DIGEST_CHECK_FAILED;
  return {forged ? Errc::kAuth : Errc::kProtocol,
          fmt::format("TLS: {}", text == nullptr ? "the peer has ended it" : text)};
}

Result<> SecureChannel::read(Received& received) {
  std::array<std::byte, 16384> plain;  // what a TLS record holds
  SSL_set_app_data(ssl_.get(), this);
  while (true) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), plain.data(), static_cast<int>(plain.size()));
    if (got <= 0) {
      if (SSL_get_error(ssl_.get(), got) == SSL_ERROR_WANT_READ) return {};
      return std::unexpected(failure());
    }
    const auto bytes = std::span(plain).first(static_cast<std::size_t>(got));
    if (auto taken = on_plain(bytes, received); !taken) return taken;
  }
}

Result<> SecureChannel::on_plain(std::span<const std::byte> bytes, Received& received) {
  while (!bytes.empty()) {
    // Takes only what the present message lacks, so that pending_ stays within one.
    std::size_t wanted = kMarkBytes;
    if (pending_.size() >= kMarkBytes) wanted += xdr::Decoder(pending_).u32() & ~kLastFragment;
    const std::size_t taken = std::min(wanted - pending_.size(), bytes.size());
    append(pending_, bytes.first(taken));
    bytes = bytes.subspan(taken);
    if (pending_.size() < kMarkBytes) break;

    const std::uint32_t mark = xdr::Decoder(pending_).u32();
    const std::size_t size = mark & ~kLastFragment;
    if ((mark & kLastFragment) == 0) return fail(Errc::kProtocol, "message in fragments");
    if (size > kMaxPayloadBytes) {
      return fail(Errc::kTooLarge, "message of " + std::to_string(size) + " bytes");
    }
    if (pending_.size() < kMarkBytes + size) continue;
    received.messages.emplace_back(pending_.begin() + kMarkBytes, pending_.end());
    pending_.clear();
  }
  return {};
}

Result<Bytes> SecureChannel::seal(std::span<const std::byte> payload) {
  WEFT_ASSERT(established());
  if (error_) return fail(Errc::kClosed, "the channel has failed");
  if (payload.size() > kMaxPayloadBytes) {
    return fail(Errc::kTooLarge, "control message of " + std::to_string(payload.size()) + " bytes");
  }
  const Bytes message = frame(payload);
  ERR_clear_error();
  const int put = SSL_write(ssl_.get(), message.data(), static_cast<int>(message.size()));
  if (put != static_cast<int>(message.size())) {
    error_ = failure();
    return std::unexpected(*error_);
  }
  return output();
}

}  // namespace weft::rpc::peer
