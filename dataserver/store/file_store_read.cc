#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataserver/store/disk.h"
#include "dataserver/store/file_store_internal.h"

namespace weft::ds {

namespace {

Result<std::uint64_t> size_of_file(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) return fail_file(errno, "fstat of an object");
  return static_cast<std::uint64_t>(found.st_size);
}

// The same file once more, to be read from the disk in blocks; none where that is not possible.
OwnedFd open_direct(int fd) {
  struct statx found{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0 &&
      (found.stx_mask & STATX_DIOALIGN) != 0 &&
      (found.stx_dio_offset_align == 0 || found.stx_dio_offset_align > kBlock ||
       found.stx_dio_mem_align > kBlock)) {
    return OwnedFd();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return OwnedFd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
}

}  // namespace

void FileStore::read(StoreRead what, Done<ReadResult> done) {
  WEFT_ASSERT(what.room.empty() || what.room.size() >= what.count);
  auto op = std::make_unique<ReadOp>();
  op->offset = what.offset;
  op->count = what.count;
  op->room = std::move(what.room);
  op->share = what.share;
  op->uncached = what.uncached;
  op->to_memory = what.to_memory;
  op->done = std::move(done);
  with_file(what.object, false, [this, op = std::move(op)](Result<FilePtr> file) mutable {
    if (!file) return op->done(pass(file));
    op->file = std::move(*file);
    read_file(std::move(op));
  });
}

Result<OwnedFd> FileStore::reader(const layout::ObjectId& object) {
  return open_again(object, O_RDONLY);
}

Result<OwnedFd> FileStore::writer(const layout::ObjectId& object) {
  auto opened = open_again(object, O_RDWR);
  if (opened) writers_.store(true);
  return opened;
}

// For who reads or writes past this store.
Result<OwnedFd> FileStore::open_again(const layout::ObjectId& object, int access) {
  const bool seen = options_.faults != nullptr && !options_.faults->allows_past();
  if (options_.mode != IoMode::kBuffered || seen) {
    return fail(Errc::kNotSupported, "objects that are not in the page cache");
  }
  const FilePtr file = files_.find(object);
  if (file == nullptr) return fail(Errc::kNotFound, "the object is not open");
  // A new opening of the same file: one may do by it what `access` says, and nothing else.
  const std::string path = "/proc/self/fd/" + std::to_string(file->buffered.get());
  OwnedFd opened(::open(path.c_str(), access | O_CLOEXEC));
  if (!opened) return fail_file(errno, "open an object once more");
  return opened;
}

void FileStore::read_file(std::unique_ptr<ReadOp> op) {
  const int fd = op->file->buffered.get();
  auto end = size_of_file(fd);
  if (!end) return op->done(pass(end));
  op->object_end = *end;
  if (op->offset >= *end || op->count == 0) {
    ReadResult nothing;
    nothing.object_end = *end;
    return op->done(std::move(nothing));
  }
  op->count = static_cast<std::uint32_t>(std::min<std::uint64_t>(op->count, *end - op->offset));
  if (options_.faults != nullptr) {
    if (const int error = options_.faults->read_error(op->file->id, op->offset); error != 0) {
      return op->done(disk_failed(error, "read " + layout::to_string(op->file->id)));
    }
  }
  if (options_.mode == IoMode::kDirect) return read_direct(std::move(op));
  if (op->uncached) return read_past_cache(std::move(op));
  const bool lend_pages =
      op->room.empty() && !op->to_memory && op->count >= options_.zero_copy_min_bytes;
  if (lend_pages && is_resident(fd, op->offset, op->count)) {
    ReadResult result;
    result.object_end = op->object_end;
    result.payload.append(FileRange{shared_descriptor(op->file), op->offset, op->count});
    return op->done(std::move(result));
  }
  if (auto found = find_memory(*op, op->offset, op->offset + op->count); !found) {
    return op->done(pass(found));
  }
  if (!lend_pages && read_resident(*op)) return finish_read(std::move(op));
  read_ring(std::move(op));
}

// After a failed write-back the kernel takes its pages for clean: they are read as if they were on
// the disk. What is dirty is written before a direct read. Where that cannot be done, pages are
// dropped first: of large ones (folios) only those that are whole in the range go, and none that
// somebody is sending.
void FileStore::read_past_cache(std::unique_ptr<ReadOp> op) {
  const int fd = op->file->buffered.get();
  const std::uint64_t first = block_floor(op->offset);
  const std::uint64_t last = block_ceil(op->offset + op->count);
  on_worker<OwnedFd>(
      [fd, first, last]() -> Result<OwnedFd> {
        // A file system in memory has no disk either.
        static_cast<void>(::posix_fadvise(fd, static_cast<off_t>(first),
                                          static_cast<off_t>(last - first), POSIX_FADV_DONTNEED));
        return open_direct(fd);
      },
      [this, op = std::move(op)](Result<OwnedFd> direct) mutable {
        if (direct && *direct) {
          op->direct = std::move(*direct);
          return read_direct(std::move(op));
        }
        if (auto found = find_memory(*op, op->offset, op->offset + op->count); !found) {
          return op->done(pass(found));
        }
        read_ring(std::move(op));
      });
}

// Memory to read [first, last) of the object into, which holds what was asked for.
Result<> FileStore::find_memory(ReadOp& op, std::uint64_t first, std::uint64_t last) {
  const auto size = static_cast<std::size_t>(last - first);
  op.skip = static_cast<std::size_t>(op.offset - first);
  const bool direct = options_.mode == IoMode::kDirect || op.direct;
  const bool aligned = !direct || reinterpret_cast<std::uintptr_t>(op.room.data()) % kBlock == 0;
  if (size <= op.room.size() && aligned) {
    op.buffer = std::move(op.room);
    op.buffer.truncate(size);
    return {};
  }
  auto buffer = weft::allocate(pool_, op.share, size);
  if (!buffer) return pass(buffer);
  op.buffer = std::move(*buffer);
  return {};
}

// True when everything was in the page cache; otherwise some of the front may be filled.
bool FileStore::read_resident(ReadOp& op) {
  op.filled =
      ds::read_resident(op.file->buffered.get(), op.offset, op.buffer.span().first(op.count));
  return op.filled == op.count;
}

void FileStore::read_ring(std::unique_ptr<ReadOp> op) {
  op->vector = {op->buffer.data() + op->filled, op->count - op->filled};
  const std::uint64_t at = op->offset + op->filled;
  const int fd = op->file->buffered.get();
  const std::span<const iovec> vectors(&op->vector, 1);
  auto on_result = [this, op = std::move(op)](int result) mutable {
    if (result == -EINTR || result == -EAGAIN) return read_ring(std::move(op));
    if (result < 0)
      return op->done(disk_failed(-result, "read " + layout::to_string(op->file->id)));
    op->filled += static_cast<std::size_t>(result);
    if (result == 0 || op->filled == op->count) return finish_read(std::move(op));
    read_ring(std::move(op));
  };
  this_ring().readv(fd, vectors, at, std::move(on_result));
}

void FileStore::read_direct(std::unique_ptr<ReadOp> op) {
  const std::uint64_t first = block_floor(op->offset);
  if (op->buffer.empty()) {
    const std::uint64_t last = block_ceil(op->offset + op->count);
    if (auto found = find_memory(*op, first, last); !found) return op->done(pass(found));
  }
  op->vector = {op->buffer.data() + op->filled, op->buffer.size() - op->filled};
  const std::uint64_t at = first + op->filled;
  const int fd = op->direct ? op->direct.get() : op->file->direct.get();
  const std::span<const iovec> vectors(&op->vector, 1);
  auto on_result = [this, op = std::move(op)](int result) mutable {
    if (result == -EINTR || result == -EAGAIN) return read_direct(std::move(op));
    if (result < 0)
      return op->done(disk_failed(-result, "read " + layout::to_string(op->file->id)));
    op->filled += static_cast<std::size_t>(result);
    const bool at_end = result == 0 || static_cast<std::uint64_t>(result) % kBlock != 0;
    if (at_end || op->filled >= op->skip + op->count) return finish_read(std::move(op));
    read_direct(std::move(op));
  };
  this_ring().readv(fd, vectors, at, std::move(on_result));
}

void FileStore::finish_read(std::unique_ptr<ReadOp> op) {
  const std::size_t usable = op->filled > op->skip ? op->filled - op->skip : 0;
  const std::size_t size = std::min<std::size_t>(usable, op->count);
  ReadResult result;
  result.object_end = op->object_end;
  if (size < op->count) {
    // Cut off while it was read: the end is wherever it is now, at or before the last byte read.
    auto end = size_of_file(op->file->buffered.get());
    if (!end) return op->done(pass(end));
    result.object_end = *end;
  }
  if (size > 0) {
    auto piece = op->buffer.share(op->skip, size);
    if (!piece) return op->done(pass(piece));
    if (!op->room.empty()) {  // it did not hold the blocks that had to be read
      std::memcpy(op->room.data(), piece->data(), size);
      op->room.truncate(size);
      piece = std::move(op->room);
    }
    result.payload.append(std::move(*piece));
  }
  op->done(std::move(result));
}

}  // namespace weft::ds
