// Bytes in the stripes of a parity group: full stripes are written without reading, of parts of
// stripes what has to be known is read before. With them zeros behind an object's new end, and
// stripes that become holes.
//
// Threading: any thread of the group's rings; takes no lock. Requires of every call: the stripes
// are held and marked as dirty, or nobody uses the group yet.
#pragma once

#include "dataserver/parity/group.h"

namespace weft::ds::parity {

class StripeWriter {
 public:
  explicit StripeWriter(Group& group) : group_(group) {}

  // `size`: the object's after it.
  Task<Result<>> write(Op& op, ObjectId object, std::uint64_t offset, const Buffer& bytes,
                       std::uint64_t size, Stability wanted);
  // Zeros in the bytes, which are of one stripe.
  Task<Result<>> clear(Op& op, ObjectId object, std::uint64_t offset, std::uint64_t count,
                       std::uint64_t size);
  // Zeros from an object's new end to the end of its stripe.
  Task<Result<>> clear_tail(Op& op, ObjectId object, std::uint64_t size);
  // Whether clear_tail() can be done, while a member is out.
  Task<Result<>> may_clear_tail(Op& op, ObjectId object, std::uint64_t size);
  // Stripes [first, last) become holes; in the log before that, if a member is out.
  Task<Result<>> punch(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last);
  Task<Result<>> punch_unlogged(Op& op, ObjectId object, std::uint64_t first, std::uint64_t last);

 private:
  struct Part;

  [[nodiscard]] const ParityGeometry& geometry() const { return group_.geometry(); }
  [[nodiscard]] unsigned members() const { return group_.members(); }
  [[nodiscard]] BufferPool& pool() const { return group_.parts().pool; }
  Task<Result<>> write_full(Op& op, ObjectId object, std::uint64_t stripe, std::uint64_t count,
                            Buffer bytes, std::uint64_t size, Stability wanted);
  Task<Result<>> write_part(Op& op, ObjectId object, std::uint64_t begin,
                            std::span<const std::byte> bytes, std::uint64_t size, Stability wanted);
  Task<Result<>> load_part(Op& op, Part& part, bool& by_difference);
  [[nodiscard]] bool keep_lost(const Op& op, Part& part, std::size_t row);
  [[nodiscard]] static bool was_given_up(const Part& part, std::size_t row);

  Group& group_;
};

}  // namespace weft::ds::parity
