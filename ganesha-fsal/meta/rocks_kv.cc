#include "ganesha-fsal/meta/rocks_kv.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "ganesha-fsal/meta/group_sync.h"

namespace weft::mds {
namespace {

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

Error to_error(const rocksdb::Status& status, std::string_view doing) {
  std::string text = std::string(doing) + ": " + status.ToString();
  // TryAgain: the memory that conflicts are checked against no longer reaches back far enough.
  if (status.IsBusy() || status.IsTryAgain()) return {Errc::kConflict, std::move(text)};
  if (status.IsNoSpace()) return {Errc::kNoSpace, std::move(text)};
  if (status.IsCorruption()) return {Errc::kCorrupt, std::move(text)};
  if (status.IsNotFound()) return {Errc::kNotFound, std::move(text)};
  return {Errc::kIo, std::move(text)};
}

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
  explicit RocksReader(rocksdb::DB& db) : db_(db) {}
  RocksReader(rocksdb::DB& db, const rocksdb::Snapshot* snapshot) : db_(db), snapshot_(snapshot) {}
  ~RocksReader() override {
    if (snapshot_ != nullptr) db_.ReleaseSnapshot(snapshot_);
  }

  Result<std::optional<std::string>> peek(std::string_view key) const override {
    std::string value;
    const auto status = db_.Get(read_options(), slice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    if (!status.ok()) return std::unexpected(to_error(status, "get"));
    return value;
  }

  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    auto options = read_options();
    const rocksdb::Slice bound = slice(end);
    options.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator(options));
    return scan_iterator(*at, begin, end, limit, visit);
  }

 private:
  [[nodiscard]] rocksdb::ReadOptions read_options() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    return options;
  }

  rocksdb::DB& db_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
};

class RocksTransaction final : public Transaction {
 public:
  RocksTransaction(std::unique_ptr<rocksdb::Transaction> transaction, GroupSync& sync)
      : transaction_(std::move(transaction)), sync_(sync) {}

  Result<std::optional<std::string>> peek(std::string_view key) const override {
    std::string value;
    return found(transaction_->Get({}, slice(key), &value), std::move(value));
  }

  Result<std::optional<std::string>> get(std::string_view key) override {
    std::string value;
    const auto status = transaction_->GetForUpdate({}, slice(key), &value);
    return found(status, std::move(value));
  }

  void put(std::string_view key, std::string_view value) override {
    note(transaction_->PutUntracked(slice(key), slice(value)));
  }
  void erase(std::string_view key) override { note(transaction_->DeleteUntracked(slice(key))); }

  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    const std::unique_ptr<rocksdb::Iterator> at(transaction_->GetIterator({}));
    return scan_iterator(*at, begin, end, limit, visit);
  }

  Result<CommitSeq> commit() override {
    if (auto failed = sync_.poisoned()) return std::unexpected(std::move(*failed));
    if (!status_.ok()) return std::unexpected(to_error(status_, "write"));
    const bool writes = transaction_->GetNumPuts() + transaction_->GetNumDeletes() > 0;
    if (const auto status = transaction_->Commit(); !status.ok()) {
      Error error = to_error(status, "commit");
      // The log may now end in half a record: nothing may be written after it.
      if (error.code != Errc::kConflict) sync_.poison(error);
      return std::unexpected(std::move(error));
    }
    return writes ? sync_.note_commit() : CommitSeq{0};
  }

 private:
  static Result<std::optional<std::string>> found(const rocksdb::Status& status,
                                                  std::string value) {
    if (status.IsNotFound()) return std::nullopt;
    if (!status.ok()) return std::unexpected(to_error(status, "get"));
    return std::optional(std::move(value));
  }
  void note(rocksdb::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const std::unique_ptr<rocksdb::Transaction> transaction_;
  GroupSync& sync_;
  rocksdb::Status status_;  // the first failure to buffer a write
};

class RocksKv final : public KvStore {
 public:
  // `transactions` is null when the store is read-only.
  RocksKv(std::unique_ptr<rocksdb::DB> db, rocksdb::OptimisticTransactionDB* transactions,
          bool sync)
      : db_(std::move(db)),
        transactions_(transactions),
        latest_(*db_),
        sync_([this, sync] { return sync ? sync_log() : Result<>(); }) {}

