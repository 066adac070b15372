#include "dataserver/store/store_directory.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "dataserver/store/disk.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::TempFolder;

// Opens a store with randomness of its own.
Result<std::unique_ptr<StoreDirectory>> open_store(const std::string& path, bool create,
                                                   std::uint64_t seed) {
  SeededRandom random(seed);
  return StoreDirectory::open(path, create, random);
}

TEST_CASE("an identity reads back as written, and nothing else is one") {
  StoreIdentity identity{.ds_id = 7};
  for (std::size_t i = 0; i < 16; ++i) identity.uuid[i] = static_cast<std::byte>(i * 17);
  const std::string text = format_identity(identity);
  CHECK(parse_identity(text) == identity);
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    CHECK_FALSE(parse_identity(text.substr(0, cut)).has_value());
  }
  CHECK_FALSE(parse_identity(text + "x").has_value());
  for (const char format : {'0', '5'}) {
    std::string other = text;
    other[other.find('1')] = format;
    CHECK(parse_identity(other).error() == Errc::kNotSupported);
  }
  identity.segments = true;
  CHECK(format_identity(identity).starts_with("weft store 2\n"));
  CHECK(parse_identity(format_identity(identity)) == identity);
}

TEST_CASE("a small file takes the memory of its size, not of what it may have") {
  const TempFolder folder;
  std::ofstream(folder.path() + "/log") << "seven b";
  const OwnedFd directory = open_directory(folder.path()).value();
  const auto bytes = read_small_file(directory.get(), "log", std::size_t{1} << 30).value();
  CHECK(bytes.size() == 7);
  CHECK(bytes.capacity() < 4096);
  CHECK(read_small_file(directory.get(), "log", 7).has_value());
  CHECK(read_small_file(directory.get(), "log", 6).error() == Errc::kTooLarge);
  CHECK(read_small_file(directory.get(), "none", 7).error() == Errc::kNotFound);
}

TEST_CASE("a store is formatted once and keeps its identity and data server id") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  const auto refused = [&](const std::string& at, bool create) {
    const auto opened = open_store(at, create, 1);
    CHECK(opened.error() == Errc::kNotFound);
    return opened.error().text;
  };
  const std::string none =
      " holds no store (is its disk mounted?), and store.create does not allow to make one";
  CHECK(refused(path, false) == path + none);
  CHECK(refused(folder.path(), false) == folder.path() + none);
  CHECK(std::filesystem::is_empty(folder.path()));  // a disk may be mounted over it
  CHECK(refused(path + "/a", true) ==
        path + "/a: the folder that it is to be made in is not there");
  StoreIdentity identity;
  {
    auto store = open_store(path, true, 1).value();
    REQUIRE(store->join({std::byte{9}}, 12));
    identity = store->identity();
    CHECK(identity.ds_id == 12);
  }
  CHECK(open_store(path, false, 9).value()->identity() == identity);
}

TEST_CASE("that a store has segments stays until it has none, whatever system it joins") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  {
    auto store = open_store(path, true, 1).value();
    CHECK_FALSE(store->identity().segments);
    REQUIRE(store->mark_segments(true));
    REQUIRE(store->join({std::byte{9}}, 12));
  }
  {
    auto store = open_store(path, false, 1).value();
    CHECK(store->identity().segments);
    REQUIRE(store->mark_segments(false));
  }
  const auto store = open_store(path, false, 1).value();
  CHECK_FALSE(store->identity().segments);
  CHECK(store->identity().ds_id == 12);
}

TEST_CASE("that a store has checksums stays until it has none, whether it has segments or not") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  const auto reopened = [&] { return open_store(path, true, 1).value()->identity(); };
  for (const bool segments : {false, true}) {
    for (const bool checksums : {false, true}) {
      {
        auto store = open_store(path, true, 1).value();
        REQUIRE(store->mark_segments(segments));
        REQUIRE(store->mark_checksums(checksums));
      }
      CHECK(reopened().segments == segments);
      CHECK(reopened().checksums == checksums);
    }
  }
  const std::string text = format_identity(reopened());
  CHECK(text.starts_with("weft store 4\n"));
  CHECK(parse_identity("weft store 5\n" + text.substr(text.find('\n') + 1)).error() ==
        Errc::kNotSupported);
}

TEST_CASE("two openers of one store: the second is refused") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  const auto store = open_store(path, true, 1).value();
  CHECK(open_store(path, true, 1).error() == Errc::kBusy);
}

TEST_CASE("the verifier lives through a clean close and only through that") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  WriteVerifier first = 0;
  {
    auto store = open_store(path, true, 100).value();
    first = store->verifier();
    REQUIRE(store->close_clean(first));
  }
  {
    auto store = open_store(path, true, 200).value();
    CHECK(store->was_clean());
    CHECK(store->verifier() == first);
  }  // not closed: as if it had died
  auto store = open_store(path, true, 300).value();
  CHECK_FALSE(store->was_clean());
  CHECK(store->verifier() == SeededRandom(300).u64());
}

TEST_CASE("a format cut short is begun again, but objects without an identity are refused") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  std::filesystem::create_directories(path + "/objects/000");
  {
    CHECK(open_store(path, true, 1).has_value());
  }
  std::filesystem::remove(path + "/identity");
  std::ofstream(path + "/objects/000/3.0000000000000001.1") << "x";
  CHECK(open_store(path, true, 1).error() == Errc::kCorrupt);
}

TEST_CASE("a folder of somebody else's that has objects is no store to be made") {
  const TempFolder folder;
  const std::string path = folder.path() + "/x.git";
  std::filesystem::create_directories(path + "/objects/pack");
  CHECK(open_store(path, true, 1).error() == Errc::kCorrupt);
  CHECK_FALSE(std::filesystem::exists(path + "/objects/000"));
}

}  // namespace
}  // namespace weft::ds
