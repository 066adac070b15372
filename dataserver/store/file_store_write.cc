#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>

#include "dataserver/store/disk.h"
#include "dataserver/store/file_store_internal.h"
#include "dataserver/store/vectors.h"

namespace weft::ds {

namespace {

bool is_aligned(const iovec& vector) {
  return reinterpret_cast<std::uintptr_t>(vector.iov_base) % kBlock == 0 &&
         vector.iov_len % kBlock == 0;
}

}  // namespace

std::span<const iovec> FileStore::WriteOp::rest() const {
  const std::size_t count = std::min<std::size_t>(vectors.size() - next, IOV_MAX);
  return {vectors.data() + next, count};
}

void FileStore::write(StoreWrite what, Done<WriteResult> done) {
  const bool piped = !what.piped.empty();
  if (piped && (options_.mode == IoMode::kDirect || throttle_.active(steady_now_ns()))) {
    if (auto moved = what.to_memory(); !moved) return done(pass(moved));
  }
  auto op = std::make_unique<WriteOp>();
  op->offset = what.offset;
  op->total = what.size();
  op->data = std::move(what.data);
  op->piped = std::move(what.piped);
  op->wanted = what.wanted;
  op->done = std::move(done);
  constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();
  if (op->total > kMaxOffset || op->offset > kMaxOffset - op->total) {
    return op->done(fail(Errc::kFileTooLarge, "a write beyond what a file can hold"));
  }
  with_file(what.object, true, [this, op = std::move(op)](Result<FilePtr> file) mutable {
    if (!file) return op->done(pass(file));
    op->file = std::move(*file);
    write_file(std::move(op));
  });
}

void FileStore::write_file(std::unique_ptr<WriteOp> op) {
  op->verifier = verifier_.load();
  op->losses = op->file->losses.load();
  if (!op->piped.empty()) return write_spliced(std::move(op));
  op->vectors = vectors_of(op->data);
  if (op->vectors.empty()) return finish_write(std::move(op));
  if (options_.mode == IoMode::kDirect) {
    if (auto aligned = align_for_direct(*op); !aligned) return op->done(pass(aligned));
  }
  if (op->direct || throttle_.active(steady_now_ns())) {
    return write_ring(std::move(op));
  }
  write_inline(std::move(op));
}

// Decides whether the write goes around the page cache; if its range suits but its memory does
// not, moves the bytes to memory that does.
Result<> FileStore::align_for_direct(WriteOp& op) {
  op.direct = op.offset % kBlock == 0 && op.total % kBlock == 0;
  if (!op.direct || std::ranges::all_of(op.vectors, is_aligned)) return {};
  auto buffer = pool_.allocate(static_cast<std::size_t>(op.total));
  if (!buffer) return pass(buffer);
  std::size_t at = 0;
  for (const Buffer& piece : op.data) {
    if (!piece.empty()) std::memcpy(buffer->data() + at, piece.data(), piece.size());
    at += piece.size();
  }
  op.data.clear();
  op.data.push_back(std::move(*buffer));
  op.vectors = vectors_of(op.data);
  return {};
}

// Accounts for what one call took. False when the write is over, well or not.
bool FileStore::took(WriteOp& op, long result) {
  if (result == -EINTR || result == -EAGAIN) return true;
  if (result <= 0) {
    // Taking nothing without a reason is how a full disk looks to some file systems.
    op.error = result < 0 ? static_cast<int>(-result) : ENOSPC;
    return false;
  }
  op.written += static_cast<std::uint64_t>(result);
  const auto left =
      advance(std::span(op.vectors).subspan(op.next), static_cast<std::size_t>(result));
  op.next = op.vectors.size() - left.size();
  return op.written < op.total;
}

int FileStore::write_fault(const WriteOp& op) const {
  if (options_.faults == nullptr) return 0;
  return options_.faults->write_error(op.file->id, op.offset + op.written);
}

void FileStore::write_inline(std::unique_ptr<WriteOp> op) {
  const Throttle::Sample sample = throttle_.begin(steady_now_ns());
  long result = 0;
  do {
    if ((op->error = write_fault(*op)) != 0) break;
    const auto rest = op->rest();
    result = ::pwritev(op->file->buffered.get(), rest.data(), static_cast<int>(rest.size()),
                       static_cast<off_t>(op->offset + op->written));
    if (result < 0) result = -errno;
  } while (took(*op, result));
  throttle_.end(sample, steady_now_ns());
  finish_write(std::move(op));
}

void FileStore::write_spliced(std::unique_ptr<WriteOp> op) {
  const Throttle::Sample sample = throttle_.begin(steady_now_ns());
  while (op->written < op->total && (op->error = write_fault(*op)) == 0) {
    const long result = op->piped.write_to(op->file->buffered.get(), op->offset + op->written);
    if (result == -EINVAL && op->written == 0) {  // a file system that does not splice
      auto buffer = op->piped.to_buffer();
      if (!buffer) return op->done(pass(buffer));
      op->data.push_back(std::move(*buffer));
      return write_file(std::move(op));
    }
    if (result <= 0) {
      op->error = result < 0 ? static_cast<int>(-result) : ENOSPC;
      break;
    }
    op->written += static_cast<std::uint64_t>(result);
  }
  throttle_.end(sample, steady_now_ns());
  finish_write(std::move(op));
}

void FileStore::write_ring(std::unique_ptr<WriteOp> op) {
  if ((op->error = write_fault(*op)) != 0) return finish_write(std::move(op));
  const int fd = op->direct ? op->file->direct.get() : op->file->buffered.get();
  const auto rest = op->rest();
  const std::uint64_t at = op->offset + op->written;
  auto on_result = [this, op = std::move(op)](int result) mutable {
    if (!took(*op, result)) return finish_write(std::move(op));
    // A direct write cut at an odd place goes on through the page cache.
    if (op->direct && op->written % kBlock != 0) op->direct = false;
    write_ring(std::move(op));
  };
  this_ring().writev(fd, rest, at, std::move(on_result));
}

void FileStore::finish_write(std::unique_ptr<WriteOp> op) {
  op->data.clear();  // the kernel has the bytes
  op->piped = {};    // and what it did not take is of no use
  if (op->total > 0) op->file->unsynced.store(true);
  if (op->error != 0) {
    return op->done(disk_failed(op->error, "write " + layout::to_string(op->file->id)));
  }
  struct stat found{};
  if (::fstat(op->file->buffered.get(), &found) != 0) {
    return op->done(fail_file(errno, "fstat of an object"));
  }
  WriteResult result{.bytes = op->total,
                     .stability = op->wanted,
                     .verifier = op->verifier,
                     .object_end = static_cast<std::uint64_t>(found.st_size)};
  if (op->wanted == Stability::kUnstable) return op->done(result);
  const FilePtr file = op->file;
  const std::uint32_t losses = op->losses;
  sync_since(losses, file, [op = std::move(op), result](const Result<>& synced) mutable {
    if (!synced) return op->done(std::unexpected(synced.error()));
    op->done(result);
  });
}

}  // namespace weft::ds
