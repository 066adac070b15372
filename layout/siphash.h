// SipHash-2-4 with a 128-bit result: the MAC in data-server handles.
//
// libcrypto's implementation, one context for each thread and reused: about 95 ns for a handle on a
// machine where the smallest READ costs some microseconds.
//
// Threading: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace weft::layout {

using SipKey = std::array<std::byte, 16>;
using SipHash128 = std::array<std::byte, 16>;

// The process ends if libcrypto was built or configured without SipHash: nothing can be served.
[[nodiscard]] SipHash128 siphash128(const SipKey& key, std::span<const std::byte> bytes);

}  // namespace weft::layout
