#include "dataserver/targets/bypass.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <functional>
#include <limits>
#include <vector>

#include "dataserver/store/disk.h"
#include "dataserver/store/page_cache.h"
#include "dataserver/store/vectors.h"

namespace weft::ds {

namespace {

// The size of the object's file; nullopt when it is nobody's any more.
std::optional<std::uint64_t> size_of_linked(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0 || found.st_nlink == 0) return {};
  return static_cast<std::uint64_t>(found.st_size);
}

bool may_be_used(int fd, bool writable) {
  struct stat found{};
  const int flags = ::fcntl(fd, F_GETFL);
  return ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && flags >= 0 &&
         (flags & (O_ACCMODE | O_PATH | O_APPEND | O_DIRECT)) == (writable ? O_RDWR : O_RDONLY);
}

}  // namespace

Bypass::Bypass(std::size_t most, BufferPool& pool, const std::atomic<WriteVerifier>& verifier)
    : most_in_shard_((most + kShards - 1) / kShards), pool_(pool), verifier_(verifier) {}

// --- Who is open ---------------------------------------------------------------------------------

Bypass::Shard& Bypass::shard_of(const layout::ObjectId& object) {
  return shards_[std::hash<layout::ObjectId>{}(object) % kShards];
}

const Bypass::Shard& Bypass::shard_of(const layout::ObjectId& object) const {
  return shards_[std::hash<layout::ObjectId>{}(object) % kShards];
}

Bypass::Descriptor Bypass::find(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.find(object);
  if (place == shard.places.end() || place->second->retired) return {};
  shard.entries.splice(shard.entries.begin(), shard.entries, place->second);
  return place->second->file;
}

Bypass::Descriptor Bypass::put(Shard& shard, Entry entry) {
  const auto place = shard.places.find(entry.object);
  if (place != shard.places.end()) {
    Entry& known = *place->second;
    const bool better =
        known.retired || (entry.writable && (!known.writable || known.verifier != entry.verifier));
    if (!better) return {};
    std::swap(known.file, entry.file);
    known.writable = entry.writable;
    known.verifier = entry.verifier;
    known.retired = false;
    shard.entries.splice(shard.entries.begin(), shard.entries, place->second);
    return known.file;
  }
  shard.entries.push_front(std::move(entry));
  shard.places.emplace(shard.entries.front().object, shard.entries.begin());
  return shard.entries.front().file;
}

std::optional<layout::ObjectId> Bypass::add(const layout::ObjectId& object, OwnedFd descriptor,
                                            bool writable, WriteVerifier verifier) {
  if (most_in_shard_ == 0 || !may_be_used(descriptor.get(), writable)) return {};
  Entry entry{.object = object,
              .file = std::make_shared<const OwnedFd>(std::move(descriptor)),
              .writable = writable,
              .verifier = verifier};
  Shard& shard = shard_of(object);
  Descriptor kept;
  Entries old;  // closed when the lock is gone
  std::optional<layout::ObjectId> in_the_way;
  {
    const MutexLock lock(shard.mutex);
    kept = put(shard, std::move(entry));
    if (kept == nullptr) return {};
    if (shard.entries.size() > most_in_shard_) {
      const auto oldest = std::ranges::find_if(shard.entries.rbegin(), shard.entries.rend(),
                                               [](const Entry& one) { return !one.holds(); });
      const auto goes = std::prev(oldest.base());  // the new one itself, if nothing else
      if (goes == shard.entries.begin()) in_the_way = shard.entries.back().object;
      shard.places.erase(goes->object);
      old.splice(old.begin(), shard.entries, goes);
    }
  }
  if (writable && !in_the_way) writes_.store(true, std::memory_order_relaxed);
  if (!size_of_linked(kept->get())) drop(object);
  return in_the_way;
}

void Bypass::drop(const layout::ObjectId& object) {
  if (most_in_shard_ == 0) return;
  Shard& shard = shard_of(object);
  Entries old;  // closed when the lock is gone
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.extract(object);
  if (!place.empty()) old.splice(old.begin(), shard.entries, place.mapped());
}

void Bypass::retire_all() {
  writes_.store(false, std::memory_order_relaxed);
  for (Shard& shard : shards_) {
    Entries old;
    const MutexLock lock(shard.mutex);
    for (auto entry = shard.entries.begin(); entry != shard.entries.end();) {
      const auto one = entry++;
      one->retired = true;
      if (one->holds() && size_of_linked(one->file->get())) continue;
      shard.places.erase(one->object);
      old.splice(old.begin(), shard.entries, one);
    }
  }
}

std::size_t Bypass::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    size += shard.entries.size();
  }
  return size;
}

// --- Reading -------------------------------------------------------------------------------------

