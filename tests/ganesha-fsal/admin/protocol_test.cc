#include "ganesha-fsal/admin/protocol.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace weft::mds::admin {
namespace {

FileReport some_file() {
  FileReport file;
  file.path = "/export/a b";
  file.fileid = 26;
  file.size = std::uint64_t{1} << 40;
  file.object = "1.000000000000001a.1";
  file.layout_type = "files";
  file.stripe_unit = 1 << 20;
  file.policy = "stripes=2 unit=1MiB copies=1";
  file.device_id = "00112233445566778899aabbccddeeff";
  file.stripes = {{1, "ds1", DsState::kUp}, {2, "ds2", DsState::kDown}};
  file.stripes[1].why = "turn";
  file.stripes[1].copies = {{2, "ds2", DsState::kDown, "stale", false},
                            {4, "ds4", DsState::kUp, "current", true}};
  file.stripes[1].copies[0].repair = "waits: its data server is away";
  file.skipped = "the group of data server 3";
  file.io = {{2, "ds2", 1, 2, 3, 4, 5}};
  file.grants = {{7, "192.0.2.1", true, 1200, true, 300}};
  return file;
}

}  // namespace

TEST_CASE("requests go over the wire unchanged", "[admin]") {
  for (const Request& request :
       {Request{Operation::kStatus, ""}, Request{Operation::kFile, "/export/f"},
        Request{Operation::kSetPolicy, "/export/d", "copies=2"}}) {
    auto decoded = decode_request(encode(request));
    REQUIRE(decoded);
    CHECK(*decoded == request);
  }
}

TEST_CASE("malformed requests are refused", "[admin]") {
  CHECK(decode_request({}).error() == Errc::kProtocol);
  Bytes good = encode({Operation::kFile, "/export/f"});
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(decode_request(std::span(good).first(size)).error() == Errc::kProtocol);
  }
  Bytes longer = good;
  longer.resize(longer.size() + 4);
  CHECK(decode_request(longer).error() == Errc::kProtocol);
  Bytes version = good;
  version[7] = std::byte{9};
  CHECK(decode_request(version).error() == Errc::kNotSupported);
  Bytes operation = good;
  operation[11] = std::byte{99};
  CHECK(decode_request(operation).error() == Errc::kNotSupported);
  CHECK(decode_request(encode({Operation::kFile, std::string("/a\0b", 4)})).error() ==
        Errc::kProtocol);
  CHECK(decode_request(encode({Operation::kSetPolicy, "/a", std::string("a\0b", 3)})).error() ==
        Errc::kProtocol);
}

TEST_CASE("a status goes over the wire with all its numbers", "[admin]") {
  StatusReport status;
  status.version = "1.2.3";
  status.grace_left_ms = 1;
  status.clients = 2;
  status.inodes_made = 3;
  status.fences = 4;
  status.fence_failures = 5;
  status.layout_errors = 6;
  status.store = {true, true, 7, 8, 9, 10};
  status.warnings = {"look"};
  const Bytes encoded = encode_reply(status);
  const auto decoded = decode_reply<StatusReport>(encoded);
  REQUIRE(decoded);
  CHECK(encode_reply(*decoded) == encoded);
  CHECK(decoded->layout_errors == 6);
  CHECK(decoded->store.failed);
  CHECK(decoded->store.compaction_bytes == 10);
  CHECK(decoded->warnings == status.warnings);
}

