// A full file system: the error reaches the writer, whole, and what was there stays.
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

constexpr layout::ObjectId kObject{.fileid = 1, .generation = 1};

// A tmpfs of 12 MiB for the length of a test; needs to be root.
class SmallMount {
 public:
  SmallMount() {
    mounted_ = ::mount("weft-test", folder_.path().c_str(), "tmpfs", 0, "size=12m") == 0;
  }
  ~SmallMount() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
  bool mounted_ = false;
};

TEST_CASE("a full store answers no space, never a short success") {
  const SmallMount mount;
  if (!mount.mounted()) SKIP("mounting a tmpfs needs root");
  FileStoreOptions options;
  options.path = mount.path() + "/store";
  StoreRunner runner(options);
  const std::string megabyte(1 << 20, 'f');
  std::uint64_t whole = 0;
  for (;;) {
    const auto written = runner.write(kObject, whole << 20, megabyte);
    if (!written) {
      CHECK(written.error() == Errc::kNoSpace);
      break;
    }
    CHECK(written->bytes == 1 << 20);
    REQUIRE(++whole < 20);
  }
  CHECK(whole >= 8);
  for (std::uint64_t i = 0; i < whole; ++i) {
    REQUIRE(runner.text(kObject, i << 20, 1 << 20) == megabyte);
  }
  CHECK(runner.store().usage()->free_bytes < 1 << 20);
  // So it is with bytes in a pipe, in the middle of them too.
  const std::string piece(PipedBytes::kMaxPut, 'p');
  std::uint64_t at = std::uint64_t{64} << 20;
  for (int i = 0;; ++i) {
    const auto written = runner.write_piped(kObject, at + 100, piece);
    if (!written) {
      CHECK(written.error() == Errc::kNoSpace);
      break;
    }
    REQUIRE(runner.text(kObject, at + 100, piece.size()) == piece);
    at += piece.size();
    REQUIRE(i < 100);
  }
  REQUIRE(runner.remove(kObject));
  CHECK(runner.write({.fileid = 2, .generation = 1}, 0, megabyte));
}

}  // namespace
}  // namespace weft::ds
