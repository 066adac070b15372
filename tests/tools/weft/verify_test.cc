#include "tools/weft/verify.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "tools/weft/report.h"

namespace weft::cli {
namespace {

MountStats mount_with(std::uint64_t reads, std::uint64_t writes, std::uint64_t pnfs_reads,
                      std::uint64_t pnfs_writes) {
  MountStats mount;
  mount.device = "mds:/weft";
  mount.mount_point = "/mnt";
  mount.fstype = "nfs4";
  mount.options = "rw,vers=4.2";
  mount.pnfs_driver = "LAYOUT_NFSV4_1_FILES";
  mount.ops["READ"] = {reads, 0};
  mount.ops["WRITE"] = {writes, 0};
  mount.pnfs_reads = pnfs_reads;
  mount.pnfs_writes = pnfs_writes;
  return mount;
}

Observation seen(MountStats after) {
  Observation observation;
  observation.before = mount_with(100, 100, 90, 90);
  observation.after = std::move(after);
  return observation;
}

bool mentions(const Judgement& judgement, std::string_view word) {
  for (const std::string& reason : judgement.reasons) {
    if (reason.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("all I/O at data servers is pNFS", "[weft]") {
  const Judgement judgement = judge(seen(mount_with(116, 116, 106, 106)));
  CHECK(judgement.verdict == Verdict::kPnfs);
  CHECK(judgement.driver == "files");
  CHECK(judgement.ds_reads == 16);
  CHECK(judgement.ds_writes == 16);
  CHECK(judgement.mds_reads == 0);
  CHECK(judgement.reasons.empty());
}

TEST_CASE("I/O at the metadata server only is a fall-back", "[weft]") {
  const Judgement judgement = judge(seen(mount_with(116, 116, 90, 90)));
  CHECK(judgement.verdict == Verdict::kFallback);
  CHECK(judgement.mds_reads == 16);
  CHECK(judgement.mds_writes == 16);
  CHECK(mentions(judgement, "no usable layout"));
}

TEST_CASE("calls repeated at the metadata server point to a data server", "[weft]") {
  const Judgement judgement = judge(seen(mount_with(100, 124, 90, 106)));
  CHECK(judgement.verdict == Verdict::kPartly);
  CHECK(judgement.ds_writes == 16);
  CHECK(judgement.mds_writes == 8);
  CHECK(mentions(judgement, "repeated at the metadata server"));
}

TEST_CASE("a client in no network of a data server is told so", "[weft]") {
  Observation observation = seen(mount_with(116, 116, 90, 90));
  observation.after.options = "rw,vers=4.2,clientaddr=192.0.2.7";
  observation.no_way = {{3, "d3"}};
  const Judgement judgement = judge(observation);
  CHECK(mentions(judgement, "192.0.2.7 is in no network of d3: it gets no layouts there."));
}

TEST_CASE("refused layouts are named", "[weft]") {
  MountStats after = mount_with(101, 100, 90, 90);
  after.ops["LAYOUTGET"] = {2, 2};
  after.ops["GETDEVICEINFO"] = {1, 1};
  const Judgement judgement = judge(seen(after));
  CHECK(judgement.layoutget_errors == 2);
  CHECK(mentions(judgement, "refused 2 LAYOUTGETs"));
  CHECK(mentions(judgement, "GETDEVICEINFO"));
}

TEST_CASE("mounts that cannot use pNFS are told apart", "[weft]") {
  MountStats old = mount_with(116, 116, 90, 90);
  old.options = "rw,vers=4.0";
  CHECK(judge(seen(old)).verdict == Verdict::kImpossible);
  CHECK(mentions(judge(seen(old)), "vers=4.2"));

  MountStats none = mount_with(116, 116, 90, 90);
  none.pnfs_driver = "not configured";
  Observation observation = seen(none);
  CHECK_FALSE(mentions(judge(observation), "modprobe"));
  CHECK(mentions(judge(observation), "PNFS = false"));
  observation.driver_loaded = false;
  CHECK(mentions(judge(observation), "modprobe"));
  CHECK(judge(observation).driver == "none");
}

TEST_CASE("without I/O nothing is claimed", "[weft]") {
  CHECK(judge(seen(mount_with(100, 100, 90, 90))).verdict == Verdict::kUnknown);
}

TEST_CASE("servers' counters are differences, and name those that are down", "[weft]") {
  Observation observation = seen(mount_with(116, 124, 106, 106));
  mds::SystemReport before;
  before.status.mds_write_calls = 5;
  before.data_servers.resize(2);
  before.data_servers[0].id = 1;
  before.data_servers[0].read_bytes = 1000;
  before.data_servers[1].id = 2;
  before.data_servers[1].written_bytes = 9000;
  mds::SystemReport after = before;
  after.status.mds_write_calls = 15;
  after.status.inlined.writes = 2;  // at the metadata server, as they should be
  after.data_servers[0].read_bytes = 3000;
  after.data_servers[0].state = mds::DsState::kUp;
  after.data_servers[1].name = "ds2";
  after.data_servers[1].state = mds::DsState::kDown;
  after.data_servers[1].written_bytes = 10;  // restarted: its counters began again
  observation.server_before = before;
  observation.server_after = after;
  const Judgement judgement = judge(observation);
  CHECK(judgement.server_mds_writes == 8);
  REQUIRE(judgement.traffic.size() == 2);
  CHECK(judgement.traffic[0].read_bytes == 2000);
  CHECK(judgement.traffic[1].written_bytes == 10);
  CHECK(mentions(judgement, "ds2 (id 2) is down"));

  const auto document = verify_json("/mnt", judgement);
  CHECK(document["pnfs"] == "partly");
  CHECK(document["server_mds_writes"] == 8);
  CHECK(document["data_servers"].size() == 2);
  const std::string text = verify_text("/mnt", judgement);
  CHECK(text.starts_with("/mnt: some I/O went through the metadata server\n"));
}

TEST_CASE("other clients' I/O at the metadata server is no fall-back of this mount", "[weft]") {
  Observation observation = seen(mount_with(116, 116, 106, 106));
  observation.server_before = mds::SystemReport{};
  observation.server_after = mds::SystemReport{};
  observation.server_after->status.mds_read_calls = 3;
  const Judgement judgement = judge(observation);
  CHECK(judgement.verdict == Verdict::kPnfs);
  CHECK(mentions(judgement, "other clients"));
}

}  // namespace weft::cli
