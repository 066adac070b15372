// FileData: where files have holes. The data servers are asked, since nobody else knows what their
// file systems keep.
#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"

namespace weft::mds {
namespace {

// A search that takes more questions ends: what was not looked at is data.
constexpr int kMostQuestions = 32;

}  // namespace

// nullopt: it cannot be told. A copy that another is ahead of may have a hole where there is data,
// and an object that is to be cut may have data where there is a hole.
Result<std::optional<std::uint64_t>> FileData::seek_in_objects(FileId file,
                                                               const layout::LayoutMap& map,
                                                               std::uint64_t from, bool hole) {
  {
    const FileTable::Looking record(parts_.files, file);
    if (record->phase.uncut || record->phase.growing || record->phase.is_alone()) {
      return std::nullopt;
    }
    if (map.copies.size() > 1 &&
        (record->being_written() || record->owes() || !record->unstable.idle())) {
      return std::nullopt;
    }
  }
  const layout::ObjectId object = parts_.names.object_of(file, map);
  for (int asked = 0; asked < kMostQuestions && !stopping_; ++asked) {
    const auto found = await<control::SeekAnswer>([&](Done<control::SeekAnswer> done) {
      parts_.cluster.objects().seek(map, object, from, hole, std::move(done));
    });
    if (!found) return failed(found);
    if (!found->more) return found->offset;
    from = found->offset;
  }
  return std::nullopt;
}

Result<std::uint64_t> FileData::seek(FileId file, std::uint64_t from, bool hole,
                                     std::uint64_t size) {
  if (auto whole = fit(file); !whole) return failed(whole);
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) {
    const auto there = parts_.names.inline_file(file);
    if (!there) return failed(there);
    const std::uint64_t end = *there ? (*there)->bytes.size() : size;
    const bool in_data = from < end;
    return std::min(hole ? std::max(from, end) : in_data ? from : size, size);
  }
  const auto found = seek_in_objects(file, **map, from, hole);
  if (!found) {
    spdlog::debug("event=holes_not_known file={:x} error=\"{}\"", file, found.error().describe());
  }
  if (found && *found) return std::min(**found, size);
  return hole ? size : from;
}

}  // namespace weft::mds
