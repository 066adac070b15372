// What a page of the manual says of keys, so that a test can compare it with the code.
//
// A line that begins with "*" has one key or several: "*window* = _size_, 0 to 1 TiB (64 MiB)",
// or, of a policy, "*unit=*_SIZE_, 4KiB to 1GiB (1MiB)": what it takes, from where to where, and
// what holds when it is not given.
//
// A test that includes this is built with the definition WEFT_REPOSITORY, the repository's folder.
#pragma once

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

struct ManualKey {
  std::string name;        // "server.listen" below "# [server]", else as it stands there
  std::string form;        // what it takes: "_size_", "true | false"
  bool zero = false;       // "0 or ...": 0 besides what is from least to most
  std::string least;       // empty: the page has no range
  std::string most;        //
  std::string by_default;  // without quotes; empty: none. "required"
};

// A number as code has it: "1,000" is 1000; and a text without its quotes.
inline std::string plain(std::string text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789,") == std::string::npos;
  std::erase_if(text, [number](char c) { return c == '"' || (number && c == ','); });
  return text;
}

// The keys below a heading "# SECTION", or, of a TOML file, below all headings "# [table]".
inline std::vector<ManualKey> manual_keys(const std::string& page, std::string_view section = {}) {
  std::ifstream file(std::string(WEFT_REPOSITORY) + "/docs/man/" + page);
  if (!file) throw std::runtime_error("no page " + page);
  static const std::regex heading(R"(# \[+(\w+)\]+)");
  static const std::regex key(
      R"(\*([\w.]+)(?:\* = |=\*)(.*?)(?:, (0 or )?(\d[\d,]*(?: ?[A-Za-z]+)?))"
      R"( to (\d[\d,]*(?: ?[A-Za-z]+)?))?(?: \(([^()]*)\))?(?=$|, \*[\w.]+\* = ))");
  std::vector<ManualKey> keys;
  std::string prefix;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::smatch found;
    if (line.starts_with("# ")) {
      const bool table = std::regex_match(line, found, heading);
      prefix = table ? found[1].str() + "." : "";
      inside = section.empty() ? table : line.substr(2) == section;
      continue;
    }
    if (!inside || !line.starts_with('*')) continue;
    for (std::sregex_iterator one(line.begin(), line.end(), key), end; one != end; ++one) {
      const std::smatch& parts = *one;
      keys.push_back({.name = prefix + parts[1].str(),
                      .form = parts[2],
                      .zero = parts[3].matched,
                      .least = plain(parts[4]),
                      .most = plain(parts[5]),
                      .by_default = plain(parts[6])});
    }
  }
  return keys;
}

// The names, sorted.
inline std::vector<std::string> names_of(const std::vector<ManualKey>& keys) {
  std::vector<std::string> names;
  for (const ManualKey& key : keys) names.push_back(key.name);
  std::ranges::sort(names);
  return names;
}

// The words of a form: "auto", "on" and "off" of "\"auto\" | \"on\" | \"off\"". What is no word,
// "_N_", is left out.
inline std::vector<std::string> words_of(const std::string& form) {
  std::vector<std::string> words;
  std::istringstream parts(form);
  for (std::string part; std::getline(parts, part, '|');) {
    part = plain(part);
    std::erase(part, ' ');
    if (!part.contains('_')) words.push_back(part);
  }
  return words;
}

}  // namespace weft::test
