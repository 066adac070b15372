#include "dataserver/mirror/partner_link.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/mirror/mirror_rig.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;
using rpc::nfs4::CompoundResult;
using test::kSecond;

// What a thread has of a partner: here they are all on one.
struct Thread {
  Thread(test::MirrorRig& used, Partners& partners, const std::string& owner)
      : rig(used), config(used.link_config(owner)) {
    config.timeout = 300ms;
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

TEST_CASE("once a partner is back, no thread goes on with a session of before") {
  test::MirrorRig rig;
  Partners partners;
  Thread first(rig, partners, "first");
  Thread second(rig, partners, "second");
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

}  // namespace
}  // namespace weft::ds
