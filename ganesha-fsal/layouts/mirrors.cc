#include "ganesha-fsal/layouts/mirrors.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace weft::mds {

Mirrors::Mirrors(Parts parts) : parts_(std::move(parts)) {}

void Mirrors::unpin(FileId file) {
  const std::lock_guard lock(mutex_);
  --entries_.at(file).pins;
}

Result<Mirrors::Target> Mirrors::begin_write(FileId file, const Namespace::MakeLayout& make) {
  auto begun = parts_.journal.begin(file, make);
  if (!begun) return pass(begun);
  const layout::LayoutMap& map = begun->map;
  const auto servers = parts_.servers();
  const auto load_of = [&](std::uint32_t ds_id) -> const layout::ServerLoad* {
    if (map.copies.size() > 1 && parts_.reach(ds_id) != Reach::kHere) return nullptr;
    const auto at = std::ranges::find(servers, ds_id, &layout::Candidate::ds_id);
    return at == servers.end() ? nullptr : &at->load;
  };
  std::vector<std::uint8_t> leads(map.copies.front().ds_ids.size(), 0);
  if (map.copies.size() > 1) {
    auto chosen = layout::choose_leads(map, load_of, parts_.rules);
    if (!chosen) return fail(Errc::kLayoutTryLater, chosen.error().text);
    leads = std::move(chosen->copies);
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[file];
  if (entry.leads.empty()) entry.leads = std::move(leads);
  ++entry.pins;
  return Target{{begun->map, entry.leads}, Pin(this, file, std::move(begun->pin))};
}

Result<Mirrors::View> Mirrors::look(FileId file) const {
  std::vector<std::uint8_t> leads;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = entries_.find(file); it != entries_.end()) leads = it->second.leads;
  }
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kStale, "no layout");
  return View{std::move(**map), std::move(leads)};
}

Result<layout::LayoutMap> Mirrors::exclude(FileId file, std::uint32_t ds_id, Cause /*cause*/) {
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kStale, "no layout");
  return fail(Errc::kLayoutTryLater, "data server " + std::to_string(ds_id) + " is away");
}

Result<layout::LayoutMap> Mirrors::prepare_change(FileId file, DirtyExtent /*changed*/) {
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map) return fail(Errc::kStale, "no layout");
  return std::move(**map);
}

Result<> Mirrors::copy_missed(std::uint32_t /*reporter*/, const control::CopyMissed& /*missed*/) {
  return fail(Errc::kNotSupported, "copies are not excluded yet");
}

void Mirrors::server_gone(std::uint32_t /*ds_id*/) {}

void Mirrors::tick() {}

}  // namespace weft::mds
