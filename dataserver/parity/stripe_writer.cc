#include "dataserver/parity/stripe_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace weft::ds::parity {

namespace {

// What a write covers of one member's chunk, in bytes from the first row of an image.
struct Cover {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const std::byte* from = nullptr;
  [[nodiscard]] bool touched() const { return begin < end; }
  void apply(Buffer& into) const { std::memcpy(into.data() + begin, from, end - begin); }
};

Image part_image(const ParityGeometry& geometry, const layout::ObjectId& object,
                 std::uint64_t begin, std::uint64_t size) {
  const std::uint64_t chunk = geometry.chunk;
  const std::uint64_t within = begin % geometry.width();
  const std::uint64_t end = within + size;
  const std::uint64_t base = geometry.stripe_of(begin) * geometry.blocks_in_chunk();
  if (within / chunk != (end - 1) / chunk) {
    return {geometry.members, object, base, base + geometry.blocks_in_chunk()};
  }
  const std::uint64_t last = end - within / chunk * chunk;
  return {geometry.members, object, base + within % chunk / kParityBlock,
          base + (last + kParityBlock - 1) / kParityBlock};
}

}  // namespace

Task<Result<>> StripeWriter::write(Op& op, ObjectId object, std::uint64_t offset,
                                   const Buffer& bytes, std::uint64_t size, Stability wanted) {
  const std::uint64_t width = geometry().width();
  const std::uint64_t end = offset + bytes.size();
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t in_stripe = at % width;
    const std::uint64_t full =
        in_stripe == 0 ? std::min((end - at) / width, group_.stripes_at_once()) : 0;
    if (full > 0) {
      auto part = bytes.share(at - offset, full * width);
      if (!part) co_return pass(part);
      auto put = co_await write_full(op, object, at / width, full, std::move(*part), size, wanted);
      if (!put) co_return put;
      at += full * width;
      continue;
    }
    const std::uint64_t step = std::min(end - at, width - in_stripe);
    auto put =
        co_await write_part(op, object, at, bytes.span().subspan(at - offset, step), size, wanted);
    if (!put) co_return put;
    at += step;
  }
  co_return Result<>{};
}

// Whole stripes: one write for each member, and one for its checksums.
Task<Result<>> StripeWriter::write_full(Op& op, ObjectId object, std::uint64_t stripe,
                                        std::uint64_t count, Buffer bytes, std::uint64_t size,
                                        Stability wanted) {
  const std::uint64_t chunk = geometry().chunk;
  const std::uint64_t in_chunk = geometry().blocks_in_chunk();
  auto parity = pool().allocate(count * chunk);
  if (!parity) co_return pass(parity);
  std::vector<MemberWrite> writes;
  std::vector<Buffer> sums(members());
  for (unsigned member = 0; member < members(); ++member) {
    writes.push_back({member, false, stripe * chunk, {}});
    auto room = pool().allocate(count * in_chunk * kSumBytes);
    if (!room) co_return pass(room);
    sums[member] = std::move(*room);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto at_parity = parity->span().subspan(i * chunk, chunk);
    std::array<const std::byte*, kMaxMembers> sources{};
    for (unsigned k = 0; k + 1 < members(); ++k) {
      sources[k] = bytes.data() + i * geometry().width() + k * chunk;
    }
    xor_of(at_parity, std::span(sources).first(members() - 1));
    for (unsigned member = 0; member < members(); ++member) {
      const unsigned k = geometry().chunk_at(stripe + i, member);
      auto piece = k == members() - 1 ? parity->share(i * chunk, chunk)
                                      : bytes.share(i * geometry().width() + k * chunk, chunk);
      if (!piece) co_return pass(piece);
      for (std::uint64_t block = 0; block < in_chunk; ++block) {
        put_sum(sums[member].span().subspan((i * in_chunk + block) * kSumBytes, kSumBytes),
                sum_block(piece->span().subspan(block * kParityBlock, kParityBlock), object, member,
                          (stripe + i) * in_chunk + block));
      }
      writes[member].pieces.push_back(std::move(*piece));
    }
  }
  for (unsigned member = 0; member < members(); ++member) {
    writes.push_back({member, true, kSumsAt + stripe * in_chunk * kSumBytes, {}});
    writes.back().pieces.push_back(std::move(sums[member]));
  }
  co_return co_await group_.write(op, object, std::move(writes), size, wanted);
}

// A write to a part of one stripe: the rows it touches, and what of them.
struct StripeWriter::Part {
  Part(const ParityGeometry& geometry, const ObjectId& object, std::uint64_t begin,
       std::span<const std::byte> bytes);
  void compute(bool by_difference);
  [[nodiscard]] bool touches(unsigned member, std::size_t row) const {
    return covers[member].begin < (row + 1) * kParityBlock &&
           covers[member].end > row * kParityBlock;
  }
  [[nodiscard]] bool covers_all(unsigned member, std::size_t row) const {
    return covers[member].begin <= row * kParityBlock &&
           covers[member].end >= (row + 1) * kParityBlock;
  }

