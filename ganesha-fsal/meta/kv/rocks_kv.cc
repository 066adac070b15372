#include "ganesha-fsal/meta/kv/rocks_kv.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/write_batch.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "ganesha-fsal/meta/kv/group_sync.h"
#include "ganesha-fsal/meta/kv/key_versions.h"
#include "ganesha-fsal/meta/kv/log_ahead.h"
#include "ganesha-fsal/meta/kv/log_check.h"
#include "ganesha-fsal/meta/kv/log_opening.h"
#include "ganesha-fsal/meta/kv/store_space.h"
#include "ganesha-fsal/meta/kv/store_watch.h"
#include "rpc/base/clock.h"
#include "rpc/base/log_text.h"
#include "rpc/base/mutex.h"

namespace weft::mds {
namespace {

// A table is compacted soon if so many of so many keys in a row say that something was removed.
constexpr std::size_t kRemovedWindow = 4096;
constexpr std::size_t kRemovedOfWindow = 2048;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

Error to_error(const rocksdb::Status& status, std::string_view doing) {
  std::string text = std::string(doing) + ": " + status.ToString();
  if (status.IsNoSpace()) return {Errc::kNoSpace, std::move(text)};
  if (status.IsCorruption()) return {Errc::kCorrupt, std::move(text)};
  if (status.IsNotFound()) return {Errc::kNotFound, std::move(text)};
  return {Errc::kIo, std::move(text)};
}

constexpr char kInlineKeys = 'B';
const std::string kInlineFamily = "inline";

using Family = rocksdb::ColumnFamilyHandle;

// Where keys are. The handle of the inline family belongs to this.
struct Families {
  Family* most = nullptr;
  std::unique_ptr<Family> inlined;  // null: a store without it that is open for reading only

  [[nodiscard]] Family* of(std::string_view key) const {
    return !key.empty() && key.front() == kInlineKeys ? inlined.get() : most;
  }
};

Result<> scan_iterator(rocksdb::Iterator& at, std::string_view begin, std::string_view end,
                       std::size_t limit, const ScanVisitor& visit) {
  std::size_t seen = 0;
  for (at.Seek(slice(begin)); seen < limit && at.Valid(); at.Next(), ++seen) {
    if (view(at.key()) >= end || !visit(view(at.key()), view(at.value()))) return {};
  }
  if (!at.status().ok()) return std::unexpected(to_error(at.status(), "scan"));
  return {};
}

// Reads the newest, or what a snapshot holds.
class RocksReader final : public KvReader {
 public:
  RocksReader(rocksdb::DB& db, const Families& families,
              const rocksdb::Snapshot* snapshot = nullptr)
      : db_(db), families_(families), snapshot_(snapshot) {}
  ~RocksReader() override {
    if (snapshot_ != nullptr) db_.ReleaseSnapshot(snapshot_);
  }

  Result<std::optional<std::string>> peek(std::string_view key) const override {
    Family* const family = families_.of(key);
    if (family == nullptr) return std::nullopt;
    std::string value;
    const auto status = db_.Get(read_options(), family, slice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    if (!status.ok()) return std::unexpected(to_error(status, "get"));
    return value;
  }

  Result<Values> peek_all(std::span<const std::string> keys) const override {
    if (keys.empty()) return Values();
    Family* const family = families_.of(keys.front());
    if (family == nullptr) return Values(keys.size());
    const std::vector<rocksdb::Slice> wanted(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> found(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_.MultiGet(read_options(), family, keys.size(), wanted.data(), found.data(), statuses.data(),
                 std::ranges::is_sorted(keys));
    Values values(keys.size());
    for (std::size_t at = 0; at < keys.size(); ++at) {
      if (statuses[at].IsNotFound()) continue;
      if (!statuses[at].ok()) return std::unexpected(to_error(statuses[at], "get"));
      values[at] = found[at].ToString();
    }
    return values;
  }

  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    Family* const family = families_.of(begin);
    if (family == nullptr) return {};
    auto options = read_options();
    const rocksdb::Slice bound = slice(end);
    options.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator(options, family));
    return scan_iterator(*at, begin, end, limit, visit);
  }

 private:
  [[nodiscard]] rocksdb::ReadOptions read_options() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    return options;
  }

