#include "dataserver/store/store_directory.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::TempFolder;

Random counting_from(std::uint64_t first) {
  return [next = first]() mutable { return next++; };
}

TEST_CASE("an identity reads back as written, and nothing else is one") {
  StoreIdentity identity{.ds_id = 7};
  for (std::size_t i = 0; i < 16; ++i) identity.uuid[i] = static_cast<std::uint8_t>(i * 17);
  const std::string text = format_identity(identity);
  CHECK(parse_identity(text) == identity);
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    CHECK_FALSE(parse_identity(text.substr(0, cut)).has_value());
  }
  CHECK_FALSE(parse_identity(text + "x").has_value());
  std::string other = text;
  other[other.find('1')] = '2';
  CHECK(parse_identity(other).error() == Errc::kNotSupported);
}

TEST_CASE("a store is formatted once and keeps its identity and data server id") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  CHECK(StoreDirectory::open(path, false, counting_from(1)).error() == Errc::kNotFound);
  StoreIdentity identity;
  {
    auto store = StoreDirectory::open(path, true, counting_from(1)).value();
    REQUIRE(store->set_ds_id(12));
    identity = store->identity();
    CHECK(identity.ds_id == 12);
  }
  CHECK(StoreDirectory::open(path, false, counting_from(9)).value()->identity() == identity);
}

TEST_CASE("two openers of one store: the second is refused") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  const auto store = StoreDirectory::open(path, true, counting_from(1)).value();
  CHECK(StoreDirectory::open(path, true, counting_from(1)).error() == Errc::kBusy);
}

TEST_CASE("the verifier lives through a clean close and only through that") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  WriteVerifier first = 0;
  {
    auto store = StoreDirectory::open(path, true, counting_from(100)).value();
    first = store->verifier();
    REQUIRE(store->close_clean(first));
  }
  {
    auto store = StoreDirectory::open(path, true, counting_from(200)).value();
    CHECK(store->was_clean());
    CHECK(store->verifier() == first);
  }  // not closed: as if it had died
  auto store = StoreDirectory::open(path, true, counting_from(300)).value();
  CHECK_FALSE(store->was_clean());
  CHECK(store->verifier() == 300);
}

TEST_CASE("a format cut short is begun again, but objects without an identity are refused") {
  const TempFolder folder;
  const std::string path = folder.path() + "/store";
  std::filesystem::create_directories(path + "/objects/000");
  {
    CHECK(StoreDirectory::open(path, true, counting_from(1)).has_value());
  }
  std::filesystem::remove(path + "/identity");
  std::ofstream(path + "/objects/000/3.0000000000000001.1") << "x";
  CHECK(StoreDirectory::open(path, true, counting_from(1)).error() == Errc::kCorrupt);
}

}  // namespace
}  // namespace weft::ds