Bypass::AtHand<ReadResult> Bypass::read(const layout::ObjectId& object, std::uint64_t offset,
                                        std::uint32_t count, bool to_memory) {
  if (most_in_shard_ == 0) return {};
  const Descriptor file = find(object);
  if (file == nullptr) return {.result = {}, .welcome = true};
  const int fd = file->get();
  const auto end = size_of_linked(fd);
  if (!end) {
    drop(object);
    return {.result = {}, .welcome = true};
  }
  AtHand<ReadResult> out{.result = ReadResult{.payload = {}, .object_end = *end}};
  if (offset >= *end || count == 0) return out;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(count, *end - offset));
  if (!to_memory && size >= kZeroCopyFrom) {
    if (!is_resident(fd, offset, size)) return {};
    out.result->payload.append(FileRange{file, offset, size});
    return out;
  }
  auto buffer = pool_.allocate(size);
  if (!buffer || read_resident(fd, offset, buffer->span()) != size) return {};
  out.result->payload.append(std::move(*buffer));
  return out;
}

// --- Writing -------------------------------------------------------------------------------------

Bypass::Descriptor Bypass::begin_write(const layout::ObjectId& object, WriteVerifier verifier) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.find(object);
  if (place == shard.places.end()) return {};
  Entry& entry = *place->second;
  if (entry.retired || !entry.writable || entry.verifier != verifier) return {};
  shard.entries.splice(shard.entries.begin(), shard.entries, place->second);
  ++entry.running;
  return entry.file;
}

void Bypass::end_write(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.find(object);
  if (place == shard.places.end() || place->second->running == 0) return;  // removed meanwhile
  --place->second->running;
  ++place->second->written;
}

template <class Put>
Bypass::AtHand<Result<WriteResult>> Bypass::write_by(const layout::ObjectId& object,
                                                     std::uint64_t offset, std::uint64_t size,
                                                     Afterwards bytes, Put put) {
  constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();
  if (most_in_shard_ == 0 || size == 0 || size > kMaxOffset || offset > kMaxOffset - size) {
    return {};
  }
  const WriteVerifier verifier = verifier_.load(std::memory_order_acquire);
  const std::int64_t began = steady_now_ns();
  if (throttle_.active(began)) return {};
  const Descriptor file = begin_write(object, verifier);
  if (file == nullptr) return {.result = {}, .welcome = true};
  // Otherwise it is early enough to ask afterwards, with the file's end.
  if (bytes == Afterwards::kGone && !size_of_linked(file->get())) {
    drop(object);
    return {.result = {}, .welcome = true};
  }
  const Throttle::Sample sample = throttle_.begin(began);
  std::uint64_t written = 0;
  long taken = 1;
  while (written < size && taken > 0) {
    taken = put(file->get(), offset + written);
    if (taken > 0) written += static_cast<std::uint64_t>(taken);
  }
  throttle_.end(sample, steady_now_ns());
  const auto end = size_of_linked(file->get());
  end_write(object);
  if (bytes == Afterwards::kKept && !end) {
    drop(object);
    return {.result = {}, .welcome = true};
  }
  if (taken == -EINVAL && written == 0) return {};  // a file system that does not splice
  if (taken <= 0) {
    // Taking nothing without a reason is how a full disk looks to some file systems.
    return {.result = fail_file(taken < 0 ? static_cast<int>(-taken) : ENOSPC,
                                "write " + layout::to_string(object) + " past its target")};
  }
  return {.result = WriteResult{.bytes = size,
                                .stability = Stability::kUnstable,
                                .verifier = verifier,
                                .object_end = end.value_or(offset + size)}};
}

Bypass::AtHand<Result<WriteResult>> Bypass::write(const layout::ObjectId& object,
                                                  std::uint64_t offset, PipedBytes& data) {
  return write_by(object, offset, data.size(), Afterwards::kGone,
                  [&data](int fd, std::uint64_t at) { return data.write_to(fd, at); });
}

Bypass::AtHand<Result<WriteResult>> Bypass::write(const layout::ObjectId& object,
                                                  std::uint64_t offset,
                                                  std::span<const Buffer> data) {
  std::vector<iovec> vectors = vectors_of(data);
  std::uint64_t size = 0;
  for (const iovec& one : vectors) size += one.iov_len;
  auto next = std::span(vectors);
  return write_by(object, offset, size, Afterwards::kKept, [&next](int fd, std::uint64_t at) {
    long taken = 0;
    do {
      const auto count = static_cast<int>(std::min<std::size_t>(next.size(), IOV_MAX));
      taken = ::pwritev(fd, next.data(), count, static_cast<off_t>(at));
    } while (taken < 0 && errno == EINTR);
    if (taken < 0) return -static_cast<long>(errno);
    next = advance(next, static_cast<std::size_t>(taken));
    return taken;
  });
}

// --- Commits -------------------------------------------------------------------------------------

std::uint64_t Bypass::written(const layout::ObjectId& object) const {
  const Shard& shard = shard_of(object);
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.find(object);
  return place == shard.places.end() ? 0 : place->second->written;
}

void Bypass::committed(const layout::ObjectId& object, std::uint64_t written) {
  Shard& shard = shard_of(object);
  Entries old;  // closed when the lock is gone
  const MutexLock lock(shard.mutex);
  const auto place = shard.places.find(object);
  if (place == shard.places.end()) return;
  Entry& entry = *place->second;
  entry.committed = std::max(entry.committed, std::min(written, entry.written));
  if (!entry.retired || entry.holds()) return;
  old.splice(old.begin(), shard.entries, place->second);
  shard.places.erase(place);
}

}  // namespace weft::ds
