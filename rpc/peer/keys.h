// The cluster key, and every key made from it.
//
// A system has one secret: 64 hexadecimal digits (32 random bytes) in a file of mode 0600, the same
// on the metadata server and on every data server. While it is being changed the file has two, a
// line each: the first is used, both are accepted. No message carries a key. Each use has a key of
// its own, derived with HMAC-SHA-256 under a label, so that nothing one use lets out helps another.
//
// Threading: plain values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/handle.h"
#include "rpc/base/error.h"

namespace weft::rpc::peer {

constexpr std::size_t kKeyBytes = 32;
using Key = std::array<std::byte, kKeyBytes>;

struct ClusterKey {
  Key bytes{};
  friend bool operator==(const ClusterKey&, const ClusterKey&) = default;
};

// The first is used, all are accepted. One or two.
using ClusterKeys = std::vector<ClusterKey>;
constexpr std::size_t kMostClusterKeys = 2;

// HMAC-SHA-256 (RFC 2104) of the parts one after the other.
[[nodiscard]] Key hmac(const Key& key, std::initializer_list<std::span<const std::byte>> parts);

// 64 hexadecimal digits, white space around them allowed. kInvalid otherwise.
[[nodiscard]] Result<ClusterKey> parse_cluster_key(std::string_view text);

// What a key file has: a key a line, empty lines allowed, none twice. kInvalid otherwise.
[[nodiscard]] Result<ClusterKeys> parse_cluster_keys(std::string_view text);

// Reads the key file. kAccess when others than its owner may read or write it, kNotFound, kInvalid.
[[nodiscard]] Result<ClusterKeys> load_cluster_keys(const std::string& path);

// Replaces a key file at once, and durably: whoever reads it finds the old keys or the new ones. It
// keeps its owner, and has mode 0600.
[[nodiscard]] Result<> replace_cluster_keys(const std::string& path, const ClusterKeys& keys);

[[nodiscard]] ClusterKey random_cluster_key();
// As a key file has it, with the line's end.
[[nodiscard]] std::string key_line(const ClusterKey& key);

// Makes a key file of mode 0600 with a random key. kExists when there is a file already.
[[nodiscard]] Result<ClusterKey> create_cluster_key(const std::string& path);

// The key for one use: HMAC(cluster key, "weft " label, a zero byte, context).
[[nodiscard]] Key derive(const ClusterKey& key, std::string_view label,
                         std::span<const std::byte> context = {});

// Tells keys apart, in logs and to people, and says nothing of the key itself. Not 0.
[[nodiscard]] std::uint64_t fingerprint(const ClusterKey& key);
// As 16 hexadecimal digits.
[[nodiscard]] std::string fingerprint_text(const ClusterKey& key);

// What data-server handles are sealed with, and the number that they carry: how that is made.
[[nodiscard]] layout::HandleKey handle_key(const ClusterKey& key);
constexpr std::uint16_t kHandleKeyId = 1;

}  // namespace weft::rpc::peer
