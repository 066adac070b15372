// XDR (RFC 4506) encoding and decoding, bounds-checked.
//
// The Decoder reads from bytes that a peer sent and believes nothing: every length is checked
// against what is left before it is used, and against a limit the caller names. After the first
// failure every further read fails too and yields zero values, so a caller may decode a whole
// structure and look at ok() once. Padding bytes must be zero (RFC 4506 section 3) but are not
// required to be by peers in the field, so they are skipped unread.
//
// The Encoder appends to memory of its own. Lengths that our own code hands it are within limits
// by construction and are asserted.
//
// Threading: values, used by one thread at a time. A Decoder borrows its input: the bytes must
// outlive it and whatever opaque() returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::xdr {

// Bytes that `size` bytes of opaque data take on the wire, without the length word.
[[nodiscard]] constexpr std::size_t padded(std::size_t size) {
  return (size + 3) & ~std::size_t{3};
}

class Encoder {
 public:
  Encoder() = default;
  explicit Encoder(std::size_t reserve_bytes) { out_.reserve(reserve_bytes); }

  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void i64(std::int64_t value) { u64(static_cast<std::uint64_t>(value)); }
  void boolean(bool value) { u32(value ? 1 : 0); }
  // opaque[n]: the bytes and padding, no length.
  void fixed(std::span<const std::byte> bytes);
  // The bytes as they are, without padding.
  void raw(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  // opaque<>: length, bytes, padding.
  void opaque(std::span<const std::byte> bytes);
  void string(std::string_view text);
  // bitmap4 (RFC 8881 section 3.3.8): trailing zero words are left out.
  void bitmap(std::span<const std::uint32_t> words);

  [[nodiscard]] std::size_t size() const { return out_.size(); }
  // Overwrites the word at byte position `at`, written before. Precondition: at + 4 <= size().
  void patch_u32(std::size_t at, std::uint32_t value);
  // The same for a run of bytes. Precondition: at + bytes.size() <= size().
  void patch(std::size_t at, std::span<const std::byte> bytes);
  // Drops everything from byte position `at` on. Precondition: at <= size().
  void rewind(std::size_t at);
  void clear() { out_.clear(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return out_; }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> in) : in_(in) {}

  [[nodiscard]] std::uint32_t u32();
  [[nodiscard]] std::uint64_t u64();
  [[nodiscard]] std::int64_t i64() { return static_cast<std::int64_t>(u64()); }
  // Any word but 0 and 1 is a failure.
  [[nodiscard]] bool boolean();
  // Exactly out.size() bytes and their padding.
  void fixed(std::span<std::byte> out);
  // A view of opaque<max>; empty after a failure.
  [[nodiscard]] std::span<const std::byte> opaque(std::size_t max);
  [[nodiscard]] std::string string(std::size_t max);
  // bitmap4 of at most 8 words on the wire, the first three returned.
  struct Bitmap {
    std::uint32_t word[3] = {0, 0, 0};
    [[nodiscard]] bool has(unsigned bit) const {
      return bit < 96 && (word[bit / 32] >> (bit % 32) & 1) != 0;
    }
  };
  [[nodiscard]] Bitmap bitmap();
  // The element count of an array<max>.
  [[nodiscard]] std::uint32_t count(std::size_t max);
  void skip(std::size_t size);

  [[nodiscard]] bool ok() const { return ok_; }
  // Marks the input as malformed, for checks beyond XDR's own.
  void reject() { ok_ = false; }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] std::size_t remaining() const { return in_.size() - at_; }
  // kProtocol naming `what` unless everything so far decoded.
  [[nodiscard]] Result<> finish(std::string_view what) const;

 private:
  [[nodiscard]] const std::byte* take(std::size_t size);

  std::span<const std::byte> in_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace weft::xdr
