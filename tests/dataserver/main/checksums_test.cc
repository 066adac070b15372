// A data server with checksums, over files: switched on, over a restart, and off.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "dataserver/parity/blocks.h"
#include "dataserver/store/object_files.h"
#include "tests/dataserver/main/fake_mds.h"

namespace weft::ds {
namespace {

using rpc::nfs4::Status;
using test::DsClient;
using test::kServedObject;
using test::ServerRig;

std::string path_of(const ServerRig& rig, const layout::ObjectId& object) {
  return rig.config.store.path + "/objects/" + object_path(object);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool has_format(const ServerRig& rig, int format) {
  return text_of(rig.config.store.path + "/identity")
      .starts_with("weft store " + std::to_string(format) + "\n");
}

// As a disk would that changes a bit by itself.
void flip(const ServerRig& rig, std::streamoff at) {
  std::fstream file(path_of(rig, kServedObject), std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 4));
  REQUIRE(file.good());
}

// It has the checksums of the blocks of an object of so many bytes.
void await_checksums(const ServerRig& rig, std::size_t bytes) {
  const std::string path = path_of(rig, sums_of(kServedObject));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::size_t wanted = (bytes + kParityBlock - 1) / kParityBlock * kSumBytes;
  while (text_of(path).size() < wanted && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  REQUIRE(text_of(path).size() == wanted);
}

TEST_CASE("checksums are switched on over objects, outlive restarts, and go when switched off") {
  ServerRig rig;
  const auto handle = rig.handle();
  std::string bytes(300'000, 'w');
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 0, bytes) == Status::NFS4_OK);
    CHECK(server->stop());
    CHECK(has_format(rig, 1));
  }
  rig.config.checksums = true;
  {
    const auto server = rig.start();
    CHECK(has_format(rig, 3));
    DsClient client(server->ports().at(0));
    CHECK(client.read(handle, 0, 400'000).text == bytes);  // of which nothing is known
    bytes.replace(4096, 200'000, 200'000, 'x');
    REQUIRE(client.write(handle, 4096, bytes.substr(4096, 200'000)) == Status::NFS4_OK);
    await_checksums(rig, 4096 + 200'000);
    CHECK(server->stop());
  }
  flip(rig, 5000);
  flip(rig, 100);
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    CHECK(client.read(handle, 4096, 4096).status == Status::NFS4ERR_IO);
    CHECK(client.read(handle, 0, 4096).status == Status::NFS4_OK);
    CHECK(client.read(handle, 8192, 400'000).text == bytes.substr(8192));
    CHECK(server->stop());
  }
  flip(rig, 100);
  rig.config.checksums = false;
  {
    const auto server = rig.start();
    CHECK(has_format(rig, 1));
    CHECK_FALSE(std::filesystem::exists(path_of(rig, sums_of(kServedObject))));
    DsClient client(server->ports().at(0));
    CHECK(client.read(handle, 4096, 4096).status == Status::NFS4_OK);
    REQUIRE(client.write(handle, 4096, bytes.substr(4096, 4096)) == Status::NFS4_OK);
    CHECK(server->stop());
  }
  // Of what changed while they were off there is none that is old.
  rig.config.checksums = true;
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  CHECK(client.read(handle, 0, 400'000).text == bytes);
  CHECK(server->stop());
}

}  // namespace
}  // namespace weft::ds
