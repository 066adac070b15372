// A Payload's bytes in memory of the caller's.
//
// Threading: a pure function, but that it reads files.
#pragma once

#include <cstddef>
#include <span>

#include "rpc/base/buffer.h"

namespace weft {

// File ranges are read; where a file became shorter meanwhile there are zeros, as in holes.
// kFenced: they may not be read any more.
// Precondition: out.size() == payload.size().
[[nodiscard]] Result<> copy_payload(const Payload& payload, std::span<std::byte> out);

}  // namespace weft
