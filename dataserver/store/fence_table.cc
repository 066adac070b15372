#include "dataserver/store/fence_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "dataserver/store/disk.h"

namespace weft::ds {

namespace {

constexpr const char* kLogFile = "fences";
constexpr std::size_t kMaxLogBytes = std::size_t{256} << 20;
constexpr std::uint64_t kReservedBytes = std::uint64_t{1} << 20;
constexpr std::size_t kSlackFences = 4096;  // beyond twice what is in force, the log is rewritten

template <class Key>
std::size_t shard_index(const Key& key, std::size_t shards) {
  std::uint64_t h = std::hash<Key>{}(key) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(h >> 40) % shards;
}

}  // namespace

Result<std::unique_ptr<FenceTable>> FenceTable::open(int directory) {
  std::unique_ptr<FenceTable> table(new FenceTable(directory));
  if (auto loaded = table->load(); !loaded) return pass(loaded);
  return table;
}

Result<> FenceTable::load() {
  const std::lock_guard lock(log_mutex_);
  auto bytes = read_small_file(directory_, kLogFile, kMaxLogBytes);
  if (!bytes && bytes.error() == Errc::kNotFound) return rewrite();
  if (!bytes) return pass(bytes);
  auto log = decode_fence_log(*bytes);
  if (!log) return pass(log);
  for (const Fence& fence : log->fences) apply(fence);
  return rewrite();  // without what is outdated or torn
}

template <class Key>
std::uint32_t FenceTable::least(const Shards<Key>& shards, const Key& key) {
  const Shard<Key>& shard = shards[shard_index(key, kShards)];
  if (shard.count.load(std::memory_order_acquire) == 0) return 0;
  const std::shared_lock lock(shard.mutex);
  const auto found = shard.least.find(key);
  return found == shard.least.end() ? 0 : found->second;
}

bool FenceTable::admits(const layout::Handle& handle) const {
  if (handle.object_epoch < least(objects_, handle.object)) return false;
  if (handle.access == layout::Access::kControl) return true;
  return handle.client_epoch >= least(clients_, handle.client_id);
}

template <class Key>
bool FenceTable::apply(Shards<Key>& shards, const Key& key, std::uint32_t epoch) {
  Shard<Key>& shard = shards[shard_index(key, kShards)];
  const std::lock_guard lock(shard.mutex);
  const auto [at, inserted] = shard.least.try_emplace(key, 0);
  if (inserted) {
    shard.count.fetch_add(1, std::memory_order_release);
    size_.fetch_add(1);
  }
  if (at->second >= epoch) return false;
  at->second = epoch;
  return true;
}

bool FenceTable::apply(const Fence& fence) {
  if (fence.epoch == 0) return false;  // every handle is at 0 or above
  if (const auto* object = std::get_if<layout::ObjectId>(&fence.whom)) {
    return apply(objects_, *object, fence.epoch);
  }
  return apply(clients_, std::get<std::uint64_t>(fence.whom), fence.epoch);
}

Result<> FenceTable::raise(std::span<const Fence> fences) {
  const std::lock_guard lock(log_mutex_);
  std::vector<Fence> raised;
  for (const Fence& fence : fences) {
    if (apply(fence)) raised.push_back(fence);
  }
  // A fence in force already is on disk already, unless an earlier write failed.
  if (must_rewrite_) return rewrite();
  if (raised.empty()) return {};
  auto appended = append(raised);
  if (!appended) {
    must_rewrite_ = true;
    return appended;
  }
  // Compaction; should it fail, the longer log goes on to serve.
  if (log_fences_ > 2 * size_.load() + kSlackFences) static_cast<void>(rewrite());
  return {};
}

Result<> FenceTable::append(std::span<const Fence> fences) {
  const auto frames = encode_fences(fences);
  if (auto written = write_fully(log_.get(), frames, log_end_); !written) return written;
  if (::fsync(log_.get()) != 0) return fail_errno(errno, "fsync of the fencing log");
  log_end_ += frames.size();
  log_fences_ += fences.size();
  return {};
}

std::vector<Fence> FenceTable::all() const {
  std::vector<Fence> fences;
  for (const auto& shard : objects_) {
    const std::shared_lock lock(shard.mutex);
    for (const auto& [object, epoch] : shard.least) fences.push_back({object, epoch});
  }
  for (const auto& shard : clients_) {
    const std::shared_lock lock(shard.mutex);
    for (const auto& [client, epoch] : shard.least) fences.push_back({client, epoch});
  }
  return fences;
}

Result<> FenceTable::rewrite() {
  auto bytes = fence_log_header();
  const auto fences = all();
  const auto frames = encode_fences(fences);
  bytes.insert(bytes.end(), frames.begin(), frames.end());
  if (auto written = replace_file(directory_, kLogFile, bytes); !written) {
    must_rewrite_ = true;
    return written;
  }
  OwnedFd log(::openat(directory_, kLogFile, O_RDWR | O_CLOEXEC));
  if (!log) {
    must_rewrite_ = true;
    return fail_errno(errno, "open the fencing log");
  }
  log_ = std::move(log);
  log_end_ = bytes.size();
  log_fences_ = fences.size();
  must_rewrite_ = false;
  // Best effort: without the reserve, a full disk may refuse to fence, and says so then.
  static_cast<void>(::fallocate(log_.get(), FALLOC_FL_KEEP_SIZE, 0,
                                static_cast<off_t>(log_end_ + kReservedBytes)));
  return {};
}

}  // namespace weft::ds
