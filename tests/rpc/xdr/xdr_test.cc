#include "rpc/xdr/xdr.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using weft::Errc;
using weft::xdr::Decoder;
using weft::xdr::Encoder;

namespace {

// A value of some kind; written and read back by the same switch.
struct Item {
  int kind;
  std::uint64_t number;
  std::string text;
};

void put(Encoder& out, const Item& item) {
  switch (item.kind) {
    case 0: return out.u32(static_cast<std::uint32_t>(item.number));
    case 1: return out.u64(item.number);
    case 2: return out.boolean(item.number % 2 == 1);
    case 3: return out.string(item.text);
    default: return out.fixed(std::as_bytes(std::span(item.text)));
  }
}

bool same(Decoder& in, const Item& item) {
  switch (item.kind) {
    case 0: return in.u32() == static_cast<std::uint32_t>(item.number);
    case 1: return in.u64() == item.number;
    case 2: return in.boolean() == (item.number % 2 == 1);
    case 3: return in.string(100) == item.text;
    default: {
      std::string back(item.text.size(), '\0');
      in.fixed(std::as_writable_bytes(std::span(back)));
      return back == item.text;
    }
  }
}

}  // namespace

TEST_CASE("what is encoded decodes to the same, and no truncation of it does") {
  REQUIRE(rc::check([] {
    std::vector<Item> items;
    const int count = *rc::gen::inRange(1, 8);
    for (int i = 0; i < count; ++i) {
      auto text = *rc::gen::arbitrary<std::string>();
      text.resize(std::min<std::size_t>(text.size(), 100));
      items.push_back(
          {*rc::gen::inRange(0, 5), *rc::gen::arbitrary<std::uint64_t>(), std::move(text)});
    }
    Encoder out;
    for (const Item& item : items) put(out, item);
    RC_ASSERT(out.size() % 4 == 0U);
    Decoder in(out.bytes());
    for (const Item& item : items) RC_ASSERT(same(in, item));
    RC_ASSERT(in.ok());
    RC_ASSERT(in.remaining() == 0U);
    for (std::size_t size = 0; size < out.size(); ++size) {
      Decoder cut(out.bytes().first(size));
      for (const Item& item : items) static_cast<void>(same(cut, item));
      RC_ASSERT(!cut.ok());
    }
  }));
}

TEST_CASE("after a failure everything reads as zero and stays failed") {
  Encoder out;
  out.u32(5);
  out.u32(7);
  Decoder in(out.bytes());
  CHECK_FALSE(in.boolean());  // 5 is no boolean
  CHECK_FALSE(in.ok());
  CHECK(in.u32() == 0);
  CHECK(in.u64() == 0);
  CHECK(in.opaque(100).empty());
  CHECK(in.finish("thing").error() == Errc::kProtocol);
}

TEST_CASE("lengths and counts beyond their limit, or beyond the input, are refused") {
  Encoder out;
  out.u32(0xFFFFFFFF);
  out.u32(0);
  CHECK([&] {
    Decoder in(out.bytes());
    return in.opaque(SIZE_MAX).empty() && !in.ok();
  }());
  CHECK([&] {
    Decoder in(out.bytes());
    return in.count(SIZE_MAX) == 0 && !in.ok();
  }());
  Encoder five;
  five.string("12345");
  CHECK([&] {
    Decoder in(five.bytes());
    return in.string(4).empty() && !in.ok();
  }());
  CHECK([&] {
    Decoder in(five.bytes());
    return in.string(5) == "12345" && in.ok();
  }());
}

TEST_CASE("bitmaps leave out trailing zero words and take longer ones") {
  const std::uint32_t words[3] = {1U << 3, 0, 0};
  Encoder out;
  out.bitmap(words);
  CHECK(out.size() == 8);
  Decoder in(out.bytes());
  const auto bitmap = in.bitmap();
  CHECK(bitmap.has(3));
  CHECK_FALSE(bitmap.has(4));
  CHECK_FALSE(bitmap.has(500));
  Encoder longer;
  longer.u32(5);
  for (std::uint32_t i = 0; i < 5; ++i) longer.u32(i);
  Decoder long_in(longer.bytes());
  CHECK(long_in.bitmap().word[2] == 2);
  CHECK(long_in.remaining() == 0);
}

TEST_CASE("patching overwrites in place") {
  Encoder out;
  out.u32(1);
  out.u32(2);
  out.u32(3);
  out.patch_u32(4, 9);
  Encoder words;
  words.u32(8);
  out.patch(8, words.bytes());
  Decoder in(out.bytes());
  CHECK(in.u32() == 1);
  CHECK(in.u32() == 9);
  CHECK(in.u32() == 8);
  out.rewind(4);
  CHECK(out.size() == 4);
}
