// Bulk-data memory: one pool of reusable blocks, and handles to parts of them.
//
// A Block is a page-aligned piece of memory from a BufferPool, in one of a few sizes. A Buffer is
// a move-only handle to a byte range of a block; share() makes a second handle to (a part of) the
// same bytes, so that a WRITE's payload goes from the socket's receive buffer to the store without
// a copy. The block returns to its pool when the last handle to it goes.
//
// A Payload is what a READ answers with: a list of pieces, each either a Buffer or a range of an
// open file, which the TCP transport sends with sendfile(2), so that warm data never enters this
// process at all. Such a file is read when the peer takes the bytes, perhaps long after the answer
// was made: whether the peer still has its right to them is asked then (read_files_while()).
//
// A pool may take its blocks from an Arena (shared_memory.h) instead of memory of this process
// alone; what is received into its buffers can then be lent to another process. A foreign buffer is
// the other side of that: bytes that belong to somebody else, who is told when the last handle
// goes.
//
// Threading: a BufferPool is safe to use from any thread. A Buffer is owned by one thread at a
// time; handles to the same block may live on different threads (the count is atomic), and the
// bytes are then read-only by convention: only who holds the sole handle (unique()) may write.
//
// Invariants:
//  1. offset + size of a Buffer never exceeds its block's capacity.
//  2. bytes in use by all handles, and what counts with them (charge()) <= the pool's limit;
//     allocate() answers kBusy beyond it, so that memory stays bounded whatever peers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "rpc/base/error.h"

namespace weft {

class Arena;
class BufferPool;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { reset(); }

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<std::byte> span() { return {data_, size_}; }
  [[nodiscard]] std::span<const std::byte> span() const { return {data_, size_}; }

  // Another handle to bytes [offset, offset + size) of this one. kInvalid outside the range.
  [[nodiscard]] Result<Buffer> share(std::size_t offset, std::size_t size) const;
  // Keeps only the first `size` bytes. Precondition: size <= this->size().
  void truncate(std::size_t size);
  [[nodiscard]] bool unique() const;
  void reset();

  // Bytes of somebody else, who keeps them until `gone` is called: by the thread that lets go of
  // the last handle. A peer process may change them at any time.
  [[nodiscard]] static Buffer foreign(std::span<std::byte> bytes,
                                      std::move_only_function<void()> gone);

  struct Block;  // defined in buffer.cc

 private:
  friend class BufferPool;
  Buffer(Block* block, std::byte* data, std::size_t size)
      : block_(block), data_(data), size_(size) {}

  Block* block_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class BufferPool {
 public:
  // Blocks of these sizes are kept for reuse; larger requests are served exactly and not kept.
  static constexpr std::size_t kBlockSizes[] = {std::size_t{4} << 10, std::size_t{16} << 10,
                                                std::size_t{64} << 10, std::size_t{256} << 10,
                                                (std::size_t{1} << 20) + (std::size_t{16} << 10)};

  // limit_bytes bounds the memory of all blocks in use; idle blocks are bounded by it too.
  explicit BufferPool(std::size_t limit_bytes);
  // Blocks come from `arena`, which need not have room for the limit: kBusy then too.
  BufferPool(std::size_t limit_bytes, std::shared_ptr<Arena> arena);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // Precondition: every Buffer of this pool is gone, and nothing is charged to it.
  ~BufferPool();

  // A buffer of exactly `size` bytes, contents undefined, start page-aligned.
  // kBusy when the limit is reached, kTooLarge when it never could be served.
  [[nodiscard]] Result<Buffer> allocate(std::size_t size);
  // So many bytes more, or less, are in use that are no block's (pool_hold.h). False, and nothing
  // changes: the limit is reached.
  [[nodiscard]] bool charge(std::size_t bytes);
  void discharge(std::size_t bytes);
  [[nodiscard]] std::size_t in_use_bytes() const;
  [[nodiscard]] std::size_t limit_bytes() const { return limit_; }
  [[nodiscard]] const std::shared_ptr<Arena>& arena() const { return arena_; }  // null: none

 private:
  friend class Buffer;
  struct Impl;
  [[nodiscard]] Buffer::Block* make_block(std::size_t capacity, int size_class);
  void unmake_block(Buffer::Block* block);
  void drop_idle_blocks();
  void release(Buffer::Block* block);

  std::size_t limit_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Impl> impl_;
};

// An open file descriptor, closed with its last owner.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Bytes [offset, offset + size) of an open file: warm in the page cache when it was made.
struct FileRange {
  std::shared_ptr<const OwnedFd> file;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

// `size` zero bytes: a hole that was read.
struct ZeroRange {
  std::size_t size = 0;
};

class Payload {
 public:
  using Piece = std::variant<Buffer, FileRange, ZeroRange>;

  void append(Piece piece);
  // Whoever reads ranges of files for it asks `may` first, each time. Without it they are read.
  void read_files_while(std::function<bool()> may) { may_ = std::move(may); }
  [[nodiscard]] bool may_read_files() const { return !may_ || may_(); }
  // A second one of the same pieces.
  [[nodiscard]] Payload share() const;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::vector<Piece>& pieces() { return pieces_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

  // Copies everything out (file ranges are read); for tests and for peers without sendfile.
  [[nodiscard]] Result<std::vector<std::byte>> flatten() const;

 private:
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::function<bool()> may_;
};

[[nodiscard]] std::size_t size_of(const Payload::Piece& piece);

}  // namespace weft
