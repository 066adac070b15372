#include "ganesha-fsal/glue/handle.h"

#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/module.h"
#include "layout/siphash.h"

namespace weft::mds {
namespace {

constexpr std::uint8_t kVersion = 1;

template <class Int>
void store_be(std::byte* out, Int value) {
  for (std::size_t i = sizeof(Int); i-- > 0; value >>= 8) out[i] = static_cast<std::byte>(value);
}

template <class Int>
Int load_be(const std::byte* in) {
  Int value = 0;
  for (std::size_t i = 0; i < sizeof(Int); ++i) {
    value = static_cast<Int>(value << 8 | std::to_integer<Int>(in[i]));
  }
  return value;
}

}  // namespace

WireHandle make_wire_handle(std::uint32_t fsid, FileId file, std::uint64_t store) {
  WireHandle wire{};
  wire[0] = std::byte{kVersion};
  store_be<std::uint32_t>(&wire[4], fsid);
  store_be<std::uint64_t>(&wire[8], file);
  store_be<std::uint64_t>(&wire[16], store);
  return wire;
}

HandleSeal seal_for(FileId top, std::span<const std::byte, kWireHandleBytes> wire,
                    const layout::HandleKey& key) {
  // Says what the MAC is of, should the key ever seal something else.
  constexpr std::string_view kPurpose = "weft export of a directory";
  std::array<std::byte, kPurpose.size() + sizeof(FileId) + kWireHandleBytes> said{};
  std::memcpy(said.data(), kPurpose.data(), kPurpose.size());
  store_be<std::uint64_t>(&said[kPurpose.size()], top);
  std::ranges::copy(wire, said.begin() + kPurpose.size() + sizeof(FileId));
  const layout::SipHash128 hash = layout::siphash128(key, said);
  HandleSeal seal{};
  std::copy_n(hash.begin(), seal.size(), seal.begin());
  return seal;
}

Result<WireParts> parse_wire_handle(std::span<const std::byte> bytes) {
  const bool sealed = bytes.size() == kWireHandleBytes + kHandleSealBytes;
  if ((bytes.size() != kWireHandleBytes && !sealed) || bytes[0] != std::byte{kVersion} ||
      bytes[1] != std::byte{0} || bytes[2] != std::byte{0} || bytes[3] != std::byte{0}) {
    return fail(Errc::kBadHandle, "not a file handle of ours");
  }
  return WireParts{load_be<std::uint32_t>(&bytes[4]), load_be<std::uint64_t>(&bytes[8]),
                   load_be<std::uint64_t>(&bytes[16])};
}

Handle* make_handle(Export& through, const InodeAttributes& attributes) {
  auto handle = std::make_unique<Handle>();
  handle->file = attributes.id;
  handle->wire = make_wire_handle(through.fsid(), attributes.id, through.store_id());
  if (attributes.type == FileType::kRegular) {
    handle->open = through.store->open_files.of(attributes.id);
  }
  // Takes the module from the export, and keeps nothing of the export itself.
  fsal_obj_handle_init(handle.get(), &through, to_ganesha_type(attributes.type), false);
  handle->obj_ops = &module().object_ops;
  handle->fsid = {.major = through.fsid(), .minor = 0};
  handle->fileid = attributes.id;
  return handle.release();
}

void destroy_handle(Handle* handle) {
  fsal_obj_handle_fini(handle, false);
  delete handle;
}

}  // namespace weft::mds
