#include "ganesha-fsal/files/prefetcher.h"

#include <algorithm>
#include <map>

#include "ganesha-fsal/files/layout_maps.h"
#include "layout/striping.h"

namespace weft::mds {

Result<ExpectedReads> reads_expected(FileTable& files, const Namespace& names,
                                     const Mirrors& mirrors, FileId file, std::uint64_t most) {
  auto map = layout_map(files, names, file);
  if (!map) return pass(map);
  ExpectedReads reads;
  if (!*map) return reads;
  auto attributes = names.getattr(file);
  if (!attributes) return pass(attributes);
  auto view = mirrors.look(file);
  if (!view) return pass(view);
  auto servers = mirrors.readers(file, *view);
  if (!servers) return pass(servers);
  auto striping = layout::Striping::make(view->map.stripe_unit,
                                         static_cast<std::uint32_t>(servers->ds_ids.size()),
                                         servers->first_index);
  if (!striping) return pass(striping);
  auto split =
      striping->split(0, std::min(attributes->size, most), [&](const layout::Extent& extent) {
        reads.push_back({servers->ds_ids[extent.server],
                         {names.object_of(file, view->map), extent.offset,
                          std::min(extent.length, control::Prefetch::kMostBytes)}});
      });
  if (!split) return pass(split);
  return reads;
}

Prefetcher::Prefetcher(Parts parts) : parts_(std::move(parts)), order_(parts_.after) {}

void Prefetcher::Willing::note(std::uint32_t ds_id, bool does) {
  const MutexLock lock(mutex);
  if (does) {
    ds_ids.insert(ds_id);
  } else {
    ds_ids.erase(ds_id);
  }
  count = ds_ids.size();
}

void Prefetcher::server_up(std::uint32_t ds_id) { tell(ds_id, {}); }

void Prefetcher::opened(ClientId client, FileId dir, const std::string& name, FileId file) {
  if (willing_->count == 0) return;
  // When too much waits, this one is not seen: its stream has a gap, or begins anew.
  static_cast<void>(
      queue_.post([this, opened = OpenOrder::Opened{client, dir, name, file}] { look(opened); }));
}

void Prefetcher::look(const OpenOrder::Opened& opened) {
  std::map<std::uint32_t, std::vector<control::Range>> told;
  for (const FileId file : order_.observe(opened)) {
    const auto reads = parts_.reads(file);
    if (!reads) continue;
    for (const auto& [ds_id, range] : *reads) {
      std::vector<control::Range>& there = told[ds_id];
      if (there.size() < control::Prefetch::kMost) there.push_back(range);
    }
  }
  for (auto& [ds_id, ranges] : told) tell(ds_id, std::move(ranges));
}

void Prefetcher::tell(std::uint32_t ds_id, std::vector<control::Range> ranges) {
  if (!ranges.empty()) {
    const MutexLock lock(willing_->mutex);
    if (!willing_->ds_ids.contains(ds_id)) return;
  }
  parts_.servers.call(ds_id, control::Prefetch{std::move(ranges)},
                      [willing = willing_, ds_id](const Result<>& done) {
                        // One that did not answer in time still wants to know what it wanted.
                        const bool refused = !done && done.error() == Errc::kNotSupported;
                        if (done || refused) willing->note(ds_id, !refused);
                      });
}

}  // namespace weft::mds