TEST_CASE("reports go over the wire unchanged", "[admin]") {
  const FileReport file = some_file();
  auto decoded = decode_reply<FileReport>(encode_reply(file));
  REQUIRE(decoded);
  CHECK(decoded->path == file.path);
  CHECK(decoded->size == file.size);
  REQUIRE(decoded->stripes.size() == 2);
  CHECK(decoded->stripes[1].ds_name == "ds2");
  CHECK(decoded->stripes[1].ds_state == DsState::kDown);
  CHECK(decoded->stripes[1].why == "turn");
  CHECK(decoded->skipped == "the group of data server 3");
  REQUIRE(decoded->stripes[1].copies.size() == 2);
  CHECK(decoded->stripes[1].copies[0].state == "stale");
  CHECK(decoded->stripes[1].copies[0].repair == "waits: its data server is away");
  CHECK(decoded->stripes[1].copies[1].leads);
  REQUIRE(decoded->grants.size() == 1);
  CHECK(decoded->grants[0].write);
  CHECK(decoded->grants[0].recall_age_ms == 300);
  CHECK(decoded->policy == file.policy);
  CHECK(decoded->io == file.io);

  const PolicyReport policy{
      "/export/d", true, "copies=2", {{"copies", "2", "/export/d"}, {"unit", "1MiB", "export"}}};
  CHECK(decode_reply<PolicyReport>(encode_reply(policy)).value() == policy);

  StatusReport status;
  status.version = "0.1.0";
  status.mds_read_calls = 5;
  status.removals_queued = 77;
  status.repair = {1, 2, 3, 4, 5, 6, 7};
  status.warnings = {"one", "two"};
  auto again = decode_reply<StatusReport>(encode_reply(status));
  REQUIRE(again);
  CHECK(again->mds_read_calls == 5);
  CHECK(again->removals_queued == 77);
  CHECK(again->repair.stale_objects == 1);
  CHECK(again->repair.copied_bytes == 7);
  CHECK(again->warnings == status.warnings);

  std::vector<DataServerReport> servers(3);
  servers[2].addresses = {"127.0.0.1:2053", "192.0.2.4:2053"};
  servers[2].store = "shared memory";
  servers[2].cpu_busy_permille = 999;
  servers[2].mirror_pending_bytes = 77;
  servers[2].stale_objects = 3;
  servers[2].repairs = {{RepairKind::kScrub, 5, 1, 100, 50, 20, 10, 9, 8}};
  auto list = decode_reply<std::vector<DataServerReport>>(encode_reply(servers));
  REQUIRE(list);
  REQUIRE(list->size() == 3);
  CHECK((*list)[2].addresses == servers[2].addresses);
  CHECK((*list)[2].store == "shared memory");
  CHECK((*list)[2].cpu_busy_permille == 999);
  CHECK((*list)[2].mirror_pending_bytes == 77);
  CHECK((*list)[2].stale_objects == 3);
  REQUIRE((*list)[2].repairs.size() == 1);
  CHECK((*list)[2].repairs[0].kind == RepairKind::kScrub);
  CHECK((*list)[2].repairs[0].copied_bytes == 20);
  CHECK((*list)[2].repairs[0].remaining_ms == 8);
}

TEST_CASE("errors keep their code and text", "[admin]") {
  auto decoded = decode_reply<StatusReport>(encode_reply(Error{Errc::kNotFound, "/export/x"}));
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error() == Errc::kNotFound);
  CHECK(decoded.error().text == "/export/x");
}

TEST_CASE("cut or altered replies are refused or decode to something bounded", "[admin]") {
  const Bytes good = encode_reply(some_file());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(decode_reply<FileReport>(std::span(good).first(size)));
  }
  Bytes altered = good;
  for (std::byte& byte : altered) {
    const std::byte before = byte;
    byte ^= std::byte{0x80};
    (void)decode_reply<FileReport>(altered);
    byte = before;
  }
}

TEST_CASE("reports over the limits are cut, and still decode", "[admin]") {
  FileReport file = some_file();
  file.path.assign(10'000, 'x');
  file.grants.resize(10'000);
  auto decoded = decode_reply<FileReport>(encode_reply(file));
  REQUIRE(decoded);
  CHECK(decoded->path.size() == 4096);
  CHECK(decoded->grants.size() == 4096);
  StatusReport status;
  status.warnings.assign(1000, "w");
  REQUIRE(decode_reply<StatusReport>(encode_reply(status)));
}

}  // namespace weft::mds::admin
