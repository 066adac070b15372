// FileData's part of the flexfiles layout: bodies, devices, and what becomes of clients' reports.
#include <algorithm>

#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/flex_grant.h"
#include "ganesha-fsal/files/ways.h"
#include "layout/files_layout.h"
#include "layout/flex_layout.h"

namespace weft::mds {

Result<FileData::Granted> FileData::make_flex_layout(const LayoutRequest& request,
                                                     const Mirrors::View& view,
                                                     const Mirrors::Usable& usable) {
  Registry& registry = parts_.cluster.registry();
  const auto epoch = parts_.fencer.epoch_for(request.client);
  if (!epoch) return std::unexpected(epoch.error());
  FlexGrant grant;
  grant.file = request.file;
  grant.client = request.client;
  grant.access = request.access;
  grant.led =
      request.access == layout::Access::kReadWrite && !parts_.mirrors.may_name_all(request.file);
  grant.object = parts_.names.object_of(request.file, view.map);
  grant.client_epoch = *epoch;
  grant.key = parts_.cluster.keys().sealing();

  std::map<std::uint32_t, double> spare;
  const auto spares = parts_.mirrors.reads().spares(request.file, view.map);
  for (std::size_t copy = 0; spares && copy < view.map.copies.size(); ++copy) {
    spare[view.map.copies[copy].ds_ids.front()] = spares->front()[copy];
  }
  FlexServers servers;
  const bool chooses = request.access == layout::Access::kRead && usable;
  servers.here = [this, &usable, chooses](std::uint32_t ds_id) {
    return parts_.mirrors.reach(ds_id) == Reach::kHere && (!chooses || usable(ds_id));
  };
  servers.spare = [&](std::uint32_t ds_id) {
    const auto it = spare.find(ds_id);
    return it == spare.end() ? 0 : it->second;
  };
  std::vector<std::uint32_t> named;
  servers.device = [&](std::uint32_t ds_id) -> Result<layout::DeviceIdBytes> {
    auto device = registry.device_for({&ds_id, 1});
    if (!device) return pass(device);
    named.push_back(ds_id);
    parts_.layouts.names(request.file, request.client, request.access, *device);
    return layout::pack(registry.device_id(request.fsal, request.export_id, **device));
  };
  auto made = flex_layout(view.map, view.leads, grant, servers);
  if (!made) return pass(made);
  for (const std::uint32_t ds_id : named) {
    if (usable && !usable(ds_id)) return no_way_to(ds_id, Errc::kLayoutUnavailable);
  }
  const bool reads_all = request.access == layout::Access::kRead && !usable;
  if (reads_all && spares && view.map.copies.size() > 1) {
    parts_.mirrors.reads().handed_out(request.file, ReadShares::best_parts(view.map, *spares));
  }
  if (layout::flex_layout_bytes(*made) > request.max_bytes) {
    return fail(Errc::kTooLarge, "the layout has no room");
  }
  xdr::Encoder body(layout::flex_layout_bytes(*made));
  if (auto encoded = layout::encode(body, *made, false); !encoded) return pass(encoded);
  // One for writing a Linux client does not return at once when it is asked for what it does not
  // use (kept_layouts.cc), so an unmount beside a dead data server would soon be too late.
  const bool kept = request.access == layout::Access::kRead
                        ? keep(request, named)
                        : parts_.layouts.keeps(request.file, request.client);
  return Granted{body.take(), kept};
}

Result<std::vector<std::byte>> FileData::device_body(
    const layout::DeviceId& id, layout::LayoutType type,
    const std::optional<layout::NetAddress>& client) const {
  const auto device = parts_.cluster.registry().device(id);
  if (device == nullptr) return fail(Errc::kNotFound, "no such device");
  for (const layout::DeviceMember& member : device->members) {
    if (!layout::addresses_for(member, client).empty()) continue;
    return no_way_to(member.ds_id, Errc::kNotFound);
  }
  xdr::Encoder body;
  if (type == layout::LayoutType::kFiles) {
    if (auto encoded = layout::encode(body, layout::files_device(*device, client)); !encoded) {
      return pass(encoded);
    }
    return body.take();
  }
  if (device->members.size() != 1) return fail(Errc::kNotFound, "no device of this type");
  if (auto encoded = layout::encode(body, layout::flex_device(device->members.front(), client));
      !encoded) {
    return pass(encoded);
  }
  return body.take();
}

Result<> FileData::make_room(FileId file) {
  const auto full = reports_.full_for(file);
  if (full.empty()) return {};
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return pass(map);
  if (!*map) return {};
  if (reports_.no_room(file, **map)) {
    return fail(Errc::kNoSpace, "the data servers of the file have no space");
  }
  for (const std::uint32_t ds_id : full) {
    auto excluded = parts_.mirrors.exclude(file, ds_id, Mirrors::Cause::kNoAnswer);
    if (!excluded) return excluded;
  }
  return {};
}

// By reading a byte: as a client does, and from the disk if it is not in memory.
void FileData::look_at(FileId file, std::uint32_t ds_id, std::uint64_t offset,
                       const std::function<void(Result<>)>& done) {
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map || !*map) return done(fail(Errc::kStale, "no layout"));
  layout::LayoutMap there = **map;
  std::erase_if(there.copies, [&](const layout::Copy& copy) {
    return std::ranges::find(copy.ds_ids, ds_id) == copy.ds_ids.end();
  });
  if (there.copies.empty() || offset >= kMaxFileSize) return done(fail(Errc::kStale, "moved"));
  parts_.proxy.read({.object = parts_.names.object_of(file, there), .map = there}, offset + 1,
                    offset, 1, [done](Result<ProxyIo::ReadResult> read) {
                      if (!read) return done(pass(read));
                      done({});
                    });
}

FlexReports::Parts FileData::report_parts() {
  FlexReports::Parts parts;
  parts.ds_of = [this](const layout::DeviceIdBytes& bytes) -> std::uint32_t {
    const auto id = layout::unpack(bytes);
    const auto device = id ? parts_.cluster.registry().device(*id) : nullptr;
    return device == nullptr || device->members.size() != 1 ? 0 : device->members.front().ds_id;
  };
  parts.may_write = [this](FileId file, ClientId client) { return may_write(file, client); };
  parts.missed = [this](FileId file, std::uint32_t ds_id) {
    return parts_.mirrors.missed_by_client(file, ds_id);
  };
  parts.look = [this](FileId file, std::uint32_t ds_id, std::uint64_t offset,
                      const std::function<void(Result<>)>& done) {
    look_at(file, ds_id, offset, done);
  };
  parts.now = [this] { return parts_.files.now(); };
  return parts;
}

}  // namespace weft::mds