  rocksdb::DB& db_;
  const Families& families_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
};

constexpr std::chrono::seconds kLongWait{30};

// What RocksDB's own threads, and its log, met. A table that was not written for lack of space is
// written when there is some: RocksDB sees to that. Everything else is for good. RocksDB tells of a
// failure before the call that met it returns.
//
// Threading: any; RocksDB calls it from the threads that fail.
class BackgroundErrors final : public rocksdb::EventListener {
 public:
  explicit BackgroundErrors(const weft::Clock& clock) : clock_(clock) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    using Reason = rocksdb::BackgroundErrorReason;
    const bool log = reason == Reason::kWriteCallback || reason == Reason::kMemTable;
    const MutexLock lock(mutex_);
    if (error->IsNoSpace() && !log && error->severity() < rocksdb::Status::kFatalError) {
      if (waits_since_) return;
      waits_since_ = clock_.now();
      spdlog::warn("event=metadata_store_waits error=\"{}\"", error->ToString());
    } else if (!failed_) {
      failed_ = to_error(*error, "in the background");
    }
  }
  void OnErrorRecoveryCompleted(rocksdb::Status /*before*/) override {
    const MutexLock lock(mutex_);
    if (waits_since_) spdlog::info("event=metadata_store_goes_on");
    waits_since_.reset();
  }

  [[nodiscard]] std::optional<Error> failed() const {
    const MutexLock lock(mutex_);
    return failed_;
  }
  // For space, and for nothing else.
  [[nodiscard]] bool waits() const {
    const MutexLock lock(mutex_);
    return waits_since_ && !failed_;
  }
  // Longer than it takes when the reserve was enough.
  [[nodiscard]] bool waits_for_long() const {
    const MutexLock lock(mutex_);
    return waits_since_ && clock_.now() - *waits_since_ > kLongWait;
  }

 private:
  const weft::Clock& clock_;
  mutable Mutex mutex_;
  std::optional<TimePoint> waits_since_ WEFT_GUARDED_BY(mutex_);
  std::optional<Error> failed_ WEFT_GUARDED_BY(mutex_);
};

// RocksDB's own log goes where ours does. By default it is a file beside the tables, and then a
// build with assertions (Debian's) aborts when that cannot be written.
class RocksLog final : public rocksdb::Logger {
 public:
  using Level = rocksdb::InfoLogLevel;
  RocksLog() : Logger(Level::WARN_LEVEL) {}
  void LogHeader(const char* /*format*/, va_list /*values*/) override {}
  void Logv(const char* format, va_list values) override {
    Logv(Level::INFO_LEVEL, format, values);
  }
  void Logv(Level level, const char* format, va_list values) override {
    if (level < GetInfoLogLevel() || is_of_checkpoints(format)) return;
    std::array<char, 512> line{};
    std::vsnprintf(line.data(), line.size(), format, values);
    const auto to = level == Level::WARN_LEVEL ? spdlog::level::warn : spdlog::level::err;
    spdlog::log(to, "event=metadata_store text=\"{}\"", log_text(line.data()));
  }

 private:
  // It warns that its own checkpoint asks twice that no file be removed meanwhile.
  static bool is_of_checkpoints(std::string_view format) {
    return format.contains("] File Deletions ");
  }
};

// What a transaction of an open store goes through.
struct WritePath {
  const Families& families;
  GroupSync sync;
  std::shared_ptr<BackgroundErrors> background;
  KeyVersions versions;
  Progress commits;
  Progress syncs;
  std::atomic<LogSequence> stable{0};                // the log is, up to this
  const std::uint64_t salt = system_random().u64();  // of the log's marks
};

// Its writes are here until it commits, and then one batch.
class RocksTransaction final : public Transaction {
 public:
  RocksTransaction(rocksdb::DB& db, WritePath& path) : db_(db), path_(path) {}

  Result<std::optional<std::string>> peek(std::string_view key) const override {
    if (const auto own = writes_.find(key); own != writes_.end()) return own->second;
    std::string value;
    const auto status = db_.Get({}, family(key), slice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    if (!status.ok()) return std::unexpected(to_error(status, "get"));
    return value;
  }

  Result<std::optional<std::string>> get(std::string_view key) override {
    if (!writes_.contains(key)) reads_.push_back(path_.versions.about_to_read(key));
    return peek(key);
  }

  void put(std::string_view key, std::string_view value) override { write(key).emplace(value); }
  void erase(std::string_view key) override { write(key).reset(); }

  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    Family* const of = family(begin);
    std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator({}, of));
    rocksdb::WriteBatchWithIndex own(rocksdb::BytewiseComparator(), 0, true);
    if (!writes_.empty()) {
      if (auto copied = copy_to(own); !copied.ok()) {
        return std::unexpected(to_error(copied, "scan"));
      }
      at.reset(own.NewIteratorWithBase(of, at.release()));
    }
    return scan_iterator(*at, begin, end, limit, visit);
  }

