// Zeros ahead of what is in the metadata store's log.
#include "ganesha-fsal/meta/kv/log_ahead.h"

#include <rocksdb/file_system.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// Files that call this before they append.
class Watched final : public rocksdb::FileSystemWrapper {
 public:
  using Look = std::function<void()>;
  explicit Watched(Look look)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), look_(std::move(look)) {}
  const char* Name() const override { return "Watched"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* out,
                                    rocksdb::IODebugContext* debug) override {
    auto status = FileSystemWrapper::NewWritableFile(name, options, out, debug);
    if (status.ok()) *out = std::make_unique<File>(std::move(*out), look_);
    return status;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& base, Look look)
        : FSWritableFileOwnerWrapper(std::move(base)), look_(std::move(look)) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      look_();
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }

   private:
    const Look look_;
  };
  const Look look_;
};

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

TEST_CASE("what is still being appended to a log is not said to be in it") {
  const TempFolder folder;
  const std::string path = folder.path("000001.log");
  std::shared_ptr<rocksdb::FileSystem> files;
  std::vector<std::uint64_t> sizes;
  const auto look = [&] {
    std::uint64_t bytes = 0;
    REQUIRE(files->GetFileSize(path, {}, &bytes, nullptr).ok());
    sizes.push_back(bytes);
  };
  files = with_log_ahead(std::make_shared<Watched>(look), kAhead);
  const auto file = make(*files, path);
  for (int i = 0; i < 3; ++i) REQUIRE(file->Append("record", {}, nullptr).ok());
  CHECK(sizes == std::vector<std::uint64_t>{0, 6, 12});
}
