#include "dataserver/parity/image.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

namespace weft::ds {

Result<Buffer> gather(Payload payload, std::size_t size, BufferPool& pool) {
  if (payload.pieces().size() == 1 && payload.size() >= size) {
    auto* piece = std::get_if<Buffer>(&payload.pieces().front());
    const bool aligned =
        piece != nullptr && reinterpret_cast<std::uintptr_t>(piece->data()) % 32 == 0;
    if (aligned && piece->unique()) {
      piece->truncate(size);
      return std::move(*piece);
    }
  }
  auto made = pool.allocate(size);
  if (!made) return made;
  std::size_t at = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    const std::size_t step = std::min(size_of(piece), size - at);
    if (step == 0) continue;
    if (const auto* buffer = std::get_if<Buffer>(&piece)) {
      std::memcpy(made->data() + at, buffer->data(), step);
    } else if (std::holds_alternative<ZeroRange>(piece)) {
      std::memset(made->data() + at, 0, step);
    } else {
      Payload alone;
      alone.append(FileRange(std::get<FileRange>(piece)));
      auto bytes = alone.flatten();
      if (!bytes) return pass(bytes);
      std::memcpy(made->data() + at, bytes->data(), step);
    }
    at += step;
  }
  std::memset(made->data() + at, 0, size - at);
  return made;
}

Result<> Image::make_room(unsigned member, BufferPool& pool) {
  auto made = pool.allocate(static_cast<std::size_t>(bytes()));
  if (!made) return pass(made);
  std::memset(made->data(), 0, made->size());
  data[member] = std::move(*made);
  return {};
}

Result<> Image::adopt(unsigned member, Payload payload, Payload sum_bytes, BufferPool& pool) {
  ends[member] = payload.size();
  auto blocks = gather(std::move(payload), static_cast<std::size_t>(bytes()), pool);
  if (!blocks) return pass(blocks);
  auto read_sums = gather(std::move(sum_bytes), rows * kSumBytes, pool);
  if (!read_sums) return pass(read_sums);
  data[member] = std::move(*blocks);
  for (std::size_t row = 0; row < rows; ++row) {
    sums[member][row] = get_sum(read_sums->span().subspan(row * kSumBytes, kSumBytes));
    good[member][row] =
        sums[member][row] == sum_block(block(member, row), object, member, first + row);
    lost[member][row] = sums[member][row] == kLostSum;
  }
  return {};
}

bool Image::all_good() const {
  for (unsigned member = 0; member < members(); ++member) {
    if (loaded(member) && !std::ranges::all_of(good[member], std::identity{})) return false;
  }
  return true;
}

bool Image::empty() const {
  if (!all_good()) return false;
  return std::ranges::all_of(sums, [](const auto& of_member) {
    return std::ranges::all_of(of_member, [](std::uint64_t sum) { return sum == 0; });
  });
}

void Image::compute_block(unsigned member, std::size_t row) {
  std::array<const std::byte*, kMaxMembers> others{};
  std::size_t count = 0;
  for (unsigned other = 0; other < members(); ++other) {
    if (other != member) others[count++] = block(other, row).data();
  }
  xor_of(block(member, row), std::span(others).first(count));
}

void Image::distrust(std::uint32_t those) {
  for (unsigned member = 0; member < members(); ++member) {
    if ((those >> member & 1) == 0 || !loaded(member)) continue;
    for (std::size_t row = 0; row < rows; ++row) {
      if (sums[member][row] == 0) good[member][row] = false;
    }
  }
}

bool Image::given_up(std::size_t row) const {
  return std::ranges::any_of(lost, [row](const auto& of) { return of[row]; });
}

bool Image::zeros(unsigned member, std::size_t row) const {
  return good[member][row] && sums[member][row] == 0;
}

bool Image::nothing(unsigned member, std::size_t row) const {
  return ends[member] <= std::uint64_t{row} * kParityBlock && sums[member][row] == 0;
}

Result<> Image::compute(BufferPool& pool) {
  for (unsigned member = 0; member < members(); ++member) {
    if (loaded(member)) continue;
    if (auto made = make_room(member, pool); !made) return made;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    unsigned missing = 0;
    unsigned which = 0;
    for (unsigned member = 0; member < members(); ++member) {
      if (good[member][row]) continue;
      ++missing;
      which = member;
    }
    if (missing != 1) continue;
    compute_block(which, row);
    if (unread[which][row] && !no_sum[which][row] &&
        sums[which][row] != sum_block(block(which, row), object, which, first + row)) {
      std::ranges::fill(block(which, row), std::byte{0});
      continue;
    }
    good[which][row] = true;
    lost[which][row] = false;
  }
  return {};
}

}  // namespace weft::ds
