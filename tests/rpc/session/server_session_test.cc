// The slots of a session against a model: any order of new requests, retransmissions, wrong numbers
// and completions.
#include "rpc/session/server_session.h"

#include <rapidcheck.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
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

struct ModelSlot {
  std::uint32_t sequence = 0;
  bool used = false;
  bool running = false;
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
        session.finish(slot, keep ? std::optional(std::span(reply)) : std::nullopt);
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
          RC_ASSERT(begun.verdict == Verdict::kDrop);
        } else {
          RC_ASSERT(begun.status == Status::NFS4ERR_SEQ_MISORDERED);
        }
      } else if (sequence == m.sequence + 1) {
        RC_ASSERT(begun.verdict == Verdict::kExecute);
        m = {sequence, true, true, ops, std::nullopt};
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
  session.finish(0, std::nullopt);
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
          session.finish(0, std::span(reply));
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
