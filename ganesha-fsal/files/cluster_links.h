// What the cluster asks of the namespace: sizes of files, reported sizes, the queue of removals.
//
// Threading: called on the cluster's worker threads; may block on the metadata store.
#pragma once

#include <functional>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/cluster/removal_queue.h"
#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/files/writer_journal.h"
#include "ganesha-fsal/meta/ops/namespace.h"

namespace weft::mds {

class NamespaceSizes final : public FileSizes {
 public:
  // `changed` is told of every file whose attributes a report changed, before the data server is
  // answered: caches of them are to be dropped.
  NamespaceSizes(Namespace& names, FileTable& files, WriterJournal& journal,
                 std::function<void(FileId)> changed)
      : names_(names), files_(files), journal_(journal), changed_(std::move(changed)) {}

  [[nodiscard]] Result<std::uint64_t> size_of(const layout::ObjectId& object) override;
  [[nodiscard]] Result<> grow(std::span<const control::ReportSize> reports) override;
  [[nodiscard]] bool written_again(const control::ReportSize& report) override;
  [[nodiscard]] std::shared_ptr<void> arrived(control::ReportSize& report) override;

 private:
  Namespace& names_;
  FileTable& files_;
  WriterJournal& journal_;
  const std::function<void(FileId)> changed_;
};

class NamespaceRemovals final : public RemovalSource {
 public:
  explicit NamespaceRemovals(Namespace& names) : names_(names) {}

  [[nodiscard]] Result<std::vector<QueuedRemoval>> pending(std::optional<layout::ObjectId> after,
                                                           std::size_t limit) override;
  [[nodiscard]] Result<std::vector<QueuedRemoval>> pending(
      std::span<const layout::ObjectId> objects) override;
  [[nodiscard]] Result<> done(std::span<const QueuedRemoval> removed) override;

 private:
  Namespace& names_;
};

}  // namespace weft::mds
