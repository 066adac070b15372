#include "rpc/base/streaming_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace weft {

void streaming_copy(std::byte* to, const std::byte* from, std::size_t size) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  if (size >= kStreamFrom) {
    const std::size_t first = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    std::memcpy(to, from, first);
    std::size_t at = first;
    for (; at + kLine <= size; at += kLine) {
      const auto* source = reinterpret_cast<const __m128i*>(from + at);
      auto* target = reinterpret_cast<__m128i*>(to + at);
      const __m128i a = _mm_loadu_si128(source);
      const __m128i b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2);
      const __m128i d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();  // such stores are not ordered with others otherwise
    std::memcpy(to + at, from + at, size - at);
    return;
  }
#endif
  if (size > 0) std::memcpy(to, from, size);
}

}  // namespace weft
