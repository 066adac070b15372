#include "dataserver/mirror/partner_link.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "rpc/session/preferred_dial.h"
#include "tests/dataserver/mirror/mirror_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using rpc::nfs4::CompoundResult;
using test::kSecond;

// What a thread has of a partner: here they are all on one.
struct Thread {
  Thread(test::MirrorRig& used, Partners& partners, const std::string& owner,
         std::chrono::milliseconds timeout = 300ms)
      : rig(used), config(used.link_config(owner)) {
    config.timeout = timeout;
    link = std::make_shared<PartnerLink>(rig.thread.ring(), partners.find(kSecond), rig.authority,
                                         config);
  }
  ~Thread() {
    link->stop();
    rig.settle();
  }
  // Two calls at once, as of an application that writes without waiting. Whether both were
  // answered.
  bool call() {
    int ended = 0;
    int answered = 0;
    for (int i = 0; i < 2; ++i) {
      link->call({}, [&](const Result<CompoundResult>& result) {
        ++ended;
        answered += result ? 1 : 0;
      });
    }
    rig.run_until([&] { return ended == 2; });
    return answered == 2;
  }

  test::MirrorRig& rig;
  LinkConfig config;
  std::shared_ptr<PartnerLink> link;
};

struct TwoThreads {
  test::MirrorRig rig;
  Partners partners;
  Thread first{rig, partners, "first"};
  Thread second{rig, partners, "second"};
};

TEST_CASE("an answer that is read late does not bring back a partner's verifier of before") {
  Partner partner;
  partner.saw_verifier(1);
  partner.saw_verifier(2);
  partner.saw_verifier(1);
  CHECK(partner.verifier == 2);
  partner.lost();  // and its disk was brought back from a copy
  partner.saw_verifier(1);
  CHECK(partner.verifier == 1);
  for (std::uint64_t restart = 3; restart < 40; ++restart) {
    partner.saw_verifier(restart);
    partner.saw_verifier(restart - 1);
    CHECK(partner.verifier == restart);
  }
}

TEST_CASE_METHOD(TwoThreads, "once a partner is back, no thread goes on with a session of before") {
  REQUIRE(first.call());
  REQUIRE(second.call());
  rig.kill(kSecond);
  CHECK_FALSE(first.call());
  CHECK(partners.away() == 1);
  rig.start(kSecond);
  REQUIRE(rig.run_until([&] { return partners.away() == 0; }));
  CHECK(second.call());
  CHECK(partners.away() == 0);
  CHECK(first.call());
}

TEST_CASE_METHOD(TwoThreads, "a partner is not away because the metadata server is") {
  const auto error = GENERATE(Errc::kUnreachable, Errc::kTimedOut, Errc::kClosed, Errc::kBusy);
  REQUIRE(first.call());
  rig.authority.nowhere = error;
  CHECK(second.call());
  CHECK(partners.away() == 0);
  // One that was away itself is found again.
  rig.kill(kSecond);
  CHECK_FALSE(first.call());
  CHECK(partners.away() == 1);
  rig.start(kSecond);
  REQUIRE(rig.run_until([&] { return partners.away() == 0; }));
  CHECK(second.call());
  CHECK(first.call());
}

TEST_CASE_METHOD(
    TwoThreads,
    "a partner of which the metadata server says that it is gone is back when it says so") {
  REQUIRE(first.call());
  SECTION("gone") { rig.authority.state = rpc::control::Located::State::kDown; }
  SECTION("unknown") { rig.authority.nowhere = Errc::kNotFound; }
  CHECK_FALSE(second.call());
  CHECK(partners.away() == 1);
  rig.authority.nowhere = Errc::kUnreachable;
  const int before = rig.authority.questions;
  REQUIRE(rig.run_until([&] { return rig.authority.questions >= before + 3; }));
  CHECK(partners.away() == 1);
  rig.authority.nowhere.reset();
  rig.authority.state = rpc::control::Located::State::kUp;
  CHECK(rig.run_until([&] { return partners.away() == 0; }));
}

