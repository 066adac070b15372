#include "dataserver/process/watchdog.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/io_thread.h"

namespace weft::ds {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a thread that runs is left alone, one that hangs is reported once") {
  test::IoThread thread;
  std::atomic<int> hung{0};
  const Watchdog watchdog({&thread.ring()}, 20, 5ms, [&](unsigned index) {
    CHECK(index == 0);
    ++hung;
  });
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) {
    thread.poll();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(hung == 0);
  std::this_thread::sleep_for(500ms);  // handlers do not run
  CHECK(hung == 1);
  thread.poll();
}

TEST_CASE("a thread that waits for a disk is not taken for hung, and is alive") {
  test::IoThread thread;
  std::atomic<bool> at_disk{true};
  std::atomic<pid_t> asked{0};
  std::atomic<int> hung{0};
  std::atomic<int> signs{0};
  const Watchdog watchdog(
      {&thread.ring()}, 20, 5ms, [&](unsigned) { ++hung; }, [&] { ++signs; },
      [&](pid_t who) {
        asked = who;
        return at_disk.load();
      });
  CHECK(thread.run_until([&] { return signs > 0; }));
  signs = 0;
  std::this_thread::sleep_for(500ms);  // handlers do not run
  CHECK(hung == 0);
  CHECK(signs > 5);
  CHECK(asked == ::gettid());
  at_disk.store(false);
  std::this_thread::sleep_for(500ms);
  CHECK(hung == 1);
  thread.poll();
}

TEST_CASE("a thread that sleeps, or is not there, does not wait for a disk") {
  CHECK_FALSE(waits_for_disk(::gettid()));
  CHECK_FALSE(waits_for_disk(1 << 30));
  CHECK_FALSE(any_thread_waits_for_disk());
}

TEST_CASE("a sign of life needs all threads") {
  test::IoThread thread;
  std::atomic<int> signs{0};
  const Watchdog watchdog({&thread.ring()}, 0, 5ms, [](unsigned) { FAIL(); }, [&] { ++signs; });
  std::this_thread::sleep_for(100ms);  // handlers do not run: asked, not answered
  CHECK(signs == 0);
  CHECK(thread.run_until([&] { return signs > 2; }));
  const int before = signs;
  std::this_thread::sleep_for(100ms);
  CHECK(signs <= before + 1);
  thread.poll();
}

}  // namespace
}  // namespace weft::ds
