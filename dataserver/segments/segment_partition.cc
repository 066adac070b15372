#include "dataserver/segments/segment_partition.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <unordered_set>

#include "dataserver/segments/segment_memory.h"
#include "rpc/base/assert.h"
#include "rpc/base/payload_copy.h"

namespace weft::ds {

namespace {

using layout::ObjectId;

constexpr std::uint32_t kFsid = 0xffffffff;
constexpr std::uint32_t kSegment = 1;  // generations
constexpr std::uint32_t kIndex = 2;
constexpr std::uint32_t kPage = 1024;  // of a listing
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 30;

ObjectId segment_file(std::uint64_t number) {
  return {.fileid = number, .generation = kSegment, .fsid = kFsid};
}
ObjectId index_file(std::uint64_t number) {
  return {.fileid = number, .generation = kIndex, .fsid = kFsid};
}

Buffer part(const Buffer& whole, std::uint64_t offset, std::uint64_t size) {
  auto shared = whole.share(offset, size);
  WEFT_ASSERT(shared.has_value());
  return std::move(*shared);
}

struct Removing {
  std::size_t pending = 0;
  Result<> result;
  Store::Done<void> done;
};

}  // namespace

// --- Segments ------------------------------------------------------------------------------------

void SegmentPartition::read(std::uint64_t number, const Buffer& memory, const PieceDone& done) {
  const std::uint64_t size = memory.size();
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    const std::uint64_t length = std::min(kPiece, size - at);
    files_.read(
        {.object = segment_file(number),
         .offset = at,
         .count = static_cast<std::uint32_t>(length),
         .room = part(memory, at, length)},
        [done, piece = static_cast<std::size_t>(at / kPiece), length](Result<ReadResult> read) {
          if (!read) return done(piece, pass(read));
          if (read->payload.size() == length) return done(piece, Result<>{});
          done(piece, fail(Errc::kCorrupt, "a segment is too short"));
        });
  }
}

Task<Result<>> SegmentPartition::write_file(ObjectId file, const Buffer& bytes) {
  const WriteVerifier before = files_.verifier();
  for (std::uint64_t at = 0; at < bytes.size(); at += kPiece) {
    std::vector<Buffer> data;
    data.push_back(part(bytes, at, std::min<std::uint64_t>(kPiece, bytes.size() - at)));
    auto written = co_await call<Result<WriteResult>>([&](auto done) {
      files_.write(file, at, std::move(data), Stability::kUnstable, std::move(done));
    });
    if (!written) co_return pass(written);
  }
  auto committed = co_await call<Result<WriteVerifier>>(
      [&](auto done) { files_.commit(file, std::move(done)); });
  if (!committed) co_return pass(committed);
  if (*committed != before) co_return fail(Errc::kIo, "writes may have been lost");
  co_return Result<>{};
}

Task<Result<>> SegmentPartition::write(std::uint64_t number, const Buffer& bytes) {
  return write_file(segment_file(number), bytes);
}

void SegmentPartition::remove(std::uint64_t number, Done<void> done) {
  files_.remove(segment_file(number), std::move(done));
}

void SegmentPartition::remove_all(std::vector<std::uint64_t> numbers,
                                  std::function<void(std::uint64_t)> gone, Done<void> done) {
  if (numbers.empty()) return done(Result<>{});
  const auto removing = std::make_shared<Removing>();
  removing->pending = numbers.size();
  removing->done = std::move(done);
  const auto tell = std::make_shared<std::function<void(std::uint64_t)>>(std::move(gone));
  for (const std::uint64_t number : numbers) {
    remove(number, [removing, tell, number](Result<> result) {
      if (result) {
        (*tell)(number);
      } else {
        removing->result = std::move(result);
      }
      if (--removing->pending == 0) removing->done(std::move(removing->result));
    });
  }
}

// --- The index -----------------------------------------------------------------------------------

