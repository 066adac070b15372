#include "dataserver/nfs/lease_wait.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/dataserver/nfs/handler_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using rpc::nfs4::Status;
using test::HandlerRig;
using test::IoThread;
using End = LeaseWait::End;

struct Rig {
  explicit Rig(LeaseWaitLimits limits = {}) : wait(lease, pool, {&thread.ring()}, clock, limits) {}
  // Waits; the answer is noted at its place.
  void ask(int who) {
    wait.wait([this, who](End end) { answers.emplace_back(who, end); });
  }
  using Answers = std::vector<std::pair<int, End>>;

  IoThread thread;
  ManualClock clock;
  BufferPool pool{std::size_t{8} << 20};
  Lease lease{clock};
  LeaseWait wait;
  Answers answers;
};

TEST_CASE("who waits goes on in order as soon as there is a lease") {
  Rig rig;
  rig.ask(1);
  rig.ask(2);
  CHECK(rig.wait.waiting() == 2);
  rig.thread.drain();
  CHECK(rig.answers.empty());
  rig.lease.renew(rig.clock.now(), 60s);
  REQUIRE(rig.thread.run_until([&] { return rig.answers.size() == 2; }));
  CHECK(rig.answers == Rig::Answers{{1, End::kHeld}, {2, End::kHeld}});
  CHECK(rig.wait.waiting() == 0);
}

TEST_CASE("nobody waits for longer than the deadline, each from when it came") {
  Rig rig;
  rig.ask(1);
  rig.clock.advance(9s);
  rig.ask(2);
  rig.clock.advance(2s);
  REQUIRE(rig.thread.run_until([&] { return !rig.answers.empty(); }));
  rig.thread.drain();
  CHECK(rig.answers == Rig::Answers{{1, End::kInVain}});
  rig.clock.advance(10s);
  REQUIRE(rig.thread.run_until([&] { return rig.answers.size() == 2; }));
  CHECK(rig.answers.back() == std::pair(2, End::kInVain));
}

TEST_CASE("too many, or too much memory, and nobody more waits") {
  Rig rig({.max_waiting = 2});
  rig.ask(1);
  rig.ask(2);
  rig.ask(3);
  CHECK(rig.answers == Rig::Answers{{3, End::kNot}});

  Rig full;
  full.ask(1);
  std::vector<Buffer> held;
  while (full.pool.in_use_bytes() <= full.pool.limit_bytes() / 2) {
    held.push_back(full.pool.allocate(std::size_t{1} << 20).value());
  }
  full.ask(2);
  CHECK(full.answers == Rig::Answers{{2, End::kNot}});
  held.clear();
  full.ask(3);
  CHECK(full.wait.waiting() == 2);
}

TEST_CASE("a server that goes down lets nobody wait") {
  Rig rig;
  rig.ask(1);
  rig.wait.give_up();
  REQUIRE(rig.thread.run_until([&] { return !rig.answers.empty(); }));
  rig.ask(2);
  CHECK(rig.answers == Rig::Answers{{1, End::kNot}, {2, End::kNot}});
}

TEST_CASE("a handle that came without a lease is looked at when there is one") {
  HandlerRig rig;
  LeaseWait wait(rig.gate->lease(), rig.pool, {&rig.thread.ring()}, rig.clock);
  rig.wait_by(wait);
  rig.gate->lease().renew(rig.clock.now() - 10s, 1s);

  std::optional<Status> status;
  const auto put = [&](HandlerRig& at, test::Grant grant) {
    status.reset();
    const auto handle = at.handle(grant);
    at.handler->execute(
        at.compound, {rpc::nfs4::Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(handle)}},
        [&](const rpc::nfs4::OpResult& result) { status = result.status; });
  };
  put(rig, {});
  CHECK_FALSE(status);
  rig.gate->lease().renew(rig.clock.now(), 5s);
  REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
  CHECK(*status == Status::NFS4_OK);

  rig.clock.advance(6s);
  put(rig, {});
  CHECK_FALSE(status);
  REQUIRE(rig.fences->raise(std::vector<Fence>{{test::kRigObject, 3}}));
  rig.gate->lease().renew(rig.clock.now(), 5s);
  REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
  CHECK(*status == Status::NFS4ERR_ACCESS);

  rig.clock.advance(6s);
  put(rig, {.epoch = 3});
  rig.clock.advance(11s);
  REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
  CHECK(*status == Status::NFS4ERR_ACCESS);  // there may be another copy
  put(rig, {.access = layout::Access::kMirror, .epoch = 3});
  rig.clock.advance(11s);
  REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
  CHECK(*status == Status::NFS4ERR_DELAY);
  put(rig, {.ds_id = 99});
  CHECK(status == Status::NFS4ERR_STALE);  // it need not wait for that
}

