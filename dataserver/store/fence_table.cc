#include "dataserver/store/fence_table.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "dataserver/store/disk.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr const char* kLogFile = "fences";
constexpr const char* kRewritten = "fences.new";
constexpr const char* kCompacted = "fences.compact";
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::uint64_t kReservedBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLeastReserved = kReservedBytes / 2;
constexpr std::uint64_t kShortTail = std::uint64_t{64} << 10;  // copied while nothing is appended
constexpr std::size_t kSlackFences = 4096;  // beyond twice what is in force, the log is rewritten

template <class Key>
std::size_t shard_index(const Key& key, std::size_t shards) {
  std::uint64_t h = std::hash<Key>{}(key) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(h >> 40) % shards;
}

// The next piece of a file, shorter at its end.
Result<std::span<const std::byte>> read_piece(int fd, std::span<std::byte> room,
                                              std::uint64_t offset) {
  for (;;) {
    const ssize_t n = ::pread(fd, room.data(), room.size(), static_cast<off_t>(offset));
    if (n >= 0) return std::span<const std::byte>(room.first(static_cast<std::size_t>(n)));
    if (errno != EINTR) return fail_errno(errno, "read the fencing log");
  }
}

}  // namespace

Result<std::unique_ptr<FenceTable>> FenceTable::open(int directory,
                                                     std::span<const std::uint64_t> keys) {
  std::unique_ptr<FenceTable> table(new FenceTable(directory));
  table->use_keys(keys);
  if (auto loaded = table->load(); !loaded) return pass(loaded);
  return table;
}

FenceTable::~FenceTable() {
  closing_.store(true);
  if (compactor_.joinable()) compactor_.join();
}

Result<> FenceTable::load() {
  const MutexLock lock(log_mutex_);
  // Of a compaction that the process did not live to end.
  static_cast<void>(::unlinkat(directory_, kCompacted, 0));
  log_ = OwnedFd(::openat(directory_, kLogFile, O_RDWR | O_CLOEXEC));
  if (!log_ && errno == ENOENT) return rewrite();
  if (!log_) return fail_errno(errno, "open the fencing log");
  // Of fences that do not tell, the keys accepted now are the newest that can be meant.
  FenceLogDecoder decoder(
      [this](std::span<const Fence> fences, const KeyMark& mark) WEFT_REQUIRES(log_mutex_) {
        const std::uint32_t number = mark == KeyMark{} ? mark_ : number_of(mark);
        for (const Fence& fence : fences) apply(fence, number);
        log_fences_ += fences.size();
      });
  std::vector<std::byte> room(kPieceBytes);
  std::uint64_t end = 0;
  // A process that died may have written it, and not synced it yet, or been told that it is not on
  // disk: written again it gets there, before a fence that is in force is said to be.
  Result<> kept;
  for (;;) {
    auto piece = read_piece(log_.get(), room, end);
    if (!piece) return pass(piece);
    if (piece->empty()) break;
    if (kept) kept = write_fully(log_.get(), *piece, end);
    end += piece->size();
    if (auto fed = decoder.feed(*piece); !fed) return fed;
  }
  auto good = decoder.finish();
  if (!good) return pass(good);
  log_end_ = *good;
  // A torn frame goes, so that nothing of it is behind a shorter one.
  if (*good < end &&
      (::ftruncate(log_.get(), static_cast<off_t>(*good)) != 0 || ::fsync(log_.get()) != 0)) {
    return fail_errno(errno, "cut the fencing log");
  }
  if (kept && ::fsync(log_.get()) != 0) kept = fail_errno(errno, "fsync of the fencing log");
  if (!kept) {
    spdlog::warn("event=fence_log_unsynced error=\"{}\"", kept.error().describe());
    must_rewrite_ = true;
  }
  if (decoder.old_format()) {
    // Nothing of the present format can be behind it. Should there be no space, the next raise()
    // tries.
    if (auto done = rewrite(); !done) {
      spdlog::warn("event=fence_log_old error=\"{}\"", done.error().describe());
    }
    return {};
  }
  reserve();
  begin_compaction();
  return {};
}

template <class Key>
std::uint32_t FenceTable::least(const Shards<Key>& shards, const Key& key) {
  const Shard<Key>& shard = shards[shard_index(key, kShards)];
  if (shard.count.load(std::memory_order_acquire) == 0) return 0;
  const ReadLock lock(shard.mutex);
  const auto found = shard.least.find(key);
  return found == shard.least.end() ? 0 : found->second.epoch;
}

bool FenceTable::admits(const layout::Handle& handle) const {
  if (handle.object_epoch < least(objects_, handle.object)) return false;
  return handle.client_epoch >= least(clients_, handle.client_id);
}

template <class Key>
bool FenceTable::apply(Shards<Key>& shards, const Key& key, Least least) {
  Shard<Key>& shard = shards[shard_index(key, kShards)];
  const WriteLock lock(shard.mutex);
  const auto [at, inserted] = shard.least.try_emplace(key);
  if (inserted) {
    shard.count.fetch_add(1, std::memory_order_release);
    size_.fetch_add(1);
  }
  if (at->second.epoch >= least.epoch && at->second.mark == least.mark) return false;
  at->second = {std::max(at->second.epoch, least.epoch), least.mark};
  return true;
}

