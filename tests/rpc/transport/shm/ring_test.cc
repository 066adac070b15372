#include "rpc/transport/shm/ring.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/transport/shm/patience.h"
#include "rpc/transport/shm/record.h"

using namespace weft;
using namespace weft::rpc;

namespace {

struct Memory {
  explicit Memory(std::size_t ring_capacity) : capacity(ring_capacity) {
    bytes.resize(ring_bytes(capacity) / kCacheLine);
    std::memset(bytes.data(), 0, ring_bytes(capacity));
  }
  std::byte* at() { return bytes.front().bytes; }
  RingControl& control() { return *reinterpret_cast<RingControl*>(at()); }
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  std::size_t capacity;
  std::vector<Line> bytes;
};

Result<bool> push(RingProducer& out, const std::string& text) {
  const auto half = std::as_bytes(std::span(text)).first(text.size() / 2);
  const auto rest = std::as_bytes(std::span(text)).subspan(text.size() / 2);
  const std::array<std::span<const std::byte>, 2> parts{half, rest};
  return out.push(parts);
}

std::optional<std::string> pop(RingConsumer& in) {
  const auto size = in.peek().value();
  if (!size) return std::nullopt;
  std::string text(*size, '\0');
  in.copy(0, std::as_writable_bytes(std::span(text)));
  in.pop();
  return text;
}

std::string numbered(std::uint64_t number, std::size_t size) {
  std::string text(size, static_cast<char>('a' + number % 26));
  const std::string digits = std::to_string(number);
  return text.replace(0, std::min(size, digits.size()), digits.substr(0, size));
}

}  // namespace

TEST_CASE("records come out of a ring as they went in, over its end too") {
  Memory memory(1024);
  RingProducer out(memory.at(), memory.capacity);
  RingConsumer in(memory.at(), memory.capacity);
  SeededRandom random(3);
  std::deque<std::string> expected;
  bool was_full = false;
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    if (random.below(2) == 0) {
      const std::string text = numbered(step, random.below(out.max_record() + 1));
      const auto pushed = push(out, text).value();
      if (pushed) expected.push_back(text);
      was_full = was_full || !pushed;
    } else {
      const auto text = pop(in);
      REQUIRE(text.has_value() == !expected.empty());
      if (!text) continue;
      REQUIRE(*text == expected.front());
      expected.pop_front();
    }
  }
  CHECK(was_full);
}

TEST_CASE("a sleeping reader is rung for once, and a waiting writer") {
  Memory memory(256);
  RingProducer out(memory.at(), memory.capacity);
  RingConsumer in(memory.at(), memory.capacity);
  CHECK(in.may_sleep());
  REQUIRE(push(out, "a").value());
  CHECK(out.must_ring());
  REQUIRE(push(out, "b").value());
  CHECK_FALSE(out.must_ring());
  CHECK_FALSE(in.may_sleep());  // there is something
  in.awake();
  CHECK_FALSE(in.must_ring());  // nobody waits for room
  REQUIRE(push(out, std::string(100, 'c')).value());
  CHECK_FALSE(push(out, std::string(100, 'd')).value());
  CHECK(out.may_sleep(100));
  CHECK(pop(in) == "a");
  CHECK(in.must_ring());
  CHECK_FALSE(in.must_ring());
  CHECK(pop(in) == "b");
  CHECK_FALSE(out.may_sleep(100));  // there is room
}

TEST_CASE("positions and sizes that cannot be are refused") {
  Memory memory(1024);
  RingProducer out(memory.at(), memory.capacity);
  RingConsumer in(memory.at(), memory.capacity);
  RingControl& control = memory.control();
  control.tail = 1088;  // more than fits
  CHECK(in.peek().error() == Errc::kProtocol);
  control.tail = 100;  // not of whole lines
  CHECK(in.peek().error() == Errc::kProtocol);
  control.tail = 64;
  const std::uint32_t sizes[] = {61, 1025, 0xFFFFFFFF, 0xFFFFFFC0};
  for (const std::uint32_t size : sizes) {
    std::memcpy(memory.at() + sizeof control, &size, sizeof size);
    CHECK(in.peek().error() == Errc::kProtocol);
  }
  const std::uint32_t fits = 60;
  std::memcpy(memory.at() + sizeof control, &fits, sizeof fits);
  CHECK(in.peek().value() == 60);
  control.head = 64;  // of what was never written
  CHECK(push(out, "x").error() == Errc::kProtocol);
}

