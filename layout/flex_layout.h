// The flexible files layout's two bodies (RFC 8435), encoded and decoded.
//
//   ff_layout4        what LAYOUTGET answers with: mirrors, each with its data servers and handles
//   ff_device_addr4   what GETDEVICEINFO answers with: one data server's addresses and versions
//
// The client writes all mirrors and reads from the one with the greatest efficiency, taking the
// next when that fails. What a stock Linux client asks of these bodies:
//
// 1. At most 16 mirrors. A stripe within a mirror (more than one data server) is decoded from Linux
//    6.18 on; older ones answer the application EIO.
// 2. Only the first version and the first handle of a data server are used: we send one each.
// 3. rsize or wsize 0 would silently become 4096 bytes.
// 4. The data server's stateid is sent whether coupling is tight or loose. Ours looks at none: the
//    handle is the capability, and the anonymous stateid (all zero) is sent for all. The special
//    stateids that mean something else are refused.
// 5. User and group are numbers; a client uses them as its AUTH_SYS credential when coupling is
//    loose.
// 6. NO_IO_THRU_MDS is a wish: clients up to Linux 7.1 break it now and then.
// 7. A mirror with the same device and handle as one the client holds keeps what it was told of
//    efficiency and stateid before: only another handle brings news.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layout/device_table.h"
#include "layout/handle.h"
#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/xdr/xdr.h"

namespace weft::layout {

// ffl_flags.
constexpr std::uint32_t kFlexNoLayoutCommit = 1;
constexpr std::uint32_t kFlexNoIoThroughMds = 2;
constexpr std::uint32_t kFlexNoReadIo = 4;
constexpr std::uint32_t kFlexWriteOneMirror = 8;

constexpr std::size_t kMaxFlexMirrors = 16;

using WireStateid = std::array<std::byte, 16>;  // u32 seqid, 12 bytes

struct FlexServer {
  DeviceIdBytes device{};
  std::uint32_t efficiency = 0;  // reads go to the mirror with the greatest
  WireStateid stateid{};         // all zero: anonymous
  SealedHandle handle{};
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  friend bool operator==(const FlexServer&, const FlexServer&) = default;
};

struct FlexLayout {
  std::uint64_t stripe_unit = 0;                 // bytes; of use with more than one server a mirror
  std::vector<std::vector<FlexServer>> mirrors;  // each in stripe order, all of the same length
  std::uint32_t flags = 0;
  std::uint32_t stats_seconds =
      0;  // how often a client is asked to send LAYOUTSTATS; 0: its choice

  friend bool operator==(const FlexLayout&, const FlexLayout&) = default;
};

// Bytes the encoded body takes.
[[nodiscard]] std::size_t flex_layout_bytes(const FlexLayout& layout);

// kInvalid for a layout that a client would reject or misread; kNotSupported for stripes within
// mirrors unless `stripes` says that the client decodes them.
[[nodiscard]] Result<> encode(xdr::Encoder& out, const FlexLayout& layout, bool stripes);
// kProtocol for malformed bytes, kNotSupported for what we never send (several handles for a data
// server, handles not ours, users by name).
[[nodiscard]] Result<FlexLayout> decode_flex_layout(std::span<const std::byte> body);

struct FlexDevice {
  std::vector<DeviceAddress> addresses;  // of one data server, preferred first
  std::uint32_t version = 4;
  std::uint32_t minor_version = 1;
  std::uint32_t rsize = 1u << 20;  // bytes of a READ or WRITE at most
  std::uint32_t wsize = 1u << 20;
  bool tightly_coupled = true;  // the data server checks what the metadata server granted

  friend bool operator==(const FlexDevice&, const FlexDevice&) = default;
};

// What a client is told of it; no addresses: it has no way there. An address and port that was
// configured twice, by two names perhaps, is told once.
[[nodiscard]] FlexDevice flex_device(const DeviceMember& server,
                                     const std::optional<NetAddress>& client);

// kInvalid: no or too many addresses, a version a client does not speak, a size of 0, two
// transports on one address and port (a client's comparison ignores the transport).
[[nodiscard]] Result<> encode(xdr::Encoder& out, const FlexDevice& device);
[[nodiscard]] Result<FlexDevice> decode_flex_device(std::span<const std::byte> body);

// The efficiency of each mirror for one client, which reads from the one with the greatest as long
// as that answers. `spares`: 0 to 1, of layout/read_choice.h. `seed`, of client and file and evenly
// spread, draws the first one, so that each mirror gets its part of the clients
// (parts_among_clients()); without, all get the best. The others follow by what they have to spare.
[[nodiscard]] std::vector<std::uint32_t> efficiencies(std::span<const double> spares,
                                                      std::optional<std::uint64_t> seed);

}  // namespace weft::layout
