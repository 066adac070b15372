#include "layout/handle.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "layout/copies_hint.h"
#include "layout/siphash.h"
#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kMacBytes = sizeof(SipHash128);
constexpr std::size_t kClaimBytes = kHandleBytes - kMacBytes;

// Writes and reads big-endian integers one after the other within the handle.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  template <class T>
  void put(T value, std::size_t bytes = sizeof(T)) {
    for (std::size_t i = bytes; i-- > 0;) {
      *at_++ = static_cast<std::byte>(value >> (8 * i) & 0xff);
    }
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  template <class T>
  [[nodiscard]] T get(std::size_t bytes = sizeof(T)) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value << 8 | std::to_integer<std::uint64_t>(*at_++);
    }
    return static_cast<T>(value);
  }

 private:
  const std::byte* at_;
};

bool valid(std::uint8_t access) {
  return access == static_cast<std::uint8_t>(Access::kRead) ||
         access == static_cast<std::uint8_t>(Access::kReadWrite) ||
         access == static_cast<std::uint8_t>(Access::kFetch) ||
         access == static_cast<std::uint8_t>(Access::kCompare) ||
         access == static_cast<std::uint8_t>(Access::kMirror) ||
         access == static_cast<std::uint8_t>(Access::kControl);
}

constexpr std::size_t kPartnerBytes = 3;

bool fits_partner(const Handle& handle, std::uint32_t partner) {
  return partner != 0 && partner <= kMaxPartnerId && partner != handle.ds_id;
}

}  // namespace

std::string_view to_string(Duplication duplication) {
  switch (duplication) {
    case Duplication::kNone: return "none";
    case Duplication::kServerAsync: return "server-async";
    case Duplication::kServerSync: return "server-sync";
    case Duplication::kClientAsync: return "client-async";
    case Duplication::kClientSync: return "client-sync";
  }
  return "unknown";
}

Result<> validate(const Handle& handle) {
  const auto [first, second] = handle.partners;
  if (handle.duplication == Duplication::kNone) {
    if (first == 0 && second == 0) return {};
    return fail(Errc::kInvalid, "partners without duplication");
  }
  if (handle.duplication != Duplication::kServerAsync &&
      handle.duplication != Duplication::kServerSync) {
    return fail(Errc::kInvalid, "not a duplication for data servers");
  }
  if (handle.access != Access::kReadWrite) {
    return fail(Errc::kInvalid, "duplication of what is not written");
  }
  if (!fits_partner(handle, first) || first == second ||
      (second != 0 && !fits_partner(handle, second))) {
    return fail(Errc::kInvalid, "no such partners");
  }
  return {};
}

Handle mirror_handle(const Handle& handle, std::uint32_t partner) {
  WEFT_ASSERT(handle.duplication != Duplication::kNone && partner != 0);
  WEFT_ASSERT(partner == handle.partners[0] || partner == handle.partners[1]);
  Handle mirror = handle;
  mirror.access = Access::kMirror;
  mirror.ds_id = partner;
  mirror.duplication = Duplication::kNone;
  mirror.partners = {0, 0};
  return mirror;
}

SealedHandle seal(const Handle& handle, const HandleKey& key) {
  WEFT_ASSERT(validate(handle).has_value());
  SealedHandle sealed;
  Cursor out(sealed.data());
  out.put(kVersion);
  out.put(static_cast<std::uint8_t>(handle.access));
  out.put(handle.key_id);
  out.put(handle.ds_id);
  out.put(handle.object.fileid);
  out.put(handle.object.generation);
  out.put(handle.object.fsid);
  out.put(handle.client_id);
  out.put(handle.object_epoch);
  out.put(handle.client_epoch);
  out.put(static_cast<std::uint8_t>(handle.duplication));
  for (const std::uint32_t partner : handle.partners) out.put(partner, kPartnerBytes);
  out.put(std::uint8_t{0});
  const SipHash128 mac = siphash128(key, std::span(sealed).first<kClaimBytes>());
  std::ranges::copy(mac, sealed.begin() + kClaimBytes);
  return sealed;
}

bool seems_of_copies(std::span<const std::byte> bytes) {
  constexpr std::size_t kAccessAt = 1;
  constexpr std::size_t kDuplicationAt = 40;
  if (bytes.size() != kHandleBytes) return false;
  return static_cast<Access>(bytes[kAccessAt]) == Access::kMirror ||
         static_cast<Duplication>(bytes[kDuplicationAt]) != Duplication::kNone;
}

Result<Handle> unseal(std::span<const std::byte> bytes, std::span<const HandleKey> keys,
                      std::uint16_t key_id) {
  if (bytes.size() != kHandleBytes) return fail(Errc::kBadHandle, "wrong length");
  const auto sealed_with = [bytes](const HandleKey& key) {
    const SipHash128 mac = siphash128(key, bytes.first<kClaimBytes>());
    return CRYPTO_memcmp(mac.data(), bytes.data() + kClaimBytes, kMacBytes) == 0;
  };
  if (std::ranges::none_of(keys, sealed_with)) {
    return fail(Errc::kBadHandle, "not sealed with a key of ours");
  }
  Reader in(bytes.data());
  const auto version = in.get<std::uint8_t>();
  const auto access = in.get<std::uint8_t>();
  Handle handle;
  handle.key_id = in.get<std::uint16_t>();
  handle.ds_id = in.get<std::uint32_t>();
  handle.object.fileid = in.get<std::uint64_t>();
  handle.object.generation = in.get<std::uint32_t>();
  handle.object.fsid = in.get<std::uint32_t>();
  handle.client_id = in.get<std::uint64_t>();
  handle.object_epoch = in.get<std::uint32_t>();
  handle.client_epoch = in.get<std::uint32_t>();
  handle.duplication = static_cast<Duplication>(in.get<std::uint8_t>());
  for (std::uint32_t& partner : handle.partners) partner = in.get<std::uint32_t>(kPartnerBytes);
  const auto reserved = in.get<std::uint8_t>();
  if (version != kVersion || !valid(access) || handle.key_id != key_id || reserved != 0) {
    return fail(Errc::kBadHandle, "unknown version, access, key or field");
  }
  handle.access = static_cast<Access>(access);
  if (!validate(handle)) return fail(Errc::kBadHandle, "duplication that makes no sense");
  return handle;
}

}  // namespace weft::layout
