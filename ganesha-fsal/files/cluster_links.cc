#include "ganesha-fsal/files/cluster_links.h"

namespace weft::mds {

Result<std::uint64_t> NamespaceSizes::size_of(const layout::ObjectId& object) {
  if (object.fsid != names_.superblock().fsid) return fail(Errc::kStale, "of another file system");
  // Of bytes that may be gone a data server is not to make zeros.
  const auto restored = names_.restored_file(object.fileid);
  if (!restored) return std::unexpected(restored.error());
  if (*restored) return fail(Errc::kBusy, "the file came back from a backup, and was not compared");
  return names_.size(object.fileid);
}

bool NamespaceSizes::written_again(const control::ReportSize& report) {
  return report.object.fsid == names_.superblock().fsid &&
         names_.written_again(report.object.fileid, report.end);
}

// What it tells of may be what is cut. It is not refused: a client that waits for its write does
// not return its layout, which a cut waits for.
std::shared_ptr<void> NamespaceSizes::arrived(control::ReportSize& report) {
  if (report.object.fsid != names_.superblock().fsid) return nullptr;
  auto reported = enter_reported(files_, report.object.fileid);
  if (reported) return std::make_shared<Reported>(std::move(*reported));
  report.end = 0;
  FileTable::Changing(files_, report.object.fileid)->size.doubt = files_.number();
  return nullptr;
}

Result<> NamespaceSizes::grow(std::span<const control::ReportSize> reports) {
  std::vector<Growth> growths;
  growths.reserve(reports.size());
  for (const control::ReportSize& report : reports) {
    if (report.object.fsid != names_.superblock().fsid) continue;
    if (report.end == 0) {  // arrived() has put the size in doubt
      const auto durable = journal_.ensure(report.object.fileid);
      if (!durable && durable.error() != Errc::kStale) return durable;
    }
    if (written_again(report)) continue;  // for the batch before
    growths.push_back({.id = report.object.fileid, .end = report.end});
  }
  const auto grown = names_.grow(growths, Namespace::Again::kExpected);
  if (!grown) return std::unexpected(grown.error());
  for (const auto& file : *grown) {
    if (!file) continue;
    changed_(file->id);
    names_.settled_write(*file);
  }
  return {};
}

namespace {

Result<std::vector<QueuedRemoval>> to_queued(Result<std::vector<PendingRemoval>> removals) {
  if (!removals) return std::unexpected(removals.error());
  std::vector<QueuedRemoval> queued;
  queued.reserve(removals->size());
  for (PendingRemoval& removal : *removals) {
    queued.push_back({removal.object, std::move(removal.ds_ids), removal.least_epoch});
  }
  return queued;
}

}  // namespace

Result<std::vector<QueuedRemoval>> NamespaceRemovals::pending(std::optional<layout::ObjectId> after,
                                                              std::size_t limit) {
  return to_queued(names_.pending_removals(after, limit));
}

Result<std::vector<QueuedRemoval>> NamespaceRemovals::pending(
    std::span<const layout::ObjectId> objects) {
  return to_queued(names_.pending_removals(objects));
}

Result<> NamespaceRemovals::done(std::span<const QueuedRemoval> removed) {
  std::vector<PendingRemoval> acknowledged;
  acknowledged.reserve(removed.size());
  for (const QueuedRemoval& one : removed) acknowledged.push_back({one.object, one.ds_ids});
  return names_.finish_removals(acknowledged);
}

}  // namespace weft::mds
