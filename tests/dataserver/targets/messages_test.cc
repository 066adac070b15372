#include "dataserver/targets/messages.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>

namespace weft::ds {
namespace {

std::vector<std::byte> bytes_of(const auto& message) {
  xdr::Encoder out;
  encode(out, message);
  return out.take();
}

TargetRequest request(TargetOp op) {
  return {.op = op,
          .tag = 77,
          .object = {.fileid = 5, .generation = 2, .fsid = 3},
          .offset = 4096,
          .size = 8,
          .stability = Stability::kFileSync,
          .lent = op == TargetOp::kRead || op == TargetOp::kWrite,
          .uncached = op == TargetOp::kRead,
          .descriptor = op == TargetOp::kRead || op == TargetOp::kWrite};
}

TargetHello hello() {
  TargetHello made{.boot = 9, .link = 3};
  made.space.fill(std::byte{7});
  made.nonce.fill(std::byte{8});
  return made;
}

TEST_CASE("requests and challenges come out as they went in") {
  const auto op = static_cast<TargetOp>(GENERATE(range(2U, 14U)));
  CHECK(decode_request(bytes_of(request(op))).value().message == request(op));
  const TargetRequest greeting{.op = TargetOp::kHello, .hello = hello()};
  CHECK(decode_request(bytes_of(greeting)).value().message == greeting);
  TargetChallenge challenge{.socket = "/run/weft/target.sock"};
  challenge.nonce.fill(std::byte{1});
  CHECK(decode_challenge(bytes_of(challenge)).value() == challenge);
}

TEST_CASE("responses come out as they went in, errors too") {
  TargetResponse response{.op = TargetOp::kRead,
                          .tag = 5,
                          .verifier = 6,
                          .object_end = 100,
                          .size = 50,
                          .at = 4,
                          .descriptor = true,
                          .lent = true};
  auto read = decode_response(bytes_of(response)).value().message;
  CHECK(read.size == 50);
  CHECK(read.at == 4);
  CHECK(read.descriptor);
  CHECK(read.lent);
  CHECK(read.verifier == 6);
  response.good = false;
  response.error = Errc::kNoSpace;
  response.text = "full";
  read = decode_response(bytes_of(response)).value().message;
  CHECK_FALSE(read.good);
  CHECK(read.error == Errc::kNoSpace);
  CHECK(read.text == "full");
}

TEST_CASE("a listing comes out as it went in, and is as long as it says") {
  TargetResponse response{.op = TargetOp::kList, .tag = 5, .verifier = 6};
  response.list = {.objects = {{.fileid = 1, .generation = 2, .fsid = 3}, {.fileid = 4}},
                   .next = {.folder = 7, .after = {.fileid = 4}},
                   .more = true};
  auto bytes = bytes_of(response);
  const auto read = decode_response(bytes).value().message.list;
  CHECK(read.objects == response.list.objects);
  CHECK(read.next == response.list.next);
  CHECK(read.more);
  bytes.resize(bytes.size() - 16);
  CHECK_FALSE(decode_response(bytes));
}

TEST_CASE("the keys of a target come out as they went in, and are few") {
  TargetResponse response{.op = TargetOp::kKeys, .tag = 5, .verifier = 6, .keys = {1, 2}};
  CHECK(decode_response(bytes_of(response)).value().message.keys == response.keys);
  response.keys.resize(kMaxTargetKeys);
  CHECK(decode_response(bytes_of(response)));
  response.keys.resize(kMaxTargetKeys + 1);
  CHECK_FALSE(decode_response(bytes_of(response)));
}

TEST_CASE("bulk data is found where it was put, whole or in part elsewhere") {
  TargetRequest write = request(TargetOp::kWrite);
  write.lent = false;
  write.size = 5;
  xdr::Encoder out;
  encode(out, write);
  begin_bulk(out, 5);
  const std::size_t at = out.size();
  out.raw(std::as_bytes(std::span("hello", 5)));
  end_bulk(out, 5);
  const auto whole = decode_request(out.bytes()).value();
  CHECK(whole.bulk == at);
  CHECK(locate_request(out.bytes()) == at);
  CHECK(decode_request(out.bytes().first(at), 8).value().bulk == at);
  CHECK_FALSE(decode_request(out.bytes().first(at), 4));
  CHECK_FALSE(decode_request(out.bytes().first(at)));
  CHECK_FALSE(decode_request(out.bytes(), 8));
  write.lent = true;
  CHECK(locate_request(bytes_of(write)) == 0);
  CHECK(locate_request(bytes_of(request(TargetOp::kRead))) == 0);
}

TEST_CASE("what makes no sense is refused") {
  const auto refused = [](TargetRequest bad) { return !decode_request(bytes_of(bad)); };
  TargetRequest bad = request(TargetOp::kRead);
  bad.size = kMaxTargetIo + 1;
  CHECK(refused(bad));
  bad = request(TargetOp::kCommit);
  bad.lent = true;
  CHECK(refused(bad));
  bad = request(TargetOp::kStat);
  bad.op = static_cast<TargetOp>(16);
  CHECK(refused(bad));
  bad.op = static_cast<TargetOp>(0);
  CHECK(refused(bad));
  bad = request(TargetOp::kList);
  bad.size = kMaxTargetList + 1;
  CHECK(refused(bad));
  bad.size = 0;
  CHECK(refused(bad));
  auto bytes = bytes_of(request(TargetOp::kStat));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(decode_request(bytes));
  bytes.resize(20);
  CHECK_FALSE(decode_request(bytes));
}

TEST_CASE("a proof is of one side, one key and one exchange") {
  rpc::peer::ClusterKey key;
  key.bytes.fill(std::byte{1});
  const auto mine = target_key(key);
  Nonce challenge{};
  const auto proof = hello_proof(mine, challenge, hello());
  CHECK(same_proof(proof, hello_proof(mine, challenge, hello())));
  CHECK_FALSE(same_proof(proof, welcome_proof(mine, challenge, hello(), Uuid{})));
  challenge[15] = std::byte{1};
  CHECK_FALSE(same_proof(proof, hello_proof(mine, challenge, hello())));
  challenge = {};
  TargetHello other = hello();
  other.space[0] = std::byte{0};
  CHECK_FALSE(same_proof(proof, hello_proof(mine, challenge, other)));
  key.bytes[31] = std::byte{2};
  CHECK_FALSE(same_proof(proof, hello_proof(target_key(key), challenge, hello())));
}

}  // namespace
}  // namespace weft::ds
