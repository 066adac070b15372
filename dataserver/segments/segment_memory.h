// Memory for a segment: of the process, not of the pool that clients' requests share.
//
// Threading: a pure function; `gone` is called by the thread that lets go of the last handle.
#pragma once

#include <cstdlib>
#include <functional>

#include "rpc/base/buffer.h"

namespace weft::ds {

// Begins at a page. Empty when there is none to be had.
[[nodiscard]] inline Buffer segment_memory(std::size_t bytes,
                                           std::move_only_function<void()> gone) {
  constexpr std::size_t kPage = 4096;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return {};
  return Buffer::foreign({static_cast<std::byte*>(memory), bytes},
                         [memory, gone = std::move(gone)]() mutable {
                           std::free(memory);
                           gone();
                         });
}

}  // namespace weft::ds
