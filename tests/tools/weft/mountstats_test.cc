#include "tools/weft/mountstats.h"

#include <catch2/catch_test_macros.hpp>

#include "tools/weft/proc.h"

namespace weft::cli {
namespace {

constexpr std::string_view kText =
    "device rootfs mounted on / with fstype rootfs\n"
    "device proc mounted on /proc with fstype proc\n"
    "device 10.77.0.1:/weft mounted on /mnt/two\\040words with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,proto=tcp,clientaddr=10.77.0.100\n"
    "\tage:\t3\n"
    "\timpl_id:\tname='',domain='',date='0,0'\n"
    "\tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255\n"
    "\tnfsv4:\tbm0=0xfdffafff,bm1=0xf9be3e,acl=0x3,sessions,pnfs=LAYOUT_NFSV4_1_FILES,"
    "lease_time=60,lease_expired=0\n"
    "\tsec:\tflavor=1,pseudoflavor=1\n"
    "\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 40 41\n"
    "\tbytes:\t0 0 0 0 0 0 0 0\n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\txprt:\ttcp 0 0 1 0 0 19 19 0 19 0 2 0 0\n"
    "\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 0 0 0\n"
    "\t        READ: 40 40 0 8000 41943040 1 20 21 0\n"
    "\t       WRITE: 42 42 0 41943040 8000 1 20 21 1\n"
    "\t   LAYOUTGET: 3 3 0 600 600 0 1 1 2\n"
    "\n"
    "device mds2:/ mounted on /mnt with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.0\n"
    "\tnfsv4:\tbm0=0xfdffafff,acl=0x0,pnfs=not configured\n";

}  // namespace

TEST_CASE("mountstats of a pNFS mount", "[weft]") {
  const auto mounts = parse_mountstats(kText);
  REQUIRE(mounts.size() == 2);
  const MountStats& mount = mounts[0];
  CHECK(mount.device == "10.77.0.1:/weft");
  CHECK(mount.mount_point == "/mnt/two words");
  CHECK(mount.fstype == "nfs4");
  CHECK(mount.option("vers") == "4.2");
  CHECK(mount.option("proto") == "tcp");
  CHECK(mount.option("rw").empty());
  CHECK(mount.option("size").empty());
  CHECK(mount.pnfs_driver == "LAYOUT_NFSV4_1_FILES");
  CHECK(mount.pnfs_reads == 40);
  CHECK(mount.pnfs_writes == 41);
  CHECK(mount.op("READ").calls == 40);
  CHECK(mount.op("WRITE").errors == 1);
  CHECK(mount.op("LAYOUTGET").errors == 2);
  CHECK(mount.op("COMMIT").calls == 0);
  CHECK(mounts[1].pnfs_driver == "not configured");
  CHECK(mounts[1].ops.empty());
}

TEST_CASE("text that is cut or strange is passed over", "[weft]") {
  for (std::size_t size = 0; size < kText.size(); ++size) {
    (void)parse_mountstats(kText.substr(0, size));
  }
  CHECK(parse_mountstats("device x\n\n:\n\tevents: 1 2\n").empty());
  const auto odd = parse_mountstats(
      "device a:/ mounted on /m with fstype nfs4 statvers=1.1\n\tevents:\tx\n"
      "\tper-op statistics\n\t: 1 2 3 4 5 6 7 8 9\n\tREAD: a b c d e f g h\n");
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].op("READ").calls == 0);
}

TEST_CASE("the mount of a path is the longest by whole names", "[weft]") {
  const auto mounts = parse_mountstats(kText);
  CHECK(mount_of(mounts, "/mnt/two words/a/b") == &mounts[0]);
  CHECK(mount_of(mounts, "/mnt/two words") == &mounts[0]);
  CHECK(mount_of(mounts, "/mnt/two wordsX") == &mounts[1]);
  CHECK(mount_of(mounts, "/mnt") == &mounts[1]);
  CHECK(mount_of(mounts, "/mntX") == nullptr);
  CHECK(mount_of({}, "/mnt") == nullptr);
}

TEST_CASE("a path on a mount is named as in the export", "[weft]") {
  std::vector<MountStats> mounts(3);
  mounts[0].device = "mds:/weft";
  mounts[0].mount_point = "/no/such/mnt";
  mounts[1].device = "[2001:db8::1]:/a/b/";
  mounts[1].mount_point = "/no/such/six";
  mounts[2].device = "mds:/";
  mounts[2].mount_point = "/no/such/root";
  CHECK(path_in_export(mounts, "/no/such/mnt/d/f") == "/weft/d/f");
  CHECK(path_in_export(mounts, "/no/such/mnt") == "/weft");
  CHECK(path_in_export(mounts, "/no/such/six/f") == "/a/b/f");
  CHECK(path_in_export(mounts, "/no/such/root/weft/f") == "/weft/f");
  CHECK(path_in_export(mounts, "/no/such/root") == "/");
  CHECK(path_in_export(mounts, "/weft/f") == "/weft/f");
}

TEST_CASE("octal escapes", "[weft]") {
  CHECK(undo_escapes("a\\040b\\134c\\011") == "a b\\c\t");
  CHECK(undo_escapes("\\04") == "\\04");
  CHECK(undo_escapes("\\9 \\") == "\\9 \\");
}

}  // namespace weft::cli
