#include "dataserver/process/config_fields.h"

#include <algorithm>

#include "dataserver/store/block_cache.h"
#include "rpc/peer/resolve.h"
#include "rpc/transport/rdma/header.h"

namespace weft::ds {

namespace {

using Field = TomlField;
using Kind = TomlField::Kind;
using Value = TomlField::Value;

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMaxMicroseconds = 1'000'000;

}  // namespace

Field text_field(std::string key, std::string& into) {
  return {std::move(key), Kind::kText,
          [&into](const Value& value) -> Result<> {
            into = value.text;
            return {};
          },
          [&into] { return into; }};
}

Field flag_field(std::string key, bool& into) {
  return {std::move(key), Kind::kBoolean,
          [&into](const Value& value) -> Result<> {
            into = value.boolean;
            return {};
          },
          [&into] { return std::string(into ? "true" : "false"); }};
}

namespace {

// In the largest unit of which it is a whole number.
std::string bound_text(std::int64_t bound, Kind kind) {
  constexpr std::pair<std::int64_t, const char*> kUnits[] = {
      {86400, "d"}, {3600, "h"}, {60, "min"}};
  if (kind == Kind::kBytes) return bytes_text(static_cast<std::uint64_t>(bound));
  if (kind != Kind::kSeconds) return std::to_string(bound);
  for (const auto& [one, unit] : kUnits) {
    if (bound != 0 && bound % one == 0) return fmt::format("{} {}", bound / one, unit);
  }
  return fmt::format("{} s", bound);
}

}  // namespace

Result<> check_range(std::int64_t value, std::int64_t least, std::int64_t most, Kind kind) {
  if (value >= least && value <= most) return {};
  return fail(Errc::kInvalid, fmt::format("must be from {} to {}", bound_text(least, kind),
                                          bound_text(most, kind)));
}

Field seconds_field(std::string key, std::chrono::milliseconds& into, std::int64_t least,
                    std::int64_t most) {
  return {std::move(key), Kind::kSeconds,
          [&into, least, most](const Value& value) -> Result<> {
            if (auto good = check_range(value.number, least, most, Kind::kSeconds); !good) {
              return good;
            }
            into = std::chrono::seconds(value.number);
            return {};
          },
          [&into] {
            return fmt::format("{} s",
                               std::chrono::duration_cast<std::chrono::seconds>(into).count());
          }};
}

Result<layout::NetAddress> numeric_address(std::string_view text) {
  auto address = layout::parse_address(text);
  if (address) return address;
  return fail(Errc::kInvalid, fmt::format("'{}' is not a numeric address with a port", text));
}

Result<layout::NetAddress> unresolved_address(std::string_view text) {
  if (auto numeric = layout::parse_address(text)) return numeric;
  if (auto good = rpc::peer::check_address(text); !good) return pass(good);
  return layout::parse_address("192.0.2.0" + std::string(text.substr(text.rfind(':'))));
}

Field addresses_field(std::string key, std::vector<layout::NetAddress>& into, ReadAddress read) {
  return {std::move(key), Kind::kTextList,
          [&into, read](const Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              auto address = read(text);
              if (!address) return pass(address);
              into.push_back(*address);
            }
            return {};
          },
          [&into] { return list_text(into); }};
}

Field transports_field(std::string key, std::vector<layout::NetAddress>& by_tcp,
                       std::vector<layout::NetAddress>& rdma, ReadAddress read) {
  return {std::move(key), Kind::kTextList,
          [&by_tcp, &rdma, read](const Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              const bool by_rdma = text.starts_with(kRdmaScheme);
              auto address = by_rdma ? parse_rdma_address(text, read) : read(text);
              if (!address) return pass(address);
              (by_rdma ? rdma : by_tcp).push_back(*address);
            }
            return {};
          },
          [&by_tcp, &rdma] {
            std::string text = list_text(by_tcp);
            for (const layout::NetAddress& address : rdma) {
              text += (text.empty() ? "" : ", ") + std::string(kRdmaScheme) + to_string(address);
            }
            return text;
          }};
}

