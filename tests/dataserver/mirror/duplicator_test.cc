#include "dataserver/mirror/duplicator.h"

#include <catch2/catch_test_macros.hpp>
#include <future>

#include "tests/dataserver/mirror/mirror_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using layout::Duplication;
using rpc::nfs4::Op;
using rpc::nfs4::StableHow;
using rpc::nfs4::Status;
using test::kFirst;
using test::kMirrored;
using test::kSecond;
using test::MirrorRig;

constexpr std::uint64_t kRegion = kRegionBytes;

TEST_CASE("a synchronous write is answered when both copies have it") {
  MirrorRig rig;
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  const auto pending = rig.start_write(rig.handle(), 0, "twice");
  rig.pass(50ms);
  CHECK(rig.bytes(kFirst) == "twice");
  CHECK_FALSE(pending->has_value());
  door.release();
  CHECK(rig.wait(pending).status == Status::NFS4_OK);
  CHECK(rig.bytes(kSecond) == "twice");
  CHECK(rig.authority.asked.empty());
  CHECK(rig.servers.at(kFirst).duplicator->counts().forwarded_bytes == 5);
}

TEST_CASE("stable writes and commits are stable at both, and their verifiers agree") {
  MirrorRig rig;
  const auto stable = rig.write(rig.handle(), 0, "s", StableHow::FILE_SYNC4);
  CHECK(stable.ok.committed == StableHow::FILE_SYNC4);
  const auto unstable = rig.write(rig.handle(), 1, "u");
  CHECK(unstable.ok.committed == StableHow::UNSTABLE4);
  CHECK(rig.commit(rig.handle()).verifier == unstable.verifier);
  CHECK(rig.servers.at(kSecond).door->seen[Op::OP_COMMIT] == 1);
}

TEST_CASE("a restart of either server changes the verifier") {
  for (const std::uint32_t restarted : {kFirst, kSecond}) {
    MirrorRig rig;
    const auto before = rig.write(rig.handle(), 0, "x");
    rig.kill(restarted);
    rig.start(restarted);
    for (int i = 0; i < 200 && rig.servers.at(kFirst).duplicator->counts().partners_away > 0; ++i) {
      rig.pass(10ms);
    }
    const auto after = rig.commit(rig.handle());
    CHECK(after.status == Status::NFS4_OK);
    CHECK(after.verifier != before.verifier);
  }
}

TEST_CASE("without its partner a write is acknowledged only after the miss is recorded") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
  rig.servers.at(kSecond).reachable = false;
  rig.cut();
  rig.authority.hold = true;
  const auto pending = rig.start_write(rig.handle(), 2, "alone");
  REQUIRE(rig.run_until([&] { return !rig.authority.asked.empty(); }));
  rig.pass(50ms);
  CHECK_FALSE(pending->has_value());
  rig.authority.release();
  CHECK(rig.wait(pending).status == Status::NFS4_OK);
  REQUIRE(rig.authority.asked.size() == 1);
  CHECK(rig.authority.asked[0] == rpc::control::CopyMissed{kMirrored, kSecond, 1, {{0, kRegion}}});
  CHECK(rig.bytes(kFirst) == "boalone");

  // The region is known to be missed, another is not.
  CHECK(rig.write(rig.handle(), 100, "again").status == Status::NFS4_OK);
  CHECK(rig.authority.asked.size() == 1);
  CHECK(rig.write(rig.handle(), kRegion * 3 - 1, "two regions").status == Status::NFS4_OK);
  REQUIRE(rig.authority.asked.size() == 2);
  CHECK(rig.authority.asked[1].extents ==
        std::vector<rpc::control::Extent>{{kRegion * 2, kRegion * 2}});
  CHECK(rig.servers.at(kFirst).duplicator->counts().missed_writes == 3);
  CHECK(rig.servers.at(kFirst).duplicator->counts().partners_away == 1);
}

TEST_CASE("when the metadata server cannot be reached nothing is acknowledged") {
  MirrorRig rig;
  rig.servers.at(kSecond).reachable = false;
  rig.authority.error = Errc::kUnreachable;
  CHECK(rig.write(rig.handle(), 0, "lost").status == Status::NFS4ERR_DELAY);
  CHECK(rig.authority.asked.size() > 1);  // it was asked again
  rig.authority.error.reset();
  CHECK(rig.write(rig.handle(), 0, "kept").status == Status::NFS4_OK);
}

