#include "dataserver/store/vectors.h"

#include <algorithm>

#include "rpc/base/assert.h"

namespace weft::ds {

std::vector<Buffer> share_all(std::span<const Buffer> data) {
  std::vector<Buffer> shared;
  shared.reserve(data.size());
  for (const Buffer& piece : data) {
    if (piece.empty()) continue;
    auto part = piece.share(0, piece.size());
    WEFT_ASSERT(part.has_value());
    shared.push_back(std::move(*part));
  }
  return shared;
}

std::vector<iovec> vectors_of(std::span<const Buffer> data) {
  std::vector<iovec> vectors;
  vectors.reserve(data.size());
  for (const Buffer& piece : data) {
    // An iovec serves reads too, and so cannot be of constant bytes.
    if (!piece.empty()) vectors.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  return vectors;
}

std::span<iovec> advance(std::span<iovec> vectors, std::size_t bytes) {
  while (bytes > 0) {
    iovec& front = vectors.front();
    const std::size_t step = std::min(bytes, front.iov_len);
    front.iov_base = static_cast<std::byte*>(front.iov_base) + step;
    front.iov_len -= step;
    bytes -= step;
    if (front.iov_len == 0) vectors = vectors.subspan(1);
  }
  return vectors;
}

}  // namespace weft::ds
