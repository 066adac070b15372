// The disk of a server that is written to is full, or broken, and its partner's is not.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "rpc/base/log_limit.h"
#include "tests/dataserver/mirror/mirror_rig.h"
#include "tests/rpc/log_lines.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using layout::Duplication;
using rpc::control::CopyMissed;
using rpc::control::Extent;
using rpc::nfs4::Op;
using rpc::nfs4::StableHow;
using rpc::nfs4::Status;
using test::kFirst;
using test::kMirrored;
using test::kSecond;
using test::MirrorRig;

const CopyMissed kOwnMissed{kMirrored, kFirst, 1, {{0, kRegionBytes}}};
const CopyMissed kPartnerMissed{kMirrored, kSecond, 1, {{0, kRegionBytes}}};
const CopyMissed kBothMissed{kMirrored, kSecond, 1, {{0, kRegionBytes}}, true};

// What an application gets of the object at the first server.
Status read(MirrorRig& rig, layout::Access access = layout::Access::kRead) {
  layout::Handle handle = rig.handle(Duplication::kNone);
  handle.access = access;
  handle.partners = {};
  return rig.wait(rig.start_op(handle, {Op::OP_READ, rpc::nfs4::ReadArgs{{}, 0, 100}})).status;
}

TEST_CASE("a write that only the partner has is refused when the own copy counts as stale") {
  using enum Duplication;
  const auto [error, how] =
      GENERATE(table<int, Duplication>({{ENOSPC, kServerSync},
                                        {EIO, kServerAsync},
                                        {EDQUOT, kServerAsync},
                                        {EROFS, kServerSync},
                                        {ETIMEDOUT, kServerSync},  // of a disk
                                        {EBUSY, kServerAsync},     // for longer than a partner has
                                        {EMFILE, kServerSync},
                                        {EACCES, kServerSync}}));
  MirrorRig rig;
  rig.servers.at(kFirst).disk.error = error;
  rig.authority.hold = true;
  const auto pending = rig.start_write(rig.handle(how), 0, "there");
  REQUIRE(rig.run_until([&] { return !rig.authority.asked.empty(); }));
  rig.pass(20ms);
  CHECK_FALSE(pending->has_value());
  rig.authority.release();
  CHECK(rig.wait(pending).status == Status::NFS4ERR_ACCESS);
  CHECK(rig.authority.asked == std::vector{kOwnMissed});
  CHECK(rig.bytes(kSecond) == "there");

  // Another write tells it again: whoever leads by then, this server cannot know.
  CHECK(rig.write(rig.handle(how), 0, "again").status == Status::NFS4ERR_ACCESS);
  CHECK(rig.authority.asked.size() == 2);
}

TEST_CASE("without another current copy the client hears what is wrong") {
  MirrorRig rig;
  rig.servers.at(kFirst).disk.error = ENOSPC;
  SECTION("the partner's is stale") {
    rig.authority.error = Errc::kNotFound;
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_NOSPC);
    CHECK(rig.authority.asked == std::vector{kOwnMissed, kBothMissed});
  }
  SECTION("the partner is full too") {
    rig.servers.at(kSecond).disk.error = ENOSPC;
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_NOSPC);
    CHECK(rig.authority.asked == std::vector{kBothMissed});
  }
  SECTION("the partner is away") {
    rig.servers.at(kSecond).reachable = false;
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_NOSPC);
    CHECK(rig.authority.asked == std::vector{kBothMissed});
  }
  SECTION("the metadata server does not answer: perhaps later") {
    rig.authority.error = Errc::kUnreachable;
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_DELAY);
  }
}

TEST_CASE("what the own store says later to is tried again before a copy is given up") {
  MirrorRig rig;
  rig.servers.at(kFirst).disk.error = EMFILE;
  const auto pending = rig.start_write(rig.handle(), 0, "in the end");
  rig.pass(100ms);
  CHECK_FALSE(pending->has_value());
  rig.servers.at(kFirst).disk.error = 0;
  CHECK(rig.wait(pending).status == Status::NFS4_OK);
  CHECK(rig.authority.asked.empty());
  CHECK(rig.bytes(kFirst) == "in the end");
  CHECK(rig.bytes(kSecond) == "in the end");
}

TEST_CASE("of a server that is left out already the disk does not matter") {
  MirrorRig rig;
  rig.servers.at(kFirst).disk.error = ENOSPC;
  rig.servers.at(kSecond).door->refuse = Status::NFS4ERR_ACCESS;
  rig.authority.error = Errc::kFenced;
  CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_ACCESS);
}

TEST_CASE("what no disk can hold is no fault of this one") {
  MirrorRig rig;
  rig.servers.at(kFirst).disk.error = EFBIG;
  SECTION("but the copies differ when the partner's holds it") {
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_FBIG);
    CHECK(rig.authority.asked == std::vector{kPartnerMissed});
  }
  SECTION("and when the partner's cannot either, no copy missed it") {
    rig.servers.at(kSecond).disk.error = EFBIG;
    CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_FBIG);
    CHECK(rig.authority.asked.empty());
  }
}

TEST_CASE("a COMMIT that fails here and not there ends the own copy's turn") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kFirst).disk.at_sync = EIO;
  SECTION("another copy is current") {
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_ACCESS);
    REQUIRE(rig.authority.asked.size() == 1);
    CHECK(rig.authority.asked[0].ds_id == kFirst);
  }
  SECTION("none is") {
    rig.authority.error = Errc::kNotFound;
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_IO);
  }
  SECTION("the partner's fails as well") {
    rig.servers.at(kSecond).disk.at_sync = EIO;
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_IO);
    CHECK(rig.authority.asked.empty());
  }
}

