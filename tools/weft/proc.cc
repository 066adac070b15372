#include "tools/weft/proc.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft::cli {
namespace {

// Files in /proc have no size; they are read to their end.
Result<std::string> read_all(const char* path) {
  std::ifstream in(path);
  if (!in) return fail_errno(errno, path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return fail(Errc::kIo, path);
  return text;
}

// "mds:/export" -> "/export"; an IPv6 address is in brackets.
std::string export_of(const std::string& device) {
  const auto colon = device.find(":/", device.starts_with('[') ? device.find(']') : 0);
  return colon == std::string::npos ? "/" : device.substr(colon + 1);
}

}  // namespace

Result<std::vector<MountStats>> read_mountstats() {
  auto text = read_all("/proc/self/mountstats");
  if (!text) return pass(text);
  return parse_mountstats(*text);
}

bool layout_driver_loaded() {
  auto modules = read_all("/proc/modules");
  if (!modules || modules->empty()) return true;
  return modules->find("nfs_layout_") != std::string::npos ||
         modules->find("nfsv4 ") == std::string::npos;
}

std::string resolved(const std::string& path) {
  std::error_code error;
  auto real = std::filesystem::canonical(path, error);
  if (error) real = std::filesystem::absolute(path, error);
  return error ? path : real.string();
}

std::string path_in_export(const std::vector<MountStats>& mounts, const std::string& file) {
  const std::string path = resolved(file);
  const MountStats* mount = mount_of(mounts, path);
  if (mount == nullptr) return path;
  const std::string point = mount->mount_point == "/" ? "" : mount->mount_point;
  std::string top = export_of(mount->device);
  while (top.ends_with('/')) top.pop_back();
  const std::string whole = top + path.substr(point.size());
  return whole.empty() ? "/" : whole;
}

}  // namespace weft::cli
