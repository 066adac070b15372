#include "ganesha-fsal/files/used_space.h"

#include <memory>
#include <utility>

#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/cluster/wait_limit.h"
#include "ganesha-fsal/files/layout_maps.h"

namespace weft::mds {
namespace {

// A usual answer takes milliseconds.
constexpr std::chrono::milliseconds kPatience{200};
// It is not asked for again so soon: a client that writes through this server asks with each write.
constexpr std::chrono::seconds kKnownFor{1};
constexpr std::size_t kMostKnown = 4096;

std::uint64_t whole_blocks(std::uint64_t bytes) {
  constexpr std::uint64_t kBlock = 4096;
  return bytes / kBlock * kBlock + (bytes % kBlock != 0 ? kBlock : 0);
}

}  // namespace

UsedSpace::Answer UsedSpace::of(const InodeAttributes& file) {
  if (file.type != FileType::kRegular || file.size < kLargeFile) {
    return {without_asking(file), true};
  }
  {
    const MutexLock lock(mutex_);
    const auto known = known_.find(file.id);
    const auto now = parts_.now();
    if (known != known_.end() && now - known->second.at < kKnownFor) {
      return {known->second.bytes, false};
    }
    // A listing of many files does not wait for a data server that hangs with each.
    if (now < ask_at_) return {whole_blocks(file.size), false};
  }
  const auto used = ask(file.id);
  const std::uint64_t bytes = used.value_or(whole_blocks(file.size));
  const MutexLock lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert_or_assign(file.id, Known{bytes, parts_.now()});
  if (!used) ask_at_ = parts_.now() + kKnownFor;
  return {bytes, used.has_value()};
}

std::uint64_t UsedSpace::without_asking(const InodeAttributes& file) const {
  const std::uint64_t full = whole_blocks(file.size);
  if (file.type != FileType::kRegular || file.size <= kSmallFile) return full;
  const auto written = parts_.names.has_layout(file.id);
  if (!written || *written) return full;
  const auto there = parts_.names.inline_file(file.id);
  return there && *there ? whole_blocks((*there)->bytes.size()) : full;
}

std::optional<std::uint64_t> UsedSpace::ask(FileId file) const {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return std::nullopt;
  if (!*map) {
    const auto there = parts_.names.inline_file(file);
    if (!there || !*there) return std::nullopt;
    return (*there)->bytes.size();
  }
  if (!WaitLimit::may_wait()) return std::nullopt;
  struct Heard {
    Mutex mutex;
    CondVar came;
    std::optional<Result<ObjectCalls::Stat>> stat WEFT_GUARDED_BY(mutex);
  };
  const auto heard = std::make_shared<Heard>();
  parts_.cluster.objects().stat(**map, parts_.names.object_of(file, **map),
                                [heard](Result<ObjectCalls::Stat> stat) {
                                  const MutexLock lock(heard->mutex);
                                  heard->stat = std::move(stat);
                                  heard->came.notify_all();
                                });
  MutexLock lock(heard->mutex);
  heard->came.wait_for(heard->mutex, kPatience,
                       [&]() WEFT_REQUIRES(heard->mutex) { return heard->stat.has_value(); });
  if (!heard->stat || !*heard->stat) return std::nullopt;
  return (*heard->stat)->allocated;
}

}  // namespace weft::mds
