#include "dataserver/main/config_fields.h"

#include <algorithm>

namespace weft::ds {

namespace {

using Field = TomlField;
using Kind = TomlField::Kind;
using Value = TomlField::Value;

}  // namespace

Field text_field(std::string key, std::string& into) {
  return {std::move(key), Kind::kText, [&into](const Value& value) -> Result<> {
            into = value.text;
            return {};
          }};
}

Field flag_field(std::string key, bool& into) {
  return {std::move(key), Kind::kBoolean, [&into](const Value& value) -> Result<> {
            into = value.boolean;
            return {};
          }};
}

Field seconds_field(std::string key, std::chrono::milliseconds& into, std::int64_t least,
                    std::int64_t most) {
  return {std::move(key), Kind::kNumber, [&into, least, most](const Value& value) -> Result<> {
            if (value.number < least || value.number > most) {
              return fail(Errc::kInvalid, fmt::format("must be from {} to {}", least, most));
            }
            into = std::chrono::seconds(value.number);
            return {};
          }};
}

Field addresses_field(std::string key, std::vector<layout::NetAddress>& into) {
  return {std::move(key), Kind::kTextList, [&into](const Value& value) -> Result<> {
            for (const std::string& text : value.list) {
              auto address = layout::parse_address(text);
              if (!address) {
                return fail(Errc::kInvalid,
                            fmt::format("'{}' is not a numeric address with a port", text));
              }
              into.push_back(*address);
            }
            return {};
          }};
}

Field mode_field(std::string key, IoMode& into) {
  return {std::move(key), Kind::kText, [&into](const Value& value) -> Result<> {
            if (value.text != "buffered" && value.text != "direct") {
              return fail(Errc::kInvalid, "must be \"buffered\" or \"direct\"");
            }
            into = value.text == "direct" ? IoMode::kDirect : IoMode::kBuffered;
            return {};
          }};
}

Field log_level_field(std::string key, std::string& into) {
  return {std::move(key), Kind::kText, [&into](const Value& value) -> Result<> {
            constexpr std::string_view kLevels[] = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};
            if (std::ranges::find(kLevels, value.text) == std::end(kLevels)) {
              return fail(Errc::kInvalid, "must be trace, debug, info, warn, error or off");
            }
            into = value.text;
            return {};
          }};
}

Field metrics_field(std::string key, std::optional<layout::NetAddress>& into) {
  return {std::move(key), Kind::kText, [&into](const Value& value) -> Result<> {
            auto address = layout::parse_address(value.text);
            if (!address) return fail(Errc::kInvalid, "must be a numeric address with a port");
            into = *address;
            return {};
          }};
}

}  // namespace weft::ds