Task<Result<>> SegmentPartition::write_index(const SegmentIndex& index) {
  const std::vector<std::byte> record = encode(index);
  const Buffer bytes = segment_memory(record.size(), [] {});
  if (bytes.empty()) co_return fail(Errc::kBusy, "no memory for the index of segments");
  std::ranges::copy(record, part(bytes, 0, bytes.size()).data());
  std::vector<ObjectId> old;
  for (const std::uint64_t number : indices_) old.push_back(index_file(number));
  const ObjectId file = index_file(++last_index_);
  indices_.push_back(last_index_);  // what is written in part, too, has had its number
  auto written = co_await write_file(file, bytes);
  if (!written) {
    // On a full disk there are many tries: each takes what it left.
    if (co_await remove_files({file})) indices_.pop_back();
    co_return written;
  }
  auto removed = co_await remove_files(std::move(old));
  if (removed) indices_ = {last_index_};
  co_return removed;
}

Task<Result<std::vector<ObjectId>>> SegmentPartition::list() {
  std::vector<ObjectId> files;
  for (ListPlace from;;) {
    auto page = co_await call<Result<ObjectList>>(
        [&](auto done) { files_.list(from, kPage, std::move(done)); });
    if (!page) co_return pass(page);
    files.insert(files.end(), page->objects.begin(), page->objects.end());
    if (!page->more) co_return files;
    from = page->next;
  }
}

Task<Result<std::optional<SegmentIndex>>> SegmentPartition::read_index(ObjectId file) {
  std::vector<std::byte> bytes;
  for (;;) {
    auto piece = co_await call<Result<ReadResult>>([&](auto done) {
      files_.read(file, bytes.size(), static_cast<std::uint32_t>(kPiece), std::move(done));
    });
    if (!piece) co_return pass(piece);
    const std::size_t size = piece->payload.size();
    if (size == 0 || bytes.size() + size > kMostIndexBytes) break;
    bytes.resize(bytes.size() + size);
    if (auto copied = copy_payload(piece->payload, std::span(bytes).last(size)); !copied) {
      co_return pass(copied);
    }
  }
  auto index = decode_segment_index(bytes);
  if (index) co_return std::optional<SegmentIndex>(std::move(*index));
  spdlog::warn("event=segment_index_dropped number={} error=\"{}\"", file.fileid,
               index.error().describe());
  co_return std::optional<SegmentIndex>();
}

Task<Result<>> SegmentPartition::remove_files(std::vector<ObjectId> files) {
  Join join;
  Result<> result;
  for (const ObjectId& file : files) {
    join.started();
    files_.remove(file, [&](Result<> removed) {
      if (!removed) result = std::move(removed);
      join.ended();
    });
  }
  co_await join;
  co_return result;
}

Task<Result<SegmentIndex>> SegmentPartition::open() {
  auto listed = co_await list();
  if (!listed) co_return pass(listed);
  std::vector<ObjectId> indices;
  std::vector<ObjectId> useless;
  std::unordered_set<std::uint64_t> there;
  std::uint64_t highest = 0;
  for (const ObjectId& file : *listed) {
    if (file.fsid == kFsid && file.generation == kIndex) {
      indices.push_back(file);
      last_index_ = std::max(last_index_, file.fileid);
    } else if (file.fsid == kFsid && file.generation == kSegment) {
      there.insert(file.fileid);
      highest = std::max(highest, file.fileid);
    } else {
      useless.push_back(file);
    }
  }
  std::ranges::sort(indices, std::greater{}, &ObjectId::fileid);
  std::optional<SegmentIndex> newest;
  for (const ObjectId& file : indices) {
    // One that cannot be read is as good as none: its segments go.
    if (!newest) {
      auto index = co_await read_index(file);
      if (index && *index) {
        newest = std::move(*index);
        indices_ = {file.fileid};
        continue;
      }
    }
    useless.push_back(file);
  }
  SegmentIndex index = newest ? std::move(*newest) : SegmentIndex{};
  std::erase_if(index.segments,
                [&](const SegmentRecord& segment) { return !there.contains(segment.number); });
  index.next_number = std::max(index.next_number, highest + 1);
  for (const SegmentRecord& segment : index.segments) there.erase(segment.number);
  for (const std::uint64_t number : there) useless.push_back(segment_file(number));
  if (auto removed = co_await remove_files(std::move(useless)); !removed) co_return pass(removed);
  co_return index;
}

}  // namespace weft::ds
