// Who may be connected: counts of connections, apart from what carries them.
#include "rpc/transport/admission.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/rpc/transport/silent_channel.h"

using namespace weft;
using namespace weft::rpc;

namespace {

struct Rig {
  explicit Rig(AdmissionLimits limits) : admission(std::make_shared<Admission>(limits)) {}
  Admission::PlacePtr admit(const std::string& peer) {
    return admission->admit(peer, admission->cuts(), [this] { ++cut; });
  }
  std::shared_ptr<Admission> admission;
  int cut = 0;
};

}  // namespace

TEST_CASE("connections are bounded in all and by address, and leaving makes room") {
  Rig rig({.standing = Standing::kClient, .max_connections = 3, .max_connections_per_peer = 2});
  const auto first = rig.admit("a");
  const auto second = rig.admit("a");
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(rig.admit("a") == nullptr);
  const auto third = rig.admit("b");
  CHECK(third != nullptr);
  CHECK(rig.admit("c") == nullptr);
  CHECK(rig.admission->connections() == 3);
  CHECK(rig.admission->refused() == 2);
  rig.admission->place_of(first).gone();
  CHECK(rig.admission->connections() == 2);
  CHECK(rig.admit("a") != nullptr);
}

TEST_CASE("one stranger too many takes the oldest one's place, and it can be no client then") {
  Rig rig({.max_connections = 1, .max_strangers = 2, .max_strangers_per_peer = 2});
  const auto oldest = rig.admit("a");
  const auto channel = std::make_shared<test::SilentChannel>();
  rig.admission->has_channel(oldest, channel);
  const auto second = rig.admit("b");
  CHECK_FALSE(channel->closed.has_value());
  const auto third = rig.admit("c");
  CHECK(channel->closed == Errc::kBusy);
  CHECK_FALSE(rig.admission->place_of(oldest).promoted(Standing::kClient));
  CHECK(rig.admission->place_of(second).promoted(Standing::kClient));
  CHECK_FALSE(rig.admission->place_of(third).promoted(Standing::kClient));
  CHECK(rig.admission->place_of(third).promoted(Standing::kServer));
  // One that gave way before its channel was there is closed once it is.
  const auto fourth = rig.admit("d");
  const auto fifth = rig.admit("d");
  static_cast<void>(rig.admit("d"));
  const auto late = std::make_shared<test::SilentChannel>();
  rig.admission->has_channel(fourth, late);
  CHECK(late->closed == Errc::kBusy);
  rig.admission->leave(fourth);
  rig.admission->leave(fifth);
}

TEST_CASE("one client too many takes the place of who has shown no right for longest") {
  Rig rig({.max_connections = 3, .max_connections_per_peer = 2});
  const auto guest = [&](const std::string& peer) {
    auto place = rig.admit(peer);
    REQUIRE(rig.admission->place_of(place).promoted(Standing::kGuest));
    const auto channel = std::make_shared<test::SilentChannel>();
    rig.admission->has_channel(place, channel);
    return std::pair(place, channel);
  };
  const auto oldest = guest("a");
  const auto client = guest("b");
  CHECK(rig.admission->place_of(client.first).promoted(Standing::kClient));
  const auto of_b = guest("b");
  CHECK_FALSE(oldest.second->closed.has_value());
  // Of all, the oldest; but of an address that has all its places, its own.
  const auto again_of_b = guest("b");
  CHECK(of_b.second->closed == Errc::kBusy);
  CHECK_FALSE(oldest.second->closed.has_value());
  const auto newcomer = guest("c");
  CHECK(oldest.second->closed == Errc::kBusy);
  CHECK_FALSE(rig.admission->place_of(oldest.first).promoted(Standing::kClient));
  // Who has shown a right stays, and where all have there is no place.
  CHECK(rig.admission->place_of(again_of_b.first).promoted(Standing::kClient));
  CHECK(rig.admission->place_of(newcomer.first).promoted(Standing::kClient));
  CHECK_FALSE(client.second->closed.has_value());
  for (const Standing to : {Standing::kGuest, Standing::kClient}) {
    CHECK_FALSE(rig.admission->place_of(rig.admit("d")).promoted(to));
  }
}

TEST_CASE("a cut ends connections that are there, and none that has left") {
  Rig rig({.standing = Standing::kServer});
  const auto first = rig.admit("a");
  const auto second = rig.admit("b");
  rig.admission->leave(first);
  rig.admission->leave(first);
  rig.admission->cut();
  CHECK(rig.cut == 1);
  CHECK(rig.admission->connections() == 1);
  rig.admission->leave(second);
}

TEST_CASE("a connection that was accepted before a cut gets no place after it") {
  Rig rig({.standing = Standing::kServer});
  const std::uint64_t before = rig.admission->cuts();
  rig.admission->cut();
  CHECK(rig.admission->admit("a", before, [] {}) == nullptr);
  CHECK(rig.admission->refused() == 1);
  CHECK(rig.admission->connections() == 0);
  const auto later = rig.admit("a");
  REQUIRE(later != nullptr);
  rig.admission->leave(later);
}
