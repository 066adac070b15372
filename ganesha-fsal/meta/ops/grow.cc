// Sizes and times that data writing brings: LAYOUTCOMMIT, and what data servers report.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"

namespace weft::mds {
namespace {

constexpr std::size_t kBatch = 32;  // so many inodes are locked at once

// That something was written is all that is sure: the same size, and a time of modification that is
// ahead of the clock (utimensat(2), a clock that was set back), do not mean that it was not. Other
// clients see by `change` that what they have cached is old.
Result<std::optional<InodeAttributes>> grow_one(Tree& tree, const Growth& growth) {
  auto inode = tree.inode(growth.id);
  if (!inode && inode.error().code == Errc::kStale) return std::nullopt;
  if (!inode) return pass(inode);
  InodeAttributes& attributes = inode->attributes;
  if (attributes.type != FileType::kRegular) return std::nullopt;
  const std::int64_t before = attributes.mtime_ns;
  tree.touch_written(*inode, growth.end);
  // RFC 8881 section 18.42.3: a time that a client gives is not to set it back.
  if (growth.mtime_ns) attributes.mtime_ns = std::max(before, *growth.mtime_ns);
  tree.store(*inode);
  return attributes;
}

}  // namespace

Result<std::vector<std::optional<InodeAttributes>>> Namespace::grow(std::span<const Growth> growths,
                                                                    Again again) {
  for (const Growth& growth : growths) {
    if (growth.end > kMaxFileSize) return fail(Errc::kFileTooLarge);
  }
  std::vector<std::optional<InodeAttributes>> out;
  CommitSeq last = 0;
  while (out.size() < growths.size()) {
    const std::size_t first = out.size();
    const auto batch = growths.subspan(first, std::min(kBatch, growths.size() - first));
    std::vector<FileId> ids;
    for (const Growth& growth : batch) ids.push_back(growth.id);
    auto guard = locks_.lock(ids);
    auto seq = commit(guard, [&](Tree& tree) -> Result<> {
      out.resize(first);
      for (const Growth& growth : batch) {
        auto grown = grow_one(tree, growth);
        if (!grown) return pass(grown);
        out.push_back(*grown);
      }
      return {};
    });
    if (!seq) return pass(seq);
    if (again == Again::kExpected) remember(std::span(out).subspan(first));
    guard.unlock();
    last = std::max(last, *seq);
  }
  if (auto noted = told(last); !noted) return pass(noted);
  return out;
}

void Namespace::remember(std::span<const std::optional<InodeAttributes>> written) {
  for (const auto& file : written) {
    if (!file) continue;
    locks_.remember({.id = file->id,
                     .change = file->change,
                     .size = file->size,
                     .stored_ns = file->mtime_ns,
                     .written_ns = file->mtime_ns});
  }
}

bool Namespace::written_again(FileId id, std::uint64_t end) {
  return locks_.write_again(id, end, options_.now_ns());
}

Result<InodeAttributes> Namespace::grow_size(const Growth& growth) {
  auto grown = grow(std::span(&growth, 1));
  if (!grown) return pass(grown);
  if (!grown->front()) return fail(Errc::kStale);
  return *grown->front();
}

}  // namespace weft::mds
