// FileStore: objects as sparse files in a local file system, through the page cache or around it.
//
// Reads. What is in the page cache is answered at once, on the calling thread: large ranges as a
// FileRange for sendfile(2), small ones copied with preadv2(RWF_NOWAIT). The rest is read through
// the thread's io_uring into a pool buffer. Writes go to the kernel from the buffers they arrived
// in: on the calling thread while the kernel takes them without delay, through io_uring when it
// has begun to throttle (throttle.h), so that one slow disk does not stop a thread's connections.
// Bytes that were left in the kernel go to the page cache with splice(2), on the calling thread; in
// direct mode and while the kernel throttles they are taken into memory first.
//
// Direct mode opens files with O_DIRECT as well. Reads always go that way, in whole blocks; writes
// do when they cover whole blocks, otherwise through the page cache.
//
// Durability: see store_directory.h for the verifier over a crash, object_file.h for syncs. When a
// sync fails, data that was answered as written may be lost, of this or any slot's writes: the
// verifier changes, the commit fails, and clients write again.
//
// Threading: operations from any thread that has an IoRing bound; completions run on that thread.
// open() and close() from one thread. The buffer pool outlives the store.
//
// Invariants:
//  1. A write's verifier is sampled before its bytes go to the kernel, a commit's after its sync.
//     A loss in between therefore always shows as a difference.
//  2. An error of a write, of its sync or of its directory entry is never swallowed: it reaches
//     the operation that caused it, or, found by a later sync, all clients through the verifier.
//  3. Once it has handed out a descriptor to write by, the store does not know what was written:
//     each commit syncs, and the store is not left clean, so that the next has another verifier.
//  4. Descriptors: what is unsynced or in use stays open, beyond max_open_files, but for what a
//     sync has failed of: that is closed, and synced when it is next committed. When half as many
//     again are open, or the process has no descriptor left, opening waits until files that nobody
//     uses are synced and closed. That the process is short of something is kBusy, never kIo.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dataserver/ring/io_ring.h"
#include "dataserver/store/faults.h"
#include "dataserver/store/object_files.h"
#include "dataserver/store/page_cache.h"
#include "dataserver/store/removals.h"
#include "dataserver/store/store.h"
#include "dataserver/store/store_directory.h"
#include "dataserver/store/throttle.h"

namespace weft::ds {

enum class IoMode : std::uint8_t { kBuffered, kDirect };

struct FileStoreOptions {
  std::string path;
  bool create = true;  // format a store where there is none
  IoMode mode = IoMode::kBuffered;
  std::size_t max_open_files = 4096;
  // Reads of at least this many bytes are answered as file ranges when they are resident.
  std::size_t zero_copy_min_bytes = kZeroCopyFrom;
  unsigned worker_threads = 2;  // for what io_uring does not do or the kernel would block on
  // For counting the objects before it is open; what is left is counted in the background.
  std::chrono::milliseconds count_wait{200};
  Faults* faults = nullptr;                            // for tests
  std::function<void(unsigned folder)> counting = {};  // for tests; before a folder is counted
  Random* random = &system_random();                   // safe from any thread, as the system's is
};

class FileStore final : public Store {
 public:
  // kBusy when another process has the store; kCorrupt, kNotFound, kIo: see StoreDirectory.
  [[nodiscard]] static Result<std::unique_ptr<FileStore>> open(FileStoreOptions options,
                                                               BufferPool& pool);
  ~FileStore() override;

  // Makes everything stable and marks the store clean. Precondition: no operation is in flight.
  // After it, or an error from it, only destruction.
  [[nodiscard]] Result<> close();

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override;
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void stat(const layout::ObjectId& object, Done<ObjectStat> done) override;
  void next_data(const layout::ObjectId& object, std::uint64_t offset, Done<DataRun> done) override;
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override;
  [[nodiscard]] WriteVerifier verifier() const override { return verifier_.load(); }
  [[nodiscard]] Result<StoreStat> usage() const override;

  // Whether large writes had best come with their bytes still in the kernel.
  [[nodiscard]] bool takes_pipes() const { return options_.mode == IoMode::kBuffered; }
  // For who reads past this store what is in the page cache: a descriptor of the object, for
  // reading only, of which the file is what read() reads, and the file's end the object's.
  // kNotFound: the object is not open just now. kNotSupported: reads have to come this way.
  [[nodiscard]] Result<OwnedFd> reader(const layout::ObjectId& object);
  // For who writes past this store as well: the same, for writing too. From then on commit() syncs
  // whether this store knows of something to sync or not, and what verifier() says does not outlive
  // the process.
  [[nodiscard]] Result<OwnedFd> writer(const layout::ObjectId& object);
  // Somebody who had such descriptors is gone, maybe without a commit: what they wrote is synced,
  // and when that fails, data was lost. verifier() says so before `done` is called.
  void writer_left(Done<void> done);

