// The files layout's two bodies (RFC 8881 section 13.3), encoded and decoded.
//
//   nfsv4_1_file_layout4          what LAYOUTGET answers with: device, stripe unit, file handles
//   nfsv4_1_file_layout_ds_addr4  what GETDEVICEINFO answers with: stripe indices and addresses
//
// The metadata server encodes them; the load generator and the tests decode them. Both are checked
// against what a stock Linux client accepts: sparse packing, a stripe unit that is a multiple of
// 64, whole-file layouts (pattern_offset 0), one file handle for each data server of the device (a
// list of 0 or 1 turns off splitting at stripe boundaries in clients up to Linux 7.1), at most 4096
// stripes and 256 data servers. COMMIT goes to the data servers, never through the metadata server.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/device_table.h"
#include "layout/handle.h"
#include "layout/striping.h"
#include "rpc/base/error.h"
#include "rpc/xdr/xdr.h"

namespace weft::layout {

struct FilesLayout {
  DeviceIdBytes device{};
  std::uint32_t stripe_unit = 0;         // bytes
  std::uint32_t first_stripe_index = 0;  // of the byte at offset 0
  std::vector<SealedHandle> handles;     // handle i is for data server i of the device

  friend bool operator==(const FilesLayout&, const FilesLayout&) = default;
};

// Bytes of the encoded body for a layout over `servers` data servers.
[[nodiscard]] constexpr std::size_t files_layout_bytes(std::size_t servers) {
  return kDeviceIdBytes + 4 + 4 + 8 + 4 + servers * (4 + kHandleBytes);
}
// The most data servers a layout can name within `body_bytes`; a Linux client offers 4096 bytes
// for the whole LAYOUTGET answer (loga_maxcount).
[[nodiscard]] constexpr std::size_t max_servers_within(std::size_t body_bytes) {
  const std::size_t fixed = files_layout_bytes(0);
  const std::size_t fit = body_bytes < fixed ? 0 : (body_bytes - fixed) / (4 + kHandleBytes);
  return fit < kMaxServers ? fit : kMaxServers;
}

// kInvalid for a layout that a client would reject.
[[nodiscard]] Result<> encode(xdr::Encoder& out, const FilesLayout& layout);
// kProtocol for malformed bytes, kNotSupported for what we never send (dense packing, COMMIT
// through the metadata server, a pattern offset, handles not ours or not one per server).
[[nodiscard]] Result<FilesLayout> decode_files_layout(std::span<const std::byte> body);

struct FilesDevice {
  std::vector<std::uint32_t> stripe_indices;        // stripe -> index into servers
  std::vector<std::vector<DeviceAddress>> servers;  // each a multipath list, preferred first

  friend bool operator==(const FilesDevice&, const FilesDevice&) = default;
};

// The device as the files layout sees it, for a client: one stripe for each member, in order. A
// member without an address for it has none, which encode() refuses.
[[nodiscard]] FilesDevice files_device(const Device& device,
                                       const std::optional<NetAddress>& client = {});

[[nodiscard]] Result<> encode(xdr::Encoder& out, const FilesDevice& device);
[[nodiscard]] Result<FilesDevice> decode_files_device(std::span<const std::byte> body);

}  // namespace weft::layout