bool FenceTable::apply(const Fence& fence, std::uint32_t mark) {
  if (fence.epoch == 0) return false;  // every handle is at 0 or above
  if (const auto* object = std::get_if<layout::ObjectId>(&fence.whom)) {
    return apply(objects_, *object, {fence.epoch, mark});
  }
  return apply(clients_, std::get<std::uint64_t>(fence.whom), {fence.epoch, mark});
}

Result<> FenceTable::raise(std::span<const Fence> fences) {
  const MutexLock lock(log_mutex_);
  // A fence in force already is on disk already, or among those.
  for (const Fence& fence : fences) {
    if (apply(fence, mark_)) unwritten_.push_back(fence);
  }
  if (must_rewrite_) return rewrite();
  auto left = std::span<const Fence>(unwritten_);
  Result<> appended;
  while (!left.empty() && appended) {
    const auto frame = left.first(std::min(left.size(), kFencesInFrame));
    appended = append(frame);
    if (appended) left = left.subspan(frame.size());
  }
  unwritten_.erase(unwritten_.begin(), unwritten_.end() - static_cast<std::ptrdiff_t>(left.size()));
  if (unwritten_.size() > size_.load() + kSlackFences) must_rewrite_ = true;
  if (appended) begin_compaction();
  return appended;
}

// --- Keys ----------------------------------------------------------------------------------------

std::uint32_t FenceTable::number_of(const KeyMark& mark) {
  const MutexLock lock(marks_mutex_);
  const auto found = std::ranges::find(marks_, mark);
  const auto number = static_cast<std::uint32_t>(found - marks_.begin());
  if (found == marks_.end()) marks_.push_back(mark);
  return number;
}

std::vector<KeyMark> FenceTable::marks() const {
  const MutexLock lock(marks_mutex_);
  return marks_;
}

void FenceTable::use_keys(std::span<const std::uint64_t> keys) {
  KeyMark mark{};
  WEFT_ASSERT(keys.size() <= mark.size());
  std::ranges::copy(keys, mark.begin());
  std::ranges::sort(mark);  // which of them is used makes no difference
  const MutexLock lock(log_mutex_);
  mark_ = number_of(mark);
}

std::size_t FenceTable::forget_useless() {
  const MutexLock lock(log_mutex_);
  const auto known = marks();
  const KeyMark& now = known[mark_];
  std::vector<bool> useless;
  for (const KeyMark& mark : known) {
    const bool of_use =
        mark == KeyMark{} || now == KeyMark{} || std::ranges::any_of(mark, [&](std::uint64_t key) {
          return key != 0 && std::ranges::find(now, key) != now.end();
        });
    useless.push_back(!of_use);
  }
  const std::size_t forgotten = forget(objects_, useless) + forget(clients_, useless);
  if (forgotten > 0) begin_compaction();
  return forgotten;
}

template <class Key>
std::size_t FenceTable::forget(Shards<Key>& shards, const std::vector<bool>& useless) {
  std::size_t forgotten = 0;
  for (auto& shard : shards) {
    const WriteLock lock(shard.mutex);
    const std::size_t gone =
        std::erase_if(shard.least, [&](const auto& one) { return useless[one.second.mark]; });
    shard.count.fetch_sub(gone);
    size_.fetch_sub(gone);
    forgotten += gone;
  }
  return forgotten;
}

// --- The log -------------------------------------------------------------------------------------

// What an append that found no space has left is written over by the next. After any other error
// nobody knows what the disk has.
Result<> FenceTable::append(std::span<const Fence> fences) {
  const auto frame = encode_fences(fences, marks()[mark_]);
  if (auto written = write_fully(log_.get(), frame, log_end_); !written) {
    must_rewrite_ = !(written.error() == Errc::kNoSpace) && !(written.error() == Errc::kQuota);
    return written;
  }
  if (::fsync(log_.get()) != 0) {
    must_rewrite_ = true;
    return fail_errno(errno, "fsync of the fencing log");
  }
  log_end_ += frame.size();
  log_fences_ += fences.size();
  reserve();
  return {};
}

// Best effort: without the reserve a full disk may refuse to fence, and says so then.
void FenceTable::reserve() {
  if (reserved_end_ >= log_end_ + kLeastReserved) return;
  const std::uint64_t end = log_end_ + kReservedBytes;
  if (::fallocate(log_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(end)) == 0) {
    reserved_end_ = end;
    reserve_failed_ = false;
  } else if (!std::exchange(reserve_failed_, true)) {
    spdlog::warn("event=fence_reserve_failed error=\"{}\" left_bytes={}",
                 fail_errno(errno, "fallocate").error().describe(),
                 reserved_end_ - std::min<std::uint64_t>(reserved_end_, log_end_));
  }
}

