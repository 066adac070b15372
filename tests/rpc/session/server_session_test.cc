// The slots of a session against a model: any order of new requests, retransmissions, wrong numbers
// and completions.
#include "rpc/session/server_session.h"

#include <rapidcheck.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <thread>

using namespace weft;
using namespace weft::rpc;
using nfs4::Status;
using Verdict = ServerSession::Verdict;

namespace {

constexpr std::uint32_t kSlots = 3;

ServerSession make() {
  return {nfs4::SessionId{},
          std::make_shared<ServerClient>(),
          {.slots = kSlots,
           .max_request = 1000,
           .max_response = 1000,
           .max_response_cached = 100,
           .max_operations = 8,
           .max_kept = 64}};
}

nfs4::SequenceArgs args(std::uint32_t slot, std::uint32_t sequence) {
  return {nfs4::SessionId{}, sequence, slot, slot, false};
}

struct CountingTaker final : ReplyTaker {
  explicit CountingTaker(std::atomic<int>* count_replies = nullptr,
                         std::atomic<bool>* note_called = nullptr)
      : replies(count_replies), called(note_called) {}
  void take(std::optional<Message> reply) override {
    if (reply && replies != nullptr) ++*replies;
    if (called != nullptr) called->store(true);
  }
  std::atomic<int>* const replies;
  std::atomic<bool>* const called;
};

struct ModelSlot {
  std::uint32_t sequence = 0;
  bool used = false;
  bool running = false;
  bool taken = false;
  std::uint32_t ops = 0;
  std::optional<std::vector<std::byte>> reply;
};

}  // namespace

TEST_CASE("slots do what the model does, over any sequence of requests") {
  REQUIRE(rc::check([] {
    ServerSession session = make();
    ModelSlot model[kSlots];
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      const auto slot = *rc::gen::inRange<std::uint32_t>(0, kSlots);
      ModelSlot& m = model[slot];
      if (m.running && *rc::gen::inRange(0, 2) == 0) {
        const std::vector<std::byte> reply(*rc::gen::element<std::size_t>(1, 64, 65),
                                           static_cast<std::byte>(i));
        const bool keep = *rc::gen::arbitrary<bool>();
        const auto takers =
            session.finish(slot, keep ? std::optional(std::span(reply)) : std::nullopt);
        RC_ASSERT(takers.empty() != m.taken);
        m.taken = false;
        m.running = false;
        m.reply.reset();
        if (keep && reply.size() <= 64) m.reply = reply;
        continue;
      }
      const std::uint32_t sequence = m.sequence + *rc::gen::inRange<std::uint32_t>(0, 4) - 1;
      const auto ops = *rc::gen::inRange<std::uint32_t>(1, 3);
      const auto begun = session.begin(args(slot, sequence), ops);
      if (m.running) {
        if (sequence == m.sequence) {
          RC_ASSERT(begun.verdict == Verdict::kRunning);
          std::unique_ptr<ReplyTaker> taker = std::make_unique<CountingTaker>();
          RC_ASSERT(session.wait_for_reply(args(slot, sequence), taker));
          m.taken = true;
        } else {
          RC_ASSERT(begun.status == Status::NFS4ERR_SEQ_MISORDERED);
        }
      } else if (sequence == m.sequence + 1) {
        RC_ASSERT(begun.verdict == Verdict::kExecute);
        m = {sequence, true, true, false, ops, std::nullopt};
      } else if (sequence == m.sequence && m.used) {
        if (ops != m.ops) {
          RC_ASSERT(begun.status == Status::NFS4ERR_SEQ_FALSE_RETRY);
        } else if (m.reply) {
          RC_ASSERT(begun.verdict == Verdict::kReplay);
          RC_ASSERT(begun.reply == *m.reply);
        } else {
          RC_ASSERT(begun.verdict == Verdict::kUncached);
        }
      } else {
        RC_ASSERT(begun.verdict == Verdict::kRefuse);
        RC_ASSERT(begun.status == Status::NFS4ERR_SEQ_MISORDERED);
      }
    }
  }));
}

TEST_CASE("a dead session refuses, and what runs under it may still end") {
  ServerSession session = make();
  REQUIRE(session.begin(args(0, 1), 1).verdict == Verdict::kExecute);
  session.kill();
  CHECK(session.begin(args(1, 1), 1).status == Status::NFS4ERR_BADSESSION);
  CHECK(session.finish(0, std::nullopt).empty());
}

TEST_CASE("all that wait for a reply get it, but for the first of very many") {
  ServerSession session = make();
  REQUIRE(session.begin(args(0, 1), 1).verdict == Verdict::kExecute);
  std::atomic<int> replies{0};
  std::atomic<bool> first_called{false};
  std::unique_ptr<ReplyTaker> first = std::make_unique<CountingTaker>(&replies, &first_called);
  REQUIRE(session.wait_for_reply(args(0, 1), first));
  const int others = GENERATE(1, 7, 8);
  for (int i = 0; i < others; ++i) {
    CHECK_FALSE(first_called);
    std::unique_ptr<ReplyTaker> other = std::make_unique<CountingTaker>(&replies);
    REQUIRE(session.wait_for_reply(args(0, 1), other));
  }
  CHECK(first_called == (others == 8));
  for (const auto& taker : session.finish(0, std::nullopt)) taker->take(Message());
  CHECK(replies == std::min(others + 1, 8));
  std::unique_ptr<ReplyTaker> late = std::make_unique<CountingTaker>();
  CHECK_FALSE(session.wait_for_reply(args(0, 1), late));
  CHECK(late != nullptr);
  REQUIRE(session.begin(args(0, 2), 1).verdict == Verdict::kExecute);
  CHECK(session.finish(0, std::nullopt).empty());
}

TEST_CASE(
    "whoever waits for a reply that another thread ends is answered or sees that it is over") {
  ServerSession session = make();
  constexpr std::uint32_t kRounds = 2000;
  const auto work = [&] {
    for (std::uint32_t round = 1; round <= kRounds;) {
      const auto begun = session.begin(args(0, round), 1);
      if (begun.verdict == Verdict::kExecute) {
        for (const auto& taker : session.finish(0, std::nullopt)) taker->take(Message());
      } else if (begun.verdict == Verdict::kRunning) {
        std::atomic<bool> called{false};
        std::unique_ptr<ReplyTaker> taker = std::make_unique<CountingTaker>(nullptr, &called);
        if (!session.wait_for_reply(args(0, round), taker)) continue;
        while (!called) std::this_thread::yield();  // for ever, if it is forgotten
      }
      ++round;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  CHECK(session.begin(args(0, kRounds + 1), 1).verdict == Verdict::kExecute);
}

TEST_CASE("of many threads with the same request exactly one executes it") {
  ServerSession session = make();
  constexpr int kThreads = 4;
  constexpr std::uint32_t kRounds = 2000;
  std::atomic<std::uint32_t> executed{0};
  const std::vector<std::byte> reply(8, std::byte{1});
  const auto work = [&] {
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      for (;;) {
        const auto begun = session.begin(args(0, round), 1);
        if (begun.verdict == Verdict::kExecute) {
          ++executed;
          static_cast<void>(session.finish(0, std::span(reply)));
          break;
        }
        if (begun.verdict == Verdict::kReplay) {
          if (begun.reply != reply) executed += 1'000'000;
          break;
        }
        // Another thread is further on already, or still running it.
        if (begun.verdict == Verdict::kRefuse) break;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  CHECK(executed == kRounds);
}
