// What a parity group keeps at the data server itself: its record, its log, and how far a scrub is.
//
// Threading: load() from the thread that opens; the rest from any I/O thread, with the completion
// on that thread. Operations are carried out one after the other, in the order they were started;
// appends that wait one behind the other are one write and one sync.
//
// Ownership: outlives the store that uses it.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class IoRing;

class GroupDisk {
 public:
  using Done = std::move_only_function<void(Result<>)>;
  struct Kept {
    std::vector<std::byte> record;  // empty: there is none
    std::vector<std::byte> log;     // likewise
    std::vector<std::byte> scrub;   // likewise
  };
  using Loaded = std::move_only_function<void(Result<Kept>)>;

  GroupDisk() = default;
  GroupDisk(const GroupDisk&) = delete;
  GroupDisk& operator=(const GroupDisk&) = delete;
  virtual ~GroupDisk() = default;

  virtual void load(Loaded done) = 0;
  // All or nothing, durably.
  virtual void save_record(std::vector<std::byte> bytes, Done done) = 0;
  virtual void save_scrub(std::vector<std::byte> bytes, Done done) = 0;
  virtual void replace_log(std::vector<std::byte> bytes, Done done) = 0;
  // At the log's end; durable when done, unless not `sync`.
  virtual void append(std::vector<std::byte> bytes, bool sync, Done done) = 0;
};

// In files of a folder: `parity`, `parity-log` and `parity-scrub`.
class GroupFolder final : public GroupDisk {
 public:
  explicit GroupFolder(int folder) : folder_(folder) {}
  ~GroupFolder() override { worker_.join(); }
  void load(Loaded done) override;
  void save_record(std::vector<std::byte> bytes, Done done) override;
  void save_scrub(std::vector<std::byte> bytes, Done done) override;
  void replace_log(std::vector<std::byte> bytes, Done done) override;
  void append(std::vector<std::byte> bytes, bool sync, Done done) override;
  // Syncs for appends, so far. Any thread.
  [[nodiscard]] std::uint64_t syncs() const { return syncs_.load(); }

 private:
  // Appends that nothing came between.
  struct Batch {
    std::vector<std::byte> bytes;
    bool sync = false;
    std::vector<std::pair<IoRing*, Done>> done;
  };

  template <class T, class Work, class Done>
  void run(Work work, Done done);
  [[nodiscard]] Result<> open_log(bool create);
  void write_batch(const std::shared_ptr<Batch>& batch);
  [[nodiscard]] Result<> put(const Batch& batch);

  const int folder_;
  std::atomic<std::uint64_t> syncs_{0};
  Mutex mutex_;
  // The last that was started, while the worker has not begun it: others may join it.
  std::shared_ptr<Batch> open_ WEFT_GUARDED_BY(mutex_);
  // The rest belongs to the worker.
  OwnedFd log_;
  std::uint64_t end_ = 0;
  boost::asio::thread_pool worker_{1};
};

}  // namespace weft::ds
