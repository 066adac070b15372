#include "layout/flex_layout.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "layout/read_choice.h"
#include "layout/striping.h"

namespace weft::layout {
namespace {

constexpr std::uint32_t kKnownFlags =
    kFlexNoLayoutCommit | kFlexNoIoThroughMds | kFlexNoReadIo | kFlexWriteOneMirror;
constexpr std::size_t kMaxOwner = 10;  // digits of a uid
constexpr std::size_t kMaxFlexHandle = 128;

// RFC 8881 section 8.2.3: seqid 1 with zeros is "the current stateid", and all ones, or zeros and
// ones mixed, mean READ bypass or nothing valid.
bool misleading(const WireStateid& stateid) {
  const auto other = std::span(stateid).subspan(4);
  const auto all = [&](std::byte value) {
    return std::ranges::all_of(other, [&](std::byte byte) { return byte == value; });
  };
  const bool zero_seqid = std::ranges::all_of(std::span(stateid).first(4),
                                              [](std::byte byte) { return byte == std::byte{0}; });
  return all(std::byte{0xff}) || (all(std::byte{0}) && !zero_seqid);
}

Result<> validate(const FlexLayout& layout) {
  if (layout.mirrors.empty() || layout.mirrors.size() > kMaxFlexMirrors) {
    return fail(Errc::kInvalid, "a flexfiles layout has 1 to 16 mirrors");
  }
  const std::size_t servers = layout.mirrors.front().size();
  if (servers == 0 || servers > kMaxServers) {
    return fail(Errc::kInvalid, "a mirror has 1 to 256 data servers");
  }
  for (const auto& mirror : layout.mirrors) {
    if (mirror.size() != servers) return fail(Errc::kInvalid, "mirrors of different widths");
    for (const FlexServer& server : mirror) {
      if (misleading(server.stateid)) return fail(Errc::kInvalid, "a special stateid");
    }
  }
  if (servers > 1 && (layout.stripe_unit == 0 || layout.stripe_unit % kStripeUnitMultiple != 0)) {
    return fail(Errc::kInvalid, "a stripe unit that is no multiple of 64");
  }
  if ((layout.flags & ~kKnownFlags) != 0) return fail(Errc::kInvalid, "unknown ffl_flags");
  return {};
}

void encode_server(xdr::Encoder& out, const FlexServer& server) {
  out.fixed(server.device);
  out.u32(server.efficiency);
  out.fixed(server.stateid);
  out.u32(1);
  out.opaque(server.handle);
  out.string(std::to_string(server.uid));
  out.string(std::to_string(server.gid));
}

// A number in its shortest form.
bool parse_owner(const std::string& text, std::uint32_t& id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc{} && end == text.data() + text.size() && std::to_string(id) == text;
}

Result<FlexServer> decode_server(xdr::Decoder& in) {
  FlexServer server;
  in.fixed(server.device);
  server.efficiency = in.u32();
  in.fixed(server.stateid);
  const std::uint32_t handles = in.u32();
  if (in.ok() && handles != 1) return fail(Errc::kNotSupported, "not one handle a data server");
  const auto handle = in.opaque(kMaxFlexHandle);
  const std::string user = in.string(kMaxFlexHandle);
  const std::string group = in.string(kMaxFlexHandle);
  if (auto read = in.finish("flexfiles data server"); !read) return pass(read);
  if (handle.size() != kHandleBytes) return fail(Errc::kNotSupported, "handle is not ours");
  std::ranges::copy(handle, server.handle.begin());
  if (user.size() > kMaxOwner || !parse_owner(user, server.uid) || group.size() > kMaxOwner ||
      !parse_owner(group, server.gid)) {
    return fail(Errc::kNotSupported, "user or group is no number");
  }
  return server;
}

Result<> validate(const FlexDevice& device) {
  if (device.addresses.empty() || device.addresses.size() > kMaxAddresses) {
    return fail(Errc::kInvalid, "a data server has 1 to 8 addresses");
  }
  for (std::size_t i = 0; i < device.addresses.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (device.addresses[i].address == device.addresses[j].address) {
        return fail(Errc::kInvalid, "an address and port twice");
      }
    }
  }
  const bool v3 = device.version == 3 && device.minor_version == 0;
  if (!v3 && (device.version != 4 || device.minor_version > 2)) {
    return fail(Errc::kInvalid, "a version that is not 3, 4.0, 4.1 or 4.2");
  }
  if (device.rsize == 0 || device.wsize == 0) return fail(Errc::kInvalid, "rsize or wsize of 0");
  return {};
}

}  // namespace

