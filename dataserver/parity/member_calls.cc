#include "dataserver/parity/member_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "dataserver/parity/moment.h"
#include "dataserver/store/object_files.h"
#include "dataserver/store/vectors.h"
#include "rpc/base/assert.h"

namespace weft::ds::parity {

namespace {

constexpr std::uint32_t kPage = 1024;  // objects listed at a time

}  // namespace

std::unexpected<Error> member_failed() {
  return fail(Errc::kIo, "a member of the parity group failed");
}

Result<> outcome(const Op& op) {
  if (op.failed != 0) return member_failed();
  if (op.full != 0) return fail(Errc::kNoSpace, "a member of the parity group is full");
  if (op.busy) return fail(Errc::kBusy, "memory is short for a read of the parity group");
  return {};
}

std::uint32_t MemberCalls::readable(const Mode& mode) const {
  std::uint32_t mask = 0;
  for (unsigned member = 0; member < count(); ++member) {
    if (mode.readable(member)) mask |= std::uint32_t{1} << member;
  }
  return mask;
}

std::uint32_t MemberCalls::writable(const Mode& mode) const {
  std::uint32_t mask = readable(mode);
  if (mode.rebuilding) mask |= std::uint32_t{1} << mode.out;
  return mask;
}

void MemberCalls::after(Op& op, unsigned member, const Error* error,
                        const WriteVerifier* verifier) {
  const std::uint32_t bit = std::uint32_t{1} << member;
  if (error != nullptr && !(*error == Errc::kNotFound)) {
    if ((op.failed & bit) == 0) {
      spdlog::warn("event=parity_member_failed member={} error=\"{}\"", member, error->describe());
    }
    if (*error == Errc::kNoSpace) op.stuck |= bit;
    op.failed |= bit;
    return;
  }
  const WriteVerifier known = known_[member].load();
  const WriteVerifier now = members_[member]->verifier();
  if (now == known && (verifier == nullptr || *verifier == known)) return;
  if (op.mode.out >= 0 && op.mode.readable(member) && !op.settling) {
    // All that is written while a member is out is stable before it is answered.
    known_[member].store(now);
    return;
  }
  op.failed |= bit;
}

template <class T, class Start>
Task<Result<T>> MemberCalls::insist(unsigned member, Start start) {
  const TimePoint since = clock_.now();
  bool gave = false;
  for (;;) {
    auto result =
        co_await call<Result<T>>([&start](auto done) { start(Store::Done<T>(std::move(done))); });
    if (result) co_return result;
    // A member at its quota is full, and not out of order.
    if (result.error() == Errc::kQuota) result.error().code = Errc::kNoSpace;
    if (result.error() == Errc::kNoSpace) {
      if (clock_.now() - since > kFullFor) co_return result;
      if (!std::exchange(gave, true)) co_await room_.give_reserve(member);
    } else if (result.error() == Errc::kBusy) {
      const bool own = !pool_.allocate(kParityBlock).has_value();
      if (!own && clock_.now() - since > kBusyFor) co_return result;
    } else {
      co_return result;
    }
    co_await wait_a_moment();
  }
}

template <class T, class Start, class Then>
void MemberCalls::ask(Op& op, Join& join, unsigned member, Start start, Then then) {
  join.started();
  spawn(insist<T>(member, std::move(start)),
        [this, &op, &join, member, then = std::move(then)](Result<T> result) mutable {
          const WriteVerifier* verifier = nullptr;
          if constexpr (std::is_same_v<T, WriteResult>) {
            if (result) verifier = &result->verifier;
          } else if constexpr (std::is_same_v<T, WriteVerifier>) {
            if (result) verifier = &*result;
          }
          after(op, member, result ? nullptr : &result.error(), verifier);
          if (result) then(std::move(result));
          join.ended();
        });
}

void MemberCalls::read(Op& op, Join& join, unsigned member, const ObjectId& object,
                       std::uint64_t offset, std::uint64_t count, MemberRead& into, From from) {
  join.started();
  auto done = [this, &op, &join, member, &into](Result<ReadResult> result) {
    into.unread = !result && (result.error() == Errc::kIo || result.error() == Errc::kCorrupt);
    if (!result && result.error() == Errc::kBusy) {
      op.busy = true;
    } else {
      after(op, member, result || into.unread ? nullptr : &result.error(), nullptr);
    }
    if (result) into.payload = std::move(result->payload);
    join.ended();
  };
  members_[member]->read({.object = object,
                          .offset = offset,
                          .count = static_cast<std::uint32_t>(count),
                          .share = op.share,
                          .uncached = from == From::kDisk},
                         std::move(done));
}

void MemberCalls::write(Op& op, Join& join, unsigned member, const ObjectId& object,
                        std::uint64_t offset, std::vector<Buffer> data, Stability wanted) {
  auto start = [to = members_[member], object, offset, data = std::move(data),
                wanted](Store::Done<WriteResult> done) {
    to->write(object, offset, share_all(data), wanted, std::move(done));
  };
  ask<WriteResult>(op, join, member, std::move(start), [](auto&&) {});
}

void MemberCalls::punch(Op& op, Join& join, unsigned member, const ObjectId& object,
                        std::uint64_t offset, std::uint64_t size) {
  ask<void>(
      op, join, member,
      [to = members_[member], object, offset, size](auto done) {
        to->punch(object, offset, size, std::move(done));
      },
      [](auto&&) {});
}

// To what an object of this size has at a member; what is shorter becomes as long, by a hole.
Task<bool> MemberCalls::cut(Op& op, ObjectId object, std::uint64_t size, std::uint32_t mask) {
  const std::uint64_t stripes = geometry_.stripes(size);
  const std::uint64_t data = stripes * geometry_.chunk;
  const std::uint64_t sums = kSumsAt + stripes * geometry_.blocks_in_chunk() * kSumBytes;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    for (const bool of_sums : {false, true}) {
      ask<ObjectStat>(
          op, join, member,
          [to = members_[member], one = of_sums ? sums_of(object) : object,
           end = of_sums ? sums : data](auto done) { to->truncate(one, end, std::move(done)); },
          [](auto&&) {});
    }
  }
  co_await join;
  co_return op.failed == 0;
}

