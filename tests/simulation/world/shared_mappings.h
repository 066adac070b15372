// Memory that programs share: mappings of files in memory. A program that has died writes into
// none: what is left of it has copies of its own.
//
// Threading: as scheduler.h.
#pragma once

#include <cstddef>

namespace weft::sim {

// The calling thread's machine has mapped it, or has given it up.
void mapped(void* address, std::size_t bytes, int protection, int fd);
void unmapped(void* address);
// The machine's programs have died.
void part_mappings(unsigned node);

}  // namespace weft::sim