std::size_t flex_layout_bytes(const FlexLayout& layout) {
  std::size_t bytes = 8 + 4 + 4 + 4;
  for (const auto& mirror : layout.mirrors) {
    bytes += 4;
    for (const FlexServer& server : mirror) {
      bytes += kDeviceIdBytes + 4 + server.stateid.size() + 4 + 4 + kHandleBytes;
      bytes += 4 + xdr::padded(std::to_string(server.uid).size());
      bytes += 4 + xdr::padded(std::to_string(server.gid).size());
    }
  }
  return bytes;
}

Result<> encode(xdr::Encoder& out, const FlexLayout& layout, bool stripes) {
  if (auto valid = validate(layout); !valid) return valid;
  if (layout.mirrors.front().size() > 1 && !stripes) {
    return fail(Errc::kNotSupported, "the client does not decode stripes within mirrors");
  }
  out.u64(layout.stripe_unit);
  out.u32(static_cast<std::uint32_t>(layout.mirrors.size()));
  for (const auto& mirror : layout.mirrors) {
    out.u32(static_cast<std::uint32_t>(mirror.size()));
    for (const FlexServer& server : mirror) encode_server(out, server);
  }
  out.u32(layout.flags);
  out.u32(layout.stats_seconds);
  return {};
}

Result<FlexLayout> decode_flex_layout(std::span<const std::byte> body) {
  xdr::Decoder in(body);
  FlexLayout layout;
  layout.stripe_unit = in.u64();
  const std::uint32_t mirrors = in.count(kMaxFlexMirrors);
  for (std::uint32_t i = 0; i < mirrors && in.ok(); ++i) {
    auto& mirror = layout.mirrors.emplace_back();
    const std::uint32_t servers = in.count(kMaxServers);
    for (std::uint32_t j = 0; j < servers && in.ok(); ++j) {
      auto server = decode_server(in);
      if (!server) return pass(server);
      mirror.push_back(*server);
    }
  }
  layout.flags = in.u32();
  layout.stats_seconds = in.u32();
  if (auto read = in.finish("flexfiles layout"); !read) return pass(read);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the flexfiles layout");
  if (auto valid = validate(layout); !valid) return fail(Errc::kProtocol, valid.error().text);
  return layout;
}

FlexDevice flex_device(const DeviceMember& server, const std::optional<NetAddress>& client) {
  FlexDevice device;
  for (const DeviceAddress& one : addresses_for(server, client)) {
    const auto known = std::ranges::find(device.addresses, one);
    if (known == device.addresses.end()) device.addresses.push_back(one);
  }
  return device;
}

Result<> encode(xdr::Encoder& out, const FlexDevice& device) {
  if (auto valid = validate(device); !valid) return valid;
  out.u32(static_cast<std::uint32_t>(device.addresses.size()));
  for (const DeviceAddress& address : device.addresses) xdr::put(out, address);
  out.u32(1);  // ffda_versions
  out.u32(device.version);
  out.u32(device.minor_version);
  out.u32(device.rsize);
  out.u32(device.wsize);
  out.boolean(device.tightly_coupled);
  return {};
}

Result<FlexDevice> decode_flex_device(std::span<const std::byte> body) {
  xdr::Decoder in(body);
  FlexDevice device;
  const std::uint32_t addresses = in.count(kMaxAddresses);
  for (std::uint32_t i = 0; i < addresses && in.ok(); ++i) {
    xdr::get(in, device.addresses.emplace_back());
  }
  const std::uint32_t versions = in.u32();
  if (in.ok() && versions != 1) return fail(Errc::kNotSupported, "not one version a data server");
  device.version = in.u32();
  device.minor_version = in.u32();
  device.rsize = in.u32();
  device.wsize = in.u32();
  device.tightly_coupled = in.boolean();
  if (auto read = in.finish("flexfiles device"); !read) return pass(read);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the flexfiles device");
  if (auto valid = validate(device); !valid) return fail(Errc::kProtocol, valid.error().text);
  return device;
}

std::vector<std::uint32_t> efficiencies(std::span<const double> spares,
                                        std::optional<std::uint64_t> seed) {
  constexpr std::uint32_t kFirst = 2000;
  constexpr double kMostOfOthers = 1000;
  std::vector<std::uint32_t> ranks;
  for (const double spare : spares) {
    ranks.push_back(static_cast<std::uint32_t>(kMostOfOthers * std::clamp(spare, 0.0, 1.0)));
  }
  if (ranks.empty()) return ranks;
  auto first = static_cast<std::size_t>(std::ranges::max_element(spares) - spares.begin());
  if (seed) {
    double left = std::ldexp(static_cast<double>(*seed >> 11), -53);  // 0 to 1, below 1
    const auto parts = parts_among_clients(spares);
    for (std::size_t i = 0; i < parts.size() && left >= 0; ++i) {
      if (parts[i] > 0) first = i;
      left -= parts[i];
    }
  }
  ranks[first] = kFirst;
  return ranks;
}

}  // namespace weft::layout
