// Bulk data that is in the kernel and stays there: bytes in a pipe, on their way from a socket to a
// file with splice(2), which moves references to the memory they were received into. Of the two
// copies a write costs otherwise, out of the socket and into the page cache, one is left.
//
// The bytes can be taken once. What is not taken is thrown away with the object, and costs the
// pipe. Whoever cannot use a pipe calls to_buffer().
//
// Bounds: kMost pipes in the process at a time; each holds one record's payload at most, which is
// the caller's to bound, and bytes in it do not count against the BufferPool. When there are no
// more, or the kernel gives none, open() has none, and the caller receives into memory instead.
//
// Threading: one thread at a time. Idle pipes are kept by each thread. Ownership: the pool outlives
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "rpc/base/buffer.h"

namespace weft {

class PipedBytes {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMaxPut = std::size_t{16} << 10;

  PipedBytes() noexcept;
  PipedBytes(PipedBytes&& other) noexcept;
  PipedBytes& operator=(PipedBytes&& other) noexcept;
  PipedBytes(const PipedBytes&) = delete;
  PipedBytes& operator=(const PipedBytes&) = delete;
  ~PipedBytes();

  // An empty one, or nothing. The pool is for to_buffer().
  [[nodiscard]] static std::optional<PipedBytes> open(BufferPool& pool);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  // Copies bytes in. Precondition: open and still empty, at most kMaxPut bytes.
  [[nodiscard]] Result<> put(std::span<const std::byte> bytes);
  // Moves up to `most` bytes from a socket that does not block. As splice(2): bytes moved, 0 at the
  // stream's end, -errno. -EAGAIN: the socket has nothing, or the pipe is full.
  [[nodiscard]] long fill(int socket, std::size_t most);
  // Moves bytes into a file at `offset`: bytes moved, or -errno. May take less than all.
  [[nodiscard]] long write_to(int file, std::uint64_t offset);
  // Copies the next bytes out. Precondition: out.size() <= size().
  [[nodiscard]] Result<> take(std::span<std::byte> out);
  // All that is left, in memory that begins at a page. kBusy when the pool is exhausted, and then
  // nothing is lost.
  [[nodiscard]] Result<Buffer> to_buffer();

  struct Pipe;  // defined in piped_bytes.cc

 private:
  PipedBytes(std::unique_ptr<Pipe> pipe, BufferPool& pool);
  void release();

  std::unique_ptr<Pipe> pipe_;
  BufferPool* pool_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