  Result<CommitSeq> commit() override {
    if (auto failed = path_.sync.poisoned()) return std::unexpected(std::move(*failed));
    const Progress::Step step(path_.commits);
    const auto written = write_unless_changed();
    if (!written) return fail(Errc::kConflict, "what was read has changed");
    if (!written->ok()) return refused(to_error(*written, "commit"));
    return writes_.empty() ? CommitSeq{0} : path_.sync.note_commit();
  }

 private:
  [[nodiscard]] Family* family(std::string_view key) const { return path_.families.of(key); }

  std::optional<std::string>& write(std::string_view key) {
    auto at = writes_.find(key);
    if (at == writes_.end()) at = writes_.emplace(key, std::nullopt).first;
    return at->second;
  }

  // nullopt: what was read has changed.
  [[nodiscard]] std::optional<rocksdb::Status> write_unless_changed() {
    std::vector<KeyVersions::Slot> slots;
    slots.reserve(writes_.size());
    for (const auto& [key, value] : writes_) slots.push_back(KeyVersions::slot_of(key));
    KeyVersions::Guard guard(path_.versions, reads_, slots);
    if (!guard.unchanged(reads_)) return std::nullopt;
    if (writes_.empty()) return rocksdb::Status();
    rocksdb::WriteBatch batch;
    auto status = batch.PutLogData(log_mark(path_.stable, path_.salt));
    if (status.ok()) status = copy_to(batch);
    if (status.ok()) status = db_.Write({}, &batch);
    if (status.ok()) guard.written(slots);
    return status;
  }

  template <class Batch>
  [[nodiscard]] rocksdb::Status copy_to(Batch& batch) const {
    rocksdb::Status status;
    for (const auto& [key, value] : writes_) {
      status = value ? batch.Put(family(key), slice(key), slice(*value))
                     : batch.Delete(family(key), slice(key));
      if (!status.ok()) break;
    }
    return status;
  }

  [[nodiscard]] std::unexpected<Error> refused(Error error) {
    if (error.code == Errc::kNoSpace && !path_.background->failed()) {
      // RocksDB waits for space, and has refused before it wrote anything.
      if (path_.background->waits_for_long()) return std::unexpected(std::move(error));
      return fail(Errc::kBusy, error.text);
    }
    // The log may now end in half a record: nothing may be written after it.
    path_.sync.poison(error);
    return std::unexpected(std::move(error));
  }

  rocksdb::DB& db_;
  WritePath& path_;
  std::vector<KeyVersions::Read> reads_;
  std::map<std::string, std::optional<std::string>, std::less<>> writes_;  // nullopt: erased
};

std::string checkpoint_of(const std::string& path) { return path + "/checkpoint"; }

// And what was left of one that was being made.
Result<> remove_checkpoint(const std::string& path) {
  std::error_code failed;
  for (const std::string& folder : {checkpoint_of(path), checkpoint_of(path) + ".tmp"}) {
    std::filesystem::remove_all(folder, failed);
    if (failed) return fail_errno(failed.value(), "remove " + folder);
  }
  return {};
}

constexpr std::chrono::milliseconds kLook{250};
constexpr std::chrono::seconds kBetweenMerges{5};

class RocksKv final : public KvStore {
 public:
  // A store that is open for reading only.
  RocksKv(std::unique_ptr<rocksdb::Env> env, std::unique_ptr<rocksdb::DB> db,
          std::unique_ptr<Family> inlined)
      : env_(std::move(env)),
        db_(std::move(db)),
        families_{db_->DefaultColumnFamily(), std::move(inlined)},
        latest_(*db_, families_),
        path_{.families = families_, .sync = GroupSync([] { return Result<>(); })} {}

