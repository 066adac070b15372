// Stripes of an object, as a scrub looks at them and mends them.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <deque>

#include "dataserver/parity/parity_scrub.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kMostTold = 100;  // lost rows of one scrub that the log names

}  // namespace

Task<Result<>> ParityStore::Scrub::load_all(Op& op, Image& image) {
  const unsigned members = group_.members();
  std::vector<Payload> data(members);
  std::vector<Payload> sums(members);
  std::deque<bool> unread(2 * members);
  Join join;
  for (unsigned member = 0; member < members; ++member) {
    read(op, join, member, image.object, image.offset(), image.bytes(), data[member],
         unread[member]);
    read(op, join, member, sums_of(image.object), image.sums_offset(), image.rows * kSumBytes,
         sums[member], unread[members + member]);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  for (unsigned member = 0; member < members; ++member) {
    auto done = unread[member] || unread[members + member]
                    ? co_await load_blocks(op, image, member)
                    : image.adopt(member, std::move(data[member]), std::move(sums[member]),
                                  group_.parts_.pool);
    if (!done) co_return done;
  }
  co_return Result<>{};
}

// One by one, where the disk has places that it cannot read.
Task<Result<>> ParityStore::Scrub::load_blocks(Op& op, Image& image, unsigned member) {
  if (auto room = image.make_room(member, group_.parts_.pool); !room) co_return room;
  for (std::size_t row = 0; row < image.rows; ++row) {
    Image one(group_.members(), image.object, image.first + row, image.first + row + 1);
    Payload data;
    Payload sums;
    bool no_data = false;
    bool no_sums = false;
    Join join;
    read(op, join, member, image.object, one.offset(), one.bytes(), data, no_data);
    read(op, join, member, sums_of(image.object), one.sums_offset(), kSumBytes, sums, no_sums);
    co_await join;
    if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
    if (no_data || no_sums) continue;
    auto adopted = one.adopt(member, std::move(data), std::move(sums), group_.parts_.pool);
    if (!adopted) co_return adopted;
    std::ranges::copy(one.block(member, 0), image.block(member, row).begin());
    image.sums[member][row] = one.sums[member][0];
    image.good[member][row] = one.good[member][0];
    image.lost[member][row] = one.lost[member][0];
  }
  co_return Result<>{};
}

// A block of zeros at a member that has lost the object, and not that one.
std::optional<unsigned> ParityStore::Scrub::gone(const Rows& rows, std::size_t row,
                                                 std::optional<unsigned> but) const {
  for (unsigned member = 0; member < group_.members(); ++member) {
    const bool absent = (rows.absent >> member & 1) != 0;
    if (absent && rows.image.sums[member][row] == 0 && member != but) return member;
  }
  return std::nullopt;
}

// Whether a block of data in the row, but that one's, may be a hole or be lost.
bool ParityStore::Scrub::has_hole(const Rows& rows, std::size_t row, unsigned but) const {
  const std::uint64_t offset = rows.image.offset() + row * kParityBlock;
  const unsigned parity = group_.geometry().parity_member(offset / group_.geometry().chunk);
  for (unsigned member = 0; member < group_.members(); ++member) {
    if (member == parity || member == but || rows.image.sums[member][row] != 0) continue;
    if (group_.geometry().logical(member, offset) < rows.size) return true;
  }
  return false;
}

void ParityStore::Scrub::lost(const Rows& rows, std::size_t row, unsigned blocks,
                              ScrubFindings& found) {
  if (record_.found.lost + found.lost < kMostTold) {
    spdlog::error("event=parity_scrub_lost object={} at={} blocks={}", to_string(rows.image.object),
                  rows.image.offset() + row * kParityBlock, blocks);
  }
  found.lost += blocks;
}

void ParityStore::Scrub::judge_row(Rows& rows, std::size_t row, ScrubFindings& found) {
  Image& image = rows.image;
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = group_.geometry().parity_member(offset / group_.geometry().chunk);
  const auto bad = static_cast<unsigned>(
      std::ranges::count_if(image.good, [row](const auto& good) { return !good[row]; }));
  if (bad > 1) {
    // Of a row that was given up the parity is lost because of the data.
    const bool with_parity = image.lost[parity][row];
    return lost(rows, row, with_parity ? bad - 1 : bad, found);
  }
  std::optional<unsigned> one = gone(rows, row, {});
  for (unsigned member = 0; member < group_.members(); ++member) {
    if (!image.good[member][row]) one = member;
  }
  const unsigned which = one.value_or(parity);
  std::array<std::byte, kParityBlock> before;
  std::ranges::copy(image.block(which, row), before.begin());
  image.compute_block(which, row);
  const bool other = !std::ranges::equal(before, image.block(which, row));
  if (bad == 0 && !other) return;  // it is right
  // The checksum, or the block, says that the row is right but for this.
  const bool sure = !other || sum_block(image.block(which, row), image.object, which,
                                        image.first + row) == image.sums[which][row];
  const bool known_gone = (rows.absent >> which & 1) != 0;
  if (!sure && (gone(rows, row, which) || (!known_gone && has_hole(rows, row, which)))) {
    std::ranges::copy(before, image.block(which, row).begin());
    return lost(rows, row, 1, found);
  }
  rows.changed[which][row] = true;
  image.lost[which][row] = false;
  ++(one ? found.corrupt : found.parity);
  spdlog::warn("event=parity_scrub_found object={} member={} at={} what={}",
               to_string(image.object), which, offset,
               one ? (other ? "block" : "checksum") : "parity");
}

// Precondition: the stripes are held, and all members are read.
Task<Result<>> ParityStore::Scrub::check_stripes(Op& op, const Subject& at, std::uint64_t first,
                                                 std::uint64_t last, ScrubFindings& found) {
  const std::uint64_t in_chunk = group_.geometry().blocks_in_chunk();
  const unsigned members = group_.members();
  Image image(members, at.object, first * in_chunk, last * in_chunk);
  if (auto loaded = co_await load_all(op, image); !loaded) co_return loaded;
  found = {.bytes = image.bytes() * members};
  Rows rows{.image = image,
            .size = 0,
            .absent = at.absent,
            .changed = {members, std::vector<bool>(image.rows)}};
  {
    const MutexLock lock(group_.mutex_);
    if (at.state->exists) rows.size = at.state->size;
  }
  for (std::size_t row = 0; row < image.rows; ++row) judge_row(rows, row, found);
  if (record_.only_tell || found.corrupt + found.parity == 0) co_return Result<>{};
  std::vector<ChildWrite> writes;
  for (unsigned member = 0; member < members; ++member) {
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (!rows.changed[member][row]) continue;
      auto added = group_.add_write(writes, image, member, row, row + 1);
      if (!added) co_return added;
    }
  }
  Join join;
  for (ChildWrite& w : writes) {
    group_.child_write(op, join, w.member, w.sums ? sums_of(at.object) : at.object, w.offset,
                       std::move(w.pieces), Stability::kFileSync);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  co_return Result<>{};
}

}  // namespace weft::ds
