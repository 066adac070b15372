// FileData: files whose writers died without telling how far they wrote.
#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"

namespace weft::mds {
namespace {

constexpr std::size_t kBatch = 256;
// Each file costs two syncs of the store and an answer of its data servers: they share syncs.
constexpr std::size_t kAtOnce = 16;

}  // namespace

std::vector<WriterJournal::Unsettled> FileData::fence_inherited(
    const std::vector<WriterJournal::Unsettled>& files) {
  struct Group {
    std::vector<WriterJournal::Unsettled> files;
    std::vector<control::Fence> fences;
  };
  std::vector<WriterJournal::Unsettled> ready;
  std::map<std::vector<std::uint32_t>, Group> groups;  // by data servers
  std::vector<Result<layout::LayoutMap>> maps(files.size(), fail(Errc::kStale));
  in_parallel(files.size(), kAtOnce, [&](std::size_t at) {
    if (!files[at].inherited) return;
    auto begun = parts_.journal.begin(files[at].file, no_layout);
    maps[at] = begun ? Result<layout::LayoutMap>(std::move(begun->map)) : pass(begun);
  });
  for (std::size_t at = 0; at < files.size(); ++at) {
    const WriterJournal::Unsettled& what = files[at];
    if (!what.inherited) {
      ready.push_back(what);
      continue;
    }
    const auto& map = maps[at];
    if (!map) {
      if (map.error().code == Errc::kStale) {
        parts_.journal.settled(what);  // removed
      } else {
        spdlog::error("event=not_settled file={:x} error=\"{}\"", what.file,
                      map.error().describe());
        parts_.journal.not_settled(what.file);
      }
      continue;
    }
    Group& group = groups[servers_of(*map)];
    group.files.push_back(what);
    control::Fence fence;
    fence.object = parts_.names.object_of(what.file, *map);
    fence.epoch = map->object_epoch;
    group.fences.push_back(fence);
  }
  for (auto& [ds_ids, group] : groups) {
    const auto fenced = await<void>([&](Done<void> done) {
      parts_.cluster.fence(ds_ids, std::move(group.fences), std::move(done));
    });
    for (const WriterJournal::Unsettled& what : group.files) {
      if (fenced) {
        ready.push_back(what);
      } else {
        parts_.journal.not_settled(what.file);
      }
    }
  }
  return ready;
}

// Cuts that a crash interrupted come first: what they are to cut must not count as data.
Result<> FileData::settle(const WriterJournal::Unsettled& unsettled) {
  const WriterJournal::Unsettled what{.file = unsettled.file,
                                      .inherited = unsettled.inherited,
                                      .doubted = parts_.journal.doubted(unsettled)};
  auto done = finish_cut(what.file, IfAlone::kWait);
  if (done) done = learn_end(what.file);
  if (!done && done.error().code != Errc::kStale) {
    parts_.journal.not_settled(what.file);
    return done;
  }
  // What nobody was told of may be at one copy and not at the other. Clients do not wait until
  // they are equal: the file stays in doubt, and its copies readable, since either is right.
  if (done && !copies_compared(what)) {
    parts_.journal.not_settled(what.file);
    parts_.journal.settled({.file = what.file, .inherited = what.inherited});
    return {};
  }
  parts_.journal.settled(what);
  return {};
}

// A change that comes late to one copy would make it differ after the comparison. What is doubted
// while one goes on, it may not have seen.
bool FileData::copies_compared(const WriterJournal::Unsettled& what) {
  leave_out_late(what.file);
  const auto map = parts_.names.layout(what.file);
  if (map && *map && (*map)->copies.size() > 1 && late(what.file, **map)) return false;
  parts_.journal.compares(what);
  return parts_.compare(what.file) && parts_.journal.compared(what);
}

Result<> FileData::settle_inherited(FileId file) {
  const auto what = parts_.journal.unsettled(file);
  if (!what || !what->inherited) return {};
  const auto fenced = fence_inherited({*what});
  if (fenced.empty()) {
    if (!parts_.journal.inherited(file)) return {};
    return fail(Errc::kBusy, "writers of before the restart are being fenced");
  }
  return settle(*what);
}

bool FileData::settle_due(bool grace_over) {
  const auto due = parts_.journal.due(grace_over, kBatch);
  std::atomic<std::size_t> left = 0;
  const auto ready = fence_inherited(due);
  in_parallel(ready.size(), kAtOnce, [&](std::size_t at) {
    if (stopping_) return;
    auto done = fit(ready[at].file);
    if (!done) parts_.journal.not_settled(ready[at].file);
    if (done) done = settle(ready[at]);
    if (!done) {
      ++left;
      spdlog::debug("event=not_settled file={:x} error=\"{}\"", ready[at].file,
                    done.error().describe());
    }
  });
  if (stopping_) return false;
  if (!due.empty()) spdlog::info("event=settled files={} left={}", due.size() - left, left.load());
  parts_.journal.sweep();
  return due.size() == kBatch;
}

}  // namespace weft::mds