  RocksKv(std::unique_ptr<rocksdb::Env> env, std::unique_ptr<rocksdb::DB> db,
          std::unique_ptr<Family> inlined, const RocksOptions& options,
          std::shared_ptr<BackgroundErrors> background, std::unique_ptr<StoreSpace> space)
      : folder_(options.path),
        writable_(true),
        env_(std::move(env)),
        db_(std::move(db)),
        families_{db_->DefaultColumnFamily(), std::move(inlined)},
        latest_(*db_, families_),
        path_{.families = families_,
              .sync = GroupSync([this, sync = options.sync] { return write_log(sync); },
                                options.on_failure),
              .background = std::move(background)},
        space_(std::move(space)),
        on_waits_(options.on_waits),
        clock_(&options.clock) {
    path_.stable = db_->GetLatestSequenceNumber();  // opening has put it into tables
    // Apart: a disk that stalls may keep the one that frees space.
    looks_at_space_.emplace(kLook, [this] { space_->look(path_.background->waits()); });
    const auto looks = static_cast<unsigned>((options.stall_limit + kLook / 2) / kLook);
    looks_at_progress_.emplace(kLook, [this, looks] { look_at_progress(looks); });
    merges_.emplace(kLook, [this] { merge_when_full(); });
    settles_.emplace(kLook, [this] { settle(); });
  }

  ~RocksKv() override {
    if (!writable_) return;
    closing_ = true;
    merges_.reset();
    settles_.reset();
    looks_at_space_.reset();
    looks_at_progress_.reset();
    path_.sync.finish();
    if (path_.sync.poisoned()) return;  // what can be lost was told to nobody
    if (const auto status = db_->FlushWAL(true); !status.ok()) {
      spdlog::error("event=metadata_store_close error=\"{}\"", status.ToString());
    }
    families_.inlined.reset();
    if (const auto status = db_->Close(); !status.ok()) {
      spdlog::error("event=metadata_store_close error=\"{}\"", status.ToString());
    }
  }

  std::unique_ptr<Transaction> begin() override {
    if (!writable_) return std::make_unique<RefusedTransaction>(latest_);
    return std::make_unique<RocksTransaction>(*db_, path_);
  }

  const KvReader& latest() const override { return latest_; }
  std::unique_ptr<KvReader> snapshot() const override {
    return std::make_unique<RocksReader>(*db_, families_, db_->GetSnapshot());
  }
  Result<> wait_durable(CommitSeq seq) override { return path_.sync.wait(seq); }
  bool tell_when_durable(CommitSeq seq, Tell tell, void* who) override {
    return path_.sync.tell_when_settled(seq, tell, who);
  }
  CommitSeq durable() const override { return path_.sync.durable(); }

  Result<> room() const override {
    if (space_ && space_->full()) return fail(Errc::kNoSpace, "the metadata store is full");
    return {};
  }

  Result<std::string> make_checkpoint() override {
    if (!writable_) return fail(Errc::kReadOnly, "opened read-only");
    if (auto enough = room(); !enough) return pass(enough);
    const std::string folder = checkpoint_of(folder_);
    std::error_code ignored;
    if (std::filesystem::exists(folder, ignored)) return fail(Errc::kExists, folder);
    rocksdb::Checkpoint* made = nullptr;
    auto status = rocksdb::Checkpoint::Create(db_.get(), &made);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    // What is in memory is written to tables first; the end of the log, which both families share,
    // is copied.
    if (status.ok()) status = checkpoint->CreateCheckpoint(folder, 0);
    if (!status.ok()) return std::unexpected(to_error(status, "checkpoint"));
    return folder;
  }
  Result<> drop_checkpoint() override { return remove_checkpoint(folder_); }

  StoreHealth health() const override {
    using Names = rocksdb::DB::Properties;
    StoreHealth health;
    if (const auto failed = path_.sync.poisoned()) health.failure = failed->describe();
    if (space_) {
      health.full = space_->full() || path_.background->waits();
      health.free_bytes = space_->free_bytes();
      health.floor_bytes = space_->floor_bytes();
      health.keeps_bytes = space_->keeps_bytes();
    }
    health.commits = path_.sync.commits();
    health.syncs = path_.sync.syncs();
    health.sync_time = std::chrono::nanoseconds(sync_time_);
    health.writes_stopped = number(Names::kIsWriteStopped) != 0;
    health.writes_slowed = number(Names::kActualDelayedWriteRate) != 0;
    health.background_errors = number(Names::kBackgroundErrors);
    health.memory_bytes = number(Names::kCurSizeAllMemTables);
    health.table_bytes = number(Names::kLiveSstFilesSize);
    health.compaction_bytes = number(Names::kEstimatePendingCompactionBytes);
    // Both families have one cache.
    health.cache_bytes = number(families_.most, Names::kBlockCacheUsage);
    health.cache_pinned_bytes = number(families_.most, Names::kBlockCachePinnedUsage);
    health.cache_most_bytes = number(families_.most, Names::kBlockCacheCapacity);
    Family* const inlined = families_.inlined.get();
    health.inline_files = number(inlined, Names::kEstimateNumKeys);
    health.inline_bytes = number(inlined, Names::kEstimateLiveDataSize) +
                          number(inlined, Names::kCurSizeAllMemTables);
    return health;
  }