TEST_CASE("a thread that waited for a partner in vain tries it again once it has lost it") {
  test::MirrorRig rig;
  Partners partners;
  Thread first(rig, partners, "first");
  Thread second(rig, partners, "second", 10s);
  REQUIRE(first.call());
  REQUIRE(second.call());
  // A call of the second thread is out while the first puts the partner away, and ends.
  rig.servers.at(kSecond).door->hold = true;
  bool failed = false;
  PartnerLink::Ops commit;
  commit.push_back({rpc::nfs4::Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
  second.link->call(std::move(commit),
                    [&](const Result<CompoundResult>& result) { failed = !result; });
  REQUIRE(rig.run_until([&] { return !rig.servers.at(kSecond).door->held.empty(); }));
  partners.find(kSecond)->away = true;
  first.link->stop();
  bool waited = false;
  second.link->when_back(1ms, [&] { waited = true; });
  REQUIRE(rig.run_until([&] { return waited; }));
  CHECK(partners.away() == 1);
  rig.servers.at(kSecond).door->release();
  rig.kill(kSecond);
  rig.start(kSecond);
  CHECK(rig.run_until([&] { return failed; }));
  CHECK(rig.run_until([&] { return partners.away() == 0; }));
}

TEST_CASE("who waits for a partner has it tried, though this thread has a session that it made") {
  test::MirrorRig rig;
  Partners partners;
  Thread thread(rig, partners, "thread", 10s);
  rig.authority.hold_places = true;
  std::optional<bool> answered;
  thread.link->call({}, [&](const Result<CompoundResult>& result) { answered = bool(result); });
  // Another thread puts it away meanwhile, and ends.
  partners.find(kSecond)->away = true;
  rig.authority.release_places();
  REQUIRE(rig.run_until([&] { return answered.has_value(); }));
  CHECK_FALSE(*answered);
  bool waited = false;
  thread.link->when_back(10s, [&] { waited = true; });
  CHECK(rig.run_until([&] { return partners.away() == 0; }));
  CHECK(rig.run_until([&] { return waited; }));
}

TEST_CASE("a partner that gets RDMA is gone to anew, when nothing is out") {
  test::MirrorRig rig;
  rig.locate_every = 10ms;
  Partners partners;
  Thread thread(rig, partners, "thread");
  REQUIRE(thread.call());
  CHECK_FALSE(rig.by_rdma);
  rig.authority.rdma = {layout::make_address("127.0.0.1", 20049).value()};
  // It is asked after only while it is used.
  REQUIRE(rig.run_until([&] { return thread.call() && rig.by_rdma; }));
  CHECK(partners.away() == 0);
}

TEST_CASE("by which transport threads are connected to a partner is known") {
  using Known = std::vector<rpc::control::PartnerTransports>;
  test::MirrorRig rig;
  rig.locate_every = 10ms;
  Partners partners;
  Thread second(rig, partners, "second");
  {
    Thread first(rig, partners, "first");
    CHECK(partners.transports().empty());
    REQUIRE(first.call());
    CHECK(partners.transports() == Known{{.ds_id = kSecond, .tcp = 1}});
    rig.authority.rdma = {layout::make_address("127.0.0.1", 20049).value()};
    REQUIRE(second.call());
    CHECK(partners.transports() == Known{{.ds_id = kSecond, .rdma = 1, .tcp = 1}});
    REQUIRE(rig.run_until([&] {
      return first.call() && partners.transports() == Known{{.ds_id = kSecond, .rdma = 2}};
    }));
    rig.authority.rdma.clear();
    rig.network.by_rdma = false;
    rig.cut();  // the sessions connect anew
    REQUIRE(rig.run_until([&] {
      return first.call() && second.call() &&
             partners.transports() == Known{{.ds_id = kSecond, .tcp = 2}};
    }));
  }
  CHECK(partners.transports() == Known{{.ds_id = kSecond, .tcp = 1}});
  rig.kill(kSecond);
  CHECK_FALSE(second.call());
  CHECK(partners.transports().empty());
}

// A partner by two transports, of which the preferred one connects and carries nothing.
struct MuteThread : Thread {
  MuteThread(test::MirrorRig& used, Partners& partners) : Thread(used, partners, "mute") {
    config.make_dial = [this](auto& context, const auto& found, auto better) {
      ++made;
      rpc::PreferredDialOptions options;
      options.preferred = [this](auto done) {
        ++mute;
        done(rig.network.connect().a);
      };
      options.other = rig.dial(found.addresses.at(0).port);
      options.on_better = std::move(better);
      return rpc::preferred_dial(context, std::move(options));
    };
  }
  int made = 0;
  int mute = 0;
};

TEST_CASE("a partner that answers nothing by RDMA is gone to by TCP once it was put away") {
  test::MirrorRig rig;
  Partners partners;
  MuteThread thread(rig, partners);
  CHECK_FALSE(thread.call());
  CHECK(partners.away() == 1);
  REQUIRE(rig.run_until([&] { return partners.away() == 0; }));
  CHECK(thread.call());
  CHECK(thread.mute == 1);
  CHECK(thread.made == 1);
  // At another address that says nothing of it.
  rig.authority.rdma = {layout::make_address("127.0.0.1", 20049).value()};
  rig.kill(kSecond);
  CHECK_FALSE(thread.call());
  rig.start(kSecond);
  REQUIRE(rig.run_until([&] { return thread.made == 2 && thread.mute >= 2; }));
}

}  // namespace
}  // namespace weft::ds
