// Striping: which data server holds which bytes of a file.
//
// A file is cut into stripe units of `unit_bytes`; unit number u lives on the data server at index
// (u + first_index) mod count of the layout's ordered list (RFC 8881 section 13.4.2). Packing is
// sparse (section 13.4.4): a byte has the same offset in its object as in the file. So an object's
// end is an offset in the file, and the file's size is at least the greatest end of any object.
//
// Offsets and sizes are bytes, up to kMaxFileSize; every function holds at that limit and none
// computes beyond it.
//
// Threading: plain values and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rpc/base/error.h"

namespace weft::layout {

// The largest file size a Linux client can address (off_t).
constexpr std::uint64_t kMaxFileSize = INT64_MAX;

constexpr std::uint32_t kStripeUnitMultiple = 64;  // the low six bits of nfl_util are flags
constexpr std::uint32_t kMaxServers = 256;         // the Linux client's limits for a device
constexpr std::uint32_t kMaxStripes = 4096;

// A run of bytes on one data server. Its offset in the object is its offset in the file.
struct Extent {
  std::uint32_t server = 0;  // index into the layout's list of data servers
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

class Striping {
 public:
  // kInvalid: a unit of 0 or no multiple of 64, no server or more than kMaxServers, or a first
  // index that is not one of theirs.
  [[nodiscard]] static Result<Striping> make(std::uint32_t unit_bytes, std::uint32_t count,
                                             std::uint32_t first_index = 0);

  [[nodiscard]] std::uint32_t unit_bytes() const { return unit_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint32_t first_index() const { return first_; }

  // The server that holds the byte at `offset`.
  [[nodiscard]] std::uint32_t server_of(std::uint64_t offset) const {
    return static_cast<std::uint32_t>((offset / unit_ % count_ + first_) % count_);
  }

  // The first extent of [offset, offset + length): up to the end of its stripe unit, or all of it
  // when there is one server. Precondition: length > 0, offset + length <= kMaxFileSize.
  [[nodiscard]] Extent first_extent(std::uint64_t offset, std::uint64_t length) const;

  // Calls visit(Extent) for the parts of [offset, offset + length) in file order; together they are
  // exactly the range. kFileTooLarge when the range ends beyond kMaxFileSize.
  template <class Visit>
  [[nodiscard]] Result<> split(std::uint64_t offset, std::uint64_t length, Visit&& visit) const {
    if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
      return fail(Errc::kFileTooLarge, "range ends beyond the largest file");
    }
    while (length > 0) {
      const Extent extent = first_extent(offset, length);
      visit(extent);
      offset += extent.length;
      length -= extent.length;
    }
    return {};
  }

  // Where the object at `server` ends in a file of `file_size` bytes that has no holes: one past
  // the last byte below file_size that the server holds, 0 if it holds none. What truncating the
  // file cuts the object to.
  [[nodiscard]] std::uint64_t object_end(std::uint32_t server, std::uint64_t file_size) const;

  // How many bytes below `end` the server holds of a file that has no holes.
  [[nodiscard]] std::uint64_t held_below(std::uint32_t server, std::uint64_t end) const;

  // The first byte at or after `offset` that `server` holds. Precondition: offset <= kMaxFileSize.
  // The result may lie beyond the largest file.
  [[nodiscard]] std::uint64_t next_held(std::uint32_t server, std::uint64_t offset) const;

  friend bool operator==(const Striping&, const Striping&) = default;

 private:
  Striping(std::uint32_t unit, std::uint32_t count, std::uint32_t first)
      : unit_(unit), count_(count), first_(first) {}

  std::uint32_t unit_;
  std::uint32_t count_;
  std::uint32_t first_;
};

}  // namespace weft::layout