Task<bool> MemberCalls::remove(Op& op, ObjectId object, std::uint32_t mask) {
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    for (const ObjectId& one : {object, sums_of(object)}) {
      ask<void>(
          op, join, member,
          [to = members_[member], one](auto done) { to->remove(one, std::move(done)); },
          [](auto&&) {});
    }
  }
  co_await join;
  co_return op.failed == 0;
}

Task<bool> MemberCalls::commit(Op& op, ObjectId object, std::uint32_t mask) {
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    for (const ObjectId& one : {object, sums_of(object)}) {
      ask<WriteVerifier>(
          op, join, member,
          [to = members_[member], one](auto done) { to->commit(one, std::move(done)); },
          [](auto&&) {});
    }
  }
  co_await join;
  co_return op.failed == 0;
}

Task<Result<>> MemberCalls::load(Op& op, Image& image, std::uint32_t mask, From from) {
  std::vector<MemberRead> data(count());
  std::vector<MemberRead> sums(count());
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    read(op, join, member, image.object, image.offset(), image.bytes(), data[member], from);
    read(op, join, member, sums_of(image.object), image.sums_offset(), image.rows * kSumBytes,
         sums[member], from);
  }
  co_await join;
  if (auto good = outcome(op); !good) co_return good;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    auto done = data[member].unread || sums[member].unread
                    ? co_await load_blocks(op, image, member, from)
                    : image.adopt(member, std::move(data[member].payload),
                                  std::move(sums[member].payload), pool_);
    if (!done) co_return done;
  }
  co_return Result<>{};
}

// One by one, where the disk has places that it cannot read.
Task<Result<>> MemberCalls::load_blocks(Op& op, Image& image, unsigned member, From from) {
  auto room = pool_.allocate(image.bytes());
  if (!room) co_return pass(room);
  std::memset(room->data(), 0, room->size());
  for (std::size_t row = 0; row < image.rows; ++row) {
    Image one(count(), image.object, image.first + row, image.first + row + 1);
    MemberRead data;
    MemberRead sums;
    Join join;
    read(op, join, member, image.object, one.offset(), one.bytes(), data, from);
    read(op, join, member, sums_of(image.object), one.sums_offset(), kSumBytes, sums, from);
    co_await join;
    if (auto good = outcome(op); !good) co_return good;
    const bool no_sum = sums.unread;
    auto adopted = one.adopt(member, std::move(data.payload), std::move(sums.payload), pool_);
    if (!adopted) co_return adopted;
    std::ranges::copy(one.block(member, 0), room->span().subspan(row * kParityBlock).begin());
    image.sums[member][row] = no_sum ? 0 : one.sums[member][0];
    image.good[member][row] = one.good[member][0] && !data.unread && !no_sum;
    image.lost[member][row] = one.lost[member][0] && !no_sum;
    image.unread[member][row] = data.unread;
    image.no_sum[member][row] = no_sum;
    if (one.ends[member] > 0 || data.unread) {
      image.ends[member] = (std::uint64_t{row} + 1) * kParityBlock;
    }
  }
  image.data[member] = std::move(*room);
  co_return Result<>{};
}

