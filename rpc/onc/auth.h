// RPC credentials: AUTH_NONE and AUTH_SYS (RFC 5531 sections 10.1 and appendix A).
//
// AUTH_SYS is a claim, not a proof; a data server trusts the handle's MAC instead and uses the
// credential only to tell principals apart. RPCSEC_GSS is recognised and refused (AUTH_BADCRED).
//
// Threading: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/xdr/xdr.h"

namespace weft::rpc {

enum class AuthFlavor : std::uint32_t { AUTH_NONE = 0, AUTH_SYS = 1, RPCSEC_GSS = 6 };

constexpr std::size_t kMaxAuthBytes = 400;  // RFC 5531 section 8.2
constexpr std::uint32_t kNobody = 65534;

struct AuthSys {
  std::uint32_t stamp = 0;
  std::string machine;  // at most 255 bytes
  std::uint32_t uid = kNobody;
  std::uint32_t gid = kNobody;
  std::vector<std::uint32_t> groups;  // at most 16
  friend bool operator==(const AuthSys&, const AuthSys&) = default;
};

// The body of an AUTH_SYS credential.
void encode(xdr::Encoder& out, const AuthSys& auth);
void decode(xdr::Decoder& in, AuthSys& auth);

}  // namespace weft::rpc
