#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "rpc/peer/request.h"

using namespace weft;
using namespace weft::rpc::peer;

namespace {

struct Sum {
  std::uint64_t value = 0;
};
template <class Io>
void describe(Io& io, Sum& r) {
  io("value", r.value);
}

struct Add {
  static constexpr std::uint32_t kVerb = 3;
  using Reply = Sum;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};
template <class Io>
void describe(Io& io, Add& r) {
  io("a", r.a);
  io("b", r.b);
}

struct Forget {
  static constexpr std::uint32_t kVerb = 4;
  using Reply = void;
};
template <class Io>
void describe(Io&, Forget&) {}

// What has come back for a request, as its caller sees it.
template <class Reply>
struct Answer {
  std::optional<Result<Reply>> result;
  Done<Bytes> take() {
    return expect<Reply>([this](Result<Reply> got) { result.emplace(std::move(got)); });
  }
};

}  // namespace

TEST_CASE("a request gets to its handler, and the reply back") {
  Table<> table;
  table.on<Add>([](Add add, Done<Sum> done) { done(Sum{add.a + add.b}); });
  bool forgotten = false;
  table.on<Forget>([&](Forget, Done<void> done) {
    forgotten = true;
    done({});
  });
  Answer<Sum> sum;
  table.serve(Add::kVerb, to_bytes(Add{2, 3}), sum.take());
  REQUIRE(sum.result.value().has_value());
  CHECK((*sum.result)->value == 5);
  Answer<void> nothing;
  table.serve(Forget::kVerb, to_bytes(Forget{}), nothing.take());
  CHECK(nothing.result.value().has_value());
  CHECK(forgotten);
}

TEST_CASE("a handler that is a member is told who asks, and its error is the caller's") {
  struct Server {
    std::uint32_t asked_by = 0;
    void add(std::uint32_t from, Add, Done<Sum> done) {
      asked_by = from;
      done(fail(Errc::kNoSpace, "too many"));
    }
  } server;
  Table<std::uint32_t> table;
  table.on(server, &Server::add);
  Answer<Sum> sum;
  table.serve(9, Add::kVerb, to_bytes(Add{}), sum.take());
  CHECK(server.asked_by == 9);
  REQUIRE_FALSE(sum.result.value().has_value());
  CHECK(sum.result->error() == Errc::kNoSpace);
  CHECK(sum.result->error().text == "too many");
}

TEST_CASE("what has no handler, or is malformed, is answered with an error") {
  Table<> table;
  int calls = 0;
  table.on<Add>([&](Add, Done<Sum> done) {
    ++calls;
    done(Sum{});
  });
  Answer<Sum> unknown;
  table.serve(99, {}, unknown.take());
  CHECK(unknown.result.value().error() == Errc::kNotSupported);
  Bytes bytes = to_bytes(Add{});
  SECTION("too short") { bytes.resize(bytes.size() - 4); }
  SECTION("too long") { bytes.resize(bytes.size() + 4); }
  Answer<Sum> malformed;
  table.serve(Add::kVerb, bytes, malformed.take());
  CHECK(malformed.result.value().error() == Errc::kProtocol);
  CHECK(calls == 0);
}

TEST_CASE("a reply that is not one is the caller's error") {
  Answer<Sum> sum;
  sum.take()(Bytes(3));
  CHECK(sum.result.value().error() == Errc::kProtocol);
  Answer<void> nothing;
  nothing.take()(Bytes(4));
  CHECK(nothing.result.value().error() == Errc::kProtocol);
}
