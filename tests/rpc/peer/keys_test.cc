#include "rpc/peer/keys.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

using namespace weft;
using namespace weft::rpc::peer;

namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// A folder of the test's own, gone afterwards.
struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() / ("weft-keys-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("hmac is HMAC-SHA-256") {
  // RFC 4231 section 4.4 has a 20-byte key of 0xaa; ours are 32 bytes, and HMAC pads keys with
  // zeros, so test case 1's key (20 bytes of 0x0b) becomes ours with 12 zero bytes behind.
  Key key{};
  std::fill_n(key.begin(), 20, std::byte{0x0b});
  const std::string_view hi = "Hi There";
  const Key whole = hmac(key, {std::as_bytes(std::span(hi))});
  CHECK(hex(whole) == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const Key parts = hmac(
      key, {std::as_bytes(std::span(hi.substr(0, 3))), std::as_bytes(std::span(hi.substr(3)))});
  CHECK(parts == whole);
}

TEST_CASE("a key is 64 hexadecimal digits") {
  const std::string digits(64, 'a');
  CHECK(parse_cluster_key(digits));
  CHECK(parse_cluster_key(" " + digits + "\n"));
  CHECK(parse_cluster_key(digits).value().bytes[31] == std::byte{0xaa});
  CHECK_FALSE(parse_cluster_key(digits + "a"));
  CHECK_FALSE(parse_cluster_key(digits.substr(1)));
  CHECK_FALSE(parse_cluster_key(digits.substr(1) + "g"));
  CHECK_FALSE(parse_cluster_key(""));
}

TEST_CASE("a key file is made once, private, and read back") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  const auto made = create_cluster_key(path);
  REQUIRE(made);
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto read = load_cluster_keys(path);
  REQUIRE(read);
  CHECK(*read == ClusterKeys{*made});
  CHECK(create_cluster_key(path).error() == Errc::kExists);
}

TEST_CASE("a key file has one key or two") {
  const std::string one(64, 'a');
  const std::string two(64, 'b');
  const std::string three(64, 'c');
  CHECK(parse_cluster_keys(one).value().size() == 1);
  CHECK(parse_cluster_keys("\n  " + one + " \r\n\n").value().size() == 1);
  const auto both = parse_cluster_keys(one + "\n" + two + "\n");
  REQUIRE(both);
  REQUIRE(both->size() == 2);
  CHECK(both->front().bytes[0] == std::byte{0xaa});
  CHECK(both->back().bytes[0] == std::byte{0xbb});
  CHECK_FALSE(parse_cluster_keys(one + " " + two));
  CHECK_FALSE(parse_cluster_keys(one + "\n" + one));
  CHECK_FALSE(parse_cluster_keys(one + "\n" + two + "\n" + three));
  CHECK_FALSE(parse_cluster_keys(one + "\nb"));
  CHECK_FALSE(parse_cluster_keys("\n"));
}

TEST_CASE("a key file is replaced at once and stays private") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  const auto made = create_cluster_key(path);
  REQUIRE(made);
  const ClusterKeys keys{random_cluster_key(), *made};
  REQUIRE(replace_cluster_keys(path, keys));
  CHECK(load_cluster_keys(path).value() == keys);
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  CHECK(replace_cluster_keys(folder.path / "absent", keys).error() == Errc::kNotFound);
}

TEST_CASE("fingerprints tell keys apart") {
  const ClusterKey one = random_cluster_key();
  const ClusterKey other = random_cluster_key();
  CHECK(fingerprint(one) != fingerprint(other));
  CHECK(fingerprint_text(one).size() == 16);
}

TEST_CASE("a key file others may read is refused") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  REQUIRE(create_cluster_key(path));
  for (const mode_t mode : {0640, 0604, 0660}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    CHECK(load_cluster_keys(path).error() == Errc::kAccess);
  }
  CHECK(load_cluster_keys(folder.path / "absent").error() == Errc::kNotFound);
  CHECK(load_cluster_keys(folder.path).error() != Errc::kNotFound);
}

TEST_CASE("each use has a key of its own") {
  ClusterKey key;
  key.bytes.fill(std::byte{5});
  CHECK(derive(key, "one") != derive(key, "two"));
  const std::byte zero{0};
  CHECK(derive(key, "one") != derive(key, "one", std::span(&zero, 1)));
  ClusterKey other;
  CHECK(handle_key(key) != handle_key(other));
  CHECK(handle_key(key) == handle_key(key));
}
