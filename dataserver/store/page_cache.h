// What of a file is in the page cache.
//
// is_resident() is asked before a read is answered with a file range: what is resident goes to the
// socket without entering this process, what is not would make sendfile(2) wait for the disk on an
// I/O thread. The answer is a hint: it may be outdated at once, and then costs waiting, never
// correctness.
//
// Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::ds {

// Reads of so many bytes and more go from the page cache to the socket without entering this
// process; below, a copy costs less.
constexpr std::size_t kZeroCopyFrom = std::size_t{32} << 10;

// cachestat(2) where the kernel has it (6.5 and later); otherwise one byte in every 64 KiB is read
// with RWF_NOWAIT. Precondition: the range is within the file and not empty.
[[nodiscard]] bool is_resident(int fd, std::uint64_t offset, std::size_t size);

// Reads from `offset` on what is resident, and stops where that ends: how many bytes. Does not wait
// for the disk.
[[nodiscard]] std::size_t read_resident(int fd, std::uint64_t offset, std::span<std::byte> into);

}  // namespace weft::ds