  unsigned parity;
  Image image;
  std::vector<Cover> covers;
  std::uint32_t touched = 0;
  std::uint32_t whole = 0;                  // overwritten from end to end
  std::vector<std::vector<bool>> was_good;  // of what was read
  std::vector<std::vector<bool>> was_lost;
};

StripeWriter::Part::Part(const ParityGeometry& geometry, const ObjectId& object,
                         std::uint64_t begin, std::span<const std::byte> bytes)
    : parity(geometry.parity_member(geometry.stripe_of(begin))),
      image(part_image(geometry, object, begin, bytes.size())),
      covers(geometry.members),
      was_good(geometry.members, std::vector<bool>(image.rows, true)),
      was_lost(geometry.members, std::vector<bool>(image.rows)) {
  const std::uint64_t chunk = geometry.chunk;
  const std::uint64_t within = begin % geometry.width();
  const std::uint64_t end = within + bytes.size();
  const std::uint64_t first_row = image.offset() % chunk;
  for (std::uint64_t k = within / chunk; k <= (end - 1) / chunk; ++k) {
    const unsigned member =
        geometry.data_member(geometry.stripe_of(begin), static_cast<unsigned>(k));
    const std::uint64_t from = std::max(within, k * chunk);
    const std::uint64_t to = std::min(end, (k + 1) * chunk);
    covers[member] = {from - k * chunk - first_row, to - k * chunk - first_row,
                      bytes.data() + (from - within)};
    const std::uint32_t bit = std::uint32_t{1} << member;
    touched |= bit;
    if (to - from == image.bytes()) whole |= bit;
  }
}

// Puts the bytes in place and the parity with them: from what it was, or from all data.
void StripeWriter::Part::compute(bool by_difference) {
  if (by_difference) {
    for (unsigned member = 0; member < image.members(); ++member) {
      if (!covers[member].touched()) continue;
      xor_with(image.data[parity].span(), image.data[member].data());
      covers[member].apply(image.data[member]);
      xor_with(image.data[parity].span(), image.data[member].data());
    }
    return;
  }
  std::array<const std::byte*, kMaxMembers> sources{};
  std::size_t count = 0;
  for (unsigned member = 0; member < image.members(); ++member) {
    if (member == parity) continue;
    if (covers[member].touched()) covers[member].apply(image.data[member]);
    sources[count++] = image.data[member].data();
  }
  xor_of(image.data[parity].span(), std::span(sources).first(count));
}

// Reads either what is overwritten and the parity, or the rest of the data, whichever is less;
// everything, when something does not match or a member is out.
Task<Result<>> StripeWriter::load_part(Op& op, Part& part, bool& by_difference) {
  Image& image = part.image;
  const std::uint32_t all = group_.calls().readable(op.mode);
  const std::uint32_t parity = std::uint32_t{1} << part.parity;
  const std::uint32_t overwritten = part.touched | parity;
  const std::uint32_t rest = all & ~parity & ~part.whole;
  by_difference = op.mode.out < 0 && std::popcount(overwritten) < std::popcount(rest);
  const std::uint32_t mask = op.mode.out >= 0 ? all : by_difference ? overwritten : rest;
  if (auto loaded = co_await group_.load(op, image, mask); !loaded) co_return loaded;
  if (op.mode.out >= 0 || !image.all_good()) {
    by_difference = false;
    if (auto loaded = co_await group_.load(op, image, all); !loaded) co_return loaded;
    part.was_good = image.good;
    part.was_lost = image.lost;
    if (auto computed = image.compute(pool()); !computed) co_return computed;
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (keep_lost(op, part, row)) continue;
      group_.view().lost_blocks.fetch_add(1);
      co_return fail(Errc::kIo, "a block of " + to_string(image.object) + " is lost");
    }
  }
  for (unsigned member = 0; member < members(); ++member) {
    const bool used = part.covers[member].touched() || member == part.parity;
    if (image.loaded(member) || !used) continue;
    if (auto room = image.make_room(member, pool()); !room) co_return room;
  }
  co_return Result<>{};
}

// What the row will be if some of it is not known: of one that was given up (blocks.h), what is
// lost stays so until all of it is written, and its parity with it. False: that cannot be, and
// nothing may be written.
bool StripeWriter::keep_lost(const Op& op, Part& part, std::size_t row) {
  Image& image = part.image;
  std::uint32_t unknown = 0;
  bool in_place = true;  // what is written gets to where it can be read
  for (unsigned member = 0; member < members(); ++member) {
    if (member == part.parity) continue;
    if (part.covers_all(member, row)) {
      image.lost[member][row] = false;
    } else if (!image.good[member][row]) {
      unknown |= std::uint32_t{1} << member;
      if (part.touches(member, row)) in_place = in_place && op.cutting;
    }
    const bool readable = op.mode.readable(member);
    if (part.touches(member, row) && !readable) in_place = in_place && op.cutting;
  }
  if (unknown == 0) {
    image.lost[part.parity][row] = false;
    return true;
  }
  if (!op.cutting && (!in_place || !was_given_up(part, row))) return false;
  for (unsigned member = 0; member < members(); ++member) {
    if ((unknown >> member & 1) != 0) image.set_lost(member, row);
  }
  image.lost[part.parity][row] = true;
  return true;
}