// Rows [first, last) of a member, and their checksums.
Result<> MemberCalls::add_write(std::vector<MemberWrite>& writes, const Image& image,
                                unsigned member, std::size_t first, std::size_t last) {
  auto blocks = image.data[member].share(first * kParityBlock, (last - first) * kParityBlock);
  if (!blocks) return pass(blocks);
  auto sums = pool_.allocate((last - first) * kSumBytes);
  if (!sums) return pass(sums);
  for (std::size_t row = first; row < last; ++row) {
    put_sum(sums->span().subspan((row - first) * kSumBytes, kSumBytes),
            image.lost[member][row]
                ? kLostSum
                : sum_block(image.block(member, row), image.object, member, image.first + row));
  }
  writes.push_back({member, false, image.offset() + first * kParityBlock, {}});
  writes.back().pieces.push_back(std::move(*blocks));
  writes.push_back({member, true, image.sums_offset() + first * kSumBytes, {}});
  writes.back().pieces.push_back(std::move(*sums));
  return {};
}

Task<Result<>> MemberCalls::write_all(Op& op, ObjectId object, std::vector<MemberWrite> writes,
                                      Stability wanted) {
  Join join;
  for (MemberWrite& w : writes) {
    write(op, join, w.member, w.sums ? sums_of(object) : object, w.offset, std::move(w.pieces),
          wanted);
  }
  co_await join;
  if (op.failed != 0) co_return member_failed();
  co_return Result<>{};
}

// Asked again with the attempt while it is busy.
void MemberCalls::allocate(Op& op, Join& join, unsigned member, const ObjectId& object,
                           std::uint64_t offset, std::uint64_t size) {
  join.started();
  auto done = [this, &op, &join, member](const Result<>& result) {
    const bool full =
        !result && (result.error() == Errc::kNoSpace || result.error() == Errc::kQuota);
    if (full && op.mode.readable(member)) {
      op.full |= std::uint32_t{1} << member;
    } else if (!result && result.error() == Errc::kNotSupported) {
      op.unable = true;
    } else if (!result && result.error() == Errc::kBusy) {
      op.busy = true;
    } else {
      after(op, member, result ? nullptr : &result.error(), nullptr);
    }
    join.ended();
  };
  members_[member]->allocate(object, offset, size, std::move(done));
}

std::vector<MemberRange> ranges_of(const std::vector<MemberWrite>& writes) {
  std::vector<MemberRange> ranges;
  for (const MemberWrite& w : writes) {
    MemberRange range{.member = w.member, .sums = w.sums, .offset = w.offset, .size = 0};
    for (const Buffer& piece : w.pieces) range.size += piece.size();
    ranges.push_back(range);
  }
  return ranges;
}

Task<Result<>> MemberCalls::ask_room(Op& op, ObjectId object,
                                     const std::vector<MemberRange>& ranges,
                                     std::uint32_t headers) {
  std::uint32_t tight = 0;
  for (unsigned member = 0; member < count(); ++member) {
    if (room_.nearly_full(member)) tight |= std::uint32_t{1} << member;
  }
  if (tight == 0 || op.reserved) co_return Result<>{};
  Join join;
  for (const MemberRange& range : ranges) {
    if ((tight >> range.member & 1) == 0 || !op.mode.writable(range.member)) continue;
    allocate(op, join, range.member, range.sums ? sums_of(object) : object, range.offset,
             range.size);
  }
  for (unsigned member = 0; member < count(); ++member) {
    if ((headers & tight & std::uint32_t{1} << member) == 0) continue;
    allocate(op, join, member, sums_of(object), 0, SumHeader::kBytes);
  }
  co_await join;
  co_return outcome(op);
}

bool MemberCalls::surely_fits(const Op& op, std::uint64_t stripes) const {
  for (unsigned member = 0; member < count(); ++member) {
    if (!op.mode.writable(member)) continue;
    if (!room_.surely_fits(member, stripes * geometry_.chunk)) return false;
  }
  return true;
}

Task<Result<>> MemberCalls::ask_length(Op& op, std::uint64_t stripes) {
  for (unsigned member = 0; member < count(); ++member) {
    if (!op.mode.writable(member)) continue;
    auto fits = co_await room_.fits(member, stripes * geometry_.chunk);
    if (!fits && fits.error() == Errc::kBusy) co_return pass(fits);
    if (!fits) after(op, member, &fits.error(), nullptr);
    if (fits && !*fits) {
      co_return fail(Errc::kFileTooLarge, "more than a member's file system holds of an object");
    }
  }
  co_return outcome(op);
}

Task<Result<MemberCalls::Extent>> MemberCalls::measure(Op& op, ObjectId object,
                                                       std::uint32_t mask) {
  Extent all;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    for (const bool sums : {false, true}) {
      ask<ObjectStat>(
          op, join, member,
          [to = members_[member], one = sums ? sums_of(object) : object](auto done) {
            to->stat(one, std::move(done));
          },
          [&all, sums](Result<ObjectStat> stat) {
            all.allocated += stat->allocated;
            all.mtime_ns = std::max(all.mtime_ns, stat->mtime_ns);
            const std::uint64_t begin = sums ? kSumsAt : 0;
            const std::uint64_t row = sums ? kSumBytes : kParityBlock;
            const std::uint64_t bytes = stat->size > begin ? stat->size - begin : 0;
            all.rows = std::max(all.rows, (bytes + row - 1) / row);
          });
    }
  }
  co_await join;
  co_return all;
}

