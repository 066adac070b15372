// Fields that the configurations of weft-ds and weft-target have in common: how a value of a kind
// is checked and where it goes.
//
// Threading: pure functions. Ownership: what is set by a field outlives it.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dataserver/process/toml_fields.h"
#include "dataserver/store/emulated_disk.h"
#include "dataserver/store/file_store.h"
#include "layout/net_address.h"

namespace weft::ds {

// Several values of a key, as they are shown.
template <class List>
[[nodiscard]] std::string list_text(const List& list) {
  std::string out;
  for (const auto& one : list) out += (out.empty() ? "" : ", ") + to_string(one);
  return out;
}

[[nodiscard]] TomlField text_field(std::string key, std::string& into);
[[nodiscard]] TomlField flag_field(std::string key, bool& into);
// In the units of its kind: "must be from 0 s to 10 min".
[[nodiscard]] Result<> check_range(std::int64_t value, std::int64_t least, std::int64_t most,
                                   TomlField::Kind kind);
[[nodiscard]] TomlField seconds_field(std::string key, std::chrono::milliseconds& into,
                                      std::int64_t least, std::int64_t most);
// How the text of an address is read. Programs take peer::resolve_address() when they start, which
// may wait for the resolver; the others ask nobody.
using ReadAddress = Result<layout::NetAddress> (*)(std::string_view text);
[[nodiscard]] Result<layout::NetAddress> numeric_address(std::string_view text);
// Looks at the form alone: a name stands for an address that is nobody's (RFC 5737). For a program
// that reads its file again while it serves, since no key with an address holds without a restart.
[[nodiscard]] Result<layout::NetAddress> unresolved_address(std::string_view text);
[[nodiscard]] TomlField addresses_field(std::string key, std::vector<layout::NetAddress>& into,
                                        ReadAddress read = &numeric_address);
// A list of addresses, those for RDMA by their scheme.
[[nodiscard]] TomlField transports_field(std::string key, std::vector<layout::NetAddress>& by_tcp,
                                         std::vector<layout::NetAddress>& rdma,
                                         ReadAddress read = &numeric_address);
constexpr std::string_view kRdmaScheme = "rdma://";
// "rdma://192.0.2.1", "rdma://[2001:db8::1]:20049"; the port is NFS/RDMA's if it is not given.
[[nodiscard]] Result<layout::NetAddress> parse_rdma_address(std::string_view text,
                                                            ReadAddress read = &numeric_address);
[[nodiscard]] TomlField mode_field(std::string key, IoMode& into);
[[nodiscard]] TomlField log_level_field(std::string key, std::string& into);
[[nodiscard]] TomlField metrics_field(std::string key, std::optional<layout::NetAddress>& into,
                                      ReadAddress read = &numeric_address);

// Bytes: 0, or from least to most.
[[nodiscard]] TomlField size_or_none_field(std::string key, std::uint64_t& into, std::int64_t least,
                                           std::int64_t most);
// cache.size: 0, or from BlockCache::kLeast on.
[[nodiscard]] TomlField cache_size_field(std::string key, std::size_t& into);

// store.emulated_disk.*: for benchmarks.
void add_emulated_disk_fields(std::vector<TomlField>& fields, EmulatedDiskOptions& into);

template <class T>
[[nodiscard]] std::string number_text(const T& value, TomlField::Kind kind) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (kind == TomlField::Kind::kBytes) return bytes_text(static_cast<std::uint64_t>(value));
    return fmt::format("{}", value);
  } else {
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(value).count());
  }
}

// T is a number, or a duration.
template <class T>
[[nodiscard]] TomlField number_field(std::string key, T& into, std::int64_t least,
                                     std::int64_t most,
                                     TomlField::Kind kind = std::is_arithmetic_v<T>
                                                                ? TomlField::Kind::kNumber
                                                                : TomlField::Kind::kSeconds) {
  return {std::move(key), kind,
          [&into, least, most, kind](const TomlField::Value& value) -> Result<> {
            if (auto good = check_range(value.number, least, most, kind); !good) return good;
            into = static_cast<T>(value.number);
            return {};
          },
          [&into, kind] { return number_text(into, kind); }};
}

}  // namespace weft::ds
