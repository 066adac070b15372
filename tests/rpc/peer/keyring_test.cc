#include "rpc/peer/keyring.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

using namespace weft;
using namespace weft::rpc::peer;

namespace {

struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() /
             ("weft-keyring-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

void overwrite(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

}  // namespace

TEST_CASE("a ring follows its file from key to key") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  const ClusterKey old = create_cluster_key(path).value();
  const auto ring = Keyring::load(path).value();
  CHECK_FALSE(ring->follow());
  CHECK(ring->first() == old);

  const ClusterKey fresh = random_cluster_key();
  const layout::HandleKey& sealed_with = ring->sealing();  // good for as long as the ring
  REQUIRE(replace_cluster_keys(path, {old, fresh}));
  CHECK_FALSE(ring->accepts(fresh));
  CHECK(ring->follow());
  CHECK(ring->accepts(fresh));
  CHECK(ring->first() == old);
  CHECK(ring->now().handle == std::vector{handle_key(old), handle_key(fresh)});

  REQUIRE(replace_cluster_keys(path, {fresh, old}));
  CHECK(ring->follow());
  CHECK(ring->sealing() == handle_key(fresh));
  CHECK(ring->accepts(old));

  REQUIRE(replace_cluster_keys(path, {fresh}));
  CHECK(ring->follow());
  CHECK_FALSE(ring->accepts(old));
  CHECK(ring->now().fingerprints == std::vector{fingerprint(fresh)});
  CHECK_FALSE(ring->follow());
  CHECK(sealed_with == handle_key(old));
}

TEST_CASE("a file that cannot be used leaves the keys as they are") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  const ClusterKey key = create_cluster_key(path).value();
  const auto ring = Keyring::load(path).value();
  const std::string good(64, 'a');
  for (const std::string& bad : {std::string("nonsense"), std::string(), good + "\n" + good}) {
    overwrite(path, bad);
    CHECK_FALSE(ring->follow());
    CHECK(ring->now().cluster == ClusterKeys{key});
  }
  overwrite(path, good);
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK_FALSE(ring->follow());
  std::filesystem::remove(path);
  CHECK_FALSE(ring->follow());
  CHECK(ring->now().cluster == ClusterKeys{key});

  // And follows on when it is good again.
  overwrite(path, good);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  CHECK(ring->follow());
  CHECK(ring->first() == parse_cluster_key(good).value());
}

TEST_CASE("a file that could not be read is read again") {
  const Folder folder;
  const std::string path = folder.path / "cluster.key";
  REQUIRE(create_cluster_key(path));
  const auto ring = Keyring::load(path).value();
  const ClusterKey fresh = random_cluster_key();
  REQUIRE(replace_cluster_keys(path, {fresh}));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool followed = ring->follow();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(followed);
  CHECK(ring->follow());
  CHECK(ring->first() == fresh);
}