// Whose write is refused may never make it again, and a copy has it.
TEST_CASE("a refused write whose miss could not be recorded is told of with the next COMMIT") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "both", StableHow::FILE_SYNC4).status == Status::NFS4_OK);
  auto& first = rig.servers.at(kFirst);
  auto& door = *rig.servers.at(kSecond).door;
  door.refuse = Status::NFS4ERR_IO;
  rig.authority.error = Errc::kUnreachable;
  SECTION("by the partner alone") {
    CHECK(rig.write(rig.handle(), kRegion, "here").status == Status::NFS4ERR_DELAY);
  }
  SECTION("by the own store too") {
    first.disk.error = ENOSPC;
    CHECK(rig.write(rig.handle(), kRegion, "none").status == Status::NFS4ERR_NOSPC);
  }
  first.disk.error = 0;
  door.refuse.reset();
  rig.authority.error.reset();
  rig.authority.asked.clear();
  CHECK(rig.commit(rig.handle()).status == Status::NFS4_OK);
  const rpc::control::CopyMissed missed{kMirrored, kSecond, 1, {{kRegion, kRegion}}, false};
  CHECK(rig.authority.asked == std::vector{missed});
  CHECK(rig.commit(rig.handle()).status == Status::NFS4_OK);
  CHECK(rig.authority.asked.size() == 1);
}

TEST_CASE("the metadata server may say that the writer's own copy is the stale one") {
  MirrorRig rig;
  rig.servers.at(kSecond).reachable = false;
  rig.authority.error = Errc::kFenced;
  CHECK(rig.write(rig.handle(), 0, "x").status == Status::NFS4ERR_ACCESS);
}

TEST_CASE("a partner that hangs is waited for once, then left out, and found again") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "1").status == Status::NFS4_OK);
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  const auto began = std::chrono::steady_clock::now();
  CHECK(rig.write(rig.handle(), 0, "2").status == Status::NFS4_OK);
  // The metadata server says that it is there: twice the timeout.
  CHECK(std::chrono::steady_clock::now() - began >= 550ms);
  CHECK(rig.authority.asked.size() == 1);
  door.release();
  REQUIRE(rig.run_until(
      [&] { return rig.servers.at(kFirst).duplicator->counts().partners_away == 0; }));
  const int before = door.seen[Op::OP_WRITE];
  CHECK(rig.write(rig.handle(), 0, "3").status == Status::NFS4_OK);  // still missed there
  CHECK(door.seen[Op::OP_WRITE] == before);
  CHECK(rig.write(rig.handle(), kRegion, "4").status == Status::NFS4_OK);  // never missed
  CHECK(door.seen[Op::OP_WRITE] == before + 1);
  CHECK(rig.authority.asked.size() == 1);
}

TEST_CASE("a partner that is slow and goes on answering is waited for") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "1").status == Status::NFS4_OK);
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  std::vector<MirrorRig::Pending> writes;
  for (std::uint64_t i = 0; i < 8; ++i) {
    writes.push_back(rig.start_write(rig.handle(), i * kRegion, "2"));
  }
  REQUIRE(rig.run_until([&] { return door.held.size() == writes.size(); }));
  while (!door.held.empty()) {
    rig.pass(150ms);  // half the timeout each: the last of them waits for it four times over
    auto call = std::move(door.held.front());
    door.held.erase(door.held.begin());
    call();
  }
  for (const auto& write : writes) CHECK(rig.wait(write).status == Status::NFS4_OK);
  CHECK(rig.authority.asked.empty());
  CHECK(rig.servers.at(kFirst).duplicator->counts().partners_away == 0);
}

TEST_CASE("a partner that the metadata server gives up is not waited for") {
  MirrorRig rig;
  using State = rpc::control::Located::State;
  rig.options.timeout = 10s;
  rig.kill(kFirst);
  rig.start(kFirst);
  const auto begun = std::chrono::steady_clock::now();
  SECTION("when it is gone before the first write") {
    rig.authority.state = State::kDown;
    REQUIRE(rig.write(rig.handle(), 0, "alone").status == Status::NFS4_OK);
  }
  SECTION("when it goes while a write is out") {
    REQUIRE(rig.write(rig.handle(), 0, "both").status == Status::NFS4_OK);
    rig.servers.at(kSecond).door->hold = true;
    rig.authority.state = State::kDown;
    REQUIRE(rig.write(rig.handle(), 0, "alone").status == Status::NFS4_OK);
  }
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(rig.authority.asked.size() == 1);
  rig.servers.at(kSecond).door->release();
  rig.pass(std::chrono::milliseconds(100));
  CHECK(rig.servers.at(kFirst).duplicator->counts().partners_away == 1);  // though it answers
  rig.authority.state = State::kUp;
  CHECK(rig.run_until(
      [&] { return rig.servers.at(kFirst).duplicator->counts().partners_away == 0; }));
}

