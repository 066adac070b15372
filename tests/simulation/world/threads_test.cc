// Threads, clocks and what they wait with, under the scheduler.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "tests/simulation/world/fork.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

// Two threads add to a number that is not atomic, with a lock or without.
int add_up(bool locked) {
  int sum = 0;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        std::unique_lock lock(mutex, std::defer_lock);
        if (locked) lock.lock();
        const int seen = sum;
        std::this_thread::yield();
        sum = seen + 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return sum;
}

TEST_CASE("a mutex keeps others out, and without one a seed shows it") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(in_simulation(seed, [] { SIM_CHECK(add_up(true) == 200); }).status == 0);
    CHECK(in_simulation(seed, [] { SIM_CHECK(add_up(false) < 200); }).status == 0);
  }
}

TEST_CASE("sleeps take simulated time, and end in order") {
  const auto began = std::chrono::steady_clock::now();
  const Outcome outcome = in_simulation(7, [] {
    const auto start = std::chrono::steady_clock::now();
    std::vector<int> order;
    std::vector<std::thread> threads;
    for (const int seconds : {30, 10, 20}) {
      threads.emplace_back([&order, seconds] {
        std::this_thread::sleep_for(std::chrono::seconds(seconds));
        order.push_back(seconds);
      });
    }
    for (auto& thread : threads) thread.join();
    SIM_CHECK((order == std::vector{10, 20, 30}));
    const auto took = std::chrono::steady_clock::now() - start;
    SIM_CHECK(took >= 30s && took < 31s);
  });
  CHECK(outcome.status == 0);
  CHECK(std::chrono::steady_clock::now() - began < 20s);
}

TEST_CASE("condition variables wake who waits, and time out who is not woken") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome outcome = in_simulation(seed, [] {
      std::mutex mutex;
      std::condition_variable changed;
      int turn = 0;
      std::thread other([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn == 1; });
        turn = 2;
        changed.notify_all();
      });
      std::unique_lock lock(mutex);
      SIM_CHECK(!changed.wait_for(lock, 50ms, [&] { return turn == 2; }));
      turn = 1;
      changed.notify_all();
      SIM_CHECK(changed.wait_for(lock, 10s, [&] { return turn == 2; }));
      lock.unlock();
      other.join();
    });
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("readers share a lock, a writer does not") {
  const Outcome outcome = in_simulation(3, [] {
    std::shared_mutex mutex;
    std::atomic<int> inside{0};
    std::shared_lock first(mutex);
    std::thread reader([&] {
      const std::shared_lock lock(mutex);
      ++inside;
    });
    reader.join();
    std::thread writer([&] {
      const std::unique_lock lock(mutex);
      ++inside;
    });
    std::this_thread::sleep_for(1s);
    SIM_CHECK(inside == 1);
    first.unlock();
    writer.join();
    SIM_CHECK(inside == 2);
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("the same seed goes the same way, another one another way") {
  const auto body = [] { static_cast<void>(add_up(false)); };
  std::set<std::uint64_t> ways;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = in_simulation(seed, body);
    CHECK(outcome == in_simulation(seed, body));
    ways.insert(outcome.fingerprint);
  }
  CHECK(ways.size() == 20);
}

TEST_CASE("a paused machine stands still, the others do not") {
  const Outcome outcome = in_simulation(5, [] {
    std::atomic<int> beats{0};
    std::thread other([&] {
      enter_node(1);
      for (int i = 0; i < 10; ++i, ++beats) std::this_thread::sleep_for(100ms);
    });
    std::this_thread::sleep_for(550ms);
    pause(1);
    const int then = beats;
    std::atomic<bool> entered{false};
    std::thread late([&] {
      enter_node(1);
      entered = true;
    });
    std::this_thread::sleep_for(5s);
    SIM_CHECK(beats == then);
    SIM_CHECK(!entered);
    resume(1);
    other.join();
    late.join();
    SIM_CHECK(beats == 10);
    SIM_CHECK(entered);
  });
  CHECK(outcome.status == 0);
}

TEST_CASE("a deadlock ends the run, and so does its limit") {
  const Outcome stuck = in_simulation(1, [] {
    std::mutex a;
    std::mutex b;
    const std::lock_guard lock(a);
    std::thread other([&] {
      const std::lock_guard first(b);
      const std::lock_guard second(a);
    });
    std::this_thread::sleep_for(1ms);
    const std::lock_guard second(b);
    other.join();
  });
  CHECK(stuck.status == 3);
  const Outcome late =
      in_simulation({.seed = 1, .limit = kSecond}, [] { std::this_thread::sleep_for(1h); });
  CHECK(late.status == 3);
}

TEST_CASE("data of a thread goes with it, before its end is seen") {
  const Outcome outcome = in_simulation(9, [] {
    static std::atomic<int> gone{0};
    struct Data {
      ~Data() {
        std::this_thread::sleep_for(1s);
        ++gone;
      }
    };
    std::thread other([] {
      static thread_local Data data;
      static_cast<void>(data);
    });
    other.join();
    SIM_CHECK(gone == 1);
  });
  CHECK(outcome.status == 0);
}

}  // namespace
}  // namespace weft::sim
