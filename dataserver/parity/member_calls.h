// What one attempt at something asks of a parity group's members, and what it learns from that.
//
// An attempt (Op) is made in one mode of the group. A member that fails, or whose write verifier
// has changed, is noted in the Op. Everything that was started is waited for before anybody looks
// at that.
//
// Four kinds of errors are not the member's failure:
//
//   kBusy         memory or places are short, here or there. A read is given up with the attempt,
//                 which then holds no memory and is made again (Group::until_done()). Everything
//                 else is asked again until it is carried out, so that no attempt ends with some
//                 members written for that reason. Only a member that says it for kBusyFor, while
//                 this process has memory, has failed.
//   kIo, kCorrupt of a read: its disk has a place that cannot be read. It is a bad block.
//   kFileTooLarge its file system holds no object of that length. It is asked before.
//   kNoSpace      asked for room, it has none, and nothing has been written. Of what must be
//                 written it is said only when the member's reserve is used up, too
//                 (member_room.h): that breaks the group, and recovery goes on when there is room.
//                 But a member that is being rebuilt is out again.
//
// Threading: any thread of the group's rings. Takes no lock.
//
// Ownership: what an operation refers to (op, join, result) outlives it, because its Join is
// awaited first.
#pragma once

#include <atomic>
#include <vector>

#include "dataserver/parity/image.h"
#include "dataserver/parity/member_room.h"
#include "dataserver/store/store.h"
#include "rpc/base/clock.h"
#include "rpc/base/task.h"

namespace weft::ds::parity {

using layout::ObjectId;

struct Mode {
  int out = -1;             // a member that is not read; -1: none
  bool rebuilding = false;  // what is written is written there too
  bool lost = false;        // given up, or another store now: nothing is what it was
  [[nodiscard]] bool readable(unsigned member) const { return static_cast<int>(member) != out; }
  [[nodiscard]] bool writable(unsigned member) const { return readable(member) || rebuilding; }
};

// One attempt at something, in one mode of the group.
struct Op {
  Mode mode;
  std::uint32_t failed = 0;  // members, a bit each
  std::uint32_t full = 0;    // asked for room, they had none
  std::uint32_t stuck = 0;   // of those that failed: what must be written there has no room
  bool unable = false;       // asked for room, one cannot tell
  bool busy = false;         // a read was not answered for want of memory or places
  bool settling = false;     // without a member, but with unstable writes: verifiers count
  bool cutting = false;      // zeros in a part of a block that is lost leave it so
  bool reserved = false;     // not asked for room: what it needs comes from the reserve
  PoolShare share = PoolShare::kServers;  // of the pool: what it reads is received into that
};

struct MemberWrite {
  unsigned member;
  bool sums;  // to the object of checksums
  std::uint64_t offset;
  std::vector<Buffer> pieces;
};

// A part of an object, or of its checksums, at a member.
struct MemberRange {
  unsigned member;
  bool sums;
  std::uint64_t offset;
  std::uint64_t size;
};
[[nodiscard]] std::vector<MemberRange> ranges_of(const std::vector<MemberWrite>& writes);

[[nodiscard]] std::unexpected<Error> member_failed();
// What the reads of an attempt came to: a member failed, kBusy, or good.
[[nodiscard]] Result<> outcome(const Op& op);

// What a member answered a read with.
struct MemberRead {
  Payload payload;
  bool unread = false;  // its disk could not read it
};

class MemberCalls {
 public:
  static constexpr std::chrono::seconds kBusyFor{30};
  static constexpr std::chrono::seconds kFullFor{1};

  MemberCalls(std::vector<Store*> members, BufferPool& pool, Clock& clock, ParityGeometry geometry,
              MemberRoom::Limits limits)
      : members_(std::move(members)),
        pool_(pool),
        clock_(clock),
        geometry_(geometry),
        room_(members_, clock, limits),
        known_(members_.size()) {}

  [[nodiscard]] unsigned count() const { return geometry_.members; }
  // Members that are read, or written, in a mode: a bit each.
  [[nodiscard]] std::uint32_t readable(const Mode& mode) const;
  [[nodiscard]] std::uint32_t writable(const Mode& mode) const;

