#include "tests/simulation/cluster/history.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::sim {

namespace {

struct Mark {
  std::uint32_t file;
  std::uint32_t block;
  std::uint32_t number;
  std::uint32_t sector;
};

}  // namespace

std::vector<std::byte> History::fill(std::size_t block, std::uint32_t number) const {
  std::vector<std::byte> bytes(kBlockBytes);
  for (std::size_t at = 0; at < kBlockBytes; at += sizeof(Mark)) {
    const Mark mark{file_, static_cast<std::uint32_t>(block), number,
                    static_cast<std::uint32_t>(at / kSectorBytes)};
    std::memcpy(bytes.data() + at, &mark, sizeof mark);
  }
  return bytes;
}

std::vector<std::byte> History::next(std::size_t block) {
  return fill(block, ++blocks_[block].tried);
}

std::vector<std::byte> History::last(std::size_t block) const {
  return fill(block, blocks_[block].tried);
}

std::vector<std::uint32_t> History::promised() const {
  std::vector<std::uint32_t> numbers;
  for (const Block& block : blocks_) numbers.push_back(block.promised);
  return numbers;
}

std::string History::wrong(std::size_t block, std::span<const std::byte> bytes,
                           std::uint32_t promised) const {
  std::array<std::byte, kBlockBytes> whole{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), whole.size())), whole.begin());
  for (std::size_t at = 0; at < kBlockBytes; at += kSectorBytes) {
    const std::size_t sector = at / kSectorBytes;
    Mark mark{};
    std::memcpy(&mark, whole.data() + at, sizeof mark);
    const std::string where = "file " + std::to_string(file_) + " block " + std::to_string(block) +
                              " sector " + std::to_string(sector);
    const bool nothing = mark.file == 0 && mark.number == 0;
    if (!nothing && (mark.file != file_ || mark.block != block || mark.sector != sector)) {
      return where + " has bytes of file " + std::to_string(mark.file) + " block " +
             std::to_string(mark.block);
    }
    const std::uint32_t number = nothing ? blocks_[block].zeros : mark.number;
    if (number < promised || number > blocks_[block].tried) {
      return where + " holds " + (nothing ? "zeros of " : "") + std::to_string(number) +
             ", promised " + std::to_string(promised) + ", tried " +
             std::to_string(blocks_[block].tried);
    }
    const auto sector_bytes = std::span(whole).subspan(at, kSectorBytes);
    std::size_t same = sizeof mark;
    while (same < kSectorBytes && sector_bytes[same] == sector_bytes[same % sizeof mark]) ++same;
    const bool zeros = std::ranges::all_of(sector_bytes.subspan(same),
                                           [](std::byte byte) { return byte == std::byte{0}; });
    // A file that became longer may end at any byte of what was written, after a power failure.
    if (same < kSectorBytes && !(zeros && blocks_[block].zeros >= promised)) {
      return where + " is torn";
    }
  }
  return {};
}

std::string History::wrong_change(const Look& look, std::uint64_t change) {
  const std::string told =
      "file " + std::to_string(file_) + " has change " + std::to_string(change);
  if (change < look.change) return told + " after " + std::to_string(look.change);
  greatest_ = std::max(greatest_, change);
  const auto before = told_.find(change);
  if (before == told_.end()) {
    std::vector<std::uint32_t>& tried = told_[change];
    for (const Block& block : blocks_) tried.push_back(block.tried);
    return {};
  }
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    if (look.promised[block] <= before->second[block]) continue;
    return told + " as it had before write " + std::to_string(look.promised[block]) + " of block " +
           std::to_string(block);
  }
  return {};
}

}  // namespace weft::sim
