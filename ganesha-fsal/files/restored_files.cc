// FileData: files of a store that came back from a backup. What was done to their objects since the
// backup nobody knows. Before such a file is served for the first time
//
//   1. whoever had a layout of it is fenced, at every data server of it;
//   2. the objects of its current copies are looked at. One that is not there, or ends before the
//      file would end there, was removed or cut since;
//   3. of several copies of a stripe one stays current, of those that reach that far the one
//      written last; the others are marked stale from end to end, and repaired from it;
//   4. the file grows to what its objects hold: it was written since;
//   5. a cut that was pending at the backup is forgotten if it was made since (was_cut());
//   6. that it grew, or that one of its objects was written after the backup was made, by its data
//      server's clock, is noted for an administrator (changed_since_backup.h).
//
// Where no copy of a stripe reaches that far the file is damaged. It is not read or written, which
// is EIO at clients, until it is cut to nothing, or an administrator wants it as it is. A file that
// never had bytes there looks the same: nothing tells a hole at the end from bytes that are gone.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"

namespace weft::mds {
namespace {

using layout::CopyState;
using State = RestoredRecord::State;

// The clocks of the servers may differ by this much.
constexpr std::int64_t kClocks = 300'000'000'000;

Error damaged(FileId file, const RestoredRecord& record) {
  return {Errc::kIo, fmt::format("file {} has lost bytes since the backup that the metadata store "
                                 "was restored from: of {} stripes the objects are gone, of {} cut "
                                 "(weft restored status)",
                                 file, record.missing, record.cut)};
}

}  // namespace

// What is known of the copies of a stripe that are current in the map.
struct FileData::RestoredStripe {
  struct Found {
    std::uint32_t ds_id = 0;
    control::ObjectStat object;
    [[nodiscard]] std::uint64_t end() const { return object.exists ? object.size : 0; }
  };
  std::vector<Found> there;
  bool silent = false;  // of a further one nothing is known

