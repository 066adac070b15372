#include "rpc/peer/call.h"

#include <catch2/catch_test_macros.hpp>

#include "rpc/xdr/xdr.h"

using namespace weft;
using namespace weft::rpc::peer;
using namespace std::chrono_literals;

namespace {

const Bytes kSome{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

}  // namespace

TEST_CASE("a call survives the wire") {
  const Bytes wire = encode_call(42, 1, 17, kSome);
  const auto message = decode_message(wire, 1);
  REQUIRE(message);
  const Call& call = std::get<Call>(*message);
  CHECK(call.xid == 42);
  CHECK(call.verb == 17);
  CHECK(call.arguments == kSome);
  CHECK(decode_message(wire, 2).error() == Errc::kProtocol);
  CHECK(wire.size() - kSome.size() <= kMaxHeaderBytes);
}

TEST_CASE("a reply survives the wire, an error with its text") {
  const auto good = decode_message(encode_reply(7, kSome), 1);
  REQUIRE(good);
  CHECK(std::get<Reply>(*good).results.value() == kSome);

  const auto bad = decode_message(encode_reply(7, fail(Errc::kNoSpace, "disk is full")), 1);
  REQUIRE(bad);
  const Reply& reply = std::get<Reply>(*bad);
  CHECK(reply.xid == 7);
  REQUIRE_FALSE(reply.results);
  CHECK(reply.results.error() == Errc::kNoSpace);
  CHECK(reply.results.error().text == "disk is full");
}

TEST_CASE("an error's text is cut to the limit") {
  const auto reply = decode_message(encode_reply(7, fail(Errc::kIo, std::string(10000, 'x'))), 1);
  REQUIRE(reply);
  CHECK(std::get<Reply>(*reply).results.error().text.size() == kMaxErrorText);
}

TEST_CASE("a message cut short is refused at every length of its header") {
  const Bytes call = encode_call(42, 1, 19, {});
  for (std::size_t size = 0; size < call.size(); ++size) {
    CHECK_FALSE(decode_message(std::span(call).first(size), 1));
  }
  const Bytes reply = encode_reply(42, fail(Errc::kIo, "io"));
  for (std::size_t size = 0; size < reply.size(); ++size) {
    CHECK_FALSE(decode_message(std::span(reply).first(size), 1));
  }
}

TEST_CASE("every status comes back as the error it was") {
  for (const Errc code : {Errc::kInternal, Errc::kNoSpace, Errc::kIo, Errc::kStale, Errc::kFenced,
                          Errc::kBusy, Errc::kTimedOut, Errc::kNotSupported}) {
    CHECK(errc_from_wire(wire_status(code)) == code);
  }
  CHECK(errc_from_wire(wire_status(Errc::kRecallConflict)) == Errc::kInternal);
  CHECK(errc_from_wire(987654) == Errc::kInternal);
}

TEST_CASE("pending calls: each is completed once, by answer, deadline or failure") {
  PendingCalls calls(3);
  const PendingCalls::Clock::time_point start{};
  std::vector<std::string> log;
  const auto note = [&](const std::string& name) {
    return Done<Bytes>([&log, name](const Result<Bytes>& results) {
      log.push_back(name + (results ? " ok" : " " + std::string(to_string(results.error().code))));
    });
  };
  const auto a = calls.add(start + 10ms, note("a"));
  const auto b = calls.add(start + 20ms, note("b"));
  const auto c = calls.add(start + 20ms, note("c"));
  REQUIRE((a && b && c));
  CHECK(calls.add(start + 30ms, note("d")).error() == Errc::kBusy);

  calls.expire(start + 5ms);
  CHECK(log.empty());
  calls.answer({*c, Bytes{}});
  calls.answer({*c, Bytes{}});  // twice is ignored
  calls.expire(start + 10ms);
  calls.answer({*a, Bytes{}});  // late
  calls.fail_all({Errc::kUnreachable, "gone"});
  CHECK(log == std::vector<std::string>{"c ok", "a " + std::string(to_string(Errc::kTimedOut)),
                                        "b " + std::string(to_string(Errc::kUnreachable))});
  CHECK(calls.size() == 0);
  calls.expire(start + 1h);
  CHECK(log.size() == 3);
}
