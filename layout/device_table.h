// Devices: what the 16-byte device ids in layouts stand for.
//
// A device is an ordered list of data servers, each at one generation of its addresses. A client
// may cache what GETDEVICEINFO told it for as long as it likes, since an id never changes its
// meaning: when a server's addresses or a list's membership change, the list gets a new id. The
// metadata server then recalls the layouts that name the old one. (Ganesha cannot send
// CB_NOTIFY_DEVICEID without leaking slots, so none is needed.)
//
// Wire form of an id, big-endian: u8 Ganesha's number of our FSAL (GETDEVICEINFO is dispatched by
// it), u8 form (1), u16 export id, u32 table salt, u64 device number. The salt is drawn when a
// table is made, so that a client that still remembers a table that was wiped never mistakes its
// ids for ours.
//
// Devices are made without end, for new addresses and other lists: the table tells which its owner
// may forget. That is never one that somebody has: what is handed out is a share of it.
//
// Threading: DeviceTable needs external synchronisation, also where find() is called; the Devices
// it hands out are immutable and shared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layout/client_network.h"
#include "layout/net_address.h"
#include "rpc/base/error.h"

namespace weft::layout {

constexpr std::size_t kDeviceIdBytes = 16;
using DeviceIdBytes = std::array<std::byte, kDeviceIdBytes>;

struct DeviceId {
  std::uint8_t fsal = 0;
  std::uint16_t export_id = 0;
  std::uint32_t salt = 0;
  std::uint64_t number = 0;

  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

[[nodiscard]] DeviceIdBytes pack(const DeviceId& id);
// kInvalid for a form we never made.
[[nodiscard]] Result<DeviceId> unpack(std::span<const std::byte, kDeviceIdBytes> bytes);

// One data server of a device, with its addresses as they were at `address_generation`. Clients are
// told those of their network if there are networks, `addresses` if not.
struct DeviceMember {
  std::uint32_t ds_id = 0;
  std::uint32_t address_generation = 0;
  std::vector<DeviceAddress> addresses;
  std::vector<ClientNetwork> networks;

  friend bool operator==(const DeviceMember&, const DeviceMember&) = default;
};

struct Device {
  std::uint64_t number = 0;
  std::vector<DeviceMember> members;  // in stripe order; 1 to kMaxServers

  friend bool operator==(const Device&, const Device&) = default;
};

constexpr std::size_t kMaxAddresses = 8;  // of one data server in a device

// What a client is told: the first it tries first, the rest are other paths to the same server.
// Empty: it has no way there.
[[nodiscard]] std::span<const DeviceAddress> addresses_for(const DeviceMember& member,
                                                           const std::optional<NetAddress>& client);

// kInvalid: number 0, no members, too many, or a member without addresses, with too many, with
// ambiguous() ones, or with wrong networks.
[[nodiscard]] Result<> validate(const Device& device);

class DeviceTable {
 public:
  explicit DeviceTable(std::uint32_t salt) : salt_(salt) {}

  [[nodiscard]] std::uint32_t salt() const { return salt_; }
  // What the next device made by the owner is to be numbered: one past the greatest yet, from 1.
  [[nodiscard]] std::uint64_t next_number() const;

  // kExists when the number is taken by another device; adding the same twice is success.
  // kInvalid as of validate().
  [[nodiscard]] Result<> add(Device device);

  [[nodiscard]] std::shared_ptr<const Device> find(std::uint64_t number) const;
  // The device with exactly these servers at these generations, in this order.
  struct Key {
    std::uint32_t ds_id = 0;
    std::uint32_t address_generation = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  [[nodiscard]] static std::vector<Key> key_of(const Device& device);
  [[nodiscard]] std::shared_ptr<const Device> find(std::span<const Key> members) const;
  // The same for one who hands it out: it was used last then, as one that is added.
  [[nodiscard]] std::shared_ptr<const Device> use(std::span<const Key> members);
  [[nodiscard]] std::size_t size() const { return by_number_.size(); }

  // Those that may be forgotten: of what nobody has all but the `keep` that were used last. Never
  // the one with the greatest number, so that no number is used twice. Looks at all of them.
  [[nodiscard]] std::vector<std::uint64_t> forgettable(std::size_t keep) const;
  // Unless somebody has got it meanwhile.
  void forget(std::uint64_t number);

 private:
  struct Entry {
    std::shared_ptr<const Device> device;
    std::uint64_t used = 0;  // of uses_
  };

  std::uint32_t salt_;
  std::uint64_t uses_ = 0;
  std::map<std::uint64_t, Entry> by_number_;
  std::map<std::vector<Key>, std::uint64_t> by_members_;
};

// The durable form of a device: XDR, versioned. Decoding believes nothing: kCorrupt; kNotSupported:
// of a later format. Format 3 is written if there are networks, 2 if there are addresses for RDMA
// alone, 1, which is otherwise the same, if not; networks follow the members in the first.
[[nodiscard]] std::string encode_device(const Device& device);
[[nodiscard]] Result<Device> decode_device(std::span<const std::byte> bytes);

}  // namespace weft::layout
