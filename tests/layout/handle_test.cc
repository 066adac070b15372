#include "layout/handle.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

#include "layout/copies_hint.h"
#include "layout/siphash.h"

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
    handle.access = *rc::gen::element(Access::kRead, Access::kReadWrite, Access::kFetch,
                                      Access::kCompare, Access::kMirror, Access::kControl);
    handle.ds_id = small;
    handle.object = {fileid, small + 1, small + 2};
    handle.client_id = client;
    handle.object_epoch = small;
    const auto opened = unseal(seal(handle, key_of(1)), key_of(1), 1);
    RC_ASSERT(opened.has_value());
    RC_ASSERT(*opened == handle);
  }));
}

TEST_CASE("a handle that duplicates opens to what was sealed") {
  CHECK(rc::check([] {
    Handle handle = sample();
    handle.access = Access::kReadWrite;
    handle.duplication = *rc::gen::element(Duplication::kServerAsync, Duplication::kServerSync);
    handle.ds_id = kMaxPartnerId + *rc::gen::inRange<std::uint32_t>(1, 100);
    handle.partners[0] = *rc::gen::inRange<std::uint32_t>(1, kMaxPartnerId + 1);
    const auto second = *rc::gen::inRange<std::uint32_t>(0, kMaxPartnerId + 1);
    if (second != handle.partners[0]) handle.partners[1] = second;
    RC_ASSERT(validate(handle).has_value());
    const auto opened = unseal(seal(handle, key_of(1)), key_of(1), 1);
    RC_ASSERT(opened.has_value());
    RC_ASSERT(*opened == handle);
  }));
}

TEST_CASE("what a sealed handle says of copies is seen without a key") {
  Handle handle = sample();
  CHECK(!seems_of_copies(seal(handle, key_of(1))));
  handle.access = Access::kControl;
  CHECK(!seems_of_copies(seal(handle, key_of(1))));
  handle.access = Access::kReadWrite;
  for (const Duplication how : {Duplication::kServerAsync, Duplication::kServerSync}) {
    handle.duplication = how;
    handle.partners = {0x010203, 0};
    CHECK(seems_of_copies(seal(handle, key_of(1))));
    CHECK(seems_of_copies(seal(mirror_handle(handle, 0x010203), key_of(1))));
  }
  const SealedHandle sealed = seal(handle, key_of(1));
  CHECK(!seems_of_copies(std::span(sealed).first(kHandleBytes - 1)));
}

TEST_CASE("a handle with any bit altered is refused") {
  Handle handle = sample();
  handle.duplication = Duplication::kServerSync;
  handle.partners = {0x010203, 0x040506};
  SealedHandle sealed = seal(handle, key_of(1));
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
  const std::array both{key_of(2), key_of(1)};
  CHECK(unseal(sealed, both, 1));
  CHECK(unseal(sealed, std::span(both).first(1), 1).error() == Errc::kBadHandle);
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

TEST_CASE("what duplication may ask for") {
  const auto fine = [](auto change) {
    Handle handle = sample();
    handle.duplication = Duplication::kServerSync;
    handle.partners = {7, 8};
    change(handle);
    return validate(handle).has_value();
  };
  CHECK(fine([](Handle&) {}));
  CHECK(fine([](Handle& h) { h.partners[1] = 0; }));
  CHECK(fine([](Handle& h) { h.partners[0] = kMaxPartnerId; }));
  CHECK_FALSE(fine([](Handle& h) { h.access = Access::kControl; }));
  CHECK_FALSE(fine([](Handle& h) { h.access = Access::kFetch; }));
  CHECK_FALSE(fine([](Handle& h) { h.access = Access::kRead; }));
  CHECK_FALSE(fine([](Handle& h) { h.access = Access::kMirror; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners = {0, 0}; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners = {0, 8}; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners = {8, 8}; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners = {h.ds_id, 8}; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners = {7, h.ds_id}; }));
  CHECK_FALSE(fine([](Handle& h) { h.partners[0] = kMaxPartnerId + 1; }));
  CHECK_FALSE(fine([](Handle& h) { h.duplication = Duplication::kNone; }));
  CHECK_FALSE(fine([](Handle& h) { h.duplication = Duplication::kClientSync; }));
  CHECK_FALSE(fine([](Handle& h) { h.duplication = static_cast<Duplication>(9); }));
}

TEST_CASE("a partner is written to under the client's own claim, and no further") {
  Handle handle = sample();
  handle.duplication = Duplication::kServerAsync;
  handle.partners = {7, 8};
  const Handle mirror = mirror_handle(handle, 8);
  CHECK(mirror.access == Access::kMirror);
  CHECK(mirror.ds_id == 8);
  CHECK(mirror.object == handle.object);
  CHECK(mirror.client_id == handle.client_id);
  CHECK(mirror.object_epoch == handle.object_epoch);
  CHECK(mirror.client_epoch == handle.client_epoch);
  CHECK(mirror.duplication == Duplication::kNone);
  CHECK(mirror.partners == std::array<std::uint32_t, 2>{0, 0});
  CHECK(unseal(seal(mirror, key_of(1)), key_of(1), 1).value() == mirror);
}

// Seals bytes as they are, with a MAC that holds: what a peer with the key but another mind makes.
SealedHandle with_byte(const Handle& handle, std::size_t at, std::uint8_t value) {
  SealedHandle sealed = seal(handle, key_of(1));
  sealed[at] = std::byte{value};
  const auto mac = siphash128(key_of(1), std::span(sealed).first(48));
  std::ranges::copy(mac, sealed.begin() + 48);
  return sealed;
}

TEST_CASE("claims of another mind are refused, though their MAC holds") {
  CHECK(unseal(with_byte(sample(), 0, 2), key_of(1), 1));                              // as it was
  CHECK(unseal(with_byte(sample(), 0, 1), key_of(1), 1).error() == Errc::kBadHandle);  // version
  CHECK(unseal(with_byte(sample(), 40, 2), key_of(1), 1).error() == Errc::kBadHandle);
  CHECK(unseal(with_byte(sample(), 43, 7), key_of(1), 1).error() == Errc::kBadHandle);
  CHECK(unseal(with_byte(sample(), 46, 7), key_of(1), 1).error() == Errc::kBadHandle);
  CHECK(unseal(with_byte(sample(), 47, 1), key_of(1), 1).error() == Errc::kBadHandle);  // reserved
}

TEST_CASE("the wire form is the one that is written down") {
  Handle handle = sample();
  handle.duplication = Duplication::kServerSync;
  handle.partners = {0x212223, 0x313233};
  const SealedHandle sealed = seal(handle, key_of(1));
  const std::uint8_t claim[48] = {
      2,    3,    0,    1,    0,    0,    0,    3,  // version, access, key, data server
      1,    2,    3,    4,    5,    6,    7,    8,  // file
      0,    0,    0,    9,    0,    0,    0,    10,
      0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // client
      0,    0,    0,    4,    0,    0,    0,    5,     // epochs
      2,    0x21, 0x22, 0x23, 0x31, 0x32, 0x33, 0};    // duplication, partners
  CHECK(std::equal(std::begin(claim), std::end(claim), sealed.begin(),
                   [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }));
}
