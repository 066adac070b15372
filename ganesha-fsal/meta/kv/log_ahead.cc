#include "ganesha-fsal/meta/kv/log_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/base/mutex.h"

namespace weft::mds {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// What is ahead in one file.
class Ahead {
 public:
  Ahead(int fd, std::size_t bytes) : fd_(fd), bytes_(bytes) {}
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead() { ::close(fd_); }

  // Before so many bytes are appended. Returns true iff extend() is to be called.
  [[nodiscard]] bool about_to_append(std::size_t bytes) {
    const MutexLock lock(mutex_);
    written_.wait(mutex_, [&]() WEFT_REQUIRES(mutex_) {
      return !writing_ || claimed_ + bytes <= zeros_end_;
    });
    claimed_ += bytes;
    if (extends_ || failed_ || ended_ || claimed_ + bytes_ / 2 < zeros_end_) return false;
    extends_ = true;
    return true;
  }
  // When they are.
  void has_appended(std::size_t bytes) { appended_ += bytes; }

  [[nodiscard]] std::uint64_t appended() const { return appended_; }
  [[nodiscard]] bool ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }

  void extend(const std::vector<char>& zeros) {
    std::uint64_t at = 0;
    {
      const MutexLock lock(mutex_);
      if (ended_) return;
      at = std::max(claimed_, zeros_end_);
      // From here until zeros are written, appends stay in front of `at`.
      zeros_end_ = at;
      writing_ = true;
    }
    const bool whole = write_all(at, zeros);
    {
      const MutexLock lock(mutex_);
      if (whole) zeros_end_ = at + zeros.size();
      failed_ = !whole;
      writing_ = false;
      extends_ = false;
      written_.notify_all();
    }
    // So that it is not done by who syncs what is appended.
    if (whole) ::fdatasync(fd_);
  }

  // No more is written; then the file ends at `size`. What comes of it is RocksDB's to look at.
  void end(std::uint64_t size) {
    const MutexLock lock(mutex_);
    written_.wait(mutex_, [&]() WEFT_REQUIRES(mutex_) { return !writing_; });
    if (std::exchange(ended_, true)) return;
    static_cast<void>(::ftruncate(fd_, static_cast<off_t>(size)) == 0);
  }

 private:
  [[nodiscard]] bool write_all(std::uint64_t at, const std::vector<char>& bytes) const {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n =
          ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
      if (n <= 0 && !(n < 0 && errno == EINTR)) return false;
      done += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    }
    return true;
  }

  const int fd_;
  const std::size_t bytes_;
  Mutex mutex_;
  CondVar written_;
  std::atomic<std::uint64_t> appended_{0};
  std::uint64_t claimed_ WEFT_GUARDED_BY(mutex_) = 0;  // by what is appended, or about to be
  std::uint64_t zeros_end_ WEFT_GUARDED_BY(mutex_) = 0;
  bool writing_ WEFT_GUARDED_BY(mutex_) = false;  // zeros, from zeros_end_ on
  bool extends_ WEFT_GUARDED_BY(mutex_) = false;  // or is about to
  bool failed_ WEFT_GUARDED_BY(mutex_) = false;
  bool ended_ WEFT_GUARDED_BY(mutex_) = false;
};

// The thread that writes zeros.
class Extender {
 public:
  explicit Extender(std::size_t bytes) : zeros_(bytes), thread_([this] { run(); }) {}
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;
  ~Extender() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  [[nodiscard]] std::size_t bytes() const { return zeros_.size(); }

  void extend(std::shared_ptr<Ahead> ahead) {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(ahead));
    changed_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::shared_ptr<Ahead> ahead;
      {
        const MutexLock lock(mutex_);
        changed_.wait(mutex_,
                      [this]() WEFT_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        ahead = std::move(queue_.front());
        queue_.pop_front();
      }
      ahead->extend(zeros_);
    }
  }

  const std::vector<char> zeros_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Ahead>> queue_ WEFT_GUARDED_BY(mutex_);
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile>&& base, std::shared_ptr<Ahead> ahead,
          std::shared_ptr<Extender> extender)
      : FSWritableFileOwnerWrapper(std::move(base)),
        ahead_(std::move(ahead)),
        extender_(std::move(extender)) {}
  ~LogFile() override { end(); }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    make_way(data.size());
    return appended(data.size(), FSWritableFileOwnerWrapper::Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    make_way(data.size());
    return appended(data.size(), FSWritableFileOwnerWrapper::Append(data, options, info, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    end();
    return FSWritableFileOwnerWrapper::Close(options, debug);
  }

 private:
  void make_way(std::size_t bytes) {
    if (ahead_->about_to_append(bytes)) extender_->extend(ahead_);
  }
  IOStatus appended(std::size_t bytes, IOStatus status) {
    if (status.ok()) ahead_->has_appended(bytes);
    return status;
  }
  void end() { ahead_->end(GetFileSize({}, nullptr)); }

  const std::shared_ptr<Ahead> ahead_;
  const std::shared_ptr<Extender> extender_;
};

class LogAhead final : public rocksdb::FileSystemWrapper {
 public:
  LogAhead(std::shared_ptr<rocksdb::FileSystem> base, std::size_t bytes)
      : FileSystemWrapper(base), extender_(std::make_shared<Extender>(bytes)) {}
  const char* Name() const override { return "LogAhead"; }

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                           IODebugContext* debug) override {
    auto status = FileSystemWrapper::NewWritableFile(name, options, out, debug);
    if (!status.ok() || !name.ends_with(".log")) return status;
    const int fd = ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return status;
    const auto ahead = std::make_shared<Ahead>(fd, extender_->bytes());
    *out = std::make_unique<LogFile>(std::move(*out), ahead, extender_);
    const MutexLock lock(mutex_);
    std::erase_if(open_, [](const auto& one) { return one.second.expired(); });
    open_.insert_or_assign(name, ahead);
    return status;
  }

  // A checkpoint copies so much of a log. Where something is being appended, zeros would be copied
  // while they are written over, and the copy could have a later record without an earlier one.
  IOStatus GetFileSize(const std::string& name, const IOOptions& options, std::uint64_t* size,
                       IODebugContext* debug) override {
    {
      const MutexLock lock(mutex_);
      const auto found = open_.find(name);
      if (const auto ahead = found != open_.end() ? found->second.lock() : nullptr;
          ahead && !ahead->ended()) {
        *size = ahead->appended();
        return IOStatus::OK();
      }
    }
    return FileSystemWrapper::GetFileSize(name, options, size, debug);
  }

 private:
  const std::shared_ptr<Extender> extender_;
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<Ahead>> open_ WEFT_GUARDED_BY(mutex_);  // by name
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> with_log_ahead(std::shared_ptr<rocksdb::FileSystem> base,
                                                    std::size_t bytes) {
  return std::make_shared<LogAhead>(std::move(base), bytes);
}

}  // namespace weft::mds
