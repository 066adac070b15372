#include "ganesha-fsal/server/file_handle.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <string_view>

#include "layout/siphash.h"
#include "rpc/xdr/xdr.h"

namespace weft::mds {
namespace {

constexpr std::uint32_t kVersion = 0x01000000;  // 1, and three zero bytes

}  // namespace

WireHandle make_wire_handle(std::uint32_t fsid, FileId file, std::uint64_t store) {
  xdr::Encoder out(kWireHandleBytes);
  out.u32(kVersion);
  out.u32(fsid);
  out.u64(file);
  out.u64(store);
  WireHandle wire{};
  std::ranges::copy(out.bytes(), wire.begin());
  return wire;
}

Result<WireParts> parse_wire_handle(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  const bool ours = in.u32() == kVersion;
  const WireParts parts{in.u32(), in.u64(), in.u64()};
  if (!in.ok() || !ours || (in.remaining() != 0 && in.remaining() != kHandleSealBytes)) {
    return fail(Errc::kBadHandle, "not a file handle of ours");
  }
  return parts;
}

HandleSeal seal_for(FileId top, std::span<const std::byte, kWireHandleBytes> wire,
                    const layout::HandleKey& key) {
  // Says what the MAC is of, should the key ever seal something else.
  constexpr std::string_view kPurpose = "weft export of a directory";
  xdr::Encoder said;
  said.raw(std::as_bytes(std::span(kPurpose)));
  said.u64(top);
  said.raw(wire);
  const layout::SipHash128 hash = layout::siphash128(key, said.bytes());
  HandleSeal seal{};
  std::copy_n(hash.begin(), seal.size(), seal.begin());
  return seal;
}

bool has_seal(std::span<const std::byte> bytes, FileId top, const layout::HandleKey& key) {
  if (bytes.size() != kWireHandleBytes + kHandleSealBytes) return false;
  const HandleSeal good = seal_for(top, bytes.first<kWireHandleBytes>(), key);
  return CRYPTO_memcmp(good.data(), bytes.data() + kWireHandleBytes, good.size()) == 0;
}

}  // namespace weft::mds
