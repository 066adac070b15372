// What a file may hold, by what its one writer was told: the truth that reads are held against.
//
// A file is a row of blocks. The writer of a block gives each write a number, one more than the
// last, and fills the block with it. A number is promised when a sync of it was answered. So
// whoever begins to read later finds the promised number or a later one that was tried, in each
// sector: a write that nobody promised may be there, in part too. Where the file was cut, a number
// stands for zeros. Where these may be found, a sector may begin with a write and end in zeros: the
// file became longer, and the power failed.
//
// Who asks for the file's attributes is told a `change`. It is never less than one that was told
// before, and not the same when a write was promised in between that had not been begun when it was
// told first: a client that keeps what it has read would keep what is old.
//
// Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weft::sim {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kSectorBytes = 512;

class History {
 public:
  History(std::uint32_t file, std::size_t blocks) : file_(file), blocks_(blocks) {}

  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  // The bytes of the next write of a block.
  [[nodiscard]] std::vector<std::byte> next(std::size_t block);
  // Those of the last one again.
  [[nodiscard]] std::vector<std::byte> last(std::size_t block) const;
  // The next number of a block, which stands for zeros: the file is cut before it.
  void cut(std::size_t block) { blocks_[block].zeros = ++blocks_[block].tried; }
  // Its last number is promised.
  void promise(std::size_t block) { blocks_[block].promised = blocks_[block].tried; }

  // What was promised of each block, for a read that begins now.
  [[nodiscard]] std::vector<std::uint32_t> promised() const;
  // What is wrong with `bytes`, read from the block by who began when `promised` was promised;
  // empty when nothing is. Bytes beyond those are zeros.
  [[nodiscard]] std::string wrong(std::size_t block, std::span<const std::byte> bytes,
                                  std::uint32_t promised) const;

  // A look at the attributes begins.
  struct Look {
    std::vector<std::uint32_t> promised;
    std::uint64_t change = 0;  // the greatest that was told
  };
  [[nodiscard]] Look look() const { return {promised(), greatest_}; }
  // It ends: this was told. What is wrong with that; empty when nothing is.
  [[nodiscard]] std::string wrong_change(const Look& look, std::uint64_t change);

 private:
  struct Block {
    std::uint32_t tried = 0;
    std::uint32_t promised = 0;
    std::uint32_t zeros = 0;  // the last number that stands for zeros
  };
  [[nodiscard]] std::vector<std::byte> fill(std::size_t block, std::uint32_t number) const;

  const std::uint32_t file_;
  std::vector<Block> blocks_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> told_;  // `change`: what had been tried
  std::uint64_t greatest_ = 0;
};

}  // namespace weft::sim
