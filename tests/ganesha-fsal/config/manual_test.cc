// docs/man/fsal-weft.8.scd says what ganesha-fsal/config/options.h has, and the policies of
// docs/man/weft.1.scd what layout/policy.h has.
#include "tests/manual.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "ganesha-fsal/config/options_check.h"
#include "layout/policy.h"
#include "rpc/base/units.h"

namespace weft::mds {
namespace {

// An option as the page is to have it.
struct Listed {
  std::string name;
  std::string form;
  std::uint64_t least = 0;  // bytes, seconds, or of what it counts; of texts, flags, words neither
  std::uint64_t most = 0;
  std::vector<std::string> words;
};

#define WEFT_WORD(text, value) text,
const std::vector<std::string> layout_kinds = {WEFT_LAYOUT_KINDS(WEFT_WORD)};
const std::vector<std::string> duplications = {WEFT_DUPLICATIONS(WEFT_WORD)};
const std::vector<std::string> reads = {WEFT_READS(WEFT_WORD)};
#undef WEFT_WORD

#define WEFT_TEXT(name, least, most, by_default, field) {name, "text"},
#define WEFT_NUMBER(name, least, most, by_default, field) {name, "_number_", least, most},
#define WEFT_SECONDS_(name, least, most, by_default, field) {name, "_duration_", least, most},
#define WEFT_SIZE(name, one, least, most, by_default, field) \
  {name, "_size_", std::uint64_t{one} * (least), std::uint64_t{one} * (most)},
#define WEFT_FLAG(name, by_default, field) {name, "true | false"},
#define WEFT_CHOICE(name, words, by_default, field) {name, "words", 0, 0, words},
const std::vector<Listed> kListed = {
    WEFT_OPTIONS(WEFT_TEXT, WEFT_NUMBER, WEFT_SECONDS_, WEFT_SIZE, WEFT_FLAG, WEFT_CHOICE)};
#undef WEFT_TEXT
#undef WEFT_NUMBER
#undef WEFT_SECONDS_
#undef WEFT_SIZE
#undef WEFT_FLAG
#undef WEFT_CHOICE

bool is_amount(const Listed& option) { return option.form.starts_with('_'); }

std::int64_t amount(const Listed& option, const std::string& text) {
  return (option.form == "_duration_" ? parse_seconds(text) : parse_bytes(text)).value();
}

std::string default_of(std::string_view name) {
  // What is not said of it is left to the layout type.
  if (name == "Duplication") {
    return std::string(to_string(*layout::defaults_for(layout::LayoutType::kFiles).duplication));
  }
  const weft_options none{};
  for (const OptionsOf whose : {OptionsOf::kExport, OptionsOf::kServer}) {
    for (const OptionValue& option : option_values(none, whose)) {
      if (option.name == name) return option.by_default;
    }
  }
  return "no such option";
}

std::vector<std::string> sorted(std::vector<std::string> words) {
  std::ranges::sort(words);
  return words;
}

void check_option(const Listed& option, const test::ManualKey& key) {
  INFO(key.name << " = " << key.form);
  const std::string by_default = default_of(option.name);
  if (is_amount(option)) {
    CHECK(key.form == option.form);
    CHECK(amount(option, key.by_default) == amount(option, by_default));
    REQUIRE_FALSE(key.least.empty());
    CHECK(amount(option, key.least) == static_cast<std::int64_t>(option.least));
    CHECK(amount(option, key.most) == static_cast<std::int64_t>(option.most));
    CHECK_FALSE(key.zero);
    return;
  }
  CHECK(key.least.empty());
  CHECK((key.by_default == "required" ? "" : key.by_default) == by_default);
  if (option.form == "true | false") CHECK(key.form == option.form);
  if (option.form == "text") CHECK(key.form.contains('_'));
  if (option.form == "words") CHECK(sorted(test::words_of(key.form)) == sorted(option.words));
}

TEST_CASE("the manual has every option of the FSAL block, its default and its range") {
  const std::vector<test::ManualKey> keys = test::manual_keys("fsal-weft.8.scd", "OPTIONS");
  std::vector<std::string> names;
  for (const Listed& option : kListed) names.push_back(option.name);
  CHECK(test::names_of(keys) == sorted(names));
  for (const test::ManualKey& key : keys) {
    const auto option = std::ranges::find(kListed, key.name, &Listed::name);
    if (option != kListed.end()) check_option(*option, key);
  }
}

// What holds where nobody says anything, as the text of a policy.
std::string default_policy() {
  weft_options options{};
  options.layout_kind = WEFT_LAYOUT_FILES;
#define WEFT_TEXT(name, least, most, by_default, field)
#define WEFT_OTHER(name, least, most, by_default, field) options.field = by_default;
#define WEFT_SIZE(name, one, least, most, by_default, field) options.field = by_default;
#define WEFT_FLAG(name, by_default, field) options.field = by_default;
#define WEFT_CHOICE(name, words, by_default, field) options.field = by_default;
  WEFT_OPTIONS(WEFT_TEXT, WEFT_OTHER, WEFT_OTHER, WEFT_SIZE, WEFT_FLAG, WEFT_CHOICE)
#undef WEFT_TEXT
#undef WEFT_OTHER
#undef WEFT_SIZE
#undef WEFT_FLAG
#undef WEFT_CHOICE
  return to_string(
      layout::inherit(layout::defaults_for(layout_type(options)), export_policy(options)));
}

TEST_CASE("the manual has every key of a policy and its default") {
  std::string said;
  for (const test::ManualKey& key : test::manual_keys("weft.1.scd", "POLICIES")) {
    said += (said.empty() ? "" : " ") + key.name + "=" + key.by_default;
  }
  CHECK(said == default_policy());
}

TEST_CASE("a policy takes what the manual says, and nothing beyond") {
  const auto takes = [](const std::string& key, const std::string& value) {
    return layout::parse_policy(key + "=" + value).has_value();
  };
  for (const test::ManualKey& key : test::manual_keys("weft.1.scd", "POLICIES")) {
    INFO(key.name << "=" << key.form);
    for (const std::string& word : test::words_of(key.form)) CHECK(takes(key.name, word));
    CHECK_FALSE(takes(key.name, "other"));
    const bool has_number = key.form.contains("_N_") || key.form.contains("_SIZE_");
    REQUIRE(has_number != key.least.empty());
    if (!has_number) continue;
    // Sizes that differ from those of the range by what the key counts.
    const std::uint64_t step = key.name == "unit" ? layout::kStripeUnitMultiple : 1;
    const auto least = static_cast<std::uint64_t>(
        key.form.contains("_SIZE_") ? parse_bytes(key.least).value() : std::stoll(key.least));
    const auto most = static_cast<std::uint64_t>(
        key.form.contains("_SIZE_") ? parse_bytes(key.most).value() : std::stoll(key.most));
    CHECK(takes(key.name, fmt::format("{}", least)));
    CHECK(takes(key.name, fmt::format("{}", most)));
    CHECK_FALSE(takes(key.name, fmt::format("{}", most + step)));
    if (least > 0) CHECK_FALSE(takes(key.name, fmt::format("{}", least - step)));
  }
}

}  // namespace
}  // namespace weft::mds
