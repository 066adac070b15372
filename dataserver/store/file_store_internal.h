// What the parts of FileStore share: the operations in flight and small helpers.
//
// Threading: an operation belongs to the thread that started it.
#pragma once

#include <sys/uio.h>

#include <boost/asio/post.hpp>
#include <chrono>

#include "dataserver/ring/disk_waits.h"
#include "dataserver/store/file_store.h"
#include "rpc/base/assert.h"

namespace weft::ds {

constexpr std::uint64_t kBlock = 4096;  // O_DIRECT's unit: multiples of it suit every disk

[[nodiscard]] constexpr std::uint64_t block_floor(std::uint64_t at) { return at & ~(kBlock - 1); }
[[nodiscard]] constexpr std::uint64_t block_ceil(std::uint64_t at) {
  return block_floor(at + kBlock - 1);
}

// This thread's ring. Every thread that calls a store has one.
[[nodiscard]] inline IoRing& this_ring() {
  IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr);
  return *ring;
}

struct FileStore::ReadOp {
  FilePtr file;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;  // clamped to the object's end
  Done<ReadResult> done;
  Buffer room;  // of the caller, if it is to be read there
  PoolShare share = PoolShare::kServers;
  Buffer buffer;          // what is read into: all of the room, or memory of our own
  bool uncached = false;  // what the page cache has and the disk may not is not to be read
  OwnedFd direct;         // for that: the file, past the page cache
  bool to_memory = false;
  std::size_t filled = 0;
  std::size_t skip = 0;  // bytes of the buffer before `offset`: direct reads begin at a block
  std::uint64_t object_end = 0;
  iovec vector{};
};

struct FileStore::WriteOp {
  FilePtr file;
  std::uint64_t offset = 0;
  std::vector<Buffer> data;
  PipedBytes piped;  // or this
  Stability wanted = Stability::kUnstable;
  Done<WriteResult> done;
  WriteVerifier verifier = 0;
  std::uint32_t losses = 0;  // of the file before
  std::uint64_t total = 0;
  std::uint64_t written = 0;
  std::vector<iovec> vectors;
  std::size_t next = 0;  // the first vector with bytes left
  bool direct = false;
  int error = 0;  // errno of what stopped it

  [[nodiscard]] std::span<const iovec> rest() const;
};

template <class T>
Store::Done<T> FileStore::back_here(Done<T> done) {
  auto guard = boost::asio::make_work_guard(this_ring().context());
  auto wait = std::make_unique<DiskWait>();
  jobs_.fetch_add(1);
  return [this, done = std::move(done), wait = std::move(wait),
          guard = std::move(guard)](Result<T> result) mutable {
    boost::asio::post(guard.get_executor(),
                      [this, result = std::move(result), wait = std::move(wait),
                       done = std::move(done)]() mutable {
                        wait.reset();
                        done(std::move(result));
                        jobs_.fetch_sub(1);
                      });
  };
}

template <class T>
void FileStore::on_worker(std::move_only_function<Result<T>()> work, Done<T> done) {
  boost::asio::post(workers_,
                    [work = std::move(work), answer = back_here<T>(std::move(done))]() mutable {
                      answer(work());
                    });
}

}  // namespace weft::ds
