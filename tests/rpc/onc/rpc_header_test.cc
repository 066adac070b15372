#include "rpc/onc/rpc_header.h"

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::rpc;

namespace {

constexpr Program kProgram{
    .number = 100003, .lowest_version = 4, .highest_version = 4, .last_procedure = 1};

xdr::Encoder call(std::uint32_t rpc_version, std::uint32_t program, std::uint32_t version,
                  std::uint32_t procedure, std::uint32_t flavor = 0,
                  std::span<const std::byte> credential = {}) {
  xdr::Encoder out;
  out.u32(9);
  out.u32(0);
  out.u32(rpc_version);
  out.u32(program);
  out.u32(version);
  out.u32(procedure);
  out.u32(flavor);
  out.opaque(credential);
  out.u32(0);
  out.u32(0);
  return out;
}

Refusal refusal(const xdr::Encoder& bytes) {
  xdr::Decoder in(bytes.bytes());
  auto read = read_call(in, kProgram);
  REQUIRE(read);
  REQUIRE(std::holds_alternative<Refusal>(*read));
  return std::get<Refusal>(*read);
}

}  // namespace

TEST_CASE("a call reads back as it was written") {
  const AuthSys auth{.stamp = 1, .machine = "host", .uid = 12, .gid = 34, .groups = {5, 6, 7}};
  xdr::Encoder out;
  encode_call(out, 42, 100003, 4, 1, &auth);
  out.u32(0xfeed);
  xdr::Decoder in(out.bytes());
  auto read = read_call(in, kProgram);
  REQUIRE(read);
  REQUIRE(std::holds_alternative<CallHeader>(*read));
  const auto& header = std::get<CallHeader>(*read);
  CHECK(header.xid == 42);
  CHECK(header.procedure == 1);
  CHECK(header.flavor == AuthFlavor::AUTH_SYS);
  CHECK(header.uid == 12);
  CHECK(header.gid == 34);
  CHECK(in.u32() == 0xfeed);
}

TEST_CASE("each way to be refused has its answer") {
  CHECK(refusal(call(3, 100003, 4, 0)).kind == Refusal::Kind::kRpcMismatch);
  CHECK(refusal(call(2, 400122, 1, 0)).accept == AcceptStat::PROG_UNAVAIL);
  const Refusal mismatch = refusal(call(2, 100003, 3, 0));
  CHECK(mismatch.accept == AcceptStat::PROG_MISMATCH);
  CHECK(mismatch.lowest == 4);
  CHECK(mismatch.highest == 4);
  CHECK(refusal(call(2, 100003, 4, 2)).accept == AcceptStat::PROC_UNAVAIL);
  CHECK(refusal(call(2, 100003, 4, 0, 6)).auth == AuthStat::AUTH_REJECTEDCRED);
  const std::vector<std::byte> junk(7);
  CHECK(refusal(call(2, 100003, 4, 0, 1, junk)).auth == AuthStat::AUTH_BADCRED);
  const std::vector<std::byte> large(kMaxAuthBytes + 1);
  CHECK(refusal(call(2, 100003, 4, 0, 1, large)).auth == AuthStat::AUTH_BADCRED);
}

TEST_CASE("refusals reach the client as errors it can tell apart") {
  const auto as_client = [](const Refusal& refusal) {
    xdr::Encoder out;
    encode_refusal(out, refusal);
    xdr::Decoder in(out.bytes());
    CHECK(*read_reply_xid(in) == 9);
    return read_reply_status(in).error().code;
  };
  CHECK(as_client(refusal(call(3, 100003, 4, 0))) == Errc::kProtocol);
  CHECK(as_client(refusal(call(2, 1, 1, 0))) == Errc::kNotSupported);
  CHECK(as_client(refusal(call(2, 100003, 3, 0))) == Errc::kNotSupported);
  CHECK(as_client(refusal(call(2, 100003, 4, 0, 6))) == Errc::kAuth);
}

TEST_CASE("what is no call, or cut short, is a broken peer") {
  const xdr::Encoder whole = call(2, 100003, 4, 0);
  for (std::size_t size = 0; size < 12; size += 4) {
    xdr::Decoder in(whole.bytes().first(size));
    CHECK(read_call(in, kProgram).error() == Errc::kProtocol);
  }
  for (std::size_t size = 12; size < whole.size(); size += 4) {
    xdr::Decoder in(whole.bytes().first(size));
    auto read = read_call(in, kProgram);
    REQUIRE(read);
    CHECK(std::holds_alternative<Refusal>(*read));
  }
}
