#include "rpc/base/payload_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rpc/base/assert.h"

namespace weft {

Result<> copy_payload(const Payload& payload, std::span<std::byte> out) {
  WEFT_ASSERT(out.size() == payload.size());
  std::size_t at = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    const std::size_t size = size_of(piece);
    std::size_t done = 0;
    if (const auto* buffer = std::get_if<Buffer>(&piece)) {
      std::copy(buffer->span().begin(), buffer->span().end(),
                out.begin() + static_cast<std::ptrdiff_t>(at));
      done = size;
    } else if (const auto* range = std::get_if<FileRange>(&piece)) {
      if (!payload.may_read_files()) return fail(Errc::kFenced, "the right to read it is gone");
      while (done < size) {
        const ssize_t n = ::pread(range->file->get(), out.data() + at + done, size - done,
                                  static_cast<off_t>(range->offset + done));
        if (n < 0) return fail_errno(errno, "read of a file range");
        if (n == 0) break;  // the file became shorter meanwhile: the rest reads as zeros
        done += static_cast<std::size_t>(n);
      }
    }
    std::ranges::fill(out.subspan(at + done, size - done), std::byte{0});
    at += size;
  }
  return {};
}

}  // namespace weft
