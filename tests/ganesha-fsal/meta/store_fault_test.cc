// The store in RocksDB when its file system is full, fails, or does not answer.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "tests/ganesha-fsal/meta/meta_fixture.h"

using namespace weft;
using namespace weft::mds;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kFloor = 16 * kMiB;
constexpr std::uint64_t kReserve = kFloor / 2;

// What a disk does on purpose, to files whose names end as said.
class Faults final : public rocksdb::FileSystemWrapper {
 public:
  Faults() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "Faults"; }

  void set_free(std::uint64_t bytes) { free_ = bytes; }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_; }
  void fail(const std::string& ending, rocksdb::IOStatus with) {
    const std::lock_guard lock(mutex_);
    ending_ = ending;
    with_ = std::move(with);
  }
  void hold_syncs(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  rocksdb::IOStatus GetFreeSpace(const std::string& /*path*/, const rocksdb::IOOptions& /*options*/,
                                 std::uint64_t* free, rocksdb::IODebugContext* /*debug*/) override {
    *free = free_;
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* out,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    auto status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) *out = std::make_unique<File>(std::move(file), *this, name);
    return status;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& file, Faults& faults, std::string name)
        : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults), name_(std::move(name)) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      if (auto fault = faults_.of(name_); !fault.ok()) return fault;
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& info,
                             rocksdb::IODebugContext* debug) override {
      if (auto fault = faults_.of(name_); !fault.ok()) return fault;
      return FSWritableFileOwnerWrapper::Append(data, options, info, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
      faults_.wait();
      return FSWritableFileOwnerWrapper::Sync(options, debug);
    }

   private:
    Faults& faults_;
    const std::string name_;
  };

  rocksdb::IOStatus of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return !ending_.empty() && name.ends_with(ending_) ? with_ : rocksdb::IOStatus::OK();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
  }

  std::atomic<std::uint64_t> free_{100 * kMiB};
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::string ending_;
  rocksdb::IOStatus with_;
  bool held_ = false;
};

class FaultyStore {
 public:
  void open(std::chrono::milliseconds stall_limit = 0ms) {
    store_ = nullptr;
    RocksOptions options = small_rocks(folder_.path());
    options.floor_bytes = kFloor;
    options.env = env_.get();
    options.free_bytes = [this] { return faults_->free_bytes(); };
    options.stall_limit = stall_limit;
    options.on_waits = [this](bool now) { waits_ = now; };
    options.on_failure = [this](const Error& error) {
      const std::lock_guard lock(mutex_);
      failures_.push_back(error);
    };
    auto opened = open_rocks_kv(options);
    REQUIRE(opened);
    store_ = std::move(*opened);
  }
  Result<> put(int key, std::size_t bytes = 1000) {
    std::string value(bytes, '\0');  // that nothing compresses
    for (char& byte : value) byte = static_cast<char>(random_());
    return store_->run([&](Transaction& transaction) -> Result<> {
      transaction.put("key" + std::to_string(key), value);
      return {};
    });
  }
  [[nodiscard]] bool has(int key) const {
    const auto value = store_->latest().peek("key" + std::to_string(key));
    return value && *value;
  }
  [[nodiscard]] bool waits() const { return waits_; }
  [[nodiscard]] std::vector<Error> failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  [[nodiscard]] bool has_reserve() const {
    return std::filesystem::exists(folder_.path() + "/RESERVE");
  }

  Faults& faults() { return *faults_; }
  KvStore& operator*() { return *store_; }
  KvStore* operator->() { return store_.get(); }
  void close() { store_ = nullptr; }

 private:
  TempFolder folder_;
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(faults_);
  std::minstd_rand random_;
  std::atomic<bool> waits_{false};
  mutable std::mutex mutex_;
  std::vector<Error> failures_;
  std::unique_ptr<KvStore> store_;
};

template <class Condition>
bool comes(Condition condition, std::chrono::seconds within = 20s) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

}  // namespace

TEST_CASE("below its floor a store has no room, takes commits, and goes on when there is space") {
  FaultyStore store;
  store.faults().set_free(100 * kMiB);
  store.open();
  CHECK(store->room());
  CHECK(store.has_reserve());
  CHECK(store->health().keeps_bytes == kFloor - kReserve);
  CHECK_FALSE(store->health().full);

  store.faults().set_free(kFloor - kReserve - 1);  // with the reserve: a byte too few
  REQUIRE(comes([&] { return !store->room(); }));
  CHECK(store->room().error() == Errc::kNoSpace);
  CHECK(store->health().full);
  CHECK(store->health().free_bytes == kFloor - 1);
  CHECK(store->health().failure.empty());
  CHECK(store.has_reserve());
  CHECK(store.put(1));

  store.faults().set_free(kFloor - kReserve + 1);  // not at once, or it would come and go
  std::this_thread::sleep_for(600ms);
  CHECK_FALSE(store->room());
  store.faults().set_free(kFloor * 2);
  CHECK(comes([&] { return store->room().has_value(); }));
  CHECK(store.failures().empty());
}

TEST_CASE("the reserve is given up when others have filled the file system, and taken again") {
  FaultyStore store;
  store.faults().set_free(100 * kMiB);
  store.open();
  REQUIRE(store.has_reserve());
  store.faults().set_free(1);
  REQUIRE(comes([&] { return !store.has_reserve(); }));
  CHECK_FALSE(store->room());
  store.faults().set_free(kReserve);  // which was the reserve
  CHECK(store.put(1));
  std::this_thread::sleep_for(600ms);
  CHECK_FALSE(store.has_reserve());
  CHECK(store->health().keeps_bytes == kFloor);
  store.faults().set_free(100 * kMiB);
  CHECK(comes([&] { return store.has_reserve(); }));
  CHECK(comes([&] { return store->room().has_value(); }));

  // And before the store is opened, which may take space.
  store.close();
  REQUIRE(store.has_reserve());
  store.faults().set_free(1);
  store.open();
  CHECK_FALSE(store.has_reserve());
  CHECK_FALSE(store->room());
}

