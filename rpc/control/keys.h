// The cluster key, and every key made from it.
//
// A system has one secret: a file of 64 hexadecimal digits (32 random bytes), mode 0600, the same
// on the metadata server and on every data server. No message carries it. Each use has a key of its
// own, derived with HMAC-SHA-256 under a label, so that nothing one use lets out helps another.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "layout/handle.h"
#include "rpc/base/error.h"

namespace weft::rpc::control {

constexpr std::size_t kKeyBytes = 32;
using Key = std::array<std::byte, kKeyBytes>;

struct ClusterKey {
  Key bytes{};
};

// HMAC-SHA-256 (RFC 2104) of the parts one after the other.
[[nodiscard]] Key hmac(const Key& key, std::initializer_list<std::span<const std::byte>> parts);

// 64 hexadecimal digits, white space around them allowed. kInvalid otherwise.
[[nodiscard]] Result<ClusterKey> parse_cluster_key(std::string_view text);

// Reads the key file. kAccess when others than its owner may read or write it, kNotFound, kInvalid.
[[nodiscard]] Result<ClusterKey> load_cluster_key(const std::string& path);

// Makes a key file of mode 0600 with a random key. kExists when there is a file already.
[[nodiscard]] Result<ClusterKey> create_cluster_key(const std::string& path);

// The key for one use: HMAC(cluster key, "weft " label, a zero byte, context).
[[nodiscard]] Key derive(const ClusterKey& key, std::string_view label,
                         std::span<const std::byte> context = {});

// What data-server handles are sealed with, and the id of that key they carry.
[[nodiscard]] layout::HandleKey handle_key(const ClusterKey& key);
constexpr std::uint16_t kHandleKeyId = 1;

}  // namespace weft::rpc::control
