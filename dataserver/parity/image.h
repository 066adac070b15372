// Some rows of blocks of an object at all members of a group, in memory.
//
// A row is the same block of every member's data object. `good` says which blocks are loaded and
// match their checksums, or were computed; the XOR over a row is zero, so one that is missing can
// be computed from the rest.
//
// Threading: one thread at a time. Ownership: buffers are its own, and writable.
#pragma once

#include <cstdint>
#include <vector>

#include "dataserver/parity/blocks.h"
#include "rpc/base/buffer.h"

namespace weft::ds {

struct Image {
  Image(unsigned members, layout::ObjectId of, std::uint64_t first_block, std::uint64_t end_block)
      : object(of),
        first(first_block),
        rows(static_cast<std::size_t>(end_block - first_block)),
        data(members),
        sums(members, std::vector<std::uint64_t>(rows)),
        good(members, std::vector<bool>(rows)),
        lost(members, std::vector<bool>(rows)),
        unread(members, std::vector<bool>(rows)),
        no_sum(members, std::vector<bool>(rows)),
        ends(members) {}

  [[nodiscard]] unsigned members() const { return static_cast<unsigned>(data.size()); }
  [[nodiscard]] bool loaded(unsigned member) const { return !data[member].empty(); }
  [[nodiscard]] std::span<std::byte> block(unsigned member, std::size_t row) {
    return data[member].span().subspan(row * kParityBlock, kParityBlock);
  }
  [[nodiscard]] std::span<const std::byte> block(unsigned member, std::size_t row) const {
    return data[member].span().subspan(row * kParityBlock, kParityBlock);
  }
  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{rows} * kParityBlock; }
  [[nodiscard]] std::uint64_t offset() const { return first * kParityBlock; }
  [[nodiscard]] std::uint64_t sums_offset() const { return kSumsAt + first * kSumBytes; }

  // Room for a member that is not loaded, of zeros, not good.
  [[nodiscard]] Result<> make_room(unsigned member, BufferPool& pool);
  // Takes what a member answered, as far as its objects go: the rest is zeros. Checks it.
  [[nodiscard]] Result<> adopt(unsigned member, Payload payload, Payload sum_bytes,
                               BufferPool& pool);
  // Whether all blocks of those that are loaded are good.
  [[nodiscard]] bool all_good() const;
  // Whether those that are loaded have nothing but zeros, by their checksums too.
  [[nodiscard]] bool empty() const;
  // Computes what is not good wherever it is one block of its row. What comes out of that for a
  // block that cannot be read must have the block's checksum, if that can be read.
  [[nodiscard]] Result<> compute(BufferPool& pool);
  // A row's block of one member, from all others, which are loaded.
  void compute_block(unsigned member, std::size_t row);
  // Nobody knows the block, and what is written of it says so.
  void set_lost(unsigned member, std::size_t row) {
    lost[member][row] = true;
    mark_lost(block(member, row));
  }
  // Of members that have lost the object: a block of zeros may be one that went with it.
  void distrust(std::uint32_t those);
  // Whether the row was given up: a block that is loaded is lost.
  [[nodiscard]] bool given_up(std::size_t row) const;
  // Whether a member that was loaded has zeros there, by its checksum too, as in a hole.
  [[nodiscard]] bool zeros(unsigned member, std::size_t row) const;
  // Whether a member that was loaded has nothing there: neither block nor checksum.
  [[nodiscard]] bool nothing(unsigned member, std::size_t row) const;

  layout::ObjectId object;
  std::uint64_t first;  // block of the data objects
  std::size_t rows;
  std::vector<Buffer> data;
  std::vector<std::vector<std::uint64_t>> sums;  // as they were read
  std::vector<std::vector<bool>> good;
  std::vector<std::vector<bool>> lost;    // known to be: what is written of it is kLostSum
  std::vector<std::vector<bool>> unread;  // the disk could not read it: zeros here, not good
  std::vector<std::vector<bool>> no_sum;  // could not be read
  std::vector<std::uint64_t> ends;        // bytes that were read: behind them there are none
};

// The payload's bytes in one writable buffer of `size` bytes that begins at a multiple of 32, with
// zeros behind what there is.
[[nodiscard]] Result<Buffer> gather(Payload payload, std::size_t size, BufferPool& pool);

}  // namespace weft::ds
