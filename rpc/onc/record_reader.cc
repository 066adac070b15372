#include "rpc/onc/record_reader.h"

#include <algorithm>
#include <cstring>

#include "rpc/base/assert.h"
#include "rpc/base/host_hold.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kMark = 4;
constexpr std::uint32_t kLastFragment = 0x80000000;
constexpr std::size_t kPage = 4096;

std::uint32_t be32(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
         std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}

}  // namespace

RecordReader::RecordReader(BufferPool& pool, Limits limits, LocatePayload locate,
                           std::shared_ptr<HostShare> host)
    : pool_(pool),
      limits_(std::move(limits)),
      locate_(locate),
      host_(std::move(host)),
      standing_(limits_.standing) {
  WEFT_ASSERT(limits_.max_stranger_bytes <= kStaging - kMark);
}

RecordReader::Targets RecordReader::targets() {
  Targets out;
  WEFT_ASSERT(!piping());
  if (in_body_ && skipping_) {
    begin_ = end_ = 0;
  } else if (in_body_) {
    WEFT_ASSERT(begin_ == end_ && body_left_ > 0);
    out.parts[out.count++] = {block_.data() + filled_, body_left_};
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    // Less than a small record is left over: moving it is cheap and keeps the room in one piece.
    std::memmove(staging_.data(), staging_.data() + begin_, staged());
    end_ -= begin_;
    begin_ = 0;
  }
  WEFT_ASSERT(end_ < kStaging);
  out.parts[out.count++] = {staging_.data() + end_, kStaging - end_};
  return out;
}

void RecordReader::received(std::size_t size) {
  if (in_body_ && skipping_) {
    begin_ = std::min(size, body_left_);
    body_left_ -= begin_;
  } else if (in_body_) {
    const std::size_t to_body = std::min(size, body_left_);
    filled_ += to_body;
    body_left_ -= to_body;
    size -= to_body;
  }
  WEFT_ASSERT(size <= kStaging - end_);
  end_ += size;
}

long RecordReader::receive_piped(int socket) {
  WEFT_ASSERT(piping());
  const long n = piped_.fill(socket, body_left_);
  if (n > 0) body_left_ -= static_cast<std::size_t>(n);
  return n;
}

Result<std::optional<Buffer>> RecordReader::next() {
  if (spill_) {
    if (auto spilled = spill(); !spilled) return pass(spilled);
  }
  for (;;) {
    if (!in_body_) {
      if (staged() < kMark) return std::nullopt;
      const std::uint32_t mark = be32(staging_.data() + begin_);
      const std::size_t size = mark & ~kLastFragment;
      if (size > limits_.max_record_bytes - filled_) {
        return fail(Errc::kTooLarge, "record of " + std::to_string(filled_ + size) + " bytes");
      }
      if (fragments_ >= limits_.max_fragments) return fail(Errc::kProtocol, "too many fragments");
      // Enough of it to see where its payload begins, or all of it.
      if (staged() - kMark < std::min(size, kHead)) return std::nullopt;
      share_ = share_of(standing_);
      if (standing_ != Standing::kServer) {
        auto opens = judge(size, (mark & kLastFragment) != 0);
        if (!opens) return pass(opens);
        if (!*opens) return std::nullopt;
      }
      if (auto opened = skipping_ ? open_skipped(size) : open_fragment(); !opened) {
        return pass(opened);
      }
    }
    if (body_left_ > 0) return std::nullopt;
    in_body_ = false;
    if (last_fragment_) return emit();
  }
}

std::span<const std::byte> RecordReader::head_of(std::size_t size) const {
  return std::span(staging_).subspan(begin_ + kMark, std::min(size, kHead));
}

Result<bool> RecordReader::judge(std::size_t size, bool last) {
  skipping_ = false;
  const bool in_one = last && fragments_ == 0;
  const bool stranger = standing_ == Standing::kStranger;
  if (filled_ + size <= limits_.max_stranger_bytes) {
    if (!stranger) return true;
    // What is whole is answered at once, and then needs no memory any more: that anybody may have.
    if (in_one) share_ = PoolShare::kServers;
    return staged() - kMark >= size;
  }
  const Glance glance =
      in_one && limits_.look ? limits_.look(head_of(size), standing_) : Glance::kRefuse;
  if (glance == Glance::kSkip) {
    share_ = PoolShare::kServers;  // of its head
    skipping_ = true;
    return true;
  }
  if (glance == Glance::kTakeOfServer) {
    share_ = PoolShare::kServers;
    return true;
  }
  if (glance == Glance::kTake || !stranger) {
    share_ = PoolShare::kClients;
    return true;
  }
  return fail(Errc::kTooLarge,
              "a stranger's record of " + std::to_string(filled_ + size) + " bytes");
}

Result<> RecordReader::open_skipped(std::size_t size) {
  const auto head = head_of(size);
  auto block = allocate(pool_, share_, head.size());
  if (!block) return pass(block);
  std::memcpy(block->data(), head.data(), head.size());
  block_ = std::move(*block);
  filled_ = head.size();
  const std::size_t here = std::min(staged() - kMark, size);
  begin_ += kMark + here;
  body_left_ = size - here;
  ++fragments_;
  last_fragment_ = in_body_ = true;
  return {};
}