TEST_CASE("a table that finds no space is written when there is some") {
  FaultyStore store;
  store.faults().set_free(100 * kMiB);
  store.open();
  store.faults().fail(".sst", rocksdb::IOStatus::NoSpace("injected"));
  store.faults().set_free(kMiB / 2);
  int last = 0;
  Result<> done;
  for (; done && last < 20'000; ++last) done = store.put(last);
  REQUIRE_FALSE(done);
  CHECK(done.error() == Errc::kBusy);
  CHECK(store->health().full);
  CHECK_FALSE(store.put(30'000));
  CHECK(comes([&] { return !store.has_reserve(); }));

  store.faults().fail("", {});
  store.faults().set_free(100 * kMiB);
  CHECK(comes([&] { return store.put(30'000).has_value(); }, 60s));
  CHECK(comes([&] { return store->room().has_value(); }));
  CHECK(store.failures().empty());
  CHECK(store.has(0));
  CHECK(store.has(last - 2));
  store.open();
  CHECK(store.has(0));
  CHECK(store.has(last - 2));
  CHECK(store.has(30'000));
}

TEST_CASE("RocksDB writes no log of its own, which would end the process on a full disk") {
  const TempFolder folder;
  REQUIRE(open_rocks_kv(small_rocks(folder.path())));
  CHECK(std::filesystem::exists(folder.path() + "/CURRENT"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/LOG"));
}

TEST_CASE("a table that cannot be written is the end, and is told once") {
  FaultyStore store;
  store.open();
  store.faults().fail(".sst", rocksdb::IOStatus::IOError("injected"));
  Result<> done;
  for (int i = 0; done && i < 20'000; ++i) done = store.put(i);
  REQUIRE_FALSE(done);
  CHECK(done.error() == Errc::kIo);
  CHECK_FALSE(store->health().failure.empty());
  CHECK_FALSE(store.put(1));
  REQUIRE(store.failures().size() == 1);
  CHECK(store.failures().front() == Errc::kIo);
  store.faults().fail("", {});
}

TEST_CASE("a log that cannot be written ends the process before anybody has an answer") {
  skip_under_tsan();
  const TempFolder folder;
  const auto faults = std::make_shared<Faults>();
  const auto env = rocksdb::NewCompositeEnv(faults);
  RocksOptions options = small_rocks(folder.path());
  options.floor_bytes = kFloor;
  options.env = env.get();
  options.on_failure = [](const Error& error) { ::_exit(error == Errc::kIo ? 7 : 8); };
  const auto put = [](KvStore& store, std::string_view key) {
    return store.run([&](Transaction& transaction) -> Result<> {
      transaction.put(key, "value");
      return {};
    });
  };
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = open_rocks_kv(options);
    if (!store || !put(**store, "before")) ::_exit(1);
    faults->fail(".log", rocksdb::IOStatus::IOError("injected"));
    const bool answered = put(**store, "after").has_value();
    ::_exit(answered ? 2 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  const auto again = open_rocks_kv(options);
  REQUIRE(again);
  CHECK((*again)->latest().peek("before")->value() == "value");
  CHECK_FALSE((*again)->latest().peek("after")->has_value());
  CHECK(put(**again, "after"));
}

TEST_CASE("a sync that does not return is the end") {
  FaultyStore store;
  store.open(1s);
  CHECK(store.put(1));
  store.faults().hold_syncs(true);
  Result<> done;
  std::jthread writer([&] { done = store.put(2); });
  CHECK(comes([&] { return !store.failures().empty(); }));
  store.faults().hold_syncs(false);
  writer.join();
  CHECK(done.error() == Errc::kTimedOut);
  REQUIRE(store.failures().size() == 1);
  CHECK(store.failures().front() == Errc::kTimedOut);
  CHECK_FALSE(store->health().failure.empty());
}

TEST_CASE("a sync that is slow but returns in time is no end") {
  FaultyStore store;
  store.open(2s);
  CHECK_FALSE(store.waits());
  store.faults().hold_syncs(true);
  Result<> done;
  std::jthread writer([&] { done = store.put(2); });
  CHECK(comes([&] { return store.waits(); }));
  std::this_thread::sleep_for(1s);
  store.faults().hold_syncs(false);
  writer.join();
  CHECK(done);
  CHECK(comes([&] { return !store.waits(); }));
  std::this_thread::sleep_for(2s);
  CHECK(store.failures().empty());
}

TEST_CASE("what was removed from a store that is full is merged away") {
  FaultyStore store;
  store.faults().set_free(100 * kMiB);
  store.open();
  for (int i = 0; i < 200; ++i) REQUIRE(store.put(i, 50'000));
  store.open();  // to tables
  const std::uint64_t before = store->health().table_bytes;
  REQUIRE(before > 8 * kMiB);
  store.faults().set_free(kFloor / 4);  // and the reserve
  REQUIRE(comes([&] { return !store->room(); }));
  REQUIRE(store->run([](Transaction& transaction) -> Result<> {
    for (int i = 1; i < 200; ++i) transaction.erase("key" + std::to_string(i));
    return {};
  }));
  CHECK(comes([&] { return store->health().table_bytes < kMiB; }));
  CHECK(store.has(0));
  CHECK_FALSE(store.has(1));
}
