// Mirrors: what a data server has lost when it comes back.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/gather.h"
#include "ganesha-fsal/files/mirrors.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

constexpr std::size_t kAskedAtOnce = 256;

}  // namespace

void Mirrors::returning(std::uint32_t ds_id) {
  if (!parts_.lacks || !parts_.without) return;
  std::vector<FileId> files = parts_.layouts.files(ds_id);
  // Whoever begins to write the others asks for himself (leave_out_lost()).
  std::erase_if(files, [this](FileId file) {
    return !FileTable::Looking(parts_.files, file)->layouts.written();
  });
  for (std::size_t at = 0; at < files.size() && !stopping_; at += kAskedAtOnce) {
    const auto some = std::span(files).subspan(at, std::min(kAskedAtOnce, files.size() - at));
    for (const FileId file : lacking(ds_id, some)) {
      const auto out = leave_out_if_lost(file, ds_id);
      if (out || out.error() == Errc::kNotFound || out.error() == Errc::kStale) continue;
      spdlog::warn("event=lost_object_stays file={:x} ds={} error=\"{}\"", file, ds_id,
                   out.error().describe());
    }
  }
}

std::vector<FileId> Mirrors::lacking(std::uint32_t ds_id, std::span<const FileId> files) {
  Mutex mutex;
  std::vector<FileId> lacking;
  const auto answered = await<void>([&](Done<void> done) {
    const auto all = Gather::make(files.size(), std::move(done));
    for (const FileId file : files) {
      const auto map = map_of(file);
      if (!map || !layout::seat_of(*map, ds_id)) {
        all->one()({});
        continue;
      }
      parts_.lacks(ds_id, parts_.names.object_of(file, *map),
                   [&, file, one = all->one()](bool lacks) mutable {
                     if (lacks) {
                       const MutexLock lock(mutex);
                       lacking.push_back(file);
                     }
                     one({});
                   });
    }
  });
  static_cast<void>(answered);  // no part fails
  return lacking;
}

// Where no other has bytes of it either, nothing is lost. Where a first write is under way, others
// may have bytes before this one: then it is brought them by a repair.
Result<> Mirrors::leave_out_if_lost(FileId file, std::uint32_t ds_id) {
  auto map = map_of(file);
  if (!map) return pass(map);
  bool lost = false;
  const auto asked = await<void>([&](Done<void> done) {
    parts_.without(*map, parts_.names.object_of(file, *map),
                   [&lost, ds_id, done = std::make_shared<Done<void>>(std::move(done))](
                       const std::vector<std::uint32_t>& found, const std::vector<std::uint32_t>&) {
                     lost = std::ranges::find(found, ds_id) != found.end();
                     (*done)({});
                   });
  });
  if (!asked || !lost) return asked;
  return no_object(file, ds_id);
}

}  // namespace weft::mds
