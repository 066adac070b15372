// What a cache (store/block_cache.h) counts, for Prometheus, of a program whose names begin with
// `prefix`:
//
//   <prefix>_cache_hits_total, <prefix>_cache_misses_total   reads answered from memory, and others
//   <prefix>_cache_hit_bytes_total                           answered from memory
//   <prefix>_cache_filled_bytes_total                        kept of what was read
//   <prefix>_cache_evicted_bytes_total                       that others took the place of
//   <prefix>_cache_lost_total                                times that it was emptied, because the
//                                                            store beneath may have lost data
//   <prefix>_cache_bytes, <prefix>_cache_size_bytes          kept now, and at most
//
// And what an emulated disk (store/emulated_disk.h) counts of its own:
//
//   <prefix>_emulated_pages_found_total, <prefix>_emulated_pages_missed_total
//
// Threading: pure functions.
#pragma once

#include <string>

#include "dataserver/store/block_cache.h"
#include "dataserver/store/emulated_disk.h"
#include "rpc/base/metrics.h"

namespace weft::ds {

inline void write_cache_metrics(const CacheView& cache, const std::string& prefix, Metrics& out) {
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    out.counter((prefix + name).c_str(), help, value);
  };
  const auto gauge = [&](const char* name, const char* help, std::uint64_t value) {
    out.gauge((prefix + name).c_str(), help, value);
  };
  constexpr std::uint64_t kBlock = BlockCache::kBlock;
  counter("_cache_hits_total", "Reads answered from memory", cache.hits.load());
  counter("_cache_misses_total", "Reads that were not", cache.misses.load());
  counter("_cache_hit_bytes_total", "Bytes answered from memory", cache.hit_bytes.load());
  counter("_cache_filled_bytes_total", "Bytes kept of what was read",
          cache.filled_blocks.load() * kBlock);
  counter("_cache_evicted_bytes_total", "Bytes that others took the place of",
          cache.evictions.load() * kBlock);
  counter("_cache_lost_total", "Times it was emptied, as data may have been lost beneath it",
          cache.lost.load());
  gauge("_cache_bytes", "Bytes kept now", cache.blocks.load() * kBlock);
  gauge("_cache_size_bytes", "Bytes kept at most", cache.capacity_blocks * kBlock);
}

// Of an emulated disk's cache, pages: those that reads found there, and those the arm fetched.
inline void write_emulated_metrics(const EmulatedDisk& disk, const std::string& prefix,
                                   Metrics& out) {
  const EmulatedDisk::Counts counts = disk.counts();
  out.counter((prefix + "_emulated_pages_found_total").c_str(),
              "Pages of 4 KiB read that the emulated disk's cache had", counts.pages_found);
  out.counter((prefix + "_emulated_pages_missed_total").c_str(),
              "Pages of 4 KiB read that it had not", counts.pages_missed);
}

}  // namespace weft::ds
