#include "layout/siphash.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>

using namespace weft::layout;

namespace {

std::string hex(const SipHash128& hash) {
  std::string text;
  for (const std::byte byte : hash) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

SipKey reference_key() {
  SipKey key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  return key;
}

}  // namespace

// The reference vectors: key 00 01 ... 0f, input 00 01 ... of the length named.
TEST_CASE("SipHash-2-4-128 gives the reference vectors") {
  std::byte input[16];
  for (std::size_t i = 0; i < sizeof input; ++i) input[i] = static_cast<std::byte>(i);
  const auto of = [&](std::size_t size) {
    return hex(siphash128(reference_key(), std::span(input).first(size)));
  };
  CHECK(of(0) == "a3817f04ba25a8e66df67214c7550293");
  CHECK(of(1) == "da87c1d86b99af44347659119b22fc45");
  CHECK(of(2) == "8177228da4a45dc7fca38bdef60affe4");
}

TEST_CASE("each thread has its own context, each use its own key") {
  const SipKey key = reference_key();
  const SipKey other{};
  const std::string expected = hex(siphash128(key, {}));
  CHECK(hex(siphash128(other, {})) != expected);
  CHECK(hex(siphash128(key, {})) == expected);
  std::string elsewhere;
  std::thread([&] { elsewhere = hex(siphash128(key, {})); }).join();
  CHECK(elsewhere == expected);
}
