#include "dataserver/target/readers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "dataserver/store/page_cache.h"

namespace weft::ds {

namespace {

// The size of the object's file; nullopt when it is nobody's any more.
std::optional<std::uint64_t> size_of_linked(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0 || found.st_nlink == 0) return {};
  return static_cast<std::uint64_t>(found.st_size);
}

bool may_be_used(int fd) {
  struct stat found{};
  const int flags = ::fcntl(fd, F_GETFL);
  return ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && flags >= 0 &&
         (flags & (O_ACCMODE | O_PATH)) == O_RDONLY;
}

}  // namespace

Readers::Readers(std::size_t most, BufferPool& pool)
    : most_in_shard_((most + kShards - 1) / kShards), pool_(pool) {}

Readers::Shard& Readers::shard_of(const layout::ObjectId& object) {
  return shards_[std::hash<layout::ObjectId>{}(object) % kShards];
}

Readers::Descriptor Readers::find(const layout::ObjectId& object) {
  Shard& shard = shard_of(object);
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.places.find(object);
  if (place == shard.places.end()) return {};
  shard.entries.splice(shard.entries.begin(), shard.entries, place->second);
  return place->second->second;
}

Readers::Descriptor Readers::take(Shard& shard, const layout::ObjectId& object) {
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.places.extract(object);
  if (place.empty()) return {};
  Descriptor taken = std::move(place.mapped()->second);
  shard.entries.erase(place.mapped());
  return taken;
}

Readers::AtHand Readers::read(const layout::ObjectId& object, std::uint64_t offset,
                              std::uint32_t count) {
  if (most_in_shard_ == 0) return {};
  const Descriptor file = find(object);
  if (file == nullptr) return {.result = {}, .reader_welcome = true};
  const int fd = file->get();
  const auto end = size_of_linked(fd);
  if (!end) {
    drop(object);
    return {.result = {}, .reader_welcome = true};
  }
  AtHand out{.result = ReadResult{.payload = {}, .object_end = *end}};
  if (offset >= *end || count == 0) return out;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(count, *end - offset));
  if (size >= kZeroCopyFrom) {
    if (!is_resident(fd, offset, size)) return {};
    out.result->payload.append(FileRange{file, offset, size});
    return out;
  }
  auto buffer = pool_.allocate(size);
  if (!buffer || read_resident(fd, offset, buffer->span()) != size) return {};
  out.result->payload.append(std::move(*buffer));
  return out;
}

void Readers::add(const layout::ObjectId& object, OwnedFd reader) {
  if (most_in_shard_ == 0 || !may_be_used(reader.get())) return;
  const auto file = std::make_shared<const OwnedFd>(std::move(reader));
  Shard& shard = shard_of(object);
  std::list<Entry> old;  // closed when the lock is gone
  {
    const std::scoped_lock lock(shard.mutex);
    if (shard.places.contains(object)) return;
    shard.entries.emplace_front(object, file);
    shard.places.emplace(object, shard.entries.begin());
    if (shard.entries.size() > most_in_shard_) {
      shard.places.erase(shard.entries.back().first);
      old.splice(old.begin(), shard.entries, std::prev(shard.entries.end()));
    }
  }
  if (!size_of_linked(file->get())) drop(object);
}

void Readers::drop(const layout::ObjectId& object) {
  if (most_in_shard_ > 0) static_cast<void>(take(shard_of(object), object));
}

void Readers::drop_all() {
  for (Shard& shard : shards_) {
    std::list<Entry> old;
    const std::scoped_lock lock(shard.mutex);
    shard.places.clear();
    old.swap(shard.entries);
  }
}

std::size_t Readers::size() const {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const std::scoped_lock lock(shard.mutex);
    size += shard.entries.size();
  }
  return size;
}

}  // namespace weft::ds