// Clients were sent elsewhere meanwhile, and may have asked there for what waits here.
TEST_CASE("a client's request that waited while the server stopped serving is not carried out") {
  HandlerRig rig;
  LeaseWait wait(rig.gate->lease(), rig.pool, {&rig.thread.ring()}, rig.clock);
  rig.wait_by(wait);
  const auto put_over_a_stop = [&](layout::Access access) {
    rig.gate->lease().end();
    std::optional<Status> status;
    const auto handle = rig.handle({.access = access});
    rig.handler->execute(
        rig.compound,
        {rpc::nfs4::Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(handle)}},
        [&](const rpc::nfs4::OpResult& result) { status = result.status; });
    CHECK_FALSE(status);
    rig.gate->stop();
    rig.gate->go_on();
    rig.clock.advance(1s);
    rig.gate->lease().renew(rig.clock.now(), 60s);
    REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
    return *status;
  };
  CHECK(put_over_a_stop(layout::Access::kReadWrite) == Status::NFS4ERR_ACCESS);
  CHECK(put_over_a_stop(layout::Access::kMirror) == Status::NFS4_OK);
  CHECK(rig.put(rig.handle()) == Status::NFS4_OK);
}

TEST_CASE("what was written is acknowledged with the next lease, unless it was fenced") {
  HandlerRig rig;
  LeaseWait wait(rig.gate->lease(), rig.pool, {&rig.thread.ring()}, rig.clock);
  rig.wait_by(wait);
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  const auto write_late = [&](bool fence) {
    rig.gate->lease().renew(rig.clock.now() - 10s, 1s);
    std::optional<Status> status;
    rpc::nfs4::WriteArgs args{.offset = 0, .stable = rpc::nfs4::StableHow::UNSTABLE4};
    args.data.push_back(rig.pool.allocate(100).value());
    rig.handler->execute(rig.compound, {rpc::nfs4::Op::OP_WRITE, std::move(args)},
                         [&](const rpc::nfs4::OpResult& result) { status = result.status; });
    REQUIRE(rig.thread.run_until([&] { return wait.waiting() == 1; }));
    CHECK_FALSE(status);
    if (fence) REQUIRE(rig.fences->raise(std::vector<Fence>{{test::kRigObject, 3}}));
    rig.gate->lease().renew(rig.clock.now(), 100s);
    REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
    return *status;
  };
  CHECK(write_late(false) == Status::NFS4_OK);
  CHECK(rig.commit().first == Status::NFS4_OK);
  CHECK(write_late(true) == Status::NFS4ERR_ACCESS);
}

TEST_CASE("a client whose write waited in vain is sent away") {
  HandlerRig rig;
  LeaseWait wait(rig.gate->lease(), rig.pool, {&rig.thread.ring()}, rig.clock);
  rig.wait_by(wait);
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  rig.gate->lease().renew(rig.clock.now() - 10s, 1s);
  std::optional<Status> status;
  rpc::nfs4::WriteArgs args{.offset = 0, .stable = rpc::nfs4::StableHow::UNSTABLE4};
  args.data.push_back(rig.pool.allocate(100).value());
  rig.handler->execute(rig.compound, {rpc::nfs4::Op::OP_WRITE, std::move(args)},
                       [&](const rpc::nfs4::OpResult& result) { status = result.status; });
  REQUIRE(rig.thread.run_until([&] { return wait.waiting() == 1; }));
  rig.clock.advance(11s);
  REQUIRE(rig.thread.run_until([&] { return status.has_value(); }));
  CHECK(*status == Status::NFS4ERR_ACCESS);
}

TEST_CASE("a server that has stopped serving sends clients away, and others not") {
  HandlerRig rig;
  const auto begun = rig.clock.now();
  REQUIRE(rig.put(rig.handle()) == Status::NFS4_OK);
  rig.gate->stop();
  CHECK(rig.write(0, "too late").status == Status::NFS4ERR_ACCESS);  // admitted before
  CHECK(rig.put(rig.handle()) == Status::NFS4ERR_ACCESS);
  CHECK(rig.put(rig.handle({.access = layout::Access::kRead})) == Status::NFS4ERR_ACCESS);
  // Who brings a copy goes on without it; the metadata server looks for itself.
  CHECK(rig.put(rig.handle({.access = layout::Access::kMirror})) == Status::NFS4ERR_DELAY);
  CHECK(rig.put(rig.handle({.access = layout::Access::kControl})) == Status::NFS4_OK);

  rig.gate->go_on();
  rig.gate->lease().renew(begun, 60s);  // asked for before it stopped
  CHECK(rig.put(rig.handle()) == Status::NFS4ERR_DELAY);
  rig.clock.advance(1s);
  rig.gate->lease().renew(rig.clock.now(), 60s);
  CHECK(rig.put(rig.handle()) == Status::NFS4_OK);
}

}  // namespace
}  // namespace weft::ds
