// Operations on the objects of a parity group: read, write, commit, sizes, holes, removal.
//
// Writes, truncates and punches hold the stripes they touch (RangeLocks), so one at a time in a
// stripe, others side by side. Reads take no lock unless something does not match or has to be
// computed.
//
// Threading: any thread of the group's rings; takes no lock but those of ranges.
#pragma once

#include "dataserver/parity/stripe_writer.h"

namespace weft::ds::parity {

class ParityIo {
 public:
  explicit ParityIo(Group& group) : group_(group), stripes_(group) {}

  // As the operations of Store.
  Task<Result<ReadResult>> read(ObjectId object, std::uint64_t offset, std::uint32_t count,
                                PoolShare share);
  Task<Result<WriteResult>> write(ObjectId object, std::uint64_t offset, std::vector<Buffer> data,
                                  Stability wanted);
  Task<Result<WriteVerifier>> commit(ObjectId object);
  Task<Result<ObjectStat>> truncate(ObjectId object, std::uint64_t size);
  Task<Result<>> remove(ObjectId object);
  Task<Result<ObjectStat>> stat(ObjectId object);
  Task<Result<DataRun>> next_data(ObjectId object, std::uint64_t offset);
  Task<Result<ObjectList>> list(ListPlace from, std::uint32_t max);
  Task<Result<>> allocate(ObjectId object, std::uint64_t offset, std::uint64_t size);
  Task<Result<>> punch(ObjectId object, std::uint64_t offset, std::uint64_t size);
  // Of the members: the least of them, times members - 1. Without those that recovery has not
  // found, and then nothing is free.
  [[nodiscard]] Result<StoreStat> usage() const;

 private:
  using ObjectPtr = Group::ObjectPtr;
  // A part of an object, at the member that has it.
  struct Piece {
    unsigned member;
    std::uint64_t offset;  // in its data object
    std::uint64_t size;
  };

  [[nodiscard]] const ParityGeometry& geometry() const { return group_.geometry(); }
  [[nodiscard]] unsigned members() const { return group_.members(); }
  [[nodiscard]] BufferPool& pool() const { return group_.parts().pool; }
  [[nodiscard]] std::vector<Piece> pieces_of(std::uint64_t begin, std::uint64_t end) const;
  Task<Result<>> read_plain(Op& op, ObjectId object, std::uint64_t begin, std::uint64_t end,
                            Payload& into, bool& odd);
  Task<Result<>> read_computed(Op& op, ObjectId object, std::uint64_t begin, std::uint64_t end,
                               Payload& into);
  Task<Result<>> repair(Op& op, Image& image, const std::vector<std::vector<bool>>& was_good);
  [[nodiscard]] Result<Buffer> one_buffer(std::uint64_t offset, std::vector<Buffer> data);
  // What bytes [begin, end) take at the members, checksums too.
  [[nodiscard]] std::vector<MemberRange> takes(std::uint64_t begin, std::uint64_t end) const;
  Task<Result<>> after_write(Op& op, ObjectId object, ObjectPtr state, std::uint64_t end,
                             Stability wanted);
  Task<Result<>> end_cut(Op& op, ObjectId object, std::uint64_t size);
  Task<Result<>> cut(Op& op, ObjectId object, ObjectPtr state, std::uint64_t size);
  Task<Result<>> give_back(ObjectId object, ObjectPtr state);

  Group& group_;
  StripeWriter stripes_;
};

}  // namespace weft::ds::parity
