// Sizes and durations are the same words wherever they are said: in the files of data servers and
// targets, in Ganesha's file, as options of commands and in policies.
#include "tools/weft/units.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "dataserver/process/config_fields.h"
#include "ganesha-fsal/config/options.h"
#include "layout/policy.h"

namespace weft {
namespace {

enum class Of { kBytes, kSeconds };

// What of a file with this text, in quotes.
std::optional<std::int64_t> of_toml(Of what, const std::string& word) {
  std::int64_t into = -1;
  const auto kind =
      what == Of::kBytes ? ds::TomlField::Kind::kBytes : ds::TomlField::Kind::kSeconds;
  const auto read = ds::read_toml("key = \"" + word + "\"\n", "f.toml",
                                  {ds::number_field("key", into, 0, std::int64_t{1} << 62, kind)});
  return read ? std::optional(into) : std::nullopt;
}

std::optional<std::int64_t> of_fsal(Of what, const std::string& word) {
  std::uint32_t into = 0;
  const auto kind = what == Of::kBytes ? WEFT_BYTES : WEFT_SECONDS;
  if (!weft_parse_amount(word.c_str(), kind, 1, 0, UINT32_MAX, &into)) return std::nullopt;
  return into;
}

std::optional<std::int64_t> of_command(Of what, const std::string& word) {
  const CLI::Validator validator = what == Of::kBytes ? cli::bytes() : cli::seconds();
  std::string text = word;
  if (!validator(text).empty()) return std::nullopt;
  // A part of a second is for commands only.
  if (text.contains('.')) return std::nullopt;
  return std::stoll(text);
}

std::optional<std::int64_t> of_policy(const std::string& word) {
  const auto policy = layout::parse_policy("unit=" + word);
  return policy ? std::optional<std::int64_t>(*policy.value().unit) : std::nullopt;
}

struct Word {
  Of what;
  const char* text;
  std::optional<std::int64_t> means;
};

}  // namespace

TEST_CASE("units: one dialect") {
  const auto none = std::optional<std::int64_t>();
  const Word words[] = {{Of::kBytes, "4096", 4096},     {Of::kBytes, "4096B", 4096},
                        {Of::kBytes, "64K", 65536},     {Of::kBytes, "64KiB", 65536},
                        {Of::kBytes, "64 KiB", 65536},  {Of::kBytes, "1.5M", 3 << 19},
                        {Of::kBytes, "1GiB", 1 << 30},  {Of::kBytes, "0.1K", none},
                        {Of::kBytes, "64KB", none},     {Of::kBytes, "64k", none},
                        {Of::kBytes, "064K", none},     {Of::kBytes, "0x10000", none},
                        {Of::kBytes, "-64K", none},     {Of::kBytes, "", none},
                        {Of::kSeconds, "90", 90},       {Of::kSeconds, "90s", 90},
                        {Of::kSeconds, "90 s", 90},     {Of::kSeconds, "2000 ms", 2},
                        {Of::kSeconds, "5min", 300},    {Of::kSeconds, "1.5 h", 5400},
                        {Of::kSeconds, "7 d", 604800},  {Of::kSeconds, "1 y", 31536000},
                        {Of::kSeconds, "500 ms", none}, {Of::kSeconds, "5 m", none},
                        {Of::kSeconds, "010", none},    {Of::kSeconds, "2 w", none}};
  for (const Word& word : words) {
    INFO(word.text);
    CHECK(of_toml(word.what, word.text) == word.means);
    CHECK(of_fsal(word.what, word.text) == word.means);
    CHECK(of_command(word.what, word.text) == word.means);
    // Blanks end what a policy says of a key.
    const bool blank = std::string_view(word.text).contains(' ');
    if (word.what == Of::kBytes && !blank) CHECK(of_policy(word.text) == word.means);
  }
}

}  // namespace weft