bool StripeWriter::was_given_up(const Part& part, std::size_t row) {
  return std::ranges::any_of(part.was_lost, [row](const auto& of) { return of[row]; });
}

// While a member is out, before the log has the cut: if the member has the object's new last block,
// that cannot end in zeros when the row was given up. One that the log has must be done.
Task<Result<>> StripeWriter::may_clear_tail(Op& op, ObjectId object, std::uint64_t size) {
  const std::uint64_t within = size % geometry().width();
  if (within == 0 || group_.is_cutting(object)) co_return Result<>{};
  const std::vector<std::byte> zeros(geometry().width() - within);
  Part part(geometry(), object, size, zeros);
  bool by_difference = false;
  co_return co_await load_part(op, part, by_difference);
}

Task<Result<>> StripeWriter::write_part(Op& op, ObjectId object, std::uint64_t begin,
                                        std::span<const std::byte> bytes, std::uint64_t size,
                                        Stability wanted) {
  Part part(geometry(), object, begin, bytes);
  Image& image = part.image;
  bool by_difference = false;
  if (auto loaded = co_await load_part(op, part, by_difference); !loaded) co_return loaded;
  part.compute(by_difference);
  std::vector<MemberWrite> writes;
  for (unsigned member = 0; member < members(); ++member) {
    std::size_t first = image.rows;
    std::size_t last = 0;
    if (part.covers[member].touched()) {
      first = part.covers[member].begin / kParityBlock;
      last = (part.covers[member].end + kParityBlock - 1) / kParityBlock;
    }
    if (member == part.parity) {
      first = 0;
      last = image.rows;
    }
    // What was found damaged is written anew with it.
    for (std::size_t row = 0; row < image.rows && op.mode.readable(member); ++row) {
      if (part.was_good[member][row]) continue;
      first = std::min(first, row);
      last = std::max(last, row + 1);
      if (!part.was_lost[member][row] && !image.lost[member][row]) {
        group_.view().corrupt_blocks.fetch_add(1);
      }
    }
    if (first >= last) continue;
    if (auto added = group_.calls().add_write(writes, image, member, first, last); !added) {
      co_return added;
    }
  }
  co_return co_await group_.write(op, object, std::move(writes), size, wanted);
}

Task<Result<>> StripeWriter::clear(Op& op, ObjectId object, std::uint64_t offset,
                                   std::uint64_t count, std::uint64_t size) {
  auto room = pool().allocate(offset % kParityBlock + count);
  if (!room) co_return pass(room);
  std::memset(room->data(), 0, room->size());
  auto zeros = room->share(offset % kParityBlock, count);
  if (!zeros) co_return pass(zeros);
  co_return co_await write(op, object, offset, *zeros, size, Stability::kFileSync);
}

Task<Result<>> StripeWriter::clear_tail(Op& op, ObjectId object, std::uint64_t size) {
  const std::uint64_t width = geometry().width();
  if (size % width == 0) co_return Result<>{};
  op.cutting = true;
  auto done = co_await clear(op, object, size, width - size % width, size);
  op.cutting = false;
  co_return done;
}

Task<Result<>> StripeWriter::punch(Op& op, ObjectId object, std::uint64_t first,
                                   std::uint64_t last) {
  if (op.mode.out < 0) co_return co_await punch_unlogged(op, object, first, last);
  auto kept = co_await group_.log_content(encode(LogPunch{object, first, last}));
  if (!kept) co_return kept;
  auto done = co_await punch_unlogged(op, object, first, last);
  if ((op.failed & group_.calls().readable(op.mode)) == 0) group_.content_in_place();
  co_return done;
}

Task<Result<>> StripeWriter::punch_unlogged(Op& op, ObjectId object, std::uint64_t first,
                                            std::uint64_t last) {
  const std::uint64_t chunk = geometry().chunk;
  const std::uint64_t sums = geometry().blocks_in_chunk() * kSumBytes;
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if (!op.mode.writable(member)) continue;
    group_.calls().punch(op, join, member, object, first * chunk, (last - first) * chunk);
    group_.calls().punch(op, join, member, sums_of(object), kSumsAt + first * sums,
                         (last - first) * sums);
  }
  co_await join;
  if (op.failed != 0) co_return member_failed();
  co_return Result<>{};
}

}  // namespace weft::ds::parity
