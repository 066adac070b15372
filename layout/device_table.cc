#include "layout/device_table.h"

#include <algorithm>

#include "layout/striping.h"
#include "rpc/base/assert.h"
#include "rpc/xdr/xdr.h"

namespace weft::layout {
namespace {

constexpr std::uint8_t kIdForm = 1;
constexpr std::uint32_t kTcpFormat = 1;
constexpr std::uint32_t kRdmaFormat = 2;
constexpr std::uint32_t kNetworksFormat = 3;

bool has_rdma(const Device& device) {
  return std::ranges::any_of(device.members, [](const DeviceMember& member) {
    return std::ranges::any_of(member.addresses, [](const DeviceAddress& address) {
      return address.transport == Transport::kRdma;
    });
  });
}

// The least that has room for all there is.
std::uint32_t format_of(const Device& device) {
  const bool networks = std::ranges::any_of(
      device.members, [](const DeviceMember& member) { return !member.networks.empty(); });
  if (networks) return kNetworksFormat;
  return has_rdma(device) ? kRdmaFormat : kTcpFormat;
}

}  // namespace

template <class Io>
void describe(Io& io, DeviceMember& r) {
  io("ds_id", r.ds_id);
  io("address_generation", r.address_generation);
  io("addresses", r.addresses, at_most(kMaxAddresses));
}

template <class Io>
void describe(Io& io, Device& r) {
  io("number", r.number);
  io("members", r.members, at_most(kMaxServers));
}

Result<> validate(const Device& device) {
  if (device.number == 0) return fail(Errc::kInvalid, "device number 0");
  if (device.members.empty() || device.members.size() > kMaxServers) {
    return fail(Errc::kInvalid, "a device has 1 to 256 data servers");
  }
  for (const DeviceMember& member : device.members) {
    if (member.addresses.empty() || member.addresses.size() > kMaxAddresses) {
      return fail(Errc::kInvalid, "a data server of a device has 1 to 8 addresses");
    }
    if (ambiguous(member.addresses)) {
      return fail(Errc::kInvalid, "an address and port for two transports");
    }
    if (auto good = validate(member.networks); !good) return good;
  }
  return {};
}

std::span<const DeviceAddress> addresses_for(const DeviceMember& member,
                                             const std::optional<NetAddress>& client) {
  if (member.networks.empty()) return member.addresses;
  const ClientNetwork* network = network_for(member.networks, client);
  return network == nullptr ? std::span<const DeviceAddress>{} : network->addresses;
}

DeviceIdBytes pack(const DeviceId& id) {
  xdr::Encoder out(kDeviceIdBytes);
  out.u32(std::uint32_t{id.fsal} << 24 | std::uint32_t{kIdForm} << 16 | id.export_id);
  out.u32(id.salt);
  out.u64(id.number);
  DeviceIdBytes bytes;
  WEFT_ASSERT(out.size() == bytes.size());
  std::ranges::copy(out.bytes(), bytes.begin());
  return bytes;
}

Result<DeviceId> unpack(std::span<const std::byte, kDeviceIdBytes> bytes) {
  xdr::Decoder in(bytes);
  const std::uint32_t first = in.u32();
  if ((first >> 16 & 0xff) != kIdForm) return fail(Errc::kInvalid, "not a device id of ours");
  DeviceId id;
  id.fsal = static_cast<std::uint8_t>(first >> 24);
  id.export_id = static_cast<std::uint16_t>(first);
  id.salt = in.u32();
  id.number = in.u64();
  return id;
}

std::vector<DeviceTable::Key> DeviceTable::key_of(const Device& device) {
  std::vector<Key> key;
  key.reserve(device.members.size());
  for (const DeviceMember& member : device.members) {
    key.push_back({member.ds_id, member.address_generation});
  }
  return key;
}

std::uint64_t DeviceTable::next_number() const {
  return by_number_.empty() ? 1 : by_number_.rbegin()->first + 1;
}

Result<> DeviceTable::add(Device device) {
  if (auto valid = validate(device); !valid) return valid;
  if (const auto known = by_number_.find(device.number); known != by_number_.end()) {
    if (*known->second.device == device) return {};
    return fail(Errc::kExists, "device ids never change their meaning");
  }
  by_members_.emplace(key_of(device), device.number);
  const std::uint64_t number = device.number;
  by_number_.emplace(number, Entry{std::make_shared<const Device>(std::move(device)), ++uses_});
  return {};
}

std::shared_ptr<const Device> DeviceTable::find(std::uint64_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second.device;
}

std::shared_ptr<const Device> DeviceTable::find(std::span<const Key> members) const {
  const auto found = by_members_.find(std::vector<Key>(members.begin(), members.end()));
  return found == by_members_.end() ? nullptr : find(found->second);
}

std::shared_ptr<const Device> DeviceTable::use(std::span<const Key> members) {
  auto found = find(members);
  if (found != nullptr) by_number_.at(found->number).used = ++uses_;
  return found;
}

std::vector<std::uint64_t> DeviceTable::forgettable(std::size_t keep) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> unused;  // when it was used, number
  for (const auto& [number, entry] : by_number_) {
    // Nobody else can get it now: find() is called with the same lock.
    if (entry.device.use_count() == 1) unused.emplace_back(entry.used, number);
  }
  if (unused.size() <= keep) return {};
  std::ranges::sort(unused);
  unused.resize(unused.size() - keep);
  std::vector<std::uint64_t> numbers;
  for (const auto& [used, number] : unused) {
    if (number != by_number_.rbegin()->first) numbers.push_back(number);
  }
  return numbers;
}

void DeviceTable::forget(std::uint64_t number) {
  const auto known = by_number_.find(number);
  if (known == by_number_.end() || known->second.device.use_count() > 1) return;
  const auto members = by_members_.find(key_of(*known->second.device));
  if (members != by_members_.end() && members->second == number) by_members_.erase(members);
  by_number_.erase(known);
}

std::string encode_device(const Device& device) {
  WEFT_ASSERT(validate(device).has_value());
  xdr::Encoder out;
  const std::uint32_t format = format_of(device);
  out.u32(format);
  xdr::put(out, device);
  if (format == kNetworksFormat) {
    for (const DeviceMember& member : device.members) put_networks(out, member.networks);
  }
  const auto bytes = out.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Device> decode_device(std::span<const std::byte> bytes) {
  xdr::Decoder in(bytes);
  const std::uint32_t format = in.u32();
  if (in.ok() && (format < kTcpFormat || format > kNetworksFormat)) {
    return fail(Errc::kNotSupported, "device format");
  }
  Device device;
  xdr::get(in, device);
  if (format == kNetworksFormat) {
    for (DeviceMember& member : device.members) member.networks = get_networks(in);
  }
  if (!in.ok() || in.remaining() != 0 || !validate(device) || format_of(device) != format) {
    return fail(Errc::kCorrupt, "malformed device");
  }
  return device;
}

}  // namespace weft::layout
