// Is a range of a file in the page cache?
//
// Asked before a read is answered with a file range: what is resident goes to the socket without
// entering this process, what is not would make sendfile(2) wait for the disk on an I/O thread.
// The answer is a hint: it may be outdated at once, and then costs waiting, never correctness.
//
// Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::ds {

// cachestat(2) where the kernel has it (6.5 and later); otherwise one byte in every 64 KiB is read
// with RWF_NOWAIT. Precondition: the range is within the file and not empty.
[[nodiscard]] bool is_resident(int fd, std::uint64_t offset, std::size_t size);

}  // namespace weft::ds