Result<layout::NetAddress> parse_rdma_address(std::string_view text, ReadAddress read) {
  if (!text.starts_with(kRdmaScheme)) return fail(Errc::kInvalid, "not an address for RDMA");
  text.remove_prefix(kRdmaScheme.size());
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  if (bracketed || !text.contains(':')) {
    return read(fmt::format("{}:{}", text, rpc::rdma::kPort));
  }
  return read(text);
}

Field mode_field(std::string key, IoMode& into) {
  return {std::move(key), Kind::kText,
          [&into](const Value& value) -> Result<> {
            if (value.text != "buffered" && value.text != "direct") {
              return fail(Errc::kInvalid, "must be \"buffered\" or \"direct\"");
            }
            into = value.text == "direct" ? IoMode::kDirect : IoMode::kBuffered;
            return {};
          },
          [&into] { return std::string(into == IoMode::kDirect ? "direct" : "buffered"); }};
}

Field log_level_field(std::string key, std::string& into) {
  return {std::move(key), Kind::kText,
          [&into](const Value& value) -> Result<> {
            constexpr std::string_view kLevels[] = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};
            if (std::ranges::find(kLevels, value.text) == std::end(kLevels)) {
              return fail(Errc::kInvalid, "must be trace, debug, info, warn, error or off");
            }
            into = value.text;
            return {};
          },
          [&into] { return into; }};
}

Field metrics_field(std::string key, std::optional<layout::NetAddress>& into, ReadAddress read) {
  return {std::move(key), Kind::kText,
          [&into, read](const Value& value) -> Result<> {
            auto address = read(value.text);
            if (!address) return pass(address);
            into = *address;
            return {};
          },
          [&into] { return into ? layout::to_string(*into) : std::string(); }};
}

Field size_or_none_field(std::string key, std::uint64_t& into, std::int64_t least,
                         std::int64_t most) {
  return {std::move(key), Kind::kBytes,
          [&into, least, most](const Value& value) -> Result<> {
            if (value.number != 0 && (value.number < least || value.number > most)) {
              return fail(Errc::kInvalid, fmt::format("must be 0, or from {} to {}",
                                                      bound_text(least, Kind::kBytes),
                                                      bound_text(most, Kind::kBytes)));
            }
            into = static_cast<std::uint64_t>(value.number);
            return {};
          },
          [&into] { return bytes_text(into); }};
}

Field cache_size_field(std::string key, std::size_t& into) {
  constexpr std::int64_t kMost = std::int64_t{1} << 44;
  return size_or_none_field(std::move(key), into, static_cast<std::int64_t>(BlockCache::kLeast),
                            kMost);
}

void add_emulated_disk_fields(std::vector<TomlField>& fields, EmulatedDiskOptions& into) {
  const auto bytes = [&fields](const char* key, std::uint64_t& value) {
    fields.push_back(number_field(key, value, 0, kMaxBytes, TomlField::Kind::kBytes));
  };
  const auto microseconds = [&fields](const char* key, Nanoseconds& value) {
    fields.push_back(
        {key, TomlField::Kind::kNumber,
         [&value](const Value& given) -> Result<> {
           if (given.number < 0 || given.number > kMaxMicroseconds) {
             return fail(Errc::kInvalid, fmt::format("must be from 0 to {}", kMaxMicroseconds));
           }
           value = std::chrono::microseconds(given.number);
           return {};
         },
         [&value] {
           using std::chrono::microseconds;
           return fmt::format("{}", std::chrono::duration_cast<microseconds>(value).count());
         }});
  };
  bytes("store.emulated_disk.rate", into.rate);
  microseconds("store.emulated_disk.seek_us", into.seek);
  microseconds("store.emulated_disk.rotation_us", into.rotation);
  bytes("store.emulated_disk.capacity", into.capacity);
  bytes("store.emulated_disk.memory", into.memory);
  fields.push_back(number_field("store.emulated_disk.seed", into.seed, 0, kMaxBytes));
}

}  // namespace weft::ds
