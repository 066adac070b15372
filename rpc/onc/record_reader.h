// Record marking (RFC 5531 section 11), receiving side: bytes in, whole records out. Sans-io.
//
// Each record becomes one contiguous Buffer from the pool. The caller receives into targets(): the
// rest of a large record goes straight to its final place, and whatever comes behind it into a
// small staging area, so that a large record costs few receive calls and next to no copying, and
// one call may bring many small records.
//
// Bulk data is placed on a page boundary where a LocatePayload function finds it in the record's
// head, so that a WRITE's payload can go to a disk opened O_DIRECT as it is.
//
// What a peer may do to us is bounded: records by max_record_bytes, fragments by max_fragments
// (empty ones count), and memory is taken only when a record's head has arrived, up to what peers
// of its standing may fill (rpc/base/standing.h). A stranger's records are small, and take memory
// when they are whole. A larger one, and a client's, is looked at, at its head: it may show that
// the peer is no stranger, or that the record is not worth memory though it needs an answer. Then
// its bytes are thrown away as they come, and it is delivered as its head alone. Time is the
// caller's to bound: partial() says that a record has begun.
//
// Where the limits say so, large bulk data that ends a record of one fragment is not received into
// memory at all: it goes from the socket to a pipe (rpc/base/piped_bytes.h), and the record is
// delivered as its head and that. It is delivered when it is whole, as every record is. When the
// pipe has no more room, because it came in many small segments, this record goes on in memory and
// later ones go there at once.
//
// Threading: one thread. Ownership: the pool outlives the reader.
//
// Invariant: while a record's body is being received, the staging area is empty.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "rpc/base/buffer.h"
#include "rpc/base/piped_bytes.h"
#include "rpc/base/standing.h"

namespace weft::rpc {

// The position in a record of its bulk data, as far as its first bytes tell; 0: none.
using LocatePayload = std::size_t (*)(std::span<const std::byte> head);

// What is to be done with a large record of a stranger or a client, by its first bytes.
enum class Glance : std::uint8_t {
  kTake,          // as a client's
  kTakeOfServer,  // as a server's
  kSkip,          // delivered as its head
  kRefuse,        // ends a stranger's connection; of a client: as kTake
};
using LookAtHead = std::function<Glance(std::span<const std::byte> head, Standing of)>;

class RecordReader {
 public:
  // As much of a record is looked at to find its payload; smaller records are copied whole.
  static constexpr std::size_t kHead = 512;

  struct Limits {
    std::size_t max_record_bytes = std::size_t{1} << 20;
    std::uint32_t max_fragments = 64;
    std::size_t pipe_from = 0;  // bytes of bulk data from which on it goes to a pipe; 0: never
    // And whether it does now; asked for each such record, with its first bytes.
    std::function<bool(std::span<const std::byte> head)> pipes = {};
    Standing standing = Standing::kServer;                  // of the peer, at first
    std::size_t max_stranger_bytes = std::size_t{4} << 10;  // larger records are looked at
    LookAtHead look = {};  // none: a stranger's are refused, a client's taken
  };

  // Null: nobody counts what the host holds.
  RecordReader(BufferPool& pool, Limits limits, LocatePayload locate = nullptr,
               std::shared_ptr<HostShare> host = nullptr);
  ~RecordReader() { settle(); }
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Where the next bytes go, in order; at least one byte in all. Call next() until it has nothing
  // first.
  struct Targets {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
  };
  [[nodiscard]] Targets targets();
  // The first `size` bytes of targets() have been filled.
  void received(std::size_t size);

  // While piping(), the next bytes are to be taken with receive_piped() instead of targets() and
  // received(): as splice(2) from a socket that does not block.
  [[nodiscard]] bool piping() const { return in_body_ && piping_; }
  [[nodiscard]] long receive_piped(int socket);
  // The pipe takes no more though the socket has more: next() moves the record to memory.
  void pipe_full() { spill_ = true; }

  // The next whole record; nullopt when more bytes are needed. kTooLarge or kProtocol: the peer
  // broke a limit, and the connection is of no more use. kBusy: the pool is exhausted; nothing is
  // lost, ask again later.
  [[nodiscard]] Result<std::optional<Buffer>> next();

  // The bulk data behind the bytes of the record that next() has just returned; empty when those
  // are all of it.
  [[nodiscard]] PipedBytes take_piped() { return std::exchange(piped_, PipedBytes{}); }
  // Whether the record that next() has just returned is the head of one that was thrown away.
  [[nodiscard]] bool take_skipped() { return std::exchange(skipped_, false); }

  // The peer has shown who it is.
  void set_standing(Standing standing) { standing_ = standing; }
  [[nodiscard]] Standing standing() const { return standing_; }

  // Whether part of a record is here.
  [[nodiscard]] bool partial() const { return in_body_ || fragments_ > 0 || begin_ != end_; }
  // Bytes of the current fragment still to come, once its body is being received.
  [[nodiscard]] std::size_t body_left() const { return in_body_ ? body_left_ : 0; }
  // Whether memory is held for what has not come yet.
  [[nodiscard]] bool holds_memory() const { return in_body_ && !piping_ && !skipping_; }

 private:
  static constexpr std::size_t kStaging = std::size_t{8} << 10;

  [[nodiscard]] std::size_t staged() const { return end_ - begin_; }
  [[nodiscard]] Result<> open_fragment();
  [[nodiscard]] Result<bool> open_piped(std::size_t size);
  [[nodiscard]] Result<> spill();
  [[nodiscard]] Result<> place(std::size_t size);
  // Whether the fragment of a stranger or a client is to be opened now. False: more of it is to
  // come first.
  [[nodiscard]] Result<bool> judge(std::size_t size, bool last);
  [[nodiscard]] Result<> open_skipped(std::size_t size);
  [[nodiscard]] Result<Buffer> allocate_body(std::size_t size);
  void settle();
  [[nodiscard]] std::span<const std::byte> head_of(std::size_t size) const;
  void take_staged();
  [[nodiscard]] Buffer emit();

  BufferPool& pool_;
  const Limits limits_;
  const LocatePayload locate_;
  const std::shared_ptr<HostShare> host_;
  Standing standing_;

  std::array<std::byte, kStaging> staging_;
  std::size_t begin_ = 0;  // staging_[begin_, end_) has arrived and is not consumed
  std::size_t end_ = 0;

  Buffer block_;               // the record so far, and room for more
  std::size_t filled_ = 0;     // bytes of the record in block_
  std::size_t body_left_ = 0;  // bytes of this fragment to come
  std::uint32_t fragments_ = 0;
  bool last_fragment_ = false;
  bool in_body_ = false;

  PipedBytes piped_;     // of the current record, or of the one just returned
  bool piping_ = false;  // the body goes to piped_
  bool spill_ = false;
  bool may_pipe_ = true;  // until a pipe was too small

  PoolShare share_ = PoolShare::kServers;  // of the current record
  std::size_t counted_ = 0;                // bytes of it in host_
  bool skipping_ = false;                  // the body is thrown away
  bool skipped_ = false;                   // and was, of the record just returned
};

// The mark of a record of one fragment. Precondition: size < 2^31.
[[nodiscard]] std::array<std::byte, 4> record_mark(std::size_t size);

}  // namespace weft::rpc
