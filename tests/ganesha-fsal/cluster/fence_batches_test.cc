#include "ganesha-fsal/cluster/fence_batches.h"

#include <catch2/catch_test_macros.hpp>
#include <deque>

using namespace weft;
using namespace weft::mds;

namespace {

// What is posted runs when the test says so.
struct Batches {
  std::vector<std::size_t> recorded;
  std::vector<std::pair<FenceBatches::Servers, FenceBatches::Fences>> sent;
  std::deque<WorkQueue::Work> posted;
  std::vector<Result<>> outcomes;
  Result<> record;
  Result<> send;
  bool full = false;
  FenceBatches batches{{.post =
                            [this](WorkQueue::Work&& work) {
                              if (full) return false;
                              posted.push_back(std::move(work));
                              return true;
                            },
                        .record =
                            [this](const auto&, const auto& fences) {
                              recorded.push_back(fences.size());
                              return record;
                            },
                        .send =
                            [this](const auto& servers, const auto& fences, auto done) {
                              sent.emplace_back(servers, fences);
                              done(Result<>(send));
                            },
                        .at_once = 1}};

  void ask(FenceBatches::Servers servers, std::uint64_t file, std::size_t count = 1) {
    FenceBatches::Fences fences;
    for (std::size_t i = 0; i < count; ++i) {
      fences.push_back({.object = {.fileid = file + i, .generation = 1, .fsid = 1}, .epoch = 2});
    }
    batches.fence(std::move(servers), std::move(fences),
                  [this](Result<> outcome) { outcomes.push_back(std::move(outcome)); });
  }
  void run() {
    while (!posted.empty()) {
      WorkQueue::Work work = std::move(posted.front());
      posted.pop_front();
      work();
    }
  }
};

}  // namespace

TEST_CASE("fences of the same servers that wait are recorded and sent at once") {
  Batches b;
  b.ask({1}, 10);
  b.ask({1}, 11);
  b.ask({1, 2}, 12);
  b.ask({1}, 13, 3);
  b.run();
  CHECK(b.recorded == std::vector<std::size_t>{5, 1});
  REQUIRE(b.sent.size() == 2);
  CHECK(b.sent[0].first == FenceBatches::Servers{1});
  CHECK(b.sent[0].second[1].object.fileid == 11);
  CHECK(b.sent[0].second[4].object.fileid == 15);
  CHECK(b.sent[1].first == FenceBatches::Servers{1, 2});
  CHECK(b.outcomes.size() == 4);
  for (const Result<>& outcome : b.outcomes) CHECK(outcome);
}

TEST_CASE("a batch of fences is no longer than a message") {
  Batches b;
  b.ask({1}, 0, rpc::control::kMaxFences - 1);
  b.ask({1}, 5000, 2);
  b.ask({1}, 6000);
  b.ask({2}, 7000);
  b.run();
  CHECK(b.recorded == std::vector<std::size_t>{rpc::control::kMaxFences - 1, 1, 3});
  CHECK(b.outcomes.size() == 4);
  b.ask({1}, 0, rpc::control::kMaxFences + 1);
  CHECK(b.outcomes.back().error() == Errc::kInvalid);
  b.ask({1}, 0, 0);
  CHECK(b.outcomes.back().error() == Errc::kInvalid);
}

TEST_CASE("each who asked hears what went wrong with a batch of fences") {
  Batches b;
  b.send = fail(Errc::kUnreachable, "away");
  b.ask({1}, 10);
  b.ask({1}, 11);
  b.run();
  REQUIRE(b.outcomes.size() == 2);
  for (const Result<>& outcome : b.outcomes) CHECK(outcome.error() == Errc::kUnreachable);
  b.record = fail(Errc::kIo, "disk");
  b.ask({1}, 12);
  b.run();
  CHECK(b.outcomes.back().error() == Errc::kIo);
  CHECK(b.sent.size() == 1);  // nothing that is not recorded
  b.full = true;
  b.ask({1}, 13);
  CHECK(b.outcomes.back().error() == Errc::kBusy);
  CHECK(b.outcomes.size() == 4);
  b.full = false;
  b.record = {};
  b.ask({1}, 14);
  b.run();
  CHECK(b.outcomes.size() == 5);
  CHECK(b.outcomes.back().error() == Errc::kUnreachable);
}