  // Whether no worker thread has anything to do for an operation. With idle rings, and nobody to
  // start new ones, no operation is in flight.
  [[nodiscard]] bool workers_idle() const { return jobs_.load() == 0; }
  [[nodiscard]] std::size_t open_files() const { return files_.open_count(); }
  // How often an object waited for descriptors that others had.
  [[nodiscard]] std::uint64_t descriptor_waits() const { return descriptor_waits_.load(); }
  [[nodiscard]] StoreDirectory& directory() { return *directory_; }
  [[nodiscard]] const StoreIdentity& identity() const { return directory_->identity(); }

 private:
  using FilePtr = ObjectFiles::FilePtr;
  struct ReadOp;
  struct WriteOp;

  FileStore(FileStoreOptions options, BufferPool& pool, std::unique_ptr<StoreDirectory> directory);

  // What another thread calls, once: it runs `done` on this one.
  template <class T>
  [[nodiscard]] Done<T> back_here(Done<T> done);
  // Runs `work` on a worker thread and `done` with its result back on this one.
  template <class T>
  void on_worker(std::move_only_function<Result<T>()> work, Done<T> done);
  // Finds or opens the object's file; `then` runs on this thread, at once if it is open. kBusy: no
  // descriptor became free in time.
  void with_file(const layout::ObjectId& object, bool create, Done<FilePtr> then);
  struct Opening;
  void open_file(Opening opening);
  // Closes files that nobody uses, and syncs them before if need be, so that others can be opened.
  void make_room(std::move_only_function<void()> then);

  struct Changed;
  void change(const layout::ObjectId& object, bool create,
              std::move_only_function<Result<>(const ObjectFile&)> how, Done<FilePtr> done);
  void change_range(const layout::ObjectId& object, int mode, std::uint64_t offset,
                    std::uint64_t size, Done<void> done);

  [[nodiscard]] Result<OwnedFd> open_again(const layout::ObjectId& object, int access);

  // file_store_read.cc
  void read_file(std::unique_ptr<ReadOp> op);
  void read_past_cache(std::unique_ptr<ReadOp> op);
  [[nodiscard]] Result<> find_memory(ReadOp& op, std::uint64_t first, std::uint64_t last);
  [[nodiscard]] bool read_resident(ReadOp& op);
  void read_ring(std::unique_ptr<ReadOp> op);
  void read_direct(std::unique_ptr<ReadOp> op);
  static void finish_read(std::unique_ptr<ReadOp> op);

  // file_store_write.cc
  void write_file(std::unique_ptr<WriteOp> op);
  void write_spliced(std::unique_ptr<WriteOp> op);
  void write_inline(std::unique_ptr<WriteOp> op);
  void write_ring(std::unique_ptr<WriteOp> op);
  [[nodiscard]] Result<> align_for_direct(WriteOp& op);
  void finish_write(std::unique_ptr<WriteOp> op);
  [[nodiscard]] static bool took(WriteOp& op, long result);
  [[nodiscard]] int write_fault(const WriteOp& op) const;

  // file_store_sync.cc
  void sync(const FilePtr& file, ObjectFile::Waiter waiter);
  void sync_since(std::uint32_t losses, const FilePtr& file, ObjectFile::Waiter waiter);
  void run_sync(FilePtr file);
  [[nodiscard]] Result<> sync_entry(ObjectFile& file);
  void finish_sync(FilePtr file, std::vector<ObjectFile::Waiter> waiters, Result<> result);
  void lost_data(const std::string& what, const Error& error);
  // An I/O error may be one block's, or the disk's: usage() tells which.
  [[nodiscard]] std::unexpected<Error> disk_failed(int err, std::string_view doing);
  [[nodiscard]] Result<> sync_all();
  void sync_for_eviction();

  const FileStoreOptions options_;
  BufferPool& pool_;
  std::unique_ptr<StoreDirectory> directory_;
  ObjectFiles files_;
  std::atomic<WriteVerifier> verifier_;
  Throttle throttle_;
  std::atomic<bool> writers_{false};  // somebody may write past this store, or may have
  std::atomic<std::uint64_t> descriptor_waits_{0};
  std::atomic<std::int64_t> warned_{0};  // of that, in seconds of the steady clock
  std::atomic<std::size_t> jobs_{0};     // of worker threads and timers, until their `done` has run
  bool closed_ = false;
  boost::asio::thread_pool workers_;
  Removals removals_;
};

}  // namespace weft::ds
