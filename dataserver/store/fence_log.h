// The fencing log's format: <store>/fences.
//
//   header   16 bytes "weft fences 2\n" and two zero bytes
//   frame    u32 0x57464e43 | u32 count (1..1024) | u64 key | u64 key | count entries |
//            u64 XXH64 of the frame before it
//   entry    u32 kind (1 object, 2 client) | u32 epoch | u64 fileid or client id |
//            u32 generation or 0 | u32 fsid or 0
//
// Big-endian. The keys are the fingerprints of the cluster keys that were accepted when the fences
// were raised, 0 for none: only handles sealed with one of those can be below the fences. Format 1,
// whose frames do not have them, is read. A frame is appended at a time, and synced before the
// next: only the last frame can be torn, and then nobody was told of it.
//
// Threading: pure functions, and a decoder for one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/error.h"

namespace weft::ds {

// Handles below `epoch`, of an object or of a client, are not honoured.
struct Fence {
  std::variant<layout::ObjectId, std::uint64_t> whom;  // an object, or a client id
  std::uint32_t epoch = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

constexpr std::size_t kFencesInFrame = 1024;

// Fingerprints of the keys that handles below a fence may be sealed with. None: any.
using KeyMark = std::array<std::uint64_t, 2>;

[[nodiscard]] std::vector<std::byte> fence_log_header();
// As many frames as it takes.
[[nodiscard]] std::vector<std::byte> encode_fences(std::span<const Fence> fences,
                                                   const KeyMark& mark);

// Reads a log of any size in pieces of any size; holds a frame and a piece at most.
class FenceLogDecoder {
 public:
  // Called with the fences of each frame, in the order they were written.
  using Frame = std::function<void(std::span<const Fence>, const KeyMark&)>;
  explicit FenceLogDecoder(Frame frame) : frame_(std::move(frame)) {}

  // kCorrupt when bytes that had been synced do not hold: a bad header, or a bad frame with good
  // ones after it or with more behind it than one torn frame could be.
  [[nodiscard]] Result<> feed(std::span<const std::byte> bytes);
  // At the end: how many bytes are good. What follows is a torn frame.
  [[nodiscard]] Result<std::uint64_t> finish();
  // Once there was a header: whether the log is of format 1.
  [[nodiscard]] bool old_format() const { return old_; }

 private:
  const Frame frame_;
  std::vector<std::byte> rest_;  // not decoded yet
  std::uint64_t good_bytes_ = 0;
  bool old_ = false;
};

}  // namespace weft::ds
