#include "rpc/transport/shm/ring.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "rpc/base/assert.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_RING_TELLS_TSAN
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif
#endif

namespace weft::rpc {
namespace {

constexpr std::uint32_t kSizeWord = sizeof(std::uint32_t);

// ThreadSanitizer knows memory by its address, and the two ends of a ring map it at different ones
// even in one process (tests). It is told by an address of the process that what comes before a
// record is written comes before what follows its reading, and the same of room. The address
// belongs to one direction of one ring, so that nothing else is taken for ordered.
#ifdef WEFT_RING_TELLS_TSAN
void* tsan_address(RingControl& control, bool room) {
  static std::atomic<std::uint32_t> rings{0};
  static std::array<std::array<char, 2>, 1024> addresses;
  std::uint32_t number = control.tsan_number.load();
  if (number == 0) {
    const std::uint32_t mine = ++rings;
    if (control.tsan_number.compare_exchange_strong(number, mine)) number = mine;
  }
  return &addresses[number % addresses.size()][room ? 1 : 0];
}
void tell_ordered_before(RingControl& control, bool room) {
  __tsan_release(tsan_address(control, room));
}
void tell_ordered_after(RingControl& control, bool room) {
  __tsan_acquire(tsan_address(control, room));
}
#else
void tell_ordered_before(RingControl& /*control*/, bool /*room*/) {}
void tell_ordered_after(RingControl& /*control*/, bool /*room*/) {}
#endif

std::uint32_t in_lines(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kCacheLine - 1) & ~(kCacheLine - 1));
}

void check(const std::byte* memory, std::size_t capacity) {
  WEFT_ASSERT(std::has_single_bit(capacity) && capacity >= 4 * kCacheLine &&
              capacity <= std::size_t{1} << 30);
  WEFT_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % kCacheLine == 0);
}

}  // namespace

RingProducer::RingProducer(std::byte* memory, std::size_t capacity)
    : control_(reinterpret_cast<RingControl*>(memory)),
      data_(memory + sizeof(RingControl)),
      capacity_(static_cast<std::uint32_t>(capacity)) {
  check(memory, capacity);
}

Result<std::uint32_t> RingProducer::used() const {
  const std::uint32_t used = tail_ - control_->head.load(std::memory_order_acquire);
  tell_ordered_after(*control_, true);
  if (used > capacity_) return fail(Errc::kProtocol, "a ring's head that cannot be");
  return used;
}

Result<bool> RingProducer::push(std::span<const std::span<const std::byte>> parts) {
  std::size_t size = 0;
  for (const auto& part : parts) size += part.size();
  WEFT_ASSERT(size <= max_record());
  auto taken = used();
  if (!taken) return pass(taken);
  const std::uint32_t room = in_lines(kSizeWord + size);
  if (room > capacity_ - *taken) return false;

  std::uint32_t at = tail_ & (capacity_ - 1);
  const auto put = [&](const std::byte* from, std::size_t bytes) {
    const std::size_t first = std::min<std::size_t>(bytes, capacity_ - at);
    std::memcpy(data_ + at, from, first);
    if (bytes > first) std::memcpy(data_, from + first, bytes - first);
    at = static_cast<std::uint32_t>(at + bytes) & (capacity_ - 1);
  };
  const auto word = static_cast<std::uint32_t>(size);
  put(reinterpret_cast<const std::byte*>(&word), kSizeWord);
  for (const auto& part : parts) {
    if (!part.empty()) put(part.data(), part.size());
  }
  tail_ += room;
  tell_ordered_before(*control_, false);
  control_->tail.store(tail_, std::memory_order_release);
  return true;
}

bool RingProducer::must_ring() {
  // Between our tail and its flag: one of us two sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return control_->reader_waits.load(std::memory_order_relaxed) != 0 &&
         control_->reader_waits.exchange(0, std::memory_order_relaxed) != 0;
}

bool RingProducer::may_sleep(std::size_t record_bytes) {
  control_->writer_waits.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto taken = used();
  return taken && in_lines(kSizeWord + record_bytes) > capacity_ - *taken;
}

RingConsumer::RingConsumer(std::byte* memory, std::size_t capacity)
    : control_(reinterpret_cast<RingControl*>(memory)),
      data_(memory + sizeof(RingControl)),
      capacity_(static_cast<std::uint32_t>(capacity)) {
  check(memory, capacity);
}

Result<std::optional<std::size_t>> RingConsumer::peek() {
  const std::uint32_t used = control_->tail.load(std::memory_order_acquire) - head_;
  tell_ordered_after(*control_, false);
  if (used == 0) return std::nullopt;
  if (used > capacity_ || used % kCacheLine != 0) {
    return fail(Errc::kProtocol, "a ring's tail that cannot be");
  }
  // Read once; it may be another number the next time.
  std::memcpy(&size_, data_ + (head_ & (capacity_ - 1)), kSizeWord);
  if (size_ > capacity_ || in_lines(kSizeWord + std::size_t{size_}) > used) {
    size_ = 0;
    return fail(Errc::kProtocol, "a record longer than what is in the ring");
  }
  return size_;
}

void RingConsumer::copy(std::size_t offset, std::span<std::byte> out) const {
  WEFT_ASSERT(offset <= size_ && out.size() <= size_ - offset);
  if (out.empty()) return;
  const std::size_t at = (head_ + kSizeWord + offset) & (capacity_ - 1);
  const std::size_t first = std::min<std::size_t>(out.size(), capacity_ - at);
  std::memcpy(out.data(), data_ + at, first);
  if (out.size() > first) std::memcpy(out.data() + first, data_, out.size() - first);
}

void RingConsumer::pop() {
  head_ += in_lines(kSizeWord + std::size_t{size_});
  size_ = 0;
  tell_ordered_before(*control_, true);
  control_->head.store(head_, std::memory_order_release);
}

bool RingConsumer::must_ring() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return control_->writer_waits.load(std::memory_order_relaxed) != 0 &&
         control_->writer_waits.exchange(0, std::memory_order_relaxed) != 0;
}

bool RingConsumer::may_sleep() {
  control_->reader_waits.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return looks_empty();
}

}  // namespace weft::rpc
