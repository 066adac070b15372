#include "tools/weft/probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "rpc/base/buffer.h"

namespace weft::cli {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Chunk = std::unique_ptr<std::byte, Free>;

// O_DIRECT wants aligned memory.
Result<Chunk> aligned_chunk() {
  Chunk chunk(static_cast<std::byte*>(std::aligned_alloc(4096, kChunk)));
  if (!chunk) return fail(Errc::kBusy, "out of memory");
  return chunk;
}

// A pattern that differs in every eight bytes of the file.
void fill(std::byte* chunk, std::uint64_t offset) {
  for (std::size_t at = 0; at < kChunk; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = (offset + at) * 0x9E3779B97F4A7C15ULL + 0x57656674;
    std::memcpy(chunk + at, &word, sizeof word);
  }
}

Result<> write_out(int fd, std::byte* chunk, std::uint64_t bytes) {
  for (std::uint64_t offset = 0; offset < bytes; offset += kChunk) {
    fill(chunk, offset);
    std::span<const std::byte> left(chunk, std::min<std::uint64_t>(kChunk, bytes - offset));
    while (!left.empty()) {
      const ssize_t wrote = ::write(fd, left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return fail_errno(errno, "write");
      left = left.subspan(static_cast<std::size_t>(wrote));
    }
  }
  if (::fsync(fd) != 0) return fail_errno(errno, "fsync");
  return {};
}

Result<> read_back(int fd, std::byte* chunk, std::byte* expected, std::uint64_t bytes) {
  for (std::uint64_t offset = 0; offset < bytes;) {
    const ssize_t got = ::pread(fd, chunk, kChunk, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read");
    const auto want = std::min<std::uint64_t>(kChunk, bytes - offset);
    fill(expected, offset);
    if (static_cast<std::uint64_t>(got) != want || std::memcmp(chunk, expected, want) != 0) {
      return fail(Errc::kCorrupt,
                  "what was read at byte " + std::to_string(offset) + " is not what was written");
    }
    offset += want;
  }
  return {};
}

}  // namespace

Result<> probe(const std::string& folder, std::uint64_t bytes) {
  auto chunk = aligned_chunk();
  auto expected = aligned_chunk();
  if (!chunk) return pass(chunk);
  if (!expected) return pass(expected);
  std::string path = folder + "/.weft-verify.XXXXXX";
  OwnedFd out(::mkostemp(path.data(), O_CLOEXEC));
  if (!out) return fail_errno(errno, "create " + path);
  auto done = write_out(out.get(), chunk->get(), bytes);
  if (done) {
    OwnedFd in(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    done = in ? read_back(in.get(), chunk->get(), expected->get(), bytes)
              : Result<>(fail_errno(errno, "open " + path));
  }
  ::unlink(path.c_str());
  return done;
}

}  // namespace weft::cli
