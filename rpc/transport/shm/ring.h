// One direction of a shared-memory connection: a ring of records, one producer, one consumer, in
// memory that both processes can write at any time.
//
// The ring's two positions count bytes for ever (modulo 2^32). The producer alone writes `tail`,
// the consumer alone `head`, and each keeps its own in private memory: what stands in shared memory
// of one's own is never read back, and the other's is checked before it is used. A record begins at
// a cache line: its size, then its bytes, which may go on at the ring's beginning. Writing one is
// one copy into the ring; reading one copies it out before anything in it is looked at, so that
// nothing can change between check and use.
//
// Sleeping. A consumer that finds nothing says so in `reader_waits` and looks once more; a producer
// that has published looks at it, and rings the bell (whatever that is) when it is set. So no bell
// is needed while the consumer is busy. `writer_waits` is the same for room. The flags are hints: a
// peer that lies about them gets more bells, or none.
//
// Threading: a RingProducer and a RingConsumer belong to one thread each.
//
// Invariants:
//  1. 0 <= tail - head <= capacity, or the peer broke it: kProtocol, and the connection is over.
//  2. Nothing outside the ring's memory is read or written, whatever the peer writes into it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rpc/base/error.h"

namespace weft::rpc {

constexpr std::size_t kCacheLine = 64;

// At the beginning of a ring's memory; the data follows.
struct RingControl {
  alignas(kCacheLine) std::atomic<std::uint32_t> tail;  // the producer's
  alignas(kCacheLine) std::atomic<std::uint32_t> head;  // the consumer's
  std::atomic<std::uint32_t> reader_cpu;                // where it last waited, plus 1; a hint
  alignas(kCacheLine) std::atomic<std::uint32_t> reader_waits;
  alignas(kCacheLine) std::atomic<std::uint32_t> writer_waits;
  std::atomic<std::uint32_t> tsan_number;  // used under ThreadSanitizer alone (ring.cc)
};
static_assert(sizeof(RingControl) == 4 * kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Bytes of memory that a ring of `capacity` takes.
[[nodiscard]] constexpr std::size_t ring_bytes(std::size_t capacity) {
  return sizeof(RingControl) + capacity;
}

class RingProducer {
 public:
  // Memory of ring_bytes(capacity) zero bytes at a cache line. Precondition: capacity is a power of
  // two from 4 cache lines to 2^30.
  RingProducer(std::byte* memory, std::size_t capacity);

  // The largest record there can be.
  [[nodiscard]] std::size_t max_record() const { return capacity_ / 2 - sizeof(std::uint32_t); }
  // Writes one record of all parts; false when there is no room now. Precondition: at most
  // max_record() bytes.
  [[nodiscard]] Result<bool> push(std::span<const std::span<const std::byte>> parts);
  // The processor on which the consumer last waited, plus 1; 0: it has not.
  [[nodiscard]] std::uint32_t reader_cpu() const {
    return control_->reader_cpu.load(std::memory_order_relaxed);
  }
  // After push(): whether the consumer sleeps, and is to be woken.
  [[nodiscard]] bool must_ring();
  // After push() said false: asks to be woken when there is room. False: look again, there may be.
  [[nodiscard]] bool may_sleep(std::size_t record_bytes);

 private:
  [[nodiscard]] Result<std::uint32_t> used() const;

  RingControl* control_;
  std::byte* data_;
  std::uint32_t capacity_;
  std::uint32_t tail_ = 0;
};

class RingConsumer {
 public:
  RingConsumer(std::byte* memory, std::size_t capacity);

  // The next record's size; nullopt when there is none.
  [[nodiscard]] Result<std::optional<std::size_t>> peek();
  // Copies part of the record that peek() found. Precondition: within its size.
  void copy(std::size_t offset, std::span<std::byte> out) const;
  // Done with that record: its room is the producer's.
  void pop();
  // After pop(): whether the producer waits for room, and is to be woken.
  [[nodiscard]] bool must_ring();
  // Whether anything is there, cheaply and unchecked; for polling.
  [[nodiscard]] bool looks_empty() const {
    return control_->tail.load(std::memory_order_acquire) == head_;
  }
  // After peek() found nothing: asks to be woken for the next record. False: look again.
  [[nodiscard]] bool may_sleep();
  void waits_on(unsigned cpu) { control_->reader_cpu.store(cpu + 1, std::memory_order_relaxed); }
  // Awake: no bells are needed.
  void awake() { control_->reader_waits.store(0, std::memory_order_relaxed); }

 private:
  RingControl* control_;
  const std::byte* data_;
  std::uint32_t capacity_;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;  // of the record that peek() found
};

}  // namespace weft::rpc