TEST_CASE("what was missed is written again after forget(), or with a handle of a later epoch") {
  MirrorRig rig;
  auto& door = *rig.servers.at(kSecond).door;
  door.refuse = Status::NFS4ERR_NOSPC;
  CHECK(rig.write(rig.handle(), 0, "1").status == Status::NFS4_OK);
  CHECK(rig.authority.asked.size() == 1);
  door.refuse.reset();
  CHECK(rig.write(rig.handle(), 0, "2").status == Status::NFS4_OK);
  CHECK(rig.bytes(kSecond).empty());

  const auto epoch2 = rig.handle(Duplication::kServerSync, 2);
  CHECK(rig.write(epoch2, 0, "3").status == Status::NFS4_OK);
  CHECK(rig.bytes(kSecond) == "3");

  door.refuse = Status::NFS4ERR_IO;
  CHECK(rig.write(epoch2, 0, "4").status == Status::NFS4_OK);
  CHECK(rig.authority.asked.size() == 2);
  door.refuse.reset();
  bool forgotten = false;
  rig.servers.at(kFirst).duplicator->forget(kMirrored, kSecond, [&] { forgotten = true; });
  REQUIRE(rig.run_until([&] { return forgotten; }));
  CHECK(rig.write(epoch2, 0, "5").status == Status::NFS4_OK);
  CHECK(rig.bytes(kSecond) == "5");
}

TEST_CASE("forget() waits for a partner that has just come back") {
  MirrorRig rig;
  rig.kill(kFirst);
  rig.probe_every = 60'000ms;  // by itself it would not be found soon
  rig.start(kFirst);
  REQUIRE(rig.write(rig.handle(), 0, "1").status == Status::NFS4_OK);
  rig.servers.at(kSecond).reachable = false;
  rig.cut();
  REQUIRE(rig.write(rig.handle(), 0, "2").status == Status::NFS4_OK);
  REQUIRE(rig.authority.asked.size() == 1);
  bool forgotten = false;
  rig.servers.at(kFirst).duplicator->forget(kMirrored, kSecond, [&] { forgotten = true; });
  rig.pass(100ms);
  CHECK_FALSE(forgotten);
  rig.servers.at(kSecond).reachable = true;
  REQUIRE(rig.run_until([&] { return forgotten; }));
  CHECK(rig.servers.at(kFirst).duplicator->counts().partners_away == 0);
  CHECK(rig.write(rig.handle(), 0, "3").status == Status::NFS4_OK);
  CHECK(rig.authority.asked.size() == 1);
  CHECK(rig.bytes(kSecond) == "3");
}

TEST_CASE("forget() is answered when no write is left that relied on what is forgotten") {
  MirrorRig rig;
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  const auto pending = rig.start_write(rig.handle(), 0, "x");
  rig.pass(20ms);
  bool forgotten = false;
  rig.servers.at(kFirst).duplicator->forget(kMirrored, kSecond, [&] { forgotten = true; });
  rig.pass(50ms);
  CHECK_FALSE(forgotten);
  door.release();
  CHECK(rig.run_until([&] { return forgotten; }));
  CHECK(pending->has_value());
}

TEST_CASE("a fence at the partner stops what is brought there") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "old").status == Status::NFS4_OK);
  REQUIRE(rig.servers.at(kSecond).fences->raise(std::vector<Fence>{{kMirrored, 2}}));
  CHECK(rig.write(rig.handle(), 0, "new").status == Status::NFS4ERR_ACCESS);
  CHECK(rig.bytes(kSecond) == "old");
  CHECK(rig.authority.asked.size() == 1);  // the copies differ, and that is known
}

TEST_CASE("COMMIT without the partner records what it may lose, under the same verifier") {
  MirrorRig rig;
  const auto written = rig.write(rig.handle(), kRegion, "uncommitted");
  rig.servers.at(kSecond).reachable = false;
  rig.cut();
  const auto committed = rig.commit(rig.handle());
  CHECK(committed.status == Status::NFS4_OK);
  CHECK(committed.verifier == written.verifier);
  REQUIRE(rig.authority.asked.size() == 1);
  CHECK(rig.authority.asked[0].extents == std::vector<rpc::control::Extent>{{kRegion, kRegion}});
  CHECK(rig.commit(rig.handle()).verifier == written.verifier);
  CHECK(rig.authority.asked.size() == 1);  // nothing else is owed
}