TEST_CASE("a size that changes between check and copy changes nothing") {
  Memory memory(1024);
  RingProducer out(memory.at(), memory.capacity);
  RingConsumer in(memory.at(), memory.capacity);
  REQUIRE(push(out, "short").value());
  REQUIRE(in.peek().value() == 5);
  const std::uint32_t huge = 0xFFFFFFFF;
  std::memcpy(memory.at() + sizeof(RingControl), &huge, sizeof huge);
  std::string text(5, '\0');
  in.copy(0, std::as_writable_bytes(std::span(text)));
  CHECK(text == "short");
  in.pop();
  CHECK(memory.control().head == 64);
}

TEST_CASE("a ring between two threads loses and reorders nothing") {
  Memory memory(4096);
  constexpr std::uint64_t kRecords = 50'000;
  std::thread producer([&memory] {
    RingProducer out(memory.at(), memory.capacity);
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      while (!push(out, numbered(i, i % 300)).value()) std::this_thread::yield();
    }
  });
  RingConsumer in(memory.at(), memory.capacity);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    std::optional<std::string> text;
    while (!(text = pop(in))) std::this_thread::yield();
    if (*text != numbered(i, i % 300)) ++wrong;
  }
  producer.join();
  CHECK(wrong == 0);
}

TEST_CASE("a record's parts must make its size and lie in the arena") {
  const auto bytes_of = [](RecordHead head, std::vector<Loan> loans) {
    std::vector<std::byte> out(sizeof head + loans.size() * sizeof(Loan));
    std::memcpy(out.data(), &head, sizeof head);
    if (!loans.empty()) {
      std::memcpy(out.data() + sizeof head, loans.data(), loans.size() * sizeof(Loan));
    }
    return out;
  };
  constexpr std::size_t kArena = 8192;
  const auto decode = [&](RecordHead head, std::vector<Loan> loans) {
    return decode_record(bytes_of(head, std::move(loans)), kArena);
  };
  const RecordHead one{.loans = 1, .has_message = 1};
  CHECK(decode(one, {{.offset = 4096, .size = 4096, .number = 9}}).value().loans[0].number == 9);
  CHECK_FALSE(decode(one, {{.offset = 4096, .size = 4097}}));
  CHECK_FALSE(decode(one, {{.offset = 8193, .size = 1}}));
  CHECK_FALSE(decode(one, {{.offset = 1, .size = UINT64_MAX}}));
  CHECK_FALSE(decode(one, {{.offset = 0, .size = 0}}));
  CHECK_FALSE(decode(one, {}));
  CHECK_FALSE(decode({.loans = 1}, {{.offset = 0, .size = 1}}));  // lent with nothing
  CHECK_FALSE(decode({.loans = kMaxLoans + 1, .has_message = 1}, std::vector<Loan>(kMaxLoans + 1)));
  CHECK_FALSE(decode({.releases = 1}, {}));
  CHECK_FALSE(decode({.message = 0xFFFFFFFF, .has_message = 1}, {}));
  CHECK_FALSE(decode({.has_message = 2}, {}));
}

TEST_CASE("polling goes on while waits are short") {
  using namespace std::chrono_literals;
  Patience patience(20us);
  CHECK(patience.budget() == 0ns);  // nothing is known yet: sleep
  for (int i = 0; i < 50; ++i) patience.waited(2us);
  CHECK(patience.budget() > 3us);
  CHECK(patience.budget() < 10us);
  patience.waited(1s);
  CHECK(patience.budget() > 0ns);  // one pause is no change of habit
  for (int i = 0; i < 50; ++i) patience.waited(1ms);
  CHECK(patience.budget() == 0ns);
  Patience never(0us);
  for (int i = 0; i < 50; ++i) never.waited(2us);
  CHECK(never.budget() == 0ns);
}
