#include "dataserver/store/disk_watch.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "dataserver/store/disk.h"

namespace weft::ds {

namespace {

constexpr const char* kProbeFile = "probe";
constexpr std::size_t kProbeBytes = 4096;
constexpr std::chrono::seconds kProbeEvery{1};
constexpr std::chrono::seconds kProbeLimit{30};

}  // namespace

DiskWatch::~DiskWatch() {
  if (thread_ != nullptr) thread_->join();
}

void DiskWatch::failed(Error why) {
  const MutexLock lock(mutex_);
  // A probe that has begun may have written before the failure.
  if (!probing_) began_ = {};
  if (last_) spdlog::error("event=disk_fails error=\"{}\"", why.describe());
  last_ = std::unexpected(std::move(why));
  doubted_.store(true);
}

Result<> DiskWatch::check() {
  struct statvfs found{};
  if (::fstatvfs(folder_, &found) != 0) return fail_file(errno, "statvfs of the store's folder");
  if ((found.f_flag & ST_RDONLY) != 0) {
    doubt();  // what was refused meanwhile is told when it can be written again
    return fail(Errc::kReadOnly, "the file system of its folder is read-only");
  }
  const MutexLock lock(mutex_);
  const auto now = clock_.now();
  if (probing_) {
    if (last_ && now - began_ > kProbeLimit) {
      return fail(Errc::kTimedOut, "the disk of its folder does not answer");
    }
    return last_;
  }
  if (!doubted_.load() || now - began_ < kProbeEvery) return last_;
  probing_ = true;
  began_ = now;
  doubted_.store(false);
  if (thread_ == nullptr) thread_ = std::make_unique<boost::asio::thread_pool>(1);
  boost::asio::post(*thread_, [this] { probe(); });
  return last_;
}

void DiskWatch::probe() {
  Result<> written = write_probe();
  // A full disk has written what it has; and without a descriptor nothing is known.
  const bool unknown = !written && written.error() == Errc::kBusy;
  if (!written && (written.error() == Errc::kNoSpace || written.error() == Errc::kQuota)) {
    written = {};
  }
  const MutexLock lock(mutex_);
  probing_ = false;
  if (unknown || !written) doubted_.store(true);
  if (unknown) return;
  if (written.has_value() != last_.has_value()) {
    spdlog::warn("event=disk_probe good={} error=\"{}\"", written.has_value(),
                 written ? "" : written.error().describe());
  }
  last_ = std::move(written);
}

Result<> DiskWatch::write_probe() const {
  const OwnedFd file(::openat(folder_, kProbeFile, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return fail_file(errno, "open the probe of its folder");
  const std::array<std::byte, kProbeBytes> zeros{};
  if (auto written = write_fully(file.get(), zeros, 0); !written) {
    return fail(written.error().code, "the disk of its folder fails: " + written.error().text);
  }
  if (::fsync(file.get()) != 0) return fail_file(errno, "the disk of its folder fails: fsync");
  return {};
}

}  // namespace weft::ds
