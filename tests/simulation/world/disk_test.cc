// What a disk keeps when power fails, and what else it does.
#include "tests/simulation/world/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <set>
#include <thread>

#include "tests/simulation/world/disk_folder.h"
#include "tests/simulation/world/fork.h"

namespace weft::sim {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{64} << 20;
constexpr int kNew = O_RDWR | O_CREAT | O_CLOEXEC;

void write_file(const std::string& path, const std::string& text, bool sync, int flags = kNew) {
  const int fd = ::open(path.c_str(), flags, 0600);
  SIM_CHECK(fd >= 0);
  SIM_CHECK(::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  if (sync) SIM_CHECK(::fdatasync(fd) == 0);
  ::close(fd);
}
std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(none)";
}

// Runs the body once a seed and collects what it says it has found.
template <class Body>
std::set<std::string> outcomes(int seeds, Body body) {
  const DiskFolder folder;
  std::set<std::string> found;
  for (int seed = 1; seed <= seeds; ++seed) {
    folder.empty();
    const std::string result = folder.disk() + ".result";
    const Outcome outcome = in_simulation(static_cast<std::uint64_t>(seed), [&] {
      const unsigned disk = disk::make(folder.disk(), kCapacity);
      std::ofstream(result) << body(disk);
    });
    INFO("seed " << seed);
    CHECK(outcome.status == 0);
    found.insert(read_file(result));
  }
  return found;
}
using Found = std::set<std::string>;

TEST_CASE("what was synced survives a power failure, names with it") {
  CHECK(outcomes(30, [](unsigned disk) {
          const std::string old = disk::path(disk);
          SIM_CHECK(::mkdir((old + "/a").c_str(), 0700) == 0);
          write_file(old + "/a/b", std::string(10'000, 'x'), true);
          const std::string now = disk::lose_power(disk);
          SIM_CHECK(now != old);
          return read_file(now + "/a/b") == std::string(10'000, 'x') ? "kept" : "lost";
        }) == Found{"kept"});
}

TEST_CASE("what was not synced may be there, in part, or not at all") {
  const auto found = outcomes(60, [](unsigned disk) {
    write_file(disk::path(disk) + "/f", std::string(4'000, 'x'), false);
    const std::string text = read_file(disk::lose_power(disk) + "/f");
    if (text == "(none)") return "none";
    SIM_CHECK(text == std::string(text.size(), 'x'));  // appended in order: no holes
    return text.empty() ? "empty" : text.size() == 4'000 ? "all" : "some";
  });
  CHECK(found == Found{"none", "empty", "some", "all"});
}

TEST_CASE("overwritten sectors are old or new, each by itself") {
  const auto found = outcomes(200, [](unsigned disk) {
    const std::string path = disk::path(disk) + "/f";
    write_file(path, std::string(2'048, 'a'), true);
    write_file(path, std::string(1'300, 'b'), false);
    const std::string text = read_file(disk::lose_power(disk) + "/f");
    SIM_CHECK(text.size() == 2'048);
    std::string sectors;
    for (int i = 0; i < 4; ++i) sectors += text[static_cast<std::size_t>(i) * 512];
    SIM_CHECK(text[1'299] == text[1'024] && text[1'300] == 'a');
    return sectors;
  });
  CHECK(found.contains("aaaa"));
  CHECK(found.contains("bbba"));
  CHECK(found.contains("abaa"));
  CHECK(found.size() == 8);
}

TEST_CASE("a rename without a sync of what is renamed can leave an empty file") {
  const auto found = outcomes(100, [](unsigned disk) {
    const std::string folder = disk::path(disk);
    write_file(folder + "/f", "old", true);
    write_file(folder + "/f.new", "new", false);
    SIM_CHECK(::rename((folder + "/f.new").c_str(), (folder + "/f").c_str()) == 0);
    return read_file(disk::lose_power(disk) + "/f");
  });
  CHECK(found.contains("old"));
  CHECK(found.contains("new"));
  CHECK(found.contains(""));
}

TEST_CASE("a rename of what was synced leaves the old file or the new one") {
  CHECK(outcomes(60, [](unsigned disk) {
          const std::string folder = disk::path(disk);
          write_file(folder + "/f", "old", true);
          write_file(folder + "/f.new", "new", true);
          SIM_CHECK(::rename((folder + "/f.new").c_str(), (folder + "/f").c_str()) == 0);
          return read_file(disk::lose_power(disk) + "/f");
        }) == Found{"old", "new"});
}

TEST_CASE("changes of folders become durable in their order") {
  const auto found = outcomes(100, [](unsigned disk) {
    const std::string folder = disk::path(disk);
    for (const char* name : {"/1", "/2", "/3"}) SIM_CHECK(::mkdir((folder + name).c_str(), 0) == 0);
    SIM_CHECK(::rmdir((folder + "/1").c_str()) == 0);
    const std::string now = disk::lose_power(disk);
    std::string names;
    for (const char* name : {"/1", "/2", "/3"}) {
      struct stat is{};
      if (::stat((now + name).c_str(), &is) == 0) names += name;
    }
    return names;
  });
  CHECK(found == Found{"", "/1", "/1/2", "/1/2/3", "/2/3"});
}

TEST_CASE("a sync of a folder makes removals durable, one of a file's data does not") {
  const auto remove = [](unsigned disk, bool folder_too) {
    const std::string folder = disk::path(disk);
    write_file(folder + "/f", "text", true);
    write_file(folder + "/g", "text", true);
    SIM_CHECK(::unlink((folder + "/f").c_str()) == 0);
    write_file(folder + "/g", "else", true);
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_too) SIM_CHECK(::fsync(fd) == 0);
    const std::string now = disk::lose_power(disk);
    SIM_CHECK(read_file(now + "/g") == "else");
    return read_file(now + "/f");
  };
  CHECK(outcomes(30, [&](unsigned disk) { return remove(disk, true); }) == Found{"(none)"});
  CHECK(outcomes(60, [&](unsigned disk) { return remove(disk, false); }) ==
        Found{"(none)", "text"});
}

TEST_CASE("a file that is shortened and written again is the old one or begins anew") {
  const auto found = outcomes(100, [](unsigned disk) {
    const std::string path = disk::path(disk) + "/f";
    write_file(path, std::string(5'000, 'a'), true);
    write_file(path, std::string(3'000, 'b'), false, kNew | O_TRUNC);
    const std::string text = read_file(disk::lose_power(disk) + "/f");
    if (text == std::string(5'000, 'a')) return "old";
    SIM_CHECK(text.size() <= 3'000 && text == std::string(text.size(), 'b'));
    return "new";
  });
  CHECK(found == Found{"old", "new"});
}

TEST_CASE("syncfs makes everything durable; a process that dies loses nothing") {
  CHECK(outcomes(20, [](unsigned disk) {
          write_file(disk::path(disk) + "/f", "text", false);
          const int fd = ::open(disk::path(disk).c_str(), O_RDONLY | O_CLOEXEC);
          SIM_CHECK(::syncfs(fd) == 0);
          return read_file(disk::lose_power(disk) + "/f");
        }) == Found{"text"});
  CHECK(outcomes(20, [](unsigned disk) {
          write_file(disk::path(disk) + "/f", "text", false);
          disk::keep_all(disk);
          return read_file(disk::lose_power(disk) + "/f");
        }) == Found{"text"});
}

TEST_CASE("what is done below the old folder after a power failure is gone") {
  CHECK(outcomes(20, [](unsigned disk) {
          const std::string old = disk::path(disk);
          const int fd = ::open((old + "/f").c_str(), kNew, 0600);
          SIM_CHECK(::fsync(fd) == 0);
          disk::lose_power(disk);
          SIM_CHECK(::pwrite(fd, "late", 4, 0) == 4 && ::fsync(fd) == 0);
          write_file(old + "/g", "late", true);
          const std::string now = disk::lose_power(disk);
          return read_file(now + "/f") + read_file(now + "/g");
        }) == Found{"(none)"});
}

TEST_CASE("after a sync that failed, a good one does not bring back what was given up") {
  const auto found = outcomes(60, [](unsigned disk) {
    const std::string path = disk::path(disk) + "/f";
    write_file(path, "old", true);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    SIM_CHECK(::pwrite(fd, "new", 3, 0) == 3);
    disk::behave(disk, {.errors_in_million = 1'000'000});
    SIM_CHECK(::fdatasync(fd) == -1 && errno == EIO);
    disk::behave(disk, {});
    SIM_CHECK(::fdatasync(fd) == 0);
    SIM_CHECK(read_file(path) == "new");
    return read_file(disk::lose_power(disk) + "/f");
  });
  CHECK(found == Found{"old", "new"});
}

TEST_CASE("what a failed sync gave up is seen once it is not in memory any more") {
  const auto found = outcomes(60, [](unsigned disk) {
    const std::string path = disk::path(disk) + "/f";
    write_file(path, "old", true);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    SIM_CHECK(::pwrite(fd, "new", 3, 0) == 3);
    SIM_CHECK(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    SIM_CHECK(read_file(path) == "new");  // dirty
    disk::behave(disk, {.errors_in_million = 1'000'000});
    SIM_CHECK(::fdatasync(fd) == -1 && errno == EIO);
    disk::behave(disk, {});
    if (choose(2) == 0) {
      SIM_CHECK(::pwrite(fd, "more", 4, 2'000) == 4);  // the page is dirty again, all of it
      SIM_CHECK(::fdatasync(fd) == 0);
      SIM_CHECK(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
      SIM_CHECK(read_file(path).starts_with("new"));
      return "written again: " + read_file(disk::lose_power(disk) + "/f").substr(0, 3);
    }
    SIM_CHECK(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    const std::string seen = read_file(path);
    return seen + ", then " + read_file(disk::lose_power(disk) + "/f");
  });
  CHECK(found == Found{"old, then old", "new, then new", "written again: new"});
}

TEST_CASE("a disk has room for what its capacity says, and gets it back") {
  CHECK(outcomes(5, [](unsigned disk) {
          const std::string path = disk::path(disk) + "/f";
          const int fd = ::open(path.c_str(), kNew, 0600);
          SIM_CHECK(::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, off_t{60} << 20) == 0);
          const int other = ::open((path + "2").c_str(), kNew, 0600);
          const std::string much(8 << 20, 'x');
          SIM_CHECK(::pwrite(other, much.data(), much.size(), 0) == -1 && errno == ENOSPC);
          struct statvfs space{};
          SIM_CHECK(::fstatvfs(fd, &space) == 0 && space.f_bavail * space.f_bsize < (4 << 20));
          SIM_CHECK(::pwrite(fd, much.data(), much.size(), 0) == 8 << 20);
          ::close(fd);
          SIM_CHECK(::unlink(path.c_str()) == 0);
          const int folder = ::open(disk::path(disk).c_str(), O_RDONLY | O_CLOEXEC);
          SIM_CHECK(::fsync(folder) == 0);
          SIM_CHECK(::pwrite(other, much.data(), much.size(), 0) == 8 << 20);
          disk::behave(disk, {.full = true});
          SIM_CHECK(::pwrite(other, "y", 1, 0) == 1);  // is there already
          SIM_CHECK(::pwrite(other, "y", 1, 9 << 20) == -1 && errno == ENOSPC);
          return "";
        }) == Found{""});
}

TEST_CASE("what needs a stuck disk comes back when it is not stuck any more") {
  CHECK(outcomes(20, [](unsigned disk) {
          const int fd = ::open((disk::path(disk) + "/f").c_str(), kNew, 0600);
          disk::behave(disk, {.stuck = true});
          bool done = false;
          std::thread stuck([&] { done = ::fsync(fd) == 0; });
          std::this_thread::sleep_for(std::chrono::seconds(100));
          SIM_CHECK(!done);
          disk::behave(disk, {});
          stuck.join();
          SIM_CHECK(done);
          return "";
        }) == Found{""});
}

TEST_CASE("links, renames and numbers are those of the programs") {
  CHECK(outcomes(5, [](unsigned disk) {
          const std::string folder = disk::path(disk);
          write_file(folder + "/f", "text", true);
          const int fd = ::open((folder + "/f").c_str(), O_RDONLY | O_CLOEXEC);
          struct stat is{};
          SIM_CHECK(::fstat(fd, &is) == 0 && is.st_nlink == 1);
          SIM_CHECK(::link((folder + "/f").c_str(), (folder + "/g").c_str()) == 0);
          SIM_CHECK(::fstat(fd, &is) == 0 && is.st_nlink == 2);
          SIM_CHECK(::unlink((folder + "/f").c_str()) == 0);
          SIM_CHECK(::remove((folder + "/g").c_str()) == 0);
          SIM_CHECK(::fstat(fd, &is) == 0 && is.st_nlink == 0);
          return std::to_string(is.st_ino);
        }).size() == 1);
}

}  // namespace
}  // namespace weft::sim
