// Zeros ahead of what is in the metadata store's log.
#include "ganesha-fsal/meta/kv/log_ahead.h"

#include <rocksdb/file_system.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/ganesha-fsal/meta/meta_fixture.h"
#include "tests/rpc/eventually.h"

using namespace weft;
using namespace weft::mds;
using weft::rpc::test::eventually;

namespace {

constexpr std::size_t kAhead = 8192;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<rocksdb::FSWritableFile> make(rocksdb::FileSystem& files, const std::string& path) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  REQUIRE(files.NewWritableFile(path, {}, &file, nullptr).ok());
  return file;
}

}  // namespace

TEST_CASE("a log is longer than what is in it, until it is closed") {
  const TempFolder folder;
  const std::string path = folder.path("000001.log");
  const auto files = with_log_ahead(rocksdb::FileSystem::Default(), kAhead);
  const auto file = make(*files, path);
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    const std::string piece(static_cast<std::size_t>(i % 57 + 1), static_cast<char>('a' + i % 26));
    REQUIRE(file->Append(piece, {}, nullptr).ok());
    all += piece;
    const auto now = content(path);
    REQUIRE(now.substr(0, all.size()) == all);
    REQUIRE(now.find_first_not_of('\0', all.size()) == std::string::npos);
  }
  CHECK(eventually([&] { return content(path).size() >= all.size() + kAhead / 2; }));
  REQUIRE(file->Close({}, nullptr).ok());
  CHECK(content(path) == all);
}

TEST_CASE("a piece longer than what is ahead is whole") {
  const TempFolder folder;
  const std::string path = folder.path("000001.log");
  const auto files = with_log_ahead(rocksdb::FileSystem::Default(), kAhead);
  const auto file = make(*files, path);
  std::string all;
  for (int i = 0; i < 200; ++i) {
    const std::string piece(3 * kAhead, static_cast<char>('a' + i % 26));
    REQUIRE(file->Append(piece, {}, nullptr).ok());
    all += piece;
  }
  CHECK(content(path).substr(0, all.size()) == all);
  REQUIRE(file->Close({}, nullptr).ok());
  CHECK(content(path) == all);
}

TEST_CASE("a log is said to be as long as what is in it, so that a copy of it ends there") {
  const TempFolder folder;
  const std::string path = folder.path("000001.log");
  const auto files = with_log_ahead(rocksdb::FileSystem::Default(), kAhead);
  const auto size = [&] {
    std::uint64_t bytes = 0;
    REQUIRE(files->GetFileSize(path, {}, &bytes, nullptr).ok());
    return bytes;
  };
  {
    const auto file = make(*files, path);
    CHECK(size() == 0);
    REQUIRE(file->Append("record", {}, nullptr).ok());
    CHECK(eventually([&] { return content(path).size() >= kAhead; }));
    CHECK(size() == 6);
  }
  CHECK(size() == 6);
  std::filesystem::resize_file(path, 3);  // it is nobody's any more
  CHECK(size() == 3);
}

TEST_CASE("only logs are longer") {
  const TempFolder folder;
  const std::string path = folder.path("000001.sst");
  const auto files = with_log_ahead(rocksdb::FileSystem::Default(), kAhead);
  const auto file = make(*files, path);
  REQUIRE(file->Append("table", {}, nullptr).ok());
  REQUIRE(file->Flush({}, nullptr).ok());
  CHECK(content(path) == "table");
}

TEST_CASE("a file that goes without being closed has no zeros either") {
  const TempFolder folder;
  const std::string path = folder.path("000001.log");
  {
    const auto files = with_log_ahead(rocksdb::FileSystem::Default(), kAhead);
    const auto file = make(*files, path);
    REQUIRE(file->Append("record", {}, nullptr).ok());
  }
  CHECK(content(path) == "record");
}
