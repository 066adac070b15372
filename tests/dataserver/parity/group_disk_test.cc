#include "dataserver/parity/group_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/dataserver/io_thread.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Rig {
  Rig()
      : folder(::open(temp.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        disk(folder.get()) {}
  GroupDisk::Done counted() {
    return [this](const Result<>& result) {
      CHECK(result);
      ++done;
    };
  }
  void append(const std::string& text, bool sync = true) {
    disk.append(bytes_of(text), sync, counted());
  }
  [[nodiscard]] std::string log() const { return text_of(temp.path() + "/parity-log"); }
  test::TempFolder temp;
  test::IoThread thread;
  OwnedFd folder;
  GroupFolder disk;
  int done = 0;
};

// Keeps the disk's thread busy until it goes: reading a record from a pipe.
struct Held {
  explicit Held(Rig& rig) : path(rig.temp.path() + "/parity") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    rig.disk.load([&rig](const Result<GroupDisk::Kept>&) { ++rig.done; });
  }
  void release() const {
    const OwnedFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(writer);
  }
  std::string path;
};

TEST_CASE("appends that wait are one write and one sync") {
  Rig rig;
  const Held held(rig);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string text = "frame " + std::to_string(i) + "\n";
    rig.append(text, i % 3 == 0);
    all += text;
  }
  held.release();
  REQUIRE(rig.thread.run_until([&] { return rig.done == 101; }));
  CHECK(rig.log() == all);
  CHECK(rig.disk.syncs() == 1);
  rig.append("last");
  REQUIRE(rig.thread.run_until([&] { return rig.done == 102; }));
  CHECK(rig.log() == all + "last");
  CHECK(rig.disk.syncs() == 2);
}

TEST_CASE("what is appended behind a new log is in it") {
  Rig rig;
  const Held held(rig);
  rig.append("old");
  rig.disk.replace_log(bytes_of("new,"), rig.counted());
  rig.append("a");
  rig.append("b", false);
  rig.disk.save_scrub(bytes_of("scrub"), rig.counted());
  rig.append("c");
  held.release();
  REQUIRE(rig.thread.run_until([&] { return rig.done == 7; }));
  CHECK(rig.log() == "new,abc");
}

}  // namespace
}  // namespace weft::ds
