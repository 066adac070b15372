#include "ganesha-fsal/files/size_asks.h"

#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

#include "ganesha-fsal/files/file_table.h"

namespace weft::mds {

using namespace std::chrono_literals;

namespace {

// Data servers that answer when they are told to.
struct Slow {
  std::vector<SizeAsks::Answered> asked;
  SizeAsks::Ask ask() {
    return [this](SizeAsks::Answered done) { asked.push_back(std::move(done)); };
  }
  void answer(std::size_t which, std::uint64_t size) { asked.at(which)(ObjectsEnd{size, true}); }
};

}  // namespace

TEST_CASE("a file is asked for once, and the answer is there for who comes next") {
  FileTable files{system_clock()};
  SizeAsks asks(files);
  Slow servers;
  CHECK(asks.answer(7, 1, 0ms, servers.ask()).error() == Errc::kBusy);
  CHECK(asks.answer(7, 1, 1ms, servers.ask()).error() == Errc::kBusy);
  CHECK(servers.asked.size() == 1);
  CHECK(asks.forget(7).error() == Errc::kBusy);
  servers.answer(0, 500);
  CHECK(asks.answer(7, 1, 0ms, servers.ask())->size == 500);
  CHECK(servers.asked.size() == 1);
  CHECK(asks.answer(7, 1, 0ms, servers.ask()).error() == Errc::kBusy);  // it was taken
  CHECK(servers.asked.size() == 2);
}

TEST_CASE("an answer that comes in time is waited for, by one thread") {
  FileTable files{system_clock()};
  SizeAsks asks(files);
  Slow servers;
  CHECK(asks.answer(7, 1, 0ms, servers.ask()).error() == Errc::kBusy);
  std::thread waiter([&] { CHECK(asks.answer(7, 1, 10s, servers.ask())->size == 500); });
  // Beside it nobody waits: a second waiter would take 10 s.
  std::this_thread::sleep_for(50ms);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(asks.answer(7, 1, 10s, servers.ask()).error() == Errc::kBusy);
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  servers.answer(0, 500);
  waiter.join();
  CHECK(asks.forget(7));
}

TEST_CASE("an answer of before the newest doubt, or of before a cut, is of no use") {
  FileTable files{system_clock()};
  SizeAsks asks(files);
  Slow servers;
  CHECK(asks.answer(7, 1, 0ms, servers.ask()).error() == Errc::kBusy);
  SECTION("another doubt came up before the answer") {
    CHECK(asks.answer(7, 2, 10s, servers.ask()).error() == Errc::kBusy);
    CHECK(servers.asked.size() == 1);  // one question at a time
    servers.answer(0, 500);
    CHECK(asks.answer(7, 2, 0ms, servers.ask()).error() == Errc::kBusy);
    REQUIRE(servers.asked.size() == 2);
    servers.answer(1, 600);
    CHECK(asks.answer(7, 2, 0ms, servers.ask())->size == 600);
  }
  SECTION("the file is cut") {
    servers.answer(0, 500);
    CHECK(asks.forget(7));
    CHECK(asks.answer(7, 1, 0ms, servers.ask()).error() == Errc::kBusy);
    CHECK(servers.asked.size() == 2);
  }
}

TEST_CASE("questions are bounded, and may be answered when nobody is left") {
  Slow servers;
  FileTable files{system_clock()};
  {
    SizeAsks asks(files);
    for (FileId file = 1; file <= SizeAsks::kMostAsked + 1; ++file) {
      CHECK(asks.answer(file, 1, 0ms, servers.ask()).error() == Errc::kBusy);
    }
    CHECK(servers.asked.size() == SizeAsks::kMostAsked);
  }
  servers.answer(0, 500);
}

}  // namespace weft::mds
