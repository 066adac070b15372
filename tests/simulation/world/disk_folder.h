// A folder in memory for the disks of simulations that run in child processes; gone with it.
//
// Threading: for one thread.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace weft::sim {

class DiskFolder {
 public:
  DiskFolder() : path_("/dev/shm/weft-disks-" + std::to_string(::getpid())) { empty(); }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;
  ~DiskFolder() { remove(); }
  // For the next run.
  void empty() const {
    remove();
    std::filesystem::create_directory(path_);
  }
  [[nodiscard]] std::string disk(unsigned number = 0) const {
    return path_ + "/" + std::to_string(number);
  }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string path_;
};

}  // namespace weft::sim
