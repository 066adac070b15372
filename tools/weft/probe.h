// A little I/O through a mount, so that there is something to count.
//
// Threading: blocking; as slow as the file system is (a hard NFS mount whose server is away blocks
// for as long as that lasts).
#pragma once

#include <cstdint>
#include <string>

#include "rpc/base/error.h"

namespace weft::cli {

// Writes a new file of `bytes` bytes in `folder`, syncs it, reads it back from the servers (not
// from the page cache), compares, and removes it. kCorrupt when something else came back.
[[nodiscard]] Result<> probe(const std::string& folder, std::uint64_t bytes);

}  // namespace weft::cli