// Whose write is refused may never make it again; and the disk may be well the next moment.
TEST_CASE("what the own copy alone has missed, and nobody could be told, COMMIT tells first") {
  MirrorRig rig;
  auto& first = rig.servers.at(kFirst);
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.authority.error = Errc::kUnreachable;
  CopyMissed own = kOwnMissed;
  const bool by_write = GENERATE(true, false);
  if (by_write) {
    first.disk.error = EIO;
    CHECK(rig.write(rig.handle(), 0, "there").status == Status::NFS4ERR_DELAY);
    CHECK(rig.bytes(kFirst) == "both");
    CHECK(rig.bytes(kSecond) == "there");
  } else {
    first.disk.at_sync = EIO;
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_DELAY);
    own.extents = {{0, kMaxEnd}};
  }
  first.disk.error = first.disk.at_sync = 0;
  rig.authority.asked.clear();
  SECTION("which is refused, while the metadata server is silent, too") {
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_DELAY);
  }
  SECTION("which is refused, when the copy is left out, and told once") {
    rig.authority.error.reset();
    CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_ACCESS);
    CHECK(rig.authority.asked == std::vector{own});
    CHECK(rig.commit(rig.handle()).status == Status::NFS4_OK);
    CHECK(rig.authority.asked.size() == 1);
  }
  SECTION("or else it is the partner's that has too much") {
    rig.authority.error = Errc::kNotFound;
    CHECK(rig.commit(rig.handle()).status != Status::NFS4_OK);
    const CopyMissed both{kMirrored, kSecond, 1, own.extents, true};
    CHECK(rig.authority.asked == std::vector{own, both});
  }
}

TEST_CASE("a copy that cannot be read is told of, and the reader goes elsewhere") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kFirst).disk.at_read = EIO;
  using enum layout::Access;
  for (const auto access : {kRead, kControl, kFetch}) {
    CHECK(read(rig, access) == Status::NFS4ERR_IO);
  }
  REQUIRE(rig.run_until([&] { return !rig.authority.asked.empty(); }));
  CHECK(rig.authority.asked[0].object == kMirrored);
  CHECK(rig.authority.asked[0].ds_id == kFirst);
  CHECK(rig.authority.asked[0].extents == std::vector<Extent>{{0, kRegionBytes}});
}

// What a reader gets whom the store says "later" to for too long.
Status read_late(MirrorRig& rig, layout::Access access = layout::Access::kRead) {
  layout::Handle handle = rig.handle(Duplication::kNone);
  handle.access = access;
  handle.partners = {};
  const auto pending = rig.start_op(handle, {Op::OP_READ, rpc::nfs4::ReadArgs{{}, 0, 100}});
  rig.pass(20ms);
  CHECK_FALSE(pending->has_value());
  rig.clock.ahead += 11s;
  return rig.wait(pending).status;
}

TEST_CASE("a reader that the store says later to for too long is sent to another copy") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kFirst).disk.at_read = EBUSY;
  SECTION("if there is one") { CHECK(read_late(rig) == Status::NFS4ERR_ACCESS); }
  SECTION("else it goes on to wait") {
    rig.authority.error = Errc::kNotFound;
    CHECK(read_late(rig) == Status::NFS4ERR_DELAY);
  }
  SECTION("the metadata server sees to that for itself") {
    CHECK(read_late(rig, layout::Access::kControl) == Status::NFS4ERR_DELAY);
  }
  REQUIRE(rig.authority.asked.size() == 1);
  CHECK(rig.authority.asked[0].ds_id == kFirst);
}

TEST_CASE("memory that is short is no reason to leave a copy out") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kFirst).disk.at_read = EBUSY;
  std::vector<Buffer> all;
  for (const std::size_t size : {1 << 20, 4096, 64}) {
    while (auto more = rig.pool.allocate(size)) all.push_back(std::move(*more));
  }
  CHECK(read_late(rig) == Status::NFS4ERR_DELAY);
  CHECK(rig.authority.asked.empty());
}

TEST_CASE("copies that fail fill no log") {
  rpc::test::LogLines log;
  MirrorRig rig;
  const auto late = rig.handle(Duplication::kServerAsync);
  REQUIRE(rig.write(late, 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kSecond).door->refuse = Status::NFS4ERR_ACCESS;
  rig.authority.error = Errc::kFenced;
  constexpr int kOperations = 300;
  int told = 0;
  for (int i = 0; i < kOperations; ++i) {
    CHECK(rig.write(late, 0, "x").status == Status::NFS4_OK);
    rig.servers.at(kFirst).duplicator->unreadable(late, 0, 1, [&](bool out) { told += out; });
  }
  REQUIRE(rig.run_until([&] { return told == kOperations; }));
  rig.settle();
  std::map<std::string, std::size_t> lines;
  for (const std::string& line : log.take()) ++lines[line.substr(0, line.find(" object="))];
  for (const std::string kind : {"warning event=unreadable", "warning event=partner_refused ds=2",
                                 "error event=copy_refused"}) {
    INFO(kind);
    CHECK(lines[kind] >= LogLimit::kAtOnce);
    CHECK(lines[kind] <= LogLimit::kAtOnce + 50);  // a few a second
  }
}

}  // namespace
}  // namespace weft::ds