 private:
  [[nodiscard]] std::uint64_t number(const std::string& property) const {
    std::uint64_t value = 0;
    return db_->GetAggregatedIntProperty(property, &value) ? value : 0;
  }
  [[nodiscard]] std::uint64_t number(Family* family, const std::string& property) const {
    std::uint64_t value = 0;
    return family != nullptr && db_->GetIntProperty(family, property, &value) ? value : 0;
  }

  // Of a read-only store: reads, and refuses to commit.
  class RefusedTransaction final : public Transaction {
   public:
    explicit RefusedTransaction(const KvReader& reader) : reader_(reader) {}
    Result<std::optional<std::string>> peek(std::string_view key) const override {
      return reader_.peek(key);
    }
    Result<std::optional<std::string>> get(std::string_view key) override {
      return reader_.peek(key);
    }
    void put(std::string_view, std::string_view) override {}
    void erase(std::string_view) override {}
    Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                  const ScanVisitor& visit) const override {
      return reader_.scan(begin, end, limit, visit);
    }
    Result<CommitSeq> commit() override { return fail(Errc::kReadOnly, "opened read-only"); }

   private:
    const KvReader& reader_;
  };

  void look_at_progress(unsigned most) {
    if (const auto failed = path_.background->failed()) path_.sync.poison(*failed);
    // Both are asked each time.
    const unsigned stuck = std::max(path_.commits.stuck(), path_.syncs.stuck());
    const bool waits = stuck > 0;
    if (std::exchange(waits_, waits) != waits && on_waits_) on_waits_(waits);
    if (most == 0 || stuck < most) return;
    path_.sync.poison({Errc::kTimedOut, fmt::format("its disk has answered nothing for {} s",
                                                    (stuck * kLook).count() / 1000)});
  }

  // What nobody waits for is not to stay in memory because nobody waits for anything else either.
  void settle() {
    const CommitSeq before = std::exchange(settled_, path_.sync.commits());
    if (path_.sync.durable() < before) static_cast<void>(path_.sync.wait(before));
  }

  // What was removed takes space until tables are merged, which the little that removing writes
  // does not bring about. A tenth of the time goes into it, while there is space for it.
  void merge_when_full() {
    const auto begun = clock_->now();
    const rocksdb::SequenceNumber now = db_->GetLatestSequenceNumber();
    if (!space_->full()) next_merge_ = begun + kBetweenMerges;
    if (space_->free_bytes() < space_->floor_bytes() / 2) return;
    if (begun < next_merge_ || now == merged_ || path_.background->waits()) return;
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    how.canceled = &closing_;
    auto status = db_->CompactRange(how, nullptr, nullptr);
    if (status.ok()) status = db_->CompactRange(how, families_.inlined.get(), nullptr, nullptr);
    if (!status.ok() && !closing_) {
      spdlog::warn("event=metadata_merge_failed error=\"{}\"", status.ToString());
    }
    merged_ = now;
    const auto ended = clock_->now();
    next_merge_ = ended + std::max<std::chrono::nanoseconds>(10 * (ended - begun), kBetweenMerges);
  }

  // What commits have left in memory of it, in one go.
  Result<> write_log(bool sync) {
    const Progress::Step step(path_.syncs);
    const auto begun = clock_->now();
    const LogSequence written = db_->GetLatestSequenceNumber();
    const auto status = db_->FlushWAL(sync);
    sync_time_ += std::chrono::nanoseconds(clock_->now() - begun).count();
    if (!status.ok()) {
      spdlog::error("event=metadata_log_sync_failed error=\"{}\"", status.ToString());
      return std::unexpected(to_error(status, "sync the log"));
    }
    if (sync) path_.stable = written;
    return {};
  }

  const std::string folder_;
  const bool writable_ = false;
  const std::unique_ptr<rocksdb::Env> env_;
  const std::unique_ptr<rocksdb::DB> db_;
  Families families_;
  const RocksReader latest_;
  WritePath path_;
  const std::unique_ptr<StoreSpace> space_;
  const std::function<void(bool)> on_waits_;
  const weft::Clock* const clock_ = nullptr;  // null: it is open for reading only
  bool waits_ = false;     // as of the last look at progress, of the thread that looks
  CommitSeq settled_ = 0;  // what there was at the last look, of the thread that settles
  // Of the thread that merges.
  rocksdb::SequenceNumber merged_ = 0;
  TimePoint next_merge_;
  std::atomic<std::int64_t> sync_time_{0};  // nanoseconds
  std::atomic<bool> closing_{false};
  std::optional<Regularly> merges_;
  std::optional<Regularly> settles_;
  std::optional<Regularly> looks_at_space_;
  std::optional<Regularly> looks_at_progress_;
};

