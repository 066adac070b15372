// Reads a TOML file against a list of the keys there are.
//
// A key that is not in the list is an error that names file, line and the nearest key there is: a
// misspelt option must not silently be its default. So is a value of the wrong type or range.
//
// Threading: pure functions; read_toml_file() reads a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/error.h"

namespace weft::ds {

struct TomlField {
  // A value as it stands in the file: the one alternative that `kind` says is set.
  struct Value {
    std::string text;
    std::int64_t number = 0;
    bool boolean = false;
    std::vector<std::string> list;
  };
  enum class Kind { kText, kNumber, kBoolean, kTextList, kBytes };  // a list may be one string

  std::string key;  // "listen", or "section.key"
  Kind kind;        // kBytes: a number, or text like "64 MiB"; gives `number`
  // Takes the value over; an error's text says what is wrong with it.
  std::function<Result<>(const Value&)> set;
};

// kInvalid with "<name>:<line>: ..." for whatever is wrong first.
[[nodiscard]] Result<> read_toml(std::string_view text, const std::string& name,
                                 const std::vector<TomlField>& fields);
// The same of a file. kNotFound, kAccess, kIo.
[[nodiscard]] Result<> read_toml_file(const std::string& path,
                                      const std::vector<TomlField>& fields);

// "4096", "64 KiB", "1GiB". kInvalid otherwise, and beyond 2^62.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace weft::ds
