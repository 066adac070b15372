#include "layout/balance.h"

#include <rapidcheck.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;
using Catch::Approx;

namespace {

Candidate server(std::uint32_t id, std::uint64_t capacity, std::uint64_t free,
                 ServerState state = ServerState::kUp) {
  Candidate out;
  out.ds_id = id;
  out.state = state;
  out.capacity_bytes = capacity;
  out.free_bytes = free;
  return out;
}

}  // namespace

TEST_CASE("the fullest gives to those that stay emptier") {
  const std::vector servers{server(1, 1000, 200), server(2, 1000, 900), server(3, 2000, 1000),
                            server(4, 1000, 1000, ServerState::kDraining), server(5, 0, 0)};
  Balance balance(servers, 0.05);
  CHECK(balance.part(1) == Approx(0.8));
  CHECK(balance.part(4) == 0);  // not one that counts
  CHECK(balance.spread() == Approx(0.7));
  CHECK_FALSE(balance.even());
  CHECK(balance.giver() == 1);
  CHECK(balance.gains(1, 2, 300));
  CHECK_FALSE(balance.gains(1, 2, 400));  // they would change places
  CHECK_FALSE(balance.gains(2, 1, 10));
  CHECK_FALSE(balance.gains(1, 4, 10));
  CHECK(balance.gains(1, 3, 150));
  balance.move(1, 2, 330);
  CHECK(balance.part(1) == Approx(0.47));
  CHECK(balance.part(2) == Approx(0.43));
  CHECK(balance.giver() == 3);
  balance.pass_over(3);
  CHECK_FALSE(balance.giver());  // the others are below the mean
}

TEST_CASE("nobody gives when all is even, or nobody is there") {
  CHECK_FALSE(Balance({}, 0.05).giver());
  CHECK(Balance({}, 0.05).even());
  const std::vector servers{server(1, 1000, 500), server(2, 1000, 540)};
  CHECK_FALSE(Balance(servers, 0.05).giver());
  CHECK(Balance(servers, 0.01).giver() == 1);
}

TEST_CASE("giving small things ends, and ends even") {
  rc::check([] {
    const auto count = *rc::gen::inRange<std::uint32_t>(2, 6);
    std::vector<Candidate> servers;
    for (std::uint32_t id = 1; id <= count; ++id) {
      const auto capacity = *rc::gen::inRange<std::uint64_t>(10'000, 20'000);
      servers.push_back(server(id, capacity, *rc::gen::inRange<std::uint64_t>(0, capacity)));
    }
    Balance balance(servers, 0.05);
    int moves = 0;
    while (const auto from = balance.giver()) {
      std::optional<std::uint32_t> to;
      for (std::uint32_t id = 1; id <= count; ++id) {
        if (balance.gains(*from, id, 10) && (!to || balance.part(id) < balance.part(*to))) to = id;
      }
      if (!to) {
        balance.pass_over(*from);
        continue;
      }
      balance.move(*from, *to, 10);
      RC_ASSERT(++moves < 20'000);
    }
    RC_ASSERT(balance.spread() <= 0.06);
  });
}