template <class Key>
Result<> FenceTable::write_shards(NewLog& log, const Shards<Key>& shards) const {
  for (const auto& shard : shards) {
    if (closing_) return fail(Errc::kCancelled, "closing");
    std::map<std::uint32_t, std::vector<Fence>> by_mark;
    {
      const ReadLock lock(shard.mutex);
      for (const auto& [key, least] : shard.least) {
        by_mark[least.mark].push_back({key, least.epoch});
      }
    }
    const auto known = marks();
    for (const auto& [mark, fences] : by_mark) {
      const auto frames = encode_fences(fences, known[mark]);
      if (auto written = write_fully(log.file.get(), frames, log.end); !written) return written;
      log.end += frames.size();
      log.fences += fences.size();
    }
  }
  return {};
}

Result<FenceTable::NewLog> FenceTable::write_all(const char* name) const {
  NewLog log{.file =
                 OwnedFd(::openat(directory_, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600))};
  if (!log.file) return fail_errno(errno, std::string("create ") + name);
  const auto header = fence_log_header();
  if (auto written = write_fully(log.file.get(), header, 0); !written) return pass(written);
  log.end = header.size();
  if (auto written = write_shards(log, objects_); !written) return pass(written);
  if (auto written = write_shards(log, clients_); !written) return pass(written);
  return log;
}

Result<> FenceTable::use(NewLog log, const char* name) {
  if (::fsync(log.file.get()) != 0) return fail_errno(errno, "fsync of a new fencing log");
  if (::renameat(directory_, name, directory_, kLogFile) != 0) {
    return fail_errno(errno, std::string("rename ") + name);
  }
  // It has the name: what is appended goes there, whether the directory is synced or not.
  log_ = std::move(log.file);
  log_end_ = log.end;
  log_fences_ = log.fences;
  reserved_end_ = 0;
  ++logs_used_;
  must_rewrite_ = true;  // until the name is durable
  if (auto synced = sync_directory(directory_); !synced) return synced;
  must_rewrite_ = false;
  reserve();
  return {};
}

Result<> FenceTable::rewrite() {
  must_rewrite_ = true;
  auto log = write_all(kRewritten);
  Result<> used = log ? use(std::move(*log), kRewritten) : pass(log);
  if (used) {
    unwritten_.clear();
  } else {
    static_cast<void>(::unlinkat(directory_, kRewritten, 0));  // if it has not the log's name yet
  }
  return used;
}

// --- Compaction ----------------------------------------------------------------------------------

void FenceTable::begin_compaction() {
  if (log_fences_ <= std::max(2 * size_.load() + kSlackFences, compact_beyond_)) return;
  if (compacting_.exchange(true)) return;
  if (compactor_.joinable()) compactor_.join();  // it has ended
  compactor_ = std::thread([this] { compact(); });
}

// Should it fail, the longer log goes on to serve.
void FenceTable::compact() {
  auto done = try_compaction();
  if (!done && !closing_) {
    static_cast<void>(::unlinkat(directory_, kCompacted, 0));
    spdlog::warn("event=fence_log_kept bytes={} error=\"{}\"", log_bytes(),
                 done.error().describe());
    const MutexLock lock(log_mutex_);
    compact_beyond_ = log_fences_ + log_fences_ / 2;
  }
  compacting_.store(false);
}

// What is appended while all that is in force is written comes after it. log_mutex_ is held for the
// last few frames only.
Result<> FenceTable::try_compaction() {
  std::uint64_t copied = 0;  // bytes of the log in use that the new one has, in whatever form
  std::uint64_t used = 0;
  std::size_t fences_before = 0;
  OwnedFd old;
  {
    const MutexLock lock(log_mutex_);
    copied = log_end_;
    used = logs_used_;
    fences_before = log_fences_;
    old = OwnedFd(::fcntl(log_.get(), F_DUPFD_CLOEXEC, 0));
  }
  if (!old) return fail_errno(errno, "a second descriptor of the fencing log");
  auto log = write_all(kCompacted);
  if (!log) return pass(log);
  std::uint64_t end = copied;
  do {
    if (::fsync(log->file.get()) != 0) return fail_errno(errno, "fsync of a new fencing log");
    end = log_end_;
    if (auto done = copy_tail(old.get(), copied, end, *log); !done) return done;
  } while (end - std::exchange(copied, end) > kShortTail && !closing_);
  const MutexLock lock(log_mutex_);
  if (closing_ || must_rewrite_ || logs_used_ != used) {
    return fail(Errc::kCancelled, "another log is in use");
  }
  if (auto done = copy_tail(old.get(), copied, log_end_, *log); !done) return done;
  log->fences += log_fences_ - fences_before;
  return use(std::move(*log), kCompacted);
}

Result<> FenceTable::copy_tail(int from, std::uint64_t begin, std::uint64_t end, NewLog& to) {
  std::vector<std::byte> room(kPieceBytes);
  while (begin < end) {
    const std::size_t size = std::min<std::uint64_t>(room.size(), end - begin);
    auto piece = read_piece(from, std::span(room).first(size), begin);
    if (!piece) return pass(piece);
    if (piece->empty()) return fail(Errc::kCorrupt, "the fencing log is shorter than it was");
    if (auto written = write_fully(to.file.get(), *piece, to.end); !written) return written;
    begin += piece->size();
    to.end += piece->size();
  }
  return {};
}

}  // namespace weft::ds