  // The one to stay, of those that reach so far: written last. Null: none does.
  [[nodiscard]] const Found* best(std::uint64_t needed) const {
    const Found* best = nullptr;
    for (const Found& found : there) {
      if (found.end() < needed) continue;
      if (best == nullptr || found.object.mtime_ns > best->object.mtime_ns) best = &found;
    }
    return best;
  }
  // The one that has most.
  [[nodiscard]] const Found* longest() const {
    const auto most = std::ranges::max_element(there, {}, &Found::end);
    return most == there.end() ? nullptr : &*most;
  }
  [[nodiscard]] bool exists() const {
    return std::ranges::any_of(there, [](const Found& one) { return one.object.exists; });
  }
};

namespace {

// Whether a cut that was pending at the backup has been made since. A file takes no writes before
// that: what goes on behind the cut and is later than the backup was written after it. What may be
// later, by clocks that differ, counts as that: a cut too few leaves the file as it was before, one
// too many loses what was written.
template <class Stripes>
bool was_cut(const PendingTruncate& cut, const Stripes& stripes, std::int64_t made_ns) {
  const layout::Striping striping = cut.layout.striping();
  for (std::size_t at = 0; at < stripes.size(); ++at) {
    const std::uint64_t end = striping.object_end(static_cast<std::uint32_t>(at), cut.cut_at);
    for (const auto& found : stripes[at].there) {
      if (found.end() > end && found.object.mtime_ns >= made_ns - kClocks) return true;
    }
  }
  return false;
}

// When one of the objects was written last.
template <class Stripes>
std::int64_t last_write_ns(const Stripes& stripes) {
  std::int64_t last = 0;
  for (const auto& stripe : stripes) {
    for (const auto& found : stripe.there) {
      if (found.object.exists) last = std::max(last, found.object.mtime_ns);
    }
  }
  return last;
}

}  // namespace

Result<> FileData::fit(FileId file) {
  if (!parts_.names.restore()) return {};
  const auto record = parts_.names.restored_file(file);
  if (!record) return failed(record);
  if (!*record) return {};
  if ((*record)->state == State::kDamaged) return std::unexpected(damaged(file, **record));
  return look_at_objects(file, false);
}

Result<> FileData::accept_restored(FileId file) {
  const auto record = parts_.names.restored_file(file);
  if (!record) return failed(record);
  if (!*record || (*record)->state != State::kDamaged) {
    return fail(Errc::kInvalid, "the file is not damaged (weft restored status)");
  }
  if (auto looked = look_at_objects(file, true); !looked) return looked;
  spdlog::warn("event=restored_file_accepted file={:x} missing={} cut={}", file, (*record)->missing,
               (*record)->cut);
  return {};
}

// A data server that was lost a moment ago, or has not come since we started, is waited for.
Result<> FileData::look_at_objects(FileId file, bool as_is) {
  const auto alone =
      be_alone(file, Phase::Alone::kComparing, Clock::duration::zero(), IfAlone::kRefuse);
  if (!alone) return failed(alone);
  const auto record = parts_.names.restored_file(file);  // another may just have done it
  if (!record) return failed(record);
  if (!*record) return {};
  if ((*record)->state == State::kDamaged && !as_is) {
    return std::unexpected(damaged(file, **record));
  }
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (!*map) return fail(Errc::kStale, "the file was removed");
  control::Fence fence;
  fence.object = parts_.names.object_of(file, **map);
  fence.epoch = (*map)->object_epoch;
  if (auto fenced = parts_.cluster.fence_and_wait(servers_of(**map), fence); !fenced) {
    return fail(Errc::kBusy, "who had layouts of before the restore is being fenced");
  }
  std::vector<RestoredStripe> stripes((*map)->copies.front().ds_ids.size());
  for (const layout::Copy& copy : (*map)->copies) {
    for (std::size_t at = 0; at < stripes.size(); ++at) {
      if (copy.state_of(at) != CopyState::kCurrent) continue;
      const std::uint32_t ds_id = copy.ds_ids[at];
      const Reach reach = parts_.mirrors.reach(ds_id);
      if (reach == Reach::kGone) {
        stripes[at].silent = true;
        continue;
      }
      if (reach == Reach::kWait) return fail(Errc::kBusy, "a data server may be back in a moment");
      auto stat = parts_.cluster.ask(ds_id, control::Stat{fence.object});
      if (!stat) return fail(Errc::kBusy, stat.error().describe());
      stripes[at].there.push_back({ds_id, *stat});
    }
  }
  return judge_objects(file, **map, stripes, as_is);
}

Result<> FileData::judge_objects(FileId file, const layout::LayoutMap& map,
                                 std::span<const RestoredStripe> stripes, bool as_is) {
  const auto inode = parts_.names.getattr(file);
  if (!inode) return failed(inode);
  const auto cut = parts_.names.pending_truncate(file);
  if (!cut) return failed(cut);
  // What is beyond a cut need not be there.
  const std::uint64_t size = *cut ? std::min(inode->size, (*cut)->cut_at) : inode->size;
  const bool was_made = *cut && was_cut(**cut, stripes, parts_.names.restore()->made_ns);
  const layout::Striping striping = map.striping();
  RestoredRecord found{.state = State::kDamaged};
  std::uint64_t end = 0;
  std::vector<std::uint32_t> behind;
  for (std::size_t at = 0; at < stripes.size(); ++at) {
    const std::uint64_t needed = striping.object_end(static_cast<std::uint32_t>(at), size);
    const auto* const best = as_is ? stripes[at].longest() : stripes[at].best(needed);
    if (stripes[at].silent && (best == nullptr || (as_is && best->end() < needed))) {
      return fail(Errc::kUnreachable, "a data server is away that may have what others lack");
    }
    if (best == nullptr) {
      ++(stripes[at].exists() ? found.cut : found.missing);
      continue;
    }
    end = std::max(end, best->end());
    for (const layout::Copy& copy : map.copies) {
      const std::uint32_t ds_id = copy.ds_ids[at];
      if (ds_id == best->ds_id || copy.state_of(at) != CopyState::kCurrent) continue;
      behind.push_back(ds_id);
    }
  }
  const bool grew = (!*cut || was_made) && end > inode->size;
  // It was written since: of a part of it that nobody has an object of, that was moved or removed.
  // A hole there looks the same.
  for (std::size_t at = 0; grew && !as_is && at < stripes.size(); ++at) {
    const RestoredStripe& stripe = stripes[at];
    if (stripe.there.empty() || stripe.exists()) continue;
    if (striping.object_end(static_cast<std::uint32_t>(at), end) == 0) continue;
    if (stripe.silent) {
      return fail(Errc::kUnreachable, "a data server is away that may have what others lack");
    }
    ++found.missing;
  }
  if (found.missing > 0 || found.cut > 0) {
    if (auto kept = parts_.names.judge_restored(file, found); !kept) return kept;
    spdlog::error("event=restored_file_damaged file={:x} missing={} cut={}", file, found.missing,
                  found.cut);
    return std::unexpected(damaged(file, found));
  }
  for (const std::uint32_t ds_id : behind) {
    if (auto marked = parts_.mirrors.rolled_back(file, ds_id); !marked) {
      return fail(Errc::kBusy, marked.error().describe());
    }
  }
  SinceBackup since;
  if (was_made) since.cut = *cut;
  if (grew) since.end = end;
  if (auto kept = parts_.names.judge_restored(file, std::nullopt, since); !kept) return kept;
  if (was_made) FileTable::Changing(parts_.files, file)->phase.uncut = false;
  note_changes(*inode, stripes, since);
  if (since.end > 0) parts_.changed(file);
  return {};
}

void FileData::note_changes(const InodeAttributes& before, std::span<const RestoredStripe> stripes,
                            const SinceBackup& since) {
  if (since.end > 0) {
    spdlog::info("event=restored_file_grew file={:x} from={} to={}", before.id, before.size,
                 since.end);
    changed_since_backup_.note(before.id,
                               fmt::format("grew from {} to {} bytes", before.size, since.end));
  } else if (last_write_ns(stripes) > parts_.names.restore()->made_ns) {
    spdlog::info("event=restored_file_written file={:x}", before.id);
    changed_since_backup_.note(before.id, "was written");
  }
}

}  // namespace weft::mds
