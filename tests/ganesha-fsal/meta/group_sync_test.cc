#include "ganesha-fsal/meta/kv/group_sync.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <semaphore>
#include <span>
#include <thread>
#include <vector>

using namespace weft;
using namespace weft::mds;

namespace {

// Syncs that go on, one each, when they are let.
struct Gate {
  std::counting_semaphore<> begun{0};
  std::counting_semaphore<> may_end{0};
  std::atomic<bool> fails{false};

  GroupSync::Sync sync() {
    return [this]() -> Result<> {
      begun.release();
      may_end.acquire();
      if (fails) return fail(Errc::kIo, "the disk");
      return {};
    };
  }
};

void wait_for(const std::atomic<int>& count, int wanted) {
  while (count < wanted) std::this_thread::yield();
}

}  // namespace

TEST_CASE("commits of many threads share a sync, and wait for no more than theirs") {
  Gate gate;
  GroupSync group(gate.sync());
  std::atomic<int> done{0};  // without an error; Catch2's checks are one thread's
  std::vector<std::jthread> threads;
  const auto waiter = [&](CommitSeq seq) {
    threads.emplace_back([&, seq] {
      if (group.wait(seq)) ++done;
    });
  };
  waiter(group.note_commit());
  gate.begun.acquire();
  // While it is synced.
  for (int i = 0; i < 20; ++i) waiter(group.note_commit());
  gate.may_end.release();
  wait_for(done, 1);
  gate.begun.acquire();
  CHECK(done == 1);
  CHECK(group.durable() == 1);
  // Of those that come now nobody is covered by the second.
  for (int i = 0; i < 5; ++i) waiter(group.note_commit());
  gate.may_end.release();
  wait_for(done, 21);
  gate.begun.acquire();
  CHECK(done == 21);
  gate.may_end.release();
  wait_for(done, 26);
  CHECK(group.syncs() == 3);
  CHECK(group.commits() == 26);
  CHECK(group.wait(26));  // at once
}

TEST_CASE("all that wait are told of a failure, and those that come later") {
  const bool of_the_sync = GENERATE(true, false);
  Gate gate;
  std::atomic<int> reported{0};
  GroupSync group(gate.sync(), [&](const Error&) { ++reported; });
  std::atomic<int> refused{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&, seq = group.note_commit()] {
      if (!group.wait(seq)) ++refused;
    });
  }
  gate.begun.acquire();
  gate.fails = of_the_sync;
  if (!of_the_sync) group.poison({Errc::kTimedOut, "stuck"});
  gate.may_end.release(100);
  wait_for(refused, 10);
  CHECK(reported == 1);
  CHECK_FALSE(group.wait(1));
  CHECK(group.durable() == 0);
}

TEST_CASE("who meets a failure while another is being reported waits until it is") {
  std::binary_semaphore begun{0};
  std::binary_semaphore may_end{0};
  GroupSync group([] { return Result<>(); },
                  [&](const Error&) {
                    begun.release();
                    may_end.acquire();
                  });
  const std::jthread first([&] { group.poison({Errc::kIo, "the disk"}); });
  begun.acquire();
  std::atomic<bool> answered{false};
  const std::jthread second([&] {
    group.poison({Errc::kIo, "the disk, again"});
    answered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(answered);
  may_end.release();
}

namespace {

// Who has been told, and how many at a time.
struct Heard {
  std::atomic<int> told{0};
  std::atomic<int> calls{0};
};

void tell(std::span<void* const> who) {
  for (void* one : who) ++static_cast<Heard*>(one)->told;
  ++static_cast<Heard*>(who.front())->calls;
}

}  // namespace

TEST_CASE("those who are to be told hear it together, when it is durable") {
  Gate gate;
  Heard heard;
  GroupSync group(gate.sync());
  std::atomic<int> done{0};
  std::jthread first([&, seq = group.note_commit()] {
    if (group.wait(seq)) ++done;
  });
  gate.begun.acquire();
  for (int i = 0; i < 20; ++i) REQUIRE(group.tell_when_settled(group.note_commit(), &tell, &heard));
  gate.may_end.release();
  wait_for(done, 1);
  gate.begun.acquire();
  CHECK(heard.told == 0);
  REQUIRE(group.tell_when_settled(group.note_commit(), &tell, &heard));
  gate.may_end.release();
  wait_for(heard.told, 20);
  gate.begun.acquire();
  CHECK(heard.told == 20);
  gate.may_end.release();
  wait_for(heard.told, 21);
  CHECK(heard.calls == 2);
  CHECK(group.syncs() == 3);
  CHECK_FALSE(group.tell_when_settled(22, &tell, &heard));
}

TEST_CASE("who is alone has it synced at once, and is told nothing") {
  Heard heard;
  GroupSync group([] { return Result<>(); });
  CHECK_FALSE(group.tell_when_settled(group.note_commit(), &tell, &heard));
  CHECK(group.durable() == 1);
  CHECK(heard.calls == 0);
}

TEST_CASE("a failure, and the end, are told to all who are to be told") {
  const bool fails = GENERATE(true, false);
  Gate gate;
  Heard heard;
  GroupSync group(gate.sync());
  std::jthread first([&, seq = group.note_commit()] { static_cast<void>(group.wait(seq)); });
  gate.begun.acquire();
  for (int i = 0; i < 5; ++i) REQUIRE(group.tell_when_settled(group.note_commit(), &tell, &heard));
  gate.fails = fails;
  gate.may_end.release(100);
  group.finish();
  CHECK(heard.told == 5);
  CHECK_FALSE(group.tell_when_settled(1, &tell, &heard));
  first.join();
}

TEST_CASE("under load nobody is forgotten") {
  GroupSync group([]() -> Result<> {
    std::this_thread::yield();
    return {};
  });
  std::vector<std::jthread> threads;
  std::atomic<int> done{0};
  std::atomic<int> failed{0};
  std::atomic<int> later{0};
  Heard heard;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, tells = i % 2 == 1] {
      for (int round = 0; round < 2000; ++round) {
        const CommitSeq seq = group.note_commit();
        if (tells) {
          if (group.tell_when_settled(seq, &tell, &heard)) ++later;
        } else if (!group.wait(seq)) {
          ++failed;
        }
      }
      ++done;
    });
  }
  wait_for(done, 8);
  wait_for(heard.told, later);
  CHECK(failed == 0);
  CHECK(group.durable() == 16'000);
  CHECK(group.syncs() <= 16'000);
}
