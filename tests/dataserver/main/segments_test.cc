// A data server with segments, over files.
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/dataserver/main/fake_mds.h"

namespace weft::ds {
namespace {

using rpc::nfs4::Status;
using test::DsClient;
using test::ServerRig;

// Files of segments and of their index.
std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, failed)) {
    count += entry.is_regular_file() && entry.path().string().contains("/objects/") ? 1 : 0;
  }
  return count;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As a version that has no segments would say it.
void deny_segments(const std::string& identity) {
  std::string text = text_of(identity);
  REQUIRE(text.starts_with("weft store 2\n"));
  text[text.find('2')] = '1';
  std::ofstream(identity, std::ios::binary) << text;
}

std::string letters(std::size_t size) {
  std::string text(size, 'a');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i / 5000 % 26);
  return text;
}

TEST_CASE("segments outlive a restart, and go when they are switched off") {
  ServerRig rig;
  const SegmentOptions segments{.size = std::uint64_t{32} << 20,
                                .cache_bytes = std::uint64_t{16} << 20,
                                .idle = std::chrono::seconds(1)};
  rig.config.segments = segments;
  const std::string folder = rig.config.store.path + "/segments";
  const auto handle = rig.handle();
  std::string bytes = letters(16 * kStrip);
  const auto read_row = [&](DsClient& client) {
    for (const std::uint64_t index : {0, 4, 8, 12}) {
      const auto got = client.read(handle, index * kStrip, static_cast<std::uint32_t>(kStrip));
      CHECK(got.text == bytes.substr(index * kStrip, kStrip));
    }
  };
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 0, bytes) == Status::NFS4_OK);
    for (int pass = 0; pass < 4; ++pass) read_row(client);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (files_in(folder) < 2 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    CHECK(files_in(folder) == 2);
    read_row(client);
    CHECK(server->stop());
  }
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    read_row(client);
    // A change removes the segment, and leaves the index that still names it.
    REQUIRE(client.write(handle, 4 * kStrip, "!") == Status::NFS4_OK);
    bytes[4 * kStrip] = '!';
    CHECK(files_in(folder) == 1);
    read_row(client);
    CHECK(server->stop());
  }
  rig.config.segments = {};
  {
    const auto server = rig.start();
    CHECK_FALSE(std::filesystem::exists(folder));
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 0, "?") == Status::NFS4_OK);
    bytes[0] = '?';
    CHECK(server->stop());
  }
  rig.config.segments = segments;
  const auto server = rig.start();
  DsClient client(server->ports().at(0));
  read_row(client);
  CHECK(server->stop());
}

TEST_CASE("a partition that is damaged is dropped") {
  ServerRig rig;
  rig.config.segments = {.size = std::uint64_t{32} << 20};
  CHECK(rig.start()->stop());
  const std::string identity = rig.config.store.path + "/segments/identity";
  REQUIRE(std::filesystem::exists(identity));
  std::filesystem::resize_file(identity, 5);
  CHECK(rig.start()->stop());
  CHECK(std::filesystem::file_size(identity) > 5);
}

TEST_CASE("a partition of which a part was removed is dropped") {
  ServerRig rig;
  rig.config.segments = {.size = std::uint64_t{32} << 20};
  const std::string folders = rig.config.store.path + "/segments/objects";
  for (const std::string& gone : {folders + "/1a3", folders}) {
    CHECK(rig.start()->stop());
    REQUIRE(std::filesystem::remove_all(gone) > 0);
    CHECK(rig.start()->stop());
    CHECK(std::filesystem::exists(folders + "/1a3"));
  }
}

TEST_CASE("a store says that it has segments, from before the first until the last is gone") {
  ServerRig rig;
  const std::string identity = rig.config.store.path + "/identity";
  const std::string folder = rig.config.store.path + "/segments";
  CHECK(rig.start()->stop());
  const std::string plain = text_of(identity);
  CHECK(plain.starts_with("weft store 1\n"));
  rig.config.segments = {.size = std::uint64_t{32} << 20};
  for (int run = 0; run < 2; ++run) {
    const auto server = rig.start();
    CHECK(text_of(identity).starts_with("weft store 2\n"));
    CHECK(server->stop());
    CHECK(text_of(identity).substr(13) == plain.substr(13));
  }
  rig.config.segments = {};
  // Where the identity cannot be written, as on a full disk, the data server serves nevertheless.
  std::filesystem::create_directory(identity + ".new");
  CHECK(rig.start()->stop());
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(text_of(identity).starts_with("weft store 2\n"));
  std::filesystem::remove(identity + ".new");
  CHECK(rig.start()->stop());
  CHECK(text_of(identity) == plain);
}

TEST_CASE("segments that a store does not say it has are not used") {
  ServerRig rig;
  rig.config.segments = {.size = std::uint64_t{32} << 20,
                         .cache_bytes = std::uint64_t{16} << 20,
                         .idle = std::chrono::seconds(1)};
  const std::string folder = rig.config.store.path + "/segments";
  const auto handle = rig.handle();
  const std::string before = letters(16 * kStrip);
  const auto read_row = [&](DsClient& client, const std::string& bytes) {
    for (const std::uint64_t index : {0, 4, 8, 12}) {
      const auto got = client.read(handle, index * kStrip, static_cast<std::uint32_t>(kStrip));
      CHECK(got.text == bytes.substr(index * kStrip, kStrip));
    }
  };
  {
    const auto server = rig.start();
    DsClient client(server->ports().at(0));
    REQUIRE(client.write(handle, 0, before) == Status::NFS4_OK);
    for (int pass = 0; pass < 4; ++pass) read_row(client, before);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (files_in(folder) < 2 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    REQUIRE(files_in(folder) == 2);
    CHECK(server->stop());
  }
  // Another version, which knows no segments, changes the object.
  deny_segments(rig.config.store.path + "/identity");
  const std::string objects = rig.config.store.path + "/objects";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(objects)) {
    if (!entry.is_regular_file() || entry.file_size() != before.size()) continue;
    std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary)
        << std::string(before.size(), '!');
  }
  const auto server = rig.start();
  CHECK(files_in(folder) == 0);
  DsClient client(server->ports().at(0));
  read_row(client, std::string(before.size(), '!'));
  CHECK(server->stop());
}

}  // namespace
}  // namespace weft::ds
