#include "layout/files_layout.h"

#include <algorithm>

namespace weft::layout {
namespace {

// nfl_util (RFC 8881 section 13.3): flags in the low six bits, the stripe unit above.
constexpr std::uint32_t kDense = 0x1;
constexpr std::uint32_t kCommitThroughMds = 0x2;
constexpr std::uint32_t kUtilMask = 0x3f;

Result<> validate(const FilesLayout& layout) {
  if (layout.handles.empty()) return fail(Errc::kInvalid, "a layout needs its file handles");
  const auto striping =
      Striping::make(layout.stripe_unit, static_cast<std::uint32_t>(layout.handles.size()),
                     layout.first_stripe_index);
  if (!striping) return fail(Errc::kInvalid, striping.error().text);
  return {};
}

Result<> validate(const FilesDevice& device) {
  if (device.stripe_indices.empty() || device.stripe_indices.size() > kMaxStripes) {
    return fail(Errc::kInvalid, "a device has 1 to 4096 stripes");
  }
  if (device.servers.empty() || device.servers.size() > kMaxServers) {
    return fail(Errc::kInvalid, "a device has 1 to 256 data servers");
  }
  for (const std::uint32_t index : device.stripe_indices) {
    if (index >= device.servers.size()) return fail(Errc::kInvalid, "stripe without a server");
  }
  for (const auto& paths : device.servers) {
    if (paths.empty() || paths.size() > kMaxAddresses) {
      return fail(Errc::kInvalid, "a data server has 1 to 8 addresses");
    }
  }
  return {};
}

}  // namespace

Result<> encode(xdr::Encoder& out, const FilesLayout& layout) {
  if (auto valid = validate(layout); !valid) return valid;
  out.fixed(layout.device);
  out.u32(layout.stripe_unit);
  out.u32(layout.first_stripe_index);
  out.u64(0);  // pattern_offset
  out.u32(static_cast<std::uint32_t>(layout.handles.size()));
  for (const SealedHandle& handle : layout.handles) out.opaque(handle);
  return {};
}

Result<FilesLayout> decode_files_layout(std::span<const std::byte> body) {
  xdr::Decoder in(body);
  FilesLayout layout;
  in.fixed(layout.device);
  const std::uint32_t util = in.u32();
  layout.first_stripe_index = in.u32();
  const std::uint64_t pattern_offset = in.u64();
  const std::uint32_t handles = in.count(kMaxServers);
  if (auto read = in.finish("files layout"); !read) return pass(read);
  if ((util & (kDense | kCommitThroughMds)) != 0 || pattern_offset != 0) {
    return fail(Errc::kNotSupported, "dense, shifted, or committed through the metadata server");
  }
  if ((util & kUtilMask) != 0) return fail(Errc::kProtocol, "unknown nfl_util flag");
  layout.stripe_unit = util;
  for (std::uint32_t i = 0; i < handles; ++i) {
    const auto handle = in.opaque(128);
    if (auto read = in.finish("files layout"); !read) return pass(read);
    if (handle.size() != kHandleBytes) return fail(Errc::kNotSupported, "handle is not ours");
    std::ranges::copy(handle, layout.handles.emplace_back().begin());
  }
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the files layout");
  if (const auto valid = validate(layout); !valid) {
    return fail(Errc::kProtocol, valid.error().text);
  }
  return layout;
}

FilesDevice files_device(const Device& device, const std::optional<NetAddress>& client) {
  FilesDevice files;
  for (std::uint32_t i = 0; i < device.members.size(); ++i) {
    files.stripe_indices.push_back(i);
    const auto addresses = addresses_for(device.members[i], client);
    files.servers.emplace_back(addresses.begin(), addresses.end());
  }
  return files;
}

Result<> encode(xdr::Encoder& out, const FilesDevice& device) {
  if (auto valid = validate(device); !valid) return valid;
  out.u32(static_cast<std::uint32_t>(device.stripe_indices.size()));
  for (const std::uint32_t index : device.stripe_indices) out.u32(index);
  out.u32(static_cast<std::uint32_t>(device.servers.size()));
  for (const auto& paths : device.servers) {
    out.u32(static_cast<std::uint32_t>(paths.size()));
    for (const DeviceAddress& address : paths) xdr::put(out, address);
  }
  return {};
}

Result<FilesDevice> decode_files_device(std::span<const std::byte> body) {
  xdr::Decoder in(body);
  FilesDevice device;
  const std::uint32_t stripes = in.count(kMaxStripes);
  for (std::uint32_t i = 0; i < stripes && in.ok(); ++i) device.stripe_indices.push_back(in.u32());
  const std::uint32_t servers = in.count(kMaxServers);
  for (std::uint32_t i = 0; i < servers && in.ok(); ++i) {
    auto& paths = device.servers.emplace_back();
    const std::uint32_t count = in.count(kMaxAddresses);
    for (std::uint32_t j = 0; j < count && in.ok(); ++j) xdr::get(in, paths.emplace_back());
  }
  if (auto read = in.finish("files device"); !read) return pass(read);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the device");
  if (const auto valid = validate(device); !valid) {
    return fail(Errc::kProtocol, valid.error().text);
  }
  return device;
}

}  // namespace weft::layout