  ~RocksKv() override {
    if (transactions_ == nullptr) return;
    if (const auto status = db_->SyncWAL(); !status.ok()) {
      spdlog::error("event=metadata_store_close error=\"{}\"", status.ToString());
    }
    if (const auto status = db_->Close(); !status.ok()) {
      spdlog::error("event=metadata_store_close error=\"{}\"", status.ToString());
    }
  }

  std::unique_ptr<Transaction> begin() override {
    if (transactions_ == nullptr) return std::make_unique<RefusedTransaction>(latest_);
    std::unique_ptr<rocksdb::Transaction> transaction(
        transactions_->BeginTransaction(rocksdb::WriteOptions()));
    return std::make_unique<RocksTransaction>(std::move(transaction), sync_);
  }

  const KvReader& latest() const override { return latest_; }
  std::unique_ptr<KvReader> snapshot() const override {
    return std::make_unique<RocksReader>(*db_, db_->GetSnapshot());
  }
  Result<> wait_durable(CommitSeq seq) override { return sync_.wait(seq); }

  StoreHealth health() const override {
    using Names = rocksdb::DB::Properties;
    StoreHealth health;
    if (const auto failed = sync_.poisoned()) health.failure = failed->describe();
    health.writes_stopped = number(Names::kIsWriteStopped) != 0;
    health.background_errors = number(Names::kBackgroundErrors);
    health.memory_bytes = number(Names::kCurSizeAllMemTables);
    health.table_bytes = number(Names::kLiveSstFilesSize);
    health.compaction_bytes = number(Names::kEstimatePendingCompactionBytes);
    return health;
  }

 private:
  [[nodiscard]] std::uint64_t number(const std::string& property) const {
    std::uint64_t value = 0;
    return db_->GetIntProperty(property, &value) ? value : 0;
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

  Result<> sync_log() {
    if (const auto status = db_->SyncWAL(); !status.ok()) {
      spdlog::error("event=metadata_log_sync_failed error=\"{}\"", status.ToString());
      return std::unexpected(to_error(status, "sync the log"));
    }
    return {};
  }

  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::OptimisticTransactionDB* const transactions_;
  const RocksReader latest_;
  GroupSync sync_;
};

rocksdb::Options rocks_options(const RocksOptions& options) {
  rocksdb::Options rocks;
  rocks.create_if_missing = options.create_if_missing && !options.read_only;
  rocks.write_buffer_size = options.write_buffer_bytes;
  rocks.max_write_buffer_number = 4;
  // What conflicts are checked against: a transaction older than this is run again.
  rocks.max_write_buffer_size_to_maintain =
      static_cast<std::int64_t>(options.write_buffer_bytes * 2);
  rocks.max_background_jobs = 2;
  rocks.max_total_wal_size = options.write_buffer_bytes * 4;
  rocks.max_open_files = 512;
  rocks.keep_log_file_num = 4;
  rocks.max_log_file_size = std::size_t{4} << 20;
  rocks.bytes_per_sync = std::size_t{1} << 20;
  rocks.paranoid_checks = true;
  // A torn last record is a commit nobody was told of; damage before it is an error.
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.format_version = 5;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return rocks;
}

// Whether another process has the store open: RocksDB locks this file with fcntl.
bool locked_by_another(const std::string& path) {
  const int fd = ::open((path + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool locked = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return locked;
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

}  // namespace

Result<std::unique_ptr<KvStore>> open_rocks_kv(const RocksOptions& options) {
  const rocksdb::Options rocks = rocks_options(options);
  if (options.read_only) {
    if (locked_by_another(options.path)) {
      return fail(Errc::kBusy, "metadata store " + options.path + " is open in another process");
    }
    rocksdb::DB* db = nullptr;
    const auto status = rocksdb::DB::OpenForReadOnly(rocks, options.path, &db);
    if (!status.ok()) return std::unexpected(open_error(status, options.path));
    return std::make_unique<RocksKv>(std::unique_ptr<rocksdb::DB>(db), nullptr, false);
  }
  rocksdb::OptimisticTransactionDB* db = nullptr;
  const auto status = rocksdb::OptimisticTransactionDB::Open(rocks, options.path, &db);
  if (!status.ok()) return std::unexpected(open_error(status, options.path));
  return std::make_unique<RocksKv>(std::unique_ptr<rocksdb::DB>(db), db, options.sync);
}

}  // namespace weft::mds
