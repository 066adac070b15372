#include "dataserver/parity/member_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "dataserver/store/object_files.h"

namespace weft::ds::parity {

namespace {

constexpr std::uint32_t kPage = 1024;  // objects listed at a time

}  // namespace

std::unexpected<Error> member_failed() {
  return fail(Errc::kIo, "a member of the parity group failed");
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

void MemberCalls::read(Op& op, Join& join, unsigned member, const ObjectId& object,
                       std::uint64_t offset, std::uint32_t count, Payload& into) {
  join.started();
  members_[member]->read(object, offset, count,
                         [this, &op, &join, member, &into](Result<ReadResult> result) {
                           after(op, member, result ? nullptr : &result.error(), nullptr);
                           if (result) into = std::move(result->payload);
                           join.ended();
                         });
}

void MemberCalls::write(Op& op, Join& join, unsigned member, const ObjectId& object,
                        std::uint64_t offset, std::vector<Buffer> data, Stability wanted) {
  join.started();
  members_[member]->write(object, offset, std::move(data), wanted,
                          [this, &op, &join, member](Result<WriteResult> result) {
                            after(op, member, result ? nullptr : &result.error(),
                                  result ? &result->verifier : nullptr);
                            join.ended();
                          });
}

void MemberCalls::punch(Op& op, Join& join, unsigned member, const ObjectId& object,
                        std::uint64_t offset, std::uint64_t size) {
  join.started();
  members_[member]->punch(object, offset, size, [this, &op, &join, member](Result<> result) {
    after(op, member, result ? nullptr : &result.error(), nullptr);
    join.ended();
  });
}

// Down to what an object of this size has at a member; what is shorter stays so.
Task<bool> MemberCalls::cut(Op& op, ObjectId object, std::uint64_t size, std::uint32_t mask) {
  const std::uint64_t stripes = geometry_.stripes(size);
  const std::uint64_t data = stripes * geometry_.chunk;
  const std::uint64_t sums = kSumsAt + stripes * geometry_.blocks_in_chunk() * kSumBytes;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    for (const bool of_sums : {false, true}) {
      join.started();
      members_[member]->truncate(of_sums ? sums_of(object) : object, of_sums ? sums : data,
                                 [this, &op, &join, member](Result<ObjectStat> result) {
                                   after(op, member, result ? nullptr : &result.error(), nullptr);
                                   join.ended();
                                 });
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
      join.started();
      members_[member]->remove(one, [this, &op, &join, member](Result<> result) {
        after(op, member, result ? nullptr : &result.error(), nullptr);
        join.ended();
      });
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
      join.started();
      members_[member]->commit(one, [this, &op, &join, member](Result<WriteVerifier> result) {
        after(op, member, result ? nullptr : &result.error(), result ? &*result : nullptr);
        join.ended();
      });
    }
  }
  co_await join;
  co_return op.failed == 0;
}

Task<Result<>> MemberCalls::load(Op& op, Image& image, std::uint32_t mask) {
  std::vector<Payload> data(count());
  std::vector<Payload> sums(count());
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    read(op, join, member, image.object, image.offset(), static_cast<std::uint32_t>(image.bytes()),
         data[member]);
    read(op, join, member, sums_of(image.object), image.sums_offset(),
         static_cast<std::uint32_t>(image.rows * kSumBytes), sums[member]);
  }
  co_await join;
  if (op.failed != 0) co_return member_failed();
  for (unsigned member = 0; member < count(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    auto adopted = image.adopt(member, std::move(data[member]), std::move(sums[member]), pool_);
    if (!adopted) co_return adopted;
  }
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

void MemberCalls::read_uncached(Op& op, Join& join, unsigned member, const ObjectId& object,
                                std::uint64_t offset, std::uint64_t count, Payload& into,
                                bool& unread) {
  join.started();
  members_[member]->read_uncached(
      object, offset, static_cast<std::uint32_t>(count),
      [this, &op, &join, member, &into, &unread](Result<ReadResult> result) {
        unread = !result && result.error() == Errc::kIo;
        after(op, member, result || unread ? nullptr : &result.error(), nullptr);
        if (result) into = std::move(result->payload);
        join.ended();
      });
}

void MemberCalls::allocate(Op& op, Join& join, unsigned member, const ObjectId& object,
                           std::uint64_t offset, std::uint64_t size) {
  join.started();
  members_[member]->allocate(object, offset, size, [this, &op, &join, member](Result<> result) {
    after(op, member, result ? nullptr : &result.error(), nullptr);
    join.ended();
  });
}

Task<Result<MemberCalls::Extent>> MemberCalls::measure(Op& op, ObjectId object) {
  Extent all;
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if (!op.mode.readable(member)) continue;
    for (const bool sums : {false, true}) {
      join.started();
      members_[member]->stat(
          sums ? sums_of(object) : object, [&, member, sums](Result<ObjectStat> stat) {
            after(op, member, stat ? nullptr : &stat.error(), nullptr);
            if (stat) {
              all.allocated += stat->allocated;
              all.mtime_ns = std::max(all.mtime_ns, stat->mtime_ns);
              const std::uint64_t begin = sums ? kSumsAt : 0;
              const std::uint64_t row = sums ? kSumBytes : kParityBlock;
              const std::uint64_t bytes = stat->size > begin ? stat->size - begin : 0;
              all.rows = std::max(all.rows, (bytes + row - 1) / row);
            }
            join.ended();
          });
    }
  }
  co_await join;
  co_return all;
}

Task<Result<>> MemberCalls::list(Op& op, ListPlace from, ObjectList& into) {
  std::vector<ObjectList> lists(count());
  Join join;
  for (unsigned member = 0; member < count(); ++member) {
    if (!op.mode.readable(member)) continue;
    join.started();
    members_[member]->list(from, kPage, [&, member](Result<ObjectList> listed) {
      after(op, member, listed ? nullptr : &listed.error(), nullptr);
      if (listed) lists[member] = std::move(*listed);
      join.ended();
    });
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
    members_[member]->stat(ObjectId{}, [&, member](Result<ObjectStat> result) {
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

bool MemberCalls::settled(const Mode& mode) const {
  for (unsigned member = 0; member < count(); ++member) {
    if (mode.readable(member) && !members_[member]->settled()) return false;
  }
  return true;
}

bool MemberCalls::has_room(const Mode& mode, std::uint64_t reserve) const {
  for (unsigned member = 0; member < count(); ++member) {
    if (!mode.readable(member)) continue;
    const auto usage = members_[member]->usage();
    if (usage && usage->free_bytes < reserve) return false;
  }
  return true;
}

Result<StoreStat> MemberCalls::usage(const Mode& mode, std::uint32_t but,
                                     std::uint64_t reserve) const {
  StoreStat sum;
  bool first = true;
  for (unsigned member = 0; member < count(); ++member) {
    if (!mode.readable(member) || (but >> member & 1) != 0) continue;
    auto usage = members_[member]->usage();
    if (!usage) return usage;
    sum.capacity_bytes =
        first ? usage->capacity_bytes : std::min(sum.capacity_bytes, usage->capacity_bytes);
    sum.free_bytes = first ? usage->free_bytes : std::min(sum.free_bytes, usage->free_bytes);
    sum.objects = std::max(sum.objects, usage->objects / 2);  // with checksums beside each
    first = false;
  }
  if (first) return fail(Errc::kUnreachable, "no target of the parity group is there");
  sum.free_bytes = sum.free_bytes > reserve ? sum.free_bytes - reserve : 0;
  sum.capacity_bytes *= count() - 1;
  sum.free_bytes *= count() - 1;
  if (but != 0) sum.free_bytes = 0;  // nothing can be written
  return sum;
}

}  // namespace weft::ds::parity