TEST_CASE("COMMIT fails when what the partner may lose cannot be recorded") {
  MirrorRig rig;
  REQUIRE(rig.write(rig.handle(), 0, "uncommitted").status == Status::NFS4_OK);
  rig.servers.at(kSecond).reachable = false;
  rig.cut();
  rig.authority.error = Errc::kTimedOut;
  CHECK(rig.commit(rig.handle()).status == Status::NFS4ERR_DELAY);
  rig.authority.error.reset();
  CHECK(rig.commit(rig.handle()).status == Status::NFS4_OK);
}

TEST_CASE("a COMMIT that a living partner takes long for is waited for") {
  MirrorRig rig;
  const auto written = rig.write(rig.handle(), 0, "x");
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  const auto pending = rig.start_op(rig.handle(), {Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
  rig.pass(1000ms);  // the timeout three times over
  CHECK_FALSE(pending->has_value());
  door.release();
  CHECK(rig.wait(pending).verifier == written.verifier);
  CHECK(rig.authority.asked.empty());
}

TEST_CASE("asynchronous: UNSTABLE4 is answered early, COMMIT and stable writes wait") {
  MirrorRig rig;
  const auto handle = rig.handle(Duplication::kServerAsync);
  const auto first = rig.write(handle, 0, "first");  // makes the partner known
  auto& door = *rig.servers.at(kSecond).door;
  auto& duplicator = *rig.servers.at(kFirst).duplicator;
  door.hold = true;
  const auto early = rig.write(handle, 0, "early");
  CHECK(early.status == Status::NFS4_OK);
  CHECK(early.verifier == first.verifier);
  CHECK(duplicator.counts().pending_bytes == 5);
  CHECK(rig.bytes(kSecond) == "first");
  const auto commit = rig.start_op(handle, {Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
  const auto stable = rig.start_write(handle, 100, "s", StableHow::FILE_SYNC4);
  rig.pass(50ms);
  CHECK_FALSE(commit->has_value());
  CHECK_FALSE(stable->has_value());
  door.release();
  CHECK(rig.wait(commit).verifier == early.verifier);
  CHECK(rig.wait(stable).status == Status::NFS4_OK);
  CHECK(rig.bytes(kSecond).starts_with("early"));
  CHECK(duplicator.counts().pending_bytes == 0);
  CHECK(duplicator.counts().oldest_pending == 0ms);
}

TEST_CASE("asynchronous: stopping waits for what is owed to partners") {
  MirrorRig rig;
  const auto handle = rig.handle(Duplication::kServerAsync);
  REQUIRE(rig.write(handle, 0, "first").status == Status::NFS4_OK);
  rig.servers.at(kSecond).door->hold = true;
  REQUIRE(rig.write(handle, 0, "early").status == Status::NFS4_OK);
  auto& duplicator = *rig.servers.at(kFirst).duplicator;
  auto stopped = std::async(std::launch::async, [&] { return duplicator.stop(60s); });
  rig.pass(20ms);
  CHECK(stopped.wait_for(0s) == std::future_status::timeout);
  rig.servers.at(kSecond).door->release();
  REQUIRE(rig.run_until([&] { return stopped.wait_for(0s) == std::future_status::ready; }));
  CHECK(stopped.get());
  CHECK(rig.bytes(kSecond) == "early");
}

TEST_CASE("asynchronous: beyond the window a write waits for its partner") {
  MirrorRig rig;
  rig.kill(kFirst);
  rig.options.window_bytes = 10;
  rig.start(kFirst);
  const auto handle = rig.handle(Duplication::kServerAsync);
  REQUIRE(rig.write(handle, 0, "x").status == Status::NFS4_OK);
  auto& door = *rig.servers.at(kSecond).door;
  door.hold = true;
  CHECK(rig.write(handle, 0, "12345678").status == Status::NFS4_OK);
  const auto beyond = rig.start_write(handle, 100, "12345678");
  rig.pass(50ms);
  CHECK_FALSE(beyond->has_value());
  door.release();
  CHECK(rig.wait(beyond).status == Status::NFS4_OK);
}

TEST_CASE("asynchronous: what was answered and could not be recorded makes COMMIT fail") {
  MirrorRig rig;
  const auto handle = rig.handle(Duplication::kServerAsync);
  REQUIRE(rig.write(handle, 0, "x").status == Status::NFS4_OK);
  REQUIRE(rig.commit(handle).status == Status::NFS4_OK);
  auto& door = *rig.servers.at(kSecond).door;
  door.refuse = Status::NFS4ERR_IO;
  REQUIRE(rig.write(handle, 0, "y").status == Status::NFS4_OK);  // answered
  rig.authority.error = Errc::kUnreachable;
  CHECK(rig.commit(handle).status == Status::NFS4ERR_DELAY);
  door.refuse.reset();
  rig.authority.error.reset();
  CHECK(rig.commit(handle).status == Status::NFS4_OK);
  CHECK_FALSE(rig.authority.asked.empty());
}

// Many writes at once, over each other, which the partner carries out in any order it gets to have
// them: both copies end the same.
TEST_CASE("overlapping writes reach both copies in one order") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    MirrorRig rig(seed);
    SeededRandom random(seed * 7919);
    rig.servers.at(kSecond).door->shuffle = true;
    const auto protocol = seed % 2 == 0 ? Duplication::kServerSync : Duplication::kServerAsync;
    std::vector<MirrorRig::Pending> pending;
    for (int i = 0; i < 120; ++i) {
      const auto size = 1 + random.below(3000);
      pending.push_back(rig.start_write(rig.handle(protocol), random.below(6000),
                                        std::string(size, static_cast<char>('a' + i % 26))));
      const auto turns = random.below(6);
      for (std::uint64_t t = 0; t < turns; ++t) rig.turn();
    }
    for (const auto& write : pending) CHECK(rig.wait(write).status == Status::NFS4_OK);
    REQUIRE(rig.commit(rig.handle(protocol)).status == Status::NFS4_OK);
    CHECK(rig.bytes(kFirst) == rig.bytes(kSecond));
    CHECK(rig.authority.asked.empty());
    CHECK(rig.servers.at(kFirst).duplicator->locks().size() == 0);
  }
}

// Each holds what the other waits for. Neither is taken for away, which would concern all files.
TEST_CASE("two servers that both take themselves for the leader do not wait for each other") {
  MirrorRig rig;
  rig.options.timeout = 1s;
  for (const std::uint32_t id : {kFirst, kSecond}) {
    rig.kill(id);
    rig.start(id);
  }
  layout::Handle other = rig.handle();
  other.ds_id = kSecond;
  other.partners = {kFirst, 0};
  REQUIRE(rig.write(rig.handle(), 0, "known").status == Status::NFS4_OK);
  REQUIRE(rig.write(other, 0, "known").status == Status::NFS4_OK);
  for (auto& [id, server] : rig.servers) server.door->hold = true;
  const auto one = rig.start_write(rig.handle(), kRegion, "first");
  const auto two = rig.start_write(other, kRegion + 2, "second");
  REQUIRE(rig.run_until([&] {
    return std::ranges::all_of(rig.servers,
                               [](const auto& at) { return !at.second.door->held.empty(); });
  }));
  for (auto& [id, server] : rig.servers) server.door->release();
  CHECK(rig.wait(one).status == Status::NFS4_OK);
  CHECK(rig.wait(two).status == Status::NFS4_OK);
  CHECK_FALSE(rig.authority.asked.empty());  // of these the metadata server knows who leads
  for (const auto& [id, server] : rig.servers) {
    CHECK(server.duplicator->counts().partners_away == 0);
    CHECK(server.duplicator->locks().size() == 0);
  }
}

// The same with connections cut: where the copies differ, the metadata server knows.
TEST_CASE("under cuts, copies differ only where that is recorded") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    MirrorRig rig(seed);
    SeededRandom random(seed * 104729);
    rig.servers.at(kSecond).door->shuffle = true;
    std::vector<MirrorRig::Pending> pending;
    for (int i = 0; i < 120; ++i) {
      const std::uint64_t at = random.below(4) * kRegion + random.below(5000);
      pending.push_back(rig.start_write(
          rig.handle(), at, std::string(1 + random.below(3000), static_cast<char>('a' + i % 26))));
      if (random.below(25) == 0) rig.cut();
      if (random.below(40) == 0) {
        auto& server = rig.servers.at(kSecond);
        server.reachable = !server.reachable;
        rig.cut();
      }
      const auto turns = random.below(8);
      for (std::uint64_t t = 0; t < turns; ++t) rig.turn();
    }
    rig.servers.at(kSecond).reachable = true;
    for (const auto& write : pending) CHECK(rig.wait(write).status == Status::NFS4_OK);
    rig.settle();
    ExtentSet known;
    for (const auto& missed : rig.authority.asked) {
      for (const auto& extent : missed.extents) {
        known.add({extent.offset, extent.offset + extent.length});
      }
    }
    std::string first = rig.bytes(kFirst);
    std::string second = rig.bytes(kSecond);
    second.resize(first.size());
    for (std::size_t at = 0; at < first.size(); at += 4096) {
      if (first.substr(at, 4096) == second.substr(at, 4096)) continue;
      REQUIRE(known.covers({at, std::min(at + 4096, first.size())}));
    }
  }
}

}  // namespace
}  // namespace weft::ds
