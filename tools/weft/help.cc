#include "tools/weft/help.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::size_t kNames = 30;  // columns of names, before what is said of them

// Names that do not fit beside what is said of them have a line of their own.
std::string entry(const std::string& names, const std::string& text) {
  const std::string head = "  " + names;
  if (text.empty()) return head + "\n";
  if (columns(head) + 2 > kNames) return head + "\n" + wrapped(std::string(kNames, ' '), text);
  return wrapped(head + std::string(kNames - columns(head), ' '), text);
}

// Of a type with its checks, "UINT:INT in [1 - 3]", what stands for a value: "N".
std::string value_word(const std::string& type) {
  if (type.contains("BYTES")) return "SIZE";
  if (type.contains("DURATION")) return "DURATION";
  if (const std::size_t open = type.find('{'); open != std::string::npos) {
    std::string words = type.substr(open + 1, type.find('}', open) - open - 1);
    std::ranges::replace(words, ',', '|');
    return words;
  }
  constexpr std::array<std::string_view, 3> kNumbers = {"UINT", "INT", "FLOAT"};
  const std::string base = type.substr(0, type.find(':'));
  return std::ranges::find(kNumbers, base) == kNumbers.end() ? base : "N";
}

// Which values there may be: "1 to 3"; empty if nothing is said of that.
std::string range_text(const std::string& type) {
  if (const std::size_t open = type.rfind('['); open != std::string::npos) {
    std::string range = type.substr(open + 1, type.find(']', open) - open - 1);
    const std::size_t dash = range.find(" - ");
    return dash == std::string::npos ? range : range.replace(dash, 3, " to ");
  }
  const std::size_t open = type.rfind('(');
  if (open == std::string::npos) return "";
  std::string range = type.substr(open + 1, type.find(')', open) - open - 1);
  return range.contains(" to ") ? range : "";
}

// "(1 to 3; default 2)".
std::string terms(const CLI::Option& option, bool positional, const std::string& type) {
  std::vector<std::string> all;
  if (option.get_required() && !positional) all.emplace_back("required");
  if (std::string range = range_text(type); !range.empty()) all.push_back(std::move(range));
  if (const std::string value = option.get_default_str(); !value.empty()) {
    all.push_back("default " + value);
  }
  if (const std::string name = option.get_envname(); !name.empty()) all.push_back("or $" + name);
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? " (" : "; ") + one;
  return text.empty() ? text : text + ")";
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool positional) const {
  const std::string type = option->get_type_size() == 0 ? "" : option->get_type_name();
  std::string names = make_option_name(option, positional);
  if (!positional && !type.empty()) names += " " + value_word(type);
  if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) names += "...";
  return entry(names, option->get_description() + terms(*option, positional, type));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

}  // namespace weft::cli