// Of write buffers, for a floor.
std::size_t buffer_bytes(const RocksOptions& options, std::uint64_t floor) {
  constexpr std::uint64_t kLeast = 256 << 10;
  if (floor == 0) return options.write_buffer_bytes;
  return std::min<std::uint64_t>(options.write_buffer_bytes,
                                 std::max(floor / StoreSpace::kBuffersOfFloor, kLeast));
}

// The inline family's options: half as much of everything that is in proportion to the buffer.
rocksdb::ColumnFamilyOptions inline_options(const rocksdb::Options& rocks) {
  rocksdb::ColumnFamilyOptions inlined(rocks);
  inlined.write_buffer_size /= 2;
  inlined.target_file_size_base /= 2;
  inlined.max_bytes_for_level_base /= 2;
  inlined.max_compaction_bytes /= 2;
  return inlined;
}

rocksdb::Options rocks_options(const RocksOptions& options, std::size_t buffer_bytes) {
  rocksdb::Options rocks;
  if (options.env != nullptr) rocks.env = options.env;
  rocks.create_if_missing = options.create_if_missing && !options.read_only;
  rocks.write_buffer_size = buffer_bytes;
  rocks.max_write_buffer_number = 4;
  rocks.target_file_size_base = buffer_bytes;
  rocks.max_bytes_for_level_base = buffer_bytes * 4;
  rocks.max_compaction_bytes = buffer_bytes * 8;
  rocks.max_background_jobs = 2;
  rocks.max_total_wal_size = buffer_bytes * 4;
  rocks.max_open_files = 512;
  // Commits leave what they add to the log in memory: whoever syncs it writes it, for all of them.
  rocks.manual_wal_flush = true;
  // One thread puts a group of commits into the memtable: each has a few keys, and to wake the
  // others for theirs takes longer.
  rocks.allow_concurrent_memtable_write = false;
  // Most of what is read and is not there would be looked for among what was written last.
  rocks.memtable_whole_key_filtering = true;
  rocks.memtable_prefix_bloom_size_ratio = 0.02;
  rocks.info_log = std::make_shared<RocksLog>();
  rocks.bytes_per_sync = std::size_t{1} << 20;
  rocks.paranoid_checks = true;
  // A listing passes over what was removed, until that is compacted.
  rocks.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kRemovedWindow, kRemovedOfWindow));
  // A record that is not whole is the end, of which nobody was told: what is damaged or has a hole
  // before its end is refused, or cut, when it is opened (log_opening.h).
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Filters and indexes count in the cache, so that memory is bounded. Those of the newest tables,
  // which every look for a name passes, stay there whatever is read.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return rocks;
}

Error open_error(const rocksdb::Status& status, const std::string& path) {
  const std::string text = status.ToString();
  const bool locked = text.find("lock ") != text.npos || text.find("LOCK") != text.npos;
  if (status.IsIOError() && locked) {
    return {Errc::kBusy, "metadata store " + path + " is open in another process: " + text};
  }
  Error error = to_error(status, "open the metadata store " + path);
  if (status.IsInvalidArgument()) error.code = Errc::kNotFound;  // does not exist
  return error;
}

// Of the handles of a store that was opened, in the order of Families. The first is the database's
// own, too.
std::unique_ptr<Family> take_inlined(const std::vector<Family*>& handles) {
  delete handles.front();
  return std::unique_ptr<Family>(handles.size() > 1 ? handles[1] : nullptr);
}

