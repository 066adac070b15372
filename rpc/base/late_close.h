// Closing what may not let go: close(2) waits for the file system of a file, if that is one whose
// server does not answer (FUSE, NFS), and for the peer of a TCP socket that lingers.
//
// close_late() has a thread of its own do it, one descriptor after the other, for as long as it
// takes. Nobody waits for that thread, at the end of the process either. What it has not closed
// keeps its number: who takes descriptors from others is to bound how many there are
// (unclosed()).
//
// Threading: any thread.
#pragma once

#include <cstddef>

#include "rpc/base/buffer.h"

namespace weft {

void close_late(OwnedFd descriptor);
[[nodiscard]] std::size_t unclosed();

}  // namespace weft
