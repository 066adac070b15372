// Reads a TOML file against a list of the keys there are.
//
// A key that is not in the list is an error that names file, line and the nearest key there is: a
// misspelt option must not silently be its default. So is a value of the wrong type or range.
//
// Threading: pure functions; read_config_text() reads a file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/base/units.h"

namespace weft::ds {

struct TomlField {
  // A value as it stands in the file: the one alternative that `kind` says is set.
  struct Value {
    std::string text;
    std::int64_t number = 0;
    bool boolean = false;
    std::vector<std::string> list;
  };
  enum class Kind { kText, kNumber, kBoolean, kTextList, kBytes, kSeconds, kTables };

  std::string key;  // "listen", or "section.key"
  // kTextList: or one string. kBytes, kSeconds: a number, or text like "64 MiB", "5 min"; they give
  // `number`. kTables: any number of [[key]].
  Kind kind;
  // Takes the value over; an error's text says what is wrong with it.
  std::function<Result<>(const Value&)> set;
  // The value that holds, as a file may have it; empty: none. Null where nobody asks.
  std::function<std::string()> show = {};
  // kTables: makes one more, and returns the fields of that one, by "key.name"; instead of set().
  std::function<std::vector<TomlField>()> begin = {};
};

// kInvalid with "<name>:<line>: ..." for whatever is wrong first.
[[nodiscard]] Result<> read_toml(std::string_view text, const std::string& name,
                                 const std::vector<TomlField>& fields);

// What a file that read_toml() takes says, as it would be written, by key.
[[nodiscard]] std::map<std::string, std::string> toml_values(std::string_view text);
// The text of a file. kNotFound, kAccess, kIo.
[[nodiscard]] Result<std::string> read_config_text(const std::string& path);

}  // namespace weft::ds
