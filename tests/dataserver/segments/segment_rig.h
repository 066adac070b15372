// A SegmentStore over two stores in memory, and what reads a client asks for through it.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "dataserver/segments/segment_store.h"
#include "tests/dataserver/store/held_store.h"
#include "tests/dataserver/store/store_calls.h"

namespace weft::test {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct SegmentRig : StoreCalls {
  explicit SegmentRig(ds::SegmentOptions with = small()) : options(with) { restart(); }
  static ds::SegmentOptions small() {
    return {.size = 16 * kMiB, .cache_bytes = 16 * kMiB, .idle = std::chrono::seconds(1)};
  }
  ds::Store& any() override { return *segments; }

  // Nothing may be under way.
  void restart() {
    segments.reset();
    segments = std::make_unique<ds::SegmentStore>(store, partition, options,
                                                  [this] { return device_queue; });
    opened = wait<void>([&](auto done) { segments->open(std::move(done)); });
  }
  // As a client, strip by strip or otherwise.
  std::string client_reads(const layout::ObjectId& object, std::uint64_t offset,
                           std::uint32_t count = ds::kStrip, std::uint64_t client = 1) {
    segments->note_read(client, object, offset, count);
    return text(object, offset, count);
  }
  void client_reads_strips(const layout::ObjectId& object, const std::vector<std::uint64_t>& strips,
                           unsigned passes) {
    for (unsigned pass = 0; pass < passes; ++pass) {
      for (const std::uint64_t strip : strips) client_reads(object, strip * ds::kStrip);
    }
  }
  // Reads of the partition that are held, one or all, and what follows from them.
  void finish(std::size_t which) {
    partition.finish(which);
    run_ready();
  }
  void finish_all() {
    while (partition.held() > 0) finish(0);
  }
  // A second with nothing to do: what is in order to be written is.
  void idle_second() { segments->poll(); }
  // How often the stores are read for this.
  std::uint64_t reads_for(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
                          const std::string& expected) {
    const std::uint64_t before = store.reads;
    CHECK(text(object, offset, count) == expected);
    return store.reads - before;
  }
  [[nodiscard]] const ds::SegmentView& view() const { return segments->table().view(); }
  [[nodiscard]] std::size_t files() const { return partition.files.size(); }

  HeldStore store;
  HeldStore partition;
  std::uint64_t device_queue = 0;
  ds::SegmentOptions options;
  std::unique_ptr<ds::SegmentStore> segments;
  Result<> opened;
};

// Bytes of which each strip, and each part of it, is another.
inline std::string strips_of(std::uint64_t count, char salt = 'a') {
  std::string bytes(count * ds::kStrip, salt);
  for (std::size_t i = 0; i < bytes.size(); i += 97) {
    bytes[i] = static_cast<char>(salt + (i / ds::kStrip * 7 + i / 4096) % 20);
  }
  return bytes;
}

}  // namespace weft::test