  // From a cache if it is in one, or from the disk.
  enum class From : std::uint8_t { kAnywhere, kDisk };
  void read(Op& op, Join& join, unsigned member, const ObjectId& object, std::uint64_t offset,
            std::uint64_t count, MemberRead& into, From from = From::kAnywhere);
  void write(Op& op, Join& join, unsigned member, const ObjectId& object, std::uint64_t offset,
             std::vector<Buffer> data, Stability wanted);
  void punch(Op& op, Join& join, unsigned member, const ObjectId& object, std::uint64_t offset,
             std::uint64_t size);
  void allocate(Op& op, Join& join, unsigned member, const ObjectId& object, std::uint64_t offset,
                std::uint64_t size);
  // Of those members that are nearly full: for what is to be written, and, with `headers`, for the
  // object's header at these. kNoSpace: one has none.
  Task<Result<>> ask_room(Op& op, ObjectId object, const std::vector<MemberRange>& ranges,
                          std::uint32_t headers);

  // Of those that are written: they hold an object with so many stripes, as is known; and, asking
  // where it is not, kFileTooLarge: one does not.
  [[nodiscard]] bool surely_fits(const Op& op, std::uint64_t stripes) const;
  Task<Result<>> ask_length(Op& op, std::uint64_t stripes);

  // Of an object and its checksums, at the members of a mask.
  Task<bool> cut(Op& op, ObjectId object, std::uint64_t size, std::uint32_t mask);
  Task<bool> remove(Op& op, ObjectId object, std::uint32_t mask);
  Task<bool> commit(Op& op, ObjectId object, std::uint32_t mask);
  // At these members: space in all, the latest time, and the rows that any of them has.
  // Behind these there are holes only.
  struct Extent {
    std::uint64_t allocated = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t rows = 0;
  };
  Task<Result<Extent>> measure(Op& op, ObjectId object, std::uint32_t mask);
  // What of a row is looked for. Blocks alone where it matters that a row has nothing: its checksum
  // may be there all the same, between those of other rows.
  enum class Of : std::uint8_t { kAll, kBlocks };
  // The first row at or after this one of which any of these members has something, a block or a
  // checksum; kNoData: none. Where those that are read have nothing of a row, no member is to.
  Task<Result<std::uint64_t>> next_row(Op& op, ObjectId object, std::uint64_t row,
                                       std::uint32_t mask, Of of = Of::kAll);
  // Objects of the group: those of which any member that is read has the checksums.
  Task<Result<>> list(Op& op, ListPlace from, ObjectList& into);
  // A block that cannot be read is not good, and unread.
  Task<Result<>> load(Op& op, Image& image, std::uint32_t mask, From from = From::kAnywhere);
  // Adds rows [first, last) of a member, and their checksums.
  [[nodiscard]] Result<> add_write(std::vector<MemberWrite>& writes, const Image& image,
                                   unsigned member, std::size_t first, std::size_t last);
  Task<Result<>> write_all(Op& op, ObjectId object, std::vector<MemberWrite> writes,
                           Stability wanted);

  // Which of the members do not answer. What the others answered with is known from now on.
  Task<std::uint32_t> probe(std::uint32_t mask);
  // Whether it has lost nothing since its verifier was known.
  [[nodiscard]] bool unchanged(unsigned member) const {
    return members_[member]->verifier() == known_[member].load();
  }
  // Of these members: a call that failed may be carried out there yet (Store::settled()).
  [[nodiscard]] std::uint32_t unsettled(std::uint32_t mask) const;
  // Of those that are read and not in `but`: the least of them, times members - 1.
  [[nodiscard]] Result<StoreStat> usage(const Mode& mode, std::uint32_t but) const;
  [[nodiscard]] MemberRoom& room() { return room_; }
  [[nodiscard]] bool lacks_reserve(const Mode& mode) const;

 private:
  void after(Op& op, unsigned member, const Error* error, const WriteVerifier* verifier);
  // Starts a call, and again while it says kBusy, or kNoSpace though the reserve was given up.
  template <class T, class Start>
  Task<Result<T>> insist(unsigned member, Start start);
  template <class T, class Start, class Then>
  void ask(Op& op, Join& join, unsigned member, Start start, Then then);
  Task<Result<>> load_blocks(Op& op, Image& image, unsigned member, From from);
  void ask_next(Op& op, Join& join, unsigned member, const ObjectId& object, bool sums,
                std::uint64_t row, std::uint64_t& first);

  const std::vector<Store*> members_;
  BufferPool& pool_;
  Clock& clock_;
  const ParityGeometry geometry_;
  MemberRoom room_;
  std::vector<std::atomic<WriteVerifier>> known_;  // unstable writes are under these
};

}  // namespace weft::ds::parity
