#include "ganesha-fsal/cluster/wait_limit.h"

#include <catch2/catch_test_macros.hpp>
#include <future>
#include <thread>
#include <vector>

#include "ganesha-fsal/cluster/await.h"

using namespace weft;
using namespace weft::mds;

TEST_CASE("so many threads wait, and no more, until one has done its request") {
  WaitLimit limit(2);
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::promise<bool> waits[2];
  std::vector<std::thread> threads;
  for (auto& wait : waits) {
    threads.emplace_back([&limit, &wait, gone] {
      const WaitLimit::Scope scope(limit);
      wait.set_value(WaitLimit::may_wait());
      gone.wait();
      CHECK(WaitLimit::may_wait());  // it counts already
    });
  }
  for (auto& wait : waits) CHECK(wait.get_future().get());
  {
    const WaitLimit::Scope scope(limit);
    const WaitLimit::Scope within(limit);
    CHECK_FALSE(WaitLimit::may_wait());
    bool called = false;
    CHECK(await<void>([&](rpc::control::Done<void>) { called = true; }).error() == Errc::kBusy);
    CHECK_FALSE(called);
  }
  CHECK(WaitLimit::may_wait());  // outside of a scope
  go.set_value();
  for (auto& thread : threads) thread.join();
  const WaitLimit::Scope scope(limit);
  CHECK(WaitLimit::may_wait());
}
