// What the metadata server's memory is spent on.
//
// Threading: plain values.
#pragma once

#include <cstdint>

namespace weft::mds {

// Sizes in bytes.
struct MemoryReport {
  std::uint64_t resident = 0;      // of its process, all that follows included
  std::uint64_t cache = 0;         // of the metadata store's tables
  std::uint64_t cache_pinned = 0;  // of that, what stays: filters and indexes of the newest tables
  std::uint64_t cache_most = 0;
  std::uint64_t opens = 0;        // by NFSv4 clients, of all exports
  std::uint64_t files = 0;        // in use: with layouts out, being written, repaired or in doubt
  std::uint64_t file_each = 0;    // that one takes at most, without layouts
  std::uint64_t layout_each = 0;  // that one which is out takes at most
};
template <class Io>
void describe(Io& io, MemoryReport& r) {
  io("resident_bytes", r.resident);
  io("store_cache_bytes", r.cache);
  io("store_cache_pinned_bytes", r.cache_pinned);
  io("store_cache_most_bytes", r.cache_most);
  io("opens", r.opens);
  io("files_in_use", r.files);
  io("bytes_for_each_file", r.file_each);
  io("bytes_for_each_layout", r.layout_each);
}

}  // namespace weft::mds
