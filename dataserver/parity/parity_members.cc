// ParityStore's operations at its members. What fails, or may have lost something, is noted in the
// Op; everything that was started is waited for before anybody looks at that.
#include <spdlog/spdlog.h>

#include "dataserver/parity/parity_internal.h"

namespace weft::ds {

std::uint32_t ParityStore::readable(const Mode& mode) const {
  std::uint32_t mask = 0;
  for (unsigned member = 0; member < members(); ++member) {
    if (mode.readable(member)) mask |= std::uint32_t{1} << member;
  }
  return mask;
}

void ParityStore::after(Op& op, unsigned member, const Error* error,
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
  const WriteVerifier now = parts_.members[member]->verifier();
  if (now == known && (verifier == nullptr || *verifier == known)) return;
  if (op.mode.out >= 0 && op.mode.readable(member) && !op.settling) {
    // All that is written while a member is out is stable before it is answered.
    known_[member].store(now);
    return;
  }
  op.failed |= bit;
}

void ParityStore::child_read(Op& op, Join& join, unsigned member, const ObjectId& object,
                             std::uint64_t offset, std::uint32_t count, Payload& into) {
  join.started();
  parts_.members[member]->read(object, offset, count,
                               [this, &op, &join, member, &into](Result<ReadResult> result) {
                                 after(op, member, result ? nullptr : &result.error(), nullptr);
                                 if (result) into = std::move(result->payload);
                                 join.ended();
                               });
}

void ParityStore::child_write(Op& op, Join& join, unsigned member, const ObjectId& object,
                              std::uint64_t offset, std::vector<Buffer> data, Stability wanted) {
  join.started();
  parts_.members[member]->write(object, offset, std::move(data), wanted,
                                [this, &op, &join, member](Result<WriteResult> result) {
                                  after(op, member, result ? nullptr : &result.error(),
                                        result ? &result->verifier : nullptr);
                                  join.ended();
                                });
}

void ParityStore::child_commit(Op& op, Join& join, unsigned member, const ObjectId& object) {
  join.started();
  parts_.members[member]->commit(object, [this, &op, &join, member](Result<WriteVerifier> result) {
    after(op, member, result ? nullptr : &result.error(), result ? &*result : nullptr);
    join.ended();
  });
}

void ParityStore::child_truncate(Op& op, Join& join, unsigned member, const ObjectId& object,
                                 std::uint64_t size) {
  join.started();
  parts_.members[member]->truncate(object, size,
                                   [this, &op, &join, member](Result<ObjectStat> result) {
                                     after(op, member, result ? nullptr : &result.error(), nullptr);
                                     join.ended();
                                   });
}

void ParityStore::child_remove(Op& op, Join& join, unsigned member, const ObjectId& object) {
  join.started();
  parts_.members[member]->remove(object, [this, &op, &join, member](Result<> result) {
    after(op, member, result ? nullptr : &result.error(), nullptr);
    join.ended();
  });
}

void ParityStore::child_punch(Op& op, Join& join, unsigned member, const ObjectId& object,
                              std::uint64_t offset, std::uint64_t size) {
  join.started();
  parts_.members[member]->punch(object, offset, size, [this, &op, &join, member](Result<> result) {
    after(op, member, result ? nullptr : &result.error(), nullptr);
    join.ended();
  });
}

// Down to what an object of this size has at a member; what is shorter stays so.
Task<bool> ParityStore::cut_children(Op& op, ObjectId object, std::uint64_t size,
                                     std::uint32_t mask) {
  const std::uint64_t stripes = geometry().stripes(size);
  const std::uint64_t data = stripes * geometry().chunk;
  const std::uint64_t sums = kSumsAt + stripes * geometry().blocks_in_chunk() * kSumBytes;
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    child_truncate(op, join, member, object, data);
    child_truncate(op, join, member, sums_of(object), sums);
  }
  co_await join;
  co_return op.failed == 0;
}

Task<bool> ParityStore::remove_children(Op& op, ObjectId object, std::uint32_t mask) {
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    child_remove(op, join, member, object);
    child_remove(op, join, member, sums_of(object));
  }
  co_await join;
  co_return op.failed == 0;
}

Task<bool> ParityStore::commit_children(Op& op, ObjectId object, std::uint32_t mask) {
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0) continue;
    child_commit(op, join, member, object);
    child_commit(op, join, member, sums_of(object));
  }
  co_await join;
  co_return op.failed == 0;
}

Task<Result<>> ParityStore::load(Op& op, Image& image, std::uint32_t mask) {
  std::vector<Payload> data(members());
  std::vector<Payload> sums(members());
  Join join;
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    child_read(op, join, member, image.object, image.offset(),
               static_cast<std::uint32_t>(image.bytes()), data[member]);
    child_read(op, join, member, sums_of(image.object), image.sums_offset(),
               static_cast<std::uint32_t>(image.rows * kSumBytes), sums[member]);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  for (unsigned member = 0; member < members(); ++member) {
    if ((mask >> member & 1) == 0 || image.loaded(member)) continue;
    auto adopted =
        image.adopt(member, std::move(data[member]), std::move(sums[member]), parts_.pool);
    if (!adopted) co_return adopted;
  }
  image.distrust(gone_of(image.object));
  co_return Result<>{};
}

// Rows [first, last) of a member, and their checksums.
Result<> ParityStore::add_write(std::vector<ChildWrite>& writes, const Image& image,
                                unsigned member, std::size_t first, std::size_t last) {
  auto blocks = image.data[member].share(first * kParityBlock, (last - first) * kParityBlock);
  if (!blocks) return pass(blocks);
  auto sums = parts_.pool.allocate((last - first) * kSumBytes);
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

// Writes at the members, first in the log if a member is out. `size` is the object's then.
Task<Result<>> ParityStore::issue(Op& op, ObjectId object, std::vector<ChildWrite> writes,
                                  std::uint64_t size, Stability wanted) {
  std::erase_if(writes, [&op](const ChildWrite& w) { return !op.mode.writable(w.member); });
  const bool logged = op.mode.out >= 0;
  if (logged) {
    wanted = Stability::kFileSync;
    LogContent content{.object = object, .size = size};
    for (const ChildWrite& w : writes) {
      if (!op.mode.readable(w.member)) continue;
      LogContent::Piece piece{.member = w.member, .sums = w.sums, .offset = w.offset};
      for (const Buffer& part : w.pieces) {
        piece.bytes.insert(piece.bytes.end(), part.span().begin(), part.span().end());
      }
      content.pieces.push_back(std::move(piece));
    }
    {
      const MutexLock lock(mutex_);
      ++live_contents_;
    }
    if (auto kept = co_await append(encode(content)); !kept) {
      const MutexLock lock(mutex_);
      --live_contents_;
      co_return kept;
    }
  }
  Join join;
  for (ChildWrite& w : writes) {
    child_write(op, join, w.member, w.sums ? sums_of(object) : object, w.offset,
                std::move(w.pieces), wanted);
  }
  co_await join;
  // One that did not get in place stays: only recovery can go on from there.
  const bool in_place = (op.failed & readable(op.mode)) == 0;
  if (logged && in_place) {
    const MutexLock lock(mutex_);
    --live_contents_;
  }
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  co_return Result<>{};
}

}  // namespace weft::ds
