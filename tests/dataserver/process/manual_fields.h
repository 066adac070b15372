// Compares the manual's page of a TOML file with the keys that a program has.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "dataserver/process/toml_fields.h"
#include "rpc/base/units.h"
#include "tests/manual.h"

namespace weft::ds {

// With those of tables that there may be several of.
inline std::vector<TomlField> all_fields(std::vector<TomlField> fields) {
  std::vector<TomlField> all;
  for (TomlField& field : fields) {
    if (field.kind == TomlField::Kind::kTables) {
      for (TomlField& inner : field.begin()) all.push_back(std::move(inner));
    } else {
      all.push_back(std::move(field));
    }
  }
  return all;
}

// A number, size or duration as a file of the kind has it.
inline std::int64_t amount(TomlField::Kind kind, const std::string& text) {
  const auto parsed = kind == TomlField::Kind::kSeconds ? parse_seconds(text) : parse_bytes(text);
  return parsed.value();
}

inline bool takes(const TomlField& field, std::int64_t number) {
  return field.set({.number = number}).has_value();
}

// The field takes what is in the range, and nothing at its borders that is not.
inline void check_manual_range(const TomlField& field, const test::ManualKey& key) {
  REQUIRE_FALSE(key.least.empty());
  const std::int64_t least = amount(field.kind, key.least);
  const std::int64_t most = amount(field.kind, key.most);
  CHECK(takes(field, least));
  CHECK(takes(field, most));
  CHECK_FALSE(takes(field, least - 1));
  CHECK_FALSE(takes(field, most + 1));
  CHECK(takes(field, 0) == (key.zero || least == 0));
}

inline bool is_amount(TomlField::Kind kind) {
  return kind == TomlField::Kind::kNumber || kind == TomlField::Kind::kBytes ||
         kind == TomlField::Kind::kSeconds;
}

// What the page says a field takes is of its kind.
inline bool is_form(TomlField::Kind kind, const std::string& form) {
  switch (kind) {
    case TomlField::Kind::kNumber: return form == "_number_";
    case TomlField::Kind::kBytes: return form == "_size_";
    case TomlField::Kind::kSeconds: return form == "_duration_";
    case TomlField::Kind::kBoolean: return form == "true | false";
    case TomlField::Kind::kText: return form.starts_with('"');
    case TomlField::Kind::kTextList: return form.starts_with('[') || form.starts_with("\\[");
    case TomlField::Kind::kTables: return false;
  }
  return false;
}

inline void check_manual_default(const TomlField& field, const test::ManualKey& key) {
  const std::string by_default = field.show ? field.show() : "";
  if (key.by_default == "required") {
    CHECK(by_default.empty());
  } else if (is_amount(field.kind)) {
    CHECK(amount(field.kind, key.by_default) == amount(field.kind, by_default));
  } else {
    CHECK(key.by_default == by_default);
  }
}

// The field takes the words that the page has; and what it says when it refuses another one names
// none that the page has not.
inline void check_manual_words(const TomlField& field, const test::ManualKey& key) {
  const std::vector<std::string> words = test::words_of(key.form);
  for (const std::string& word : words) {
    INFO(word);
    CHECK(field.set({.text = word}).has_value());
  }
  if (words.empty() || key.form.contains('_')) return;
  const auto refused = field.set({.text = "other"});
  REQUIRE_FALSE(refused);
  std::string said = refused.error().text;
  std::ranges::replace_if(said, [](char c) { return c == '"' || c == ','; }, ' ');
  std::istringstream parts(said);
  for (std::string word; parts >> word;) {
    INFO(word);
    const bool plain = word == "must" || word == "be" || word == "or";
    CHECK((plain || std::ranges::find(words, word) != words.end()));
  }
}

// `fresh` and `other` are fields of two configurations of which nothing was read.
inline void check_manual(const std::string& page, std::vector<TomlField> fresh,
                         std::vector<TomlField> other) {
  const std::vector<TomlField> fields = all_fields(std::move(fresh));
  const std::vector<TomlField> probed = all_fields(std::move(other));
  const std::vector<test::ManualKey> keys = test::manual_keys(page);
  std::vector<std::string> names;
  for (const TomlField& field : fields) names.push_back(field.key);
  std::ranges::sort(names);
  CHECK(test::names_of(keys) == names);
  for (const test::ManualKey& key : keys) {
    INFO(page << ": " << key.name << " = " << key.form);
    const auto at = std::ranges::find(fields, key.name, &TomlField::key);
    if (at == fields.end()) continue;  // told above
    const TomlField& probe = probed[static_cast<std::size_t>(at - fields.begin())];
    CHECK(is_form(at->kind, key.form));
    check_manual_default(*at, key);
    if (is_amount(at->kind)) check_manual_range(probe, key);
    if (at->kind == TomlField::Kind::kText) check_manual_words(probe, key);
  }
}

}  // namespace weft::ds
