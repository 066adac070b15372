// Several buffers together: shared, and as writev(2) wants them.
//
// Threading: pure functions.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "rpc/base/buffer.h"

namespace weft::ds {

// The same bytes once more, of all that are not empty.
[[nodiscard]] std::vector<Buffer> share_all(std::span<const Buffer> data);
// Of all that are not empty; they point into the buffers.
[[nodiscard]] std::vector<iovec> vectors_of(std::span<const Buffer> data);
// What is left of them when the first `bytes` are done. Precondition: there are so many.
[[nodiscard]] std::span<iovec> advance(std::span<iovec> vectors, std::size_t bytes);

}  // namespace weft::ds
