// Copies of bulk data into memory that another process reads next.
//
// A copy that goes through the caches first reads the lines it is about to overwrite, and pushes
// out what else was there; the reader, on another processor, then has them fetched from this one.
// Stores that go past the caches spare all that. For small copies the caches are faster.
//
// Threading: pure functions. When one has returned, what it wrote is visible to whoever sees what
// this thread publishes afterwards.
#pragma once

#include <cstddef>

namespace weft {

constexpr std::size_t kStreamFrom = std::size_t{128} << 10;  // bytes

// As memcpy(3). Past the caches from kStreamFrom bytes on, on processors where that is known.
void streaming_copy(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace weft
