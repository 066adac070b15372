// Bulk data that comes behind a record's bytes and is not among them: what a channel left in the
// kernel, or memory (rpc/transport/received_record.h says whose). One of the two.
//
// Threading: a value.
#pragma once

#include <cstddef>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/base/piped_bytes.h"

namespace weft {

struct BulkApart {
  PipedBytes piped = {};
  std::vector<Buffer> lent = {};
  [[nodiscard]] std::size_t size() const {
    std::size_t bytes = piped.size();
    for (const Buffer& part : lent) bytes += part.size();
    return bytes;
  }
};

}  // namespace weft
