#include "tools/load/client_copies.h"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <memory>

namespace weft::load {
namespace {

constexpr std::uint64_t kKib = 1024;

// Two copies whose answers the test gives.
struct Rig {
  explicit Rig(AnswerWhen when, std::uint64_t window = 4 * kKib)
      : copies(std::make_shared<ClientCopies>(
            2, when, window,
            [this](std::size_t copy, std::uint64_t, Buffer data, ClientCopies::Done answer) {
              bytes += data.size();
              sent[copy].push_back(std::move(answer));
            })) {}
  void write(std::size_t size = kKib) {
    auto data = pool.allocate(size);
    REQUIRE(data);
    copies->write(0, std::move(*data), [this](Result<> result) { ++(result ? done : failed); });
  }
  void answer(std::size_t copy, Result<> result = {}) {
    auto next = std::move(sent[copy].front());
    sent[copy].pop_front();
    next(std::move(result));
  }
  int drain() {
    auto outcome = std::make_shared<int>(0);  // the answer may come later than this returns
    copies->drain([outcome](Result<> result) { *outcome = result ? 1 : -1; });
    return *outcome;
  }

  BufferPool pool{1 << 20};
  std::deque<ClientCopies::Done> sent[2];
  std::uint64_t bytes = 0;
  int done = 0;
  int failed = 0;
  std::shared_ptr<ClientCopies> copies;
};

TEST_CASE("client-synchronous: a write is done when all copies have it") {
  Rig rig(AnswerWhen::kAll);
  rig.write();
  CHECK(rig.bytes == 2 * kKib);
  rig.answer(1);
  CHECK(rig.done == 0);
  CHECK(rig.drain() == 0);
  rig.answer(0);
  CHECK(rig.done == 1);
  CHECK(rig.drain() == 1);
}

TEST_CASE("client-asynchronous: the first copy's answer is enough, within the window") {
  Rig rig(AnswerWhen::kFirst, 2 * kKib);
  for (int i = 0; i < 3; ++i) rig.write();
  rig.answer(0);
  rig.answer(1);  // of the same write: nothing is owed again
  CHECK(rig.done == 1);
  rig.answer(0);
  rig.answer(0);
  CHECK(rig.done == 3);  // all of the window is there for these two
  rig.write();
  rig.answer(0);
  CHECK(rig.done == 3);  // the window is full: this one waits for its other copy
  rig.answer(1);
  rig.write();
  rig.answer(0);
  CHECK(rig.done == 4);  // one of the two that were owed is there: room for another
  rig.write();
  rig.answer(0);
  CHECK(rig.done == 4);
  for (int i = 0; i < 4; ++i) rig.answer(1);
  CHECK(rig.done == 6);
  CHECK(rig.drain() == 1);
}

TEST_CASE("what is owed is waited for before anything is called durable") {
  Rig rig(AnswerWhen::kFirst);
  rig.write();
  rig.answer(0);
  CHECK(rig.done == 1);
  int drained = 0;
  rig.copies->drain([&](Result<> result) { drained = result ? 1 : -1; });
  CHECK(drained == 0);
  rig.answer(1);
  CHECK(drained == 1);
}

TEST_CASE("a copy that fails late fails the drain and what is written next") {
  Rig rig(AnswerWhen::kFirst);
  rig.write();
  rig.answer(0);
  rig.answer(1, fail(Errc::kIo, "disk"));
  CHECK(rig.done == 1);
  CHECK(rig.drain() == -1);
  rig.write();
  CHECK(rig.failed == 1);
}

TEST_CASE("a write that no copy was answered early for has its own failure") {
  Rig rig(AnswerWhen::kFirst);
  rig.write();
  rig.answer(0, fail(Errc::kIo, "disk"));
  CHECK(rig.done + rig.failed == 0);
  rig.answer(1);
  CHECK(rig.failed == 1);
  CHECK(rig.drain() == 1);
}

}  // namespace
}  // namespace weft::load
