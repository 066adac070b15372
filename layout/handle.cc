#include "layout/handle.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "layout/siphash.h"
#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kMacBytes = sizeof(SipHash128);
constexpr std::size_t kClaimBytes = kHandleBytes - kMacBytes;

// Writes and reads big-endian integers one after the other within the handle.
class Cursor {
 public:
  explicit Cursor(std::byte* at) : at_(at) {}
  template <class T>
  void put(T value) {
    for (std::size_t i = sizeof(T); i-- > 0;) {
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
  [[nodiscard]] T get() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
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
         access == static_cast<std::uint8_t>(Access::kControl);
}

}  // namespace

SealedHandle seal(const Handle& handle, const HandleKey& key) {
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
  out.put(std::uint64_t{0});
  const SipHash128 mac = siphash128(key, std::span(sealed).first<kClaimBytes>());
  std::ranges::copy(mac, sealed.begin() + kClaimBytes);
  return sealed;
}

Result<Handle> unseal(std::span<const std::byte> bytes, const HandleKey& key,
                      std::uint16_t key_id) {
  if (bytes.size() != kHandleBytes) return fail(Errc::kBadHandle, "wrong length");
  const SipHash128 mac = siphash128(key, bytes.first<kClaimBytes>());
  if (CRYPTO_memcmp(mac.data(), bytes.data() + kClaimBytes, kMacBytes) != 0) {
    return fail(Errc::kBadHandle, "not sealed with our key");
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
  const auto reserved = in.get<std::uint64_t>();
  if (version != kVersion || !valid(access) || handle.key_id != key_id || reserved != 0) {
    return fail(Errc::kBadHandle, "unknown version, access, key or field");
  }
  handle.access = static_cast<Access>(access);
  return handle;
}

}  // namespace weft::layout
