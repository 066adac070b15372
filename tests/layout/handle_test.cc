#include "layout/handle.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

HandleKey key_of(std::uint8_t value) {
  HandleKey key;
  key.fill(std::byte{value});
  return key;
}

Handle sample() {
  return {.access = Access::kReadWrite,
          .key_id = 1,
          .ds_id = 3,
          .object = {0x0102030405060708, 9, 10},
          .client_id = 0x1112131415161718,
          .object_epoch = 4,
          .client_epoch = 5};
}

}  // namespace

TEST_CASE("a sealed handle opens to what was sealed") {
  CHECK(rc::check([](std::uint64_t fileid, std::uint32_t small, std::uint64_t client) {
    Handle handle = sample();
    handle.access = *rc::gen::element(Access::kRead, Access::kReadWrite, Access::kControl);
    handle.ds_id = small;
    handle.object = {fileid, small + 1, small + 2};
    handle.client_id = client;
    handle.object_epoch = small;
    const auto opened = unseal(seal(handle, key_of(1)), key_of(1), 1);
    RC_ASSERT(opened.has_value());
    RC_ASSERT(*opened == handle);
  }));
}

TEST_CASE("a handle with any bit altered is refused") {
  SealedHandle sealed = seal(sample(), key_of(1));
  for (std::size_t bit = 0; bit < kHandleBytes * 8; ++bit) {
    const auto flip = static_cast<std::byte>(1U << (bit % 8));
    sealed[bit / 8] ^= flip;
    CHECK(unseal(sealed, key_of(1), 1).error() == Errc::kBadHandle);
    sealed[bit / 8] ^= flip;
  }
  CHECK(unseal(sealed, key_of(1), 1));
}

TEST_CASE("a handle under another key, of another length or key id is refused") {
  const SealedHandle sealed = seal(sample(), key_of(1));
  CHECK(unseal(sealed, key_of(2), 1).error() == Errc::kBadHandle);
  CHECK(unseal(sealed, key_of(1), 2).error() == Errc::kBadHandle);
  for (std::size_t size = 0; size < kHandleBytes; ++size) {
    CHECK(unseal(std::span(sealed).first(size), key_of(1), 1).error() == Errc::kBadHandle);
  }
  std::vector<std::byte> longer(sealed.begin(), sealed.end());
  longer.push_back(std::byte{0});
  CHECK(unseal(longer, key_of(1), 1).error() == Errc::kBadHandle);
}

TEST_CASE("an access we do not know is refused, though its MAC holds") {
  Handle handle = sample();
  handle.access = static_cast<Access>(2);
  CHECK(unseal(seal(handle, key_of(1)), key_of(1), 1).error() == Errc::kBadHandle);
}

TEST_CASE("the wire form is the one that is written down") {
  const SealedHandle sealed = seal(sample(), key_of(1));
  const std::uint8_t claim[48] = {1,    3,    0,    1,    0, 0, 0, 3, 1, 2,  3,    4,    5,    6,
                                  7,    8,    0,    0,    0, 9, 0, 0, 0, 10, 0x11, 0x12, 0x13, 0x14,
                                  0x15, 0x16, 0x17, 0x18, 0, 0, 0, 4, 0, 0,  0,    5};
  CHECK(std::equal(std::begin(claim), std::end(claim), sealed.begin(),
                   [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }));
}
