#include "ganesha-fsal/meta/kv/store_space.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace weft::mds {
namespace {

constexpr std::uint64_t kUsualFloor = std::uint64_t{1} << 30;

StoreSpace::Probe free_of(const std::string& folder) {
  return [folder]() -> std::optional<std::uint64_t> {
    struct statvfs space{};
    if (::statvfs(folder.c_str(), &space) != 0) return std::nullopt;
    return std::uint64_t{space.f_bavail} * space.f_frsize;
  };
}

}  // namespace

StoreSpace::StoreSpace(const std::string& folder, std::uint64_t floor_bytes, Probe probe)
    : file_(folder + "/RESERVE"),
      floor_(floor_bytes),
      probe_(probe ? std::move(probe) : free_of(folder)) {
  struct stat file{};
  if (::stat(file_.c_str(), &file) == 0) held_ = static_cast<std::uint64_t>(file.st_blocks) * 512;
}

std::uint64_t StoreSpace::floor_of(std::uint64_t file_system_bytes, std::uint64_t buffer_bytes) {
  return std::min(file_system_bytes / 16, std::max(kUsualFloor, buffer_bytes * kBuffersOfFloor));
}

std::uint64_t StoreSpace::floor_for(const std::string& folder, std::uint64_t buffer_bytes) {
  struct statvfs space{};
  if (::statvfs(folder.c_str(), &space) != 0) {
    const std::string above = std::filesystem::path(folder).parent_path().string();
    if (::statvfs(above.c_str(), &space) != 0) return 0;
  }
  return floor_of(std::uint64_t{space.f_blocks} * space.f_frsize, buffer_bytes);
}

void StoreSpace::make_way() {
  const auto free = probe_();
  if (held_ > 0 && free && *free < floor_ / 8) give_up();
}

void StoreSpace::look(bool needed) {
  const auto probed = probe_();
  if (!probed || floor_ == 0) return;
  const std::uint64_t free = *probed + held_;
  free_ = free;
  const bool full = free < (full_ ? floor_ + floor_ / 8 : floor_);
  if (full != full_.exchange(full)) {
    if (full) {
      spdlog::warn("event=metadata_store_full free_bytes={} floor_bytes={} file_system_of={}", free,
                   floor_, file_);
    } else {
      spdlog::info("event=metadata_store_has_room free_bytes={}", free);
    }
  }
  // One of a store that had a much higher floor is made anew.
  const bool fits = held_ >= reserve_bytes() && held_ / 2 <= reserve_bytes();
  // Last: who sees that the reserve is gone finds the store full.
  if (held_ > 0 && (needed || *probed < floor_ / 8)) {
    give_up();
  } else if (!fits && possible_ && !needed && free >= floor_) {
    take();
  }
}

void StoreSpace::take() {
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const bool taken = ::fallocate(fd, 0, 0, static_cast<off_t>(reserve_bytes())) == 0;
  if (!taken && errno == EOPNOTSUPP) possible_ = false;
  ::close(fd);
  if (!taken) ::unlink(file_.c_str());
  held_ = taken ? reserve_bytes() : 0;
}

void StoreSpace::give_up() {
  if (::unlink(file_.c_str()) != 0 && errno != ENOENT) return;
  spdlog::warn("event=metadata_reserve_given_up bytes={}", held_.load());
  held_ = 0;
}

}  // namespace weft::mds
