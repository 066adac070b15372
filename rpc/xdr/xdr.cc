#include "rpc/xdr/xdr.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::xdr {
namespace {

constexpr std::byte kZeros[4] = {};

void put_be32(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 24);
  at[1] = static_cast<std::byte>(value >> 16);
  at[2] = static_cast<std::byte>(value >> 8);
  at[3] = static_cast<std::byte>(value);
}

std::uint32_t get_be32(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
         std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}

}  // namespace

void Encoder::u32(std::uint32_t value) {
  const std::size_t at = out_.size();
  out_.resize(at + 4);
  put_be32(out_.data() + at, value);
}

void Encoder::u64(std::uint64_t value) {
  u32(static_cast<std::uint32_t>(value >> 32));
  u32(static_cast<std::uint32_t>(value));
}

void Encoder::fixed(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  out_.insert(out_.end(), kZeros, kZeros + (padded(bytes.size()) - bytes.size()));
}

void Encoder::opaque(std::span<const std::byte> bytes) {
  WEFT_ASSERT(bytes.size() <= UINT32_MAX);
  u32(static_cast<std::uint32_t>(bytes.size()));
  fixed(bytes);
}

void Encoder::string(std::string_view text) { opaque(std::as_bytes(std::span(text))); }

void Encoder::bitmap(std::span<const std::uint32_t> words) {
  while (!words.empty() && words.back() == 0) words = words.first(words.size() - 1);
  u32(static_cast<std::uint32_t>(words.size()));
  for (const std::uint32_t word : words) u32(word);
}

void Encoder::patch_u32(std::size_t at, std::uint32_t value) {
  WEFT_ASSERT(at <= out_.size() && out_.size() - at >= 4);
  put_be32(out_.data() + at, value);
}

void Encoder::patch(std::size_t at, std::span<const std::byte> bytes) {
  WEFT_ASSERT(at <= out_.size() && out_.size() - at >= bytes.size());
  std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Encoder::rewind(std::size_t at) {
  WEFT_ASSERT(at <= out_.size());
  out_.resize(at);
}

const std::byte* Decoder::take(std::size_t size) {
  if (!ok_ || size > in_.size() - at_) {
    ok_ = false;
    return nullptr;
  }
  const std::byte* here = in_.data() + at_;
  at_ += size;
  return here;
}

std::uint32_t Decoder::u32() {
  const std::byte* here = take(4);
  return here == nullptr ? 0 : get_be32(here);
}

std::uint64_t Decoder::u64() {
  const std::byte* here = take(8);
  if (here == nullptr) return 0;
  return static_cast<std::uint64_t>(get_be32(here)) << 32 | get_be32(here + 4);
}

bool Decoder::boolean() {
  const std::uint32_t word = u32();
  if (word > 1) ok_ = false;
  return ok_ && word == 1;
}

void Decoder::fixed(std::span<std::byte> out) {
  const std::byte* here = take(padded(out.size()));
  if (here == nullptr) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else if (!out.empty()) {
    std::memcpy(out.data(), here, out.size());
  }
}

std::span<const std::byte> Decoder::opaque(std::size_t max) {
  const std::uint32_t size = u32();
  if (!ok_ || size > max) {
    ok_ = false;
    return {};
  }
  const std::byte* here = take(padded(size));
  return here == nullptr ? std::span<const std::byte>{} : std::span(here, size);
}

std::string Decoder::string(std::size_t max) {
  const auto bytes = opaque(max);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Decoder::Bitmap Decoder::bitmap() {
  Bitmap out;
  const std::uint32_t words = count(8);
  for (std::uint32_t i = 0; i < words; ++i) {
    const std::uint32_t word = u32();
    if (i < 3) out.word[i] = word;
  }
  return out;
}

std::uint32_t Decoder::count(std::size_t max) {
  const std::uint32_t n = u32();
  // Every element takes at least one word: a count that cannot fit is refused before any loop.
  if (!ok_ || n > max || n > remaining() / 4) {
    ok_ = false;
    return 0;
  }
  return n;
}

void Decoder::skip(std::size_t size) { static_cast<void>(take(size)); }

Result<> Decoder::finish(std::string_view what) const {
  if (ok_) return {};
  return fail(Errc::kProtocol, "malformed " + std::string(what));
}

}  // namespace weft::xdr