Task<Result<std::uint64_t>> MemberCalls::next_row(Op& op, ObjectId object, std::uint64_t row,
                                                  std::uint32_t mask, Of of) {
  std::uint64_t first = kNoData;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    ask_next(op, join, member, object, false, row, first);
    if (of == Of::kAll) ask_next(op, join, member, object, true, row, first);
  }
  co_await join;
  if (op.failed != 0) co_return member_failed();
  co_return first;
}

// `first` becomes the first row at or after this one, if that is less.
void MemberCalls::ask_next(Op& op, Join& join, unsigned member, const ObjectId& object, bool sums,
                           std::uint64_t row, std::uint64_t& first) {
  const std::uint64_t base = sums ? kSumsAt : 0;
  const std::uint64_t size = sums ? kSumBytes : kParityBlock;
  ask<DataRun>(
      op, join, member,
      [to = members_[member], one = sums ? sums_of(object) : object,
       from = base + row * size](auto done) { to->next_data(one, from, std::move(done)); },
      [&first, base, size](Result<DataRun> run) {
        if (run->begin != kNoData) first = std::min(first, (run->begin - base) / size);
      });
}

Task<Result<>> MemberCalls::list(Op& op, ListPlace from, ObjectList& into) {
  std::vector<ObjectList> lists(count());
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if (!op.mode.readable(member)) continue;
    ask<ObjectList>(
        op, join, member,
        [to = members_[member], from](auto done) { to->list(from, kPage, std::move(done)); },
        [&lists, member](Result<ObjectList> listed) { lists[member] = std::move(*listed); });
  }
  co_await join;
  if (op.failed != 0) co_return member_failed();
  into = {};
  for (const ObjectList& list : lists) {  // as far as all of them went
    if (!list.more) continue;
    if (!into.more || list.next < into.next) into.next = list.next;
    into.more = true;
  }
  std::set<ListPlace> found;
  for (const ObjectList& list : lists) {
    for (const ObjectId& object : list.objects) {
      const ListPlace place{.folder = object_folder(object), .after = object};
      if (is_sums(object) && (!into.more || place <= into.next)) found.insert(place);
    }
  }
  for (const ListPlace& place : found) into.objects.push_back(data_of(place.after));
  co_return Result<>{};
}

Task<std::uint32_t> MemberCalls::probe(std::uint32_t mask) {
  std::uint32_t away = 0;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    join.started();
    spawn(insist<ObjectStat>(member,
                             [to = members_[member]](Store::Done<ObjectStat> done) {
                               to->stat(ObjectId{}, std::move(done));
                             }),
          [&, member](const Result<ObjectStat>& result) {
            if (!result && !(result.error() == Errc::kNotFound)) {
              away |= std::uint32_t{1} << member;
            } else {
              known_[member].store(members_[member]->verifier());
            }
            join.ended();
          });
  }
  co_await join;
  co_return away;
}

std::uint32_t MemberCalls::unsettled(std::uint32_t mask) const {
  std::uint32_t those = 0;
  for (unsigned member = 0; member < count(); ++member) {
    const std::uint32_t bit = std::uint32_t{1} << member;
    if ((mask & bit) != 0 && !members_[member]->settled()) those |= bit;
  }
  return those;
}

bool MemberCalls::lacks_reserve(const Mode& mode) const {
  for (unsigned member = 0; member < count(); ++member) {
    if (mode.readable(member) && room_.lacks_reserve(member)) return true;
  }
  return false;
}

Result<StoreStat> MemberCalls::usage(const Mode& mode, std::uint32_t but) const {
  StoreStat sum;
  bool first = true;
  for (unsigned member = 0; member < count(); ++member) {
    if (!mode.readable(member) || (but >> member & 1) != 0) continue;
    auto usage = room_.usage(member);
    if (!usage) return usage;
    sum.capacity_bytes =
        first ? usage->capacity_bytes : std::min(sum.capacity_bytes, usage->capacity_bytes);
    sum.free_bytes = first ? usage->free_bytes : std::min(sum.free_bytes, usage->free_bytes);
    sum.objects = std::max(sum.objects, usage->objects / 2);  // with checksums beside each
    first = false;
  }
  if (first) return fail(Errc::kUnreachable, "no target of the parity group is there");
  sum.capacity_bytes *= count() - 1;
  sum.free_bytes *= count() - 1;
  if (but != 0) sum.free_bytes = 0;  // nothing can be written
  return sum;
}

}  // namespace weft::ds::parity