// Memory for a record that is still to come.
Result<Buffer> RecordReader::allocate_body(std::size_t size) {
  const bool counts =
      host_ != nullptr && share_ != PoolShare::kServers && size > kStaging && is_short(pool_);
  if (!counts) return allocate(pool_, share_, size);
  if (!take_of_share(*host_, pool_, size)) {
    return fail(Errc::kBusy, "the host holds its share of memory");
  }
  auto block = allocate(pool_, share_, size);
  if (block) {
    counted_ += size;
  } else {
    host_->bytes.fetch_sub(size, std::memory_order_relaxed);
  }
  return block;
}

void RecordReader::settle() {
  if (counted_ == 0) return;
  host_->bytes.fetch_sub(std::exchange(counted_, 0), std::memory_order_relaxed);
}

Result<> RecordReader::open_fragment() {
  const std::uint32_t mark = be32(staging_.data() + begin_);
  const std::size_t size = mark & ~kLastFragment;
  // kBusy here leaves everything as it was.
  if (limits_.pipe_from > 0 && may_pipe_ && filled_ == 0 && (mark & kLastFragment) != 0) {
    auto piped = open_piped(size);
    if (!piped) return pass(piped);
    if (*piped) return {};
  }
  if (auto placed = place(size); !placed) return placed;
  begin_ += kMark;
  ++fragments_;
  last_fragment_ = (mark & kLastFragment) != 0;
  body_left_ = size;
  in_body_ = true;
  take_staged();
  return {};
}

// Begins a record of one fragment whose bulk data goes to a pipe. False: it is none such, or there
// is no pipe.
Result<bool> RecordReader::open_piped(std::size_t size) {
  const auto bytes = std::span(staging_).subspan(begin_ + kMark, std::min(staged() - kMark, size));
  const auto head = bytes.first(std::min(bytes.size(), kHead));
  const std::size_t payload = locate_ == nullptr ? 0 : locate_(head);
  if (payload < kMark || payload > head.size()) return false;
  // All that is left must be the bulk data, without padding.
  const std::size_t left = size - payload;
  if (left < limits_.pipe_from || left % 4 != 0) return false;
  if (be32(head.data() + payload - 4) != left) return false;
  if (limits_.pipes && !limits_.pipes(head)) return false;
  auto block = allocate(pool_, share_, payload);
  if (!block) return pass(block);
  auto pipe = PipedBytes::open(pool_);
  if (!pipe || !pipe->put(bytes.subspan(payload))) return false;
  std::memcpy(block->data(), head.data(), payload);
  block_ = std::move(*block);
  piped_ = std::move(*pipe);
  filled_ = payload;
  body_left_ = size - bytes.size();
  begin_ += kMark + bytes.size();
  ++fragments_;
  last_fragment_ = in_body_ = piping_ = true;
  return true;
}

// Moves a record that went to a pipe to memory, to go on there.
Result<> RecordReader::spill() {
  WEFT_ASSERT(piping());
  const std::size_t pad = (kPage - filled_ % kPage) % kPage;
  const std::size_t piped = piped_.size();
  auto block = allocate_body(pad + filled_ + piped + body_left_);
  if (!block) return pass(block);
  auto record = block->share(pad, filled_ + piped + body_left_);
  WEFT_ASSERT(record.has_value());
  std::memcpy(record->data(), block_.data(), filled_);
  if (auto taken = piped_.take(record->span().subspan(filled_, piped)); !taken) return taken;
  block_ = std::move(*record);
  filled_ += piped;
  piped_ = {};
  piping_ = spill_ = may_pipe_ = false;
  return {};
}

// Makes room in block_ for `size` more bytes.
Result<> RecordReader::place(std::size_t size) {
  if (filled_ + size <= block_.size()) return {};
  if (filled_ == 0) {
    const std::size_t payload = locate_ == nullptr ? 0 : locate_(head_of(size));
    const bool aligned = payload > 0 && payload < size && size - payload >= kPage;
    const std::size_t pad = aligned ? (kPage - payload % kPage) % kPage : 0;
    auto block = allocate_body(pad + size);
    if (!block) return pass(block);
    auto record = block->share(pad, size);
    WEFT_ASSERT(record.has_value());
    block_ = std::move(*record);
    return {};
  }
  // A further fragment: rare, so growing by copying is good enough; doubling bounds the copying.
  const std::size_t room =
      std::min(std::max(filled_ + size, 2 * filled_), limits_.max_record_bytes);
  auto block = allocate_body(room);
  if (!block) return pass(block);
  std::memcpy(block->data(), block_.data(), filled_);
  block_ = std::move(*block);
  return {};
}

void RecordReader::take_staged() {
  const std::size_t size = std::min(staged(), body_left_);
  if (size > 0) std::memcpy(block_.data() + filled_, staging_.data() + begin_, size);
  begin_ += size;
  filled_ += size;
  body_left_ -= size;
}

Buffer RecordReader::emit() {
  block_.truncate(filled_);
  filled_ = 0;
  fragments_ = 0;
  last_fragment_ = piping_ = false;
  skipped_ = std::exchange(skipping_, false);
  settle();
  return std::exchange(block_, Buffer{});
}

std::array<std::byte, 4> record_mark(std::size_t size) {
  WEFT_ASSERT(size < kLastFragment);
  const std::uint32_t mark = static_cast<std::uint32_t>(size) | kLastFragment;
  return {static_cast<std::byte>(mark >> 24), static_cast<std::byte>(mark >> 16),
          static_cast<std::byte>(mark >> 8), static_cast<std::byte>(mark)};
}

}  // namespace weft::rpc
