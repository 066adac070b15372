#include "dataserver/parity/group_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "dataserver/ring/io_ring.h"
#include "dataserver/store/disk.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr const char* kRecordFile = "parity";
constexpr const char* kLogFile = "parity-log";
constexpr const char* kScrubFile = "parity-scrub";
constexpr std::size_t kMaxRecord = 4096;
constexpr std::size_t kMaxLog = std::size_t{1} << 30;
constexpr std::size_t kMaxBatch = std::size_t{8} << 20;

Result<std::vector<std::byte>> read_if_there(int folder, const char* name, std::size_t max) {
  auto bytes = read_small_file(folder, name, max);
  if (!bytes && bytes.error() == Errc::kNotFound) return std::vector<std::byte>{};
  return bytes;
}

}  // namespace

template <class T, class Work, class Done>
void GroupFolder::run(Work work, Done done) {
  IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr);
  // With the mutex held: whatever is appended from now on comes behind this.
  const MutexLock lock(mutex_);
  open_ = nullptr;
  boost::asio::post(worker_, [ring, work = std::move(work), done = std::move(done)]() mutable {
    Result<T> result = work();
    ring->post([done = std::move(done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
  });
}

Result<> GroupFolder::open_log(bool create) {
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0);
  OwnedFd fd(::openat(folder_, kLogFile, flags, 0600));
  if (!fd) return fail_errno(errno, "open the parity log");
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return fail_errno(errno, "stat the parity log");
  log_ = std::move(fd);
  end_ = static_cast<std::uint64_t>(found.st_size);
  return {};
}

void GroupFolder::load(Loaded done) {
  run<Kept>(
      [this]() -> Result<Kept> {
        auto record = read_if_there(folder_, kRecordFile, kMaxRecord);
        if (!record) return pass(record);
        auto log = read_if_there(folder_, kLogFile, kMaxLog);
        if (!log) return pass(log);
        // Nothing depends on it, so that it is damaged is no reason not to serve.
        auto scrub = read_if_there(folder_, kScrubFile, kMaxRecord);
        if (!scrub) scrub = std::vector<std::byte>{};
        return Kept{std::move(*record), std::move(*log), std::move(*scrub)};
      },
      std::move(done));
}

void GroupFolder::save_record(std::vector<std::byte> bytes, Done done) {
  run<void>([this, bytes = std::move(bytes)] { return replace_file(folder_, kRecordFile, bytes); },
            std::move(done));
}

void GroupFolder::save_scrub(std::vector<std::byte> bytes, Done done) {
  run<void>([this, bytes = std::move(bytes)] { return replace_file(folder_, kScrubFile, bytes); },
            std::move(done));
}

void GroupFolder::replace_log(std::vector<std::byte> bytes, Done done) {
  run<void>(
      [this, bytes = std::move(bytes)]() -> Result<> {
        log_ = OwnedFd();
        if (auto replaced = replace_file(folder_, kLogFile, bytes); !replaced) return replaced;
        return open_log(false);
      },
      std::move(done));
}

void GroupFolder::append(std::vector<std::byte> bytes, bool sync, Done done) {
  IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr);
  const MutexLock lock(mutex_);
  const bool joins = open_ != nullptr && open_->bytes.size() + bytes.size() <= kMaxBatch;
  if (!joins) open_ = std::make_shared<Batch>();
  if (open_->bytes.empty()) {
    open_->bytes = std::move(bytes);
  } else {
    open_->bytes.insert(open_->bytes.end(), bytes.begin(), bytes.end());
  }
  open_->sync = open_->sync || sync;
  open_->done.emplace_back(ring, std::move(done));
  if (!joins) boost::asio::post(worker_, [this, batch = open_] { write_batch(batch); });
}

void GroupFolder::write_batch(const std::shared_ptr<Batch>& batch) {
  {
    const MutexLock lock(mutex_);
    if (open_ == batch) open_ = nullptr;
  }
  const Result<> result = put(*batch);
  for (auto& [ring, one] : batch->done) {
    ring->post([done = std::move(one), result]() mutable { done(result); });
  }
}

// What does not get there whole is written over by the next.
Result<> GroupFolder::put(const Batch& batch) {
  if (!log_) {
    if (auto opened = open_log(true); !opened) return opened;
  }
  if (auto written = write_fully(log_.get(), batch.bytes, end_); !written) return written;
  if (batch.sync) {
    syncs_.fetch_add(1);
    if (::fdatasync(log_.get()) != 0) return fail_errno(errno, "sync the parity log");
  }
  end_ += batch.bytes.size();
  return {};
}

}  // namespace weft::ds