std::shared_ptr<LogOpening> looking_at_logs(const RocksOptions& options) {
  auto files =
      options.env != nullptr ? options.env->GetFileSystem() : rocksdb::FileSystem::Default();
  return std::make_shared<LogOpening>(std::move(files), options.path, options.read_only);
}

Result<std::unique_ptr<KvStore>> open_to_read(const RocksOptions& options) {
  rocksdb::Options rocks = rocks_options(options, options.write_buffer_bytes);
  const auto logs = looking_at_logs(options);
  auto env = rocksdb::NewCompositeEnv(logs);
  rocks.env = env.get();
  std::vector<std::string> names;  // none if that fails: what is wrong opening says
  static_cast<void>(rocksdb::DB::ListColumnFamilies(rocks, options.path, &names));
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocks}};
  if (std::ranges::find(names, kInlineFamily) != names.end()) {
    families.emplace_back(kInlineFamily, inline_options(rocks));
  }
  std::vector<Family*> handles;
  rocksdb::DB* db = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly(rocks, options.path, families, &handles, &db);
  if (!status.ok()) {
    return std::unexpected(logs->refused().value_or(open_error(status, options.path)));
  }
  logs->opened();
  std::unique_ptr<rocksdb::DB> opened(db);
  auto inlined = take_inlined(handles);
  return std::make_unique<RocksKv>(std::move(env), std::move(opened), std::move(inlined));
}

// `files` where the log is longer than what is in it, by a part of what makes RocksDB begin
// another.
std::unique_ptr<rocksdb::Env> env_with_log_ahead(std::shared_ptr<rocksdb::FileSystem> files,
                                                 std::size_t buffer_bytes) {
  constexpr std::size_t kLeast = std::size_t{64} << 10;
  constexpr std::size_t kMost = std::size_t{1} << 20;
  return rocksdb::NewCompositeEnv(
      with_log_ahead(std::move(files), std::clamp(buffer_bytes / 64, kLeast, kMost)));
}

}  // namespace

// RocksDB locks this file with fcntl.
bool is_open_elsewhere(const std::string& path) {
  const int fd = ::open((path + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool locked = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return locked;
}

Result<std::unique_ptr<KvStore>> open_rocks_kv(const RocksOptions& options) {
  if (!options.restoring && ::access((options.path + '/' + kRestoring).c_str(), F_OK) == 0) {
    return fail(Errc::kInvalid, options.path +
                                    " is half of a store: weft restore has not ended. "
                                    "Run it again");
  }
  if (options.read_only) {
    if (is_open_elsewhere(options.path)) {
      return fail(Errc::kBusy, "metadata store " + options.path + " is open in another process");
    }
    return open_to_read(options);
  }
  if (auto removed = remove_checkpoint(options.path); !removed) {
    spdlog::warn("event=checkpoint_left error=\"{}\"", removed.error().describe());
  }
  const std::uint64_t floor =
      options.floor_bytes.value_or(StoreSpace::floor_for(options.path, options.write_buffer_bytes));
  const std::size_t buffer = buffer_bytes(options, floor);
  rocksdb::Options rocks = rocks_options(options, buffer);
  const auto logs = looking_at_logs(options);
  auto env = env_with_log_ahead(logs, buffer);
  rocks.env = env.get();
  auto space = std::make_unique<StoreSpace>(options.path, floor, options.free_bytes);
  if (options.create_if_missing) ::mkdir(options.path.c_str(), 0755);
  space->make_way();
  auto background = std::make_shared<BackgroundErrors>(options.clock);
  rocks.listeners.push_back(background);
  rocks.create_missing_column_families = true;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, rocks}, {kInlineFamily, inline_options(rocks)}};
  std::vector<Family*> handles;
  rocksdb::DB* db = nullptr;
  const auto status = rocksdb::DB::Open(rocks, options.path, families, &handles, &db);
  if (!status.ok()) {
    return std::unexpected(logs->refused().value_or(open_error(status, options.path)));
  }
  logs->opened();
  std::unique_ptr<rocksdb::DB> opened(db);
  auto inlined = take_inlined(handles);
  space->look(false);
  return std::make_unique<RocksKv>(std::move(env), std::move(opened), std::move(inlined), options,
                                   std::move(background), std::move(space));
}

}  // namespace weft::mds
