#include "dataserver/process/toml_fields.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include "rpc/base/log_text.h"
#include "rpc/base/nearest.h"
#include "rpc/base/toml.h"

namespace weft::ds {

namespace {

using Kind = TomlField::Kind;

std::string_view kind_text(Kind kind) {
  switch (kind) {
    case Kind::kText: return "a string";
    case Kind::kNumber: return "an integer";
    case Kind::kBoolean: return "true or false";
    case Kind::kTextList: return "a string or a list of strings";
    case Kind::kSeconds:
      return "a number of seconds, or a string like \"30 s\", \"5 min\", \"7 d\"";
    case Kind::kBytes: return "a size in bytes, or a string like \"64 MiB\"";
    case Kind::kTables: return "tables, each with its heading in double brackets";
  }
  return "something else";
}

// What may follow `prefix`, up to the next dot: "server", "mirror" after "".
std::set<std::string> names_below(const std::string& prefix, const std::vector<TomlField>& fields) {
  std::set<std::string> names;
  for (const TomlField& field : fields) {
    if (!field.key.starts_with(prefix)) continue;
    names.insert(
        field.key.substr(prefix.size(), field.key.find('.', prefix.size()) - prefix.size()));
  }
  return names;
}

// What the TOML library says has "\n" for a line feed that it found.
std::string one_line(std::string_view text) {
  std::string line = log_text(text);
  constexpr std::string_view kBackslash = "\\x5c";
  for (std::size_t at = 0; (at = line.find(kBackslash, at)) != std::string::npos; ++at) {
    line.replace(at, kBackslash.size(), "\\");
  }
  return line;
}

// A key, or a table, that may have been meant: one of the same table, or the same name in another.
// Empty if none of the tables is like it.
std::string nearest_key(const std::string& path, const std::vector<TomlField>& fields) {
  const std::string prefix = path.substr(0, path.rfind('.') + 1);
  const std::string word = path.substr(prefix.size());
  const std::set<std::string> names = names_below(prefix, fields);
  const std::string near(nearest(word, std::vector<std::string_view>(names.begin(), names.end())));
  if (near.starts_with(word)) return prefix + near;
  const auto elsewhere = std::ranges::find_if(
      fields, [&word](const TomlField& field) { return field.key.ends_with("." + word); });
  if (elsewhere != fields.end()) return elsewhere->key;
  return prefix.empty() && !is_near(word, near) ? "" : prefix + near;
}

class Reader {
 public:
  Reader(const std::string& name, const std::vector<TomlField>& fields)
      : name_(name), fields_(fields) {}

  [[nodiscard]] Result<> table(const toml::table& table, const std::string& prefix) const {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      const bool is_section = std::ranges::any_of(
          fields_, [&](const TomlField& field) { return field.key.starts_with(path + "."); });
      if (is_section && node.is_table()) {
        if (auto read = this->table(*node.as_table(), path + "."); !read) return read;
        continue;
      }
      const auto field = std::ranges::find(fields_, path, &TomlField::key);
      if (field == fields_.end()) return unknown(path, key.source());
      const bool many = field->kind == Kind::kTables;
      if (auto read = many ? tables(*field, node) : value(*field, node); !read) return read;
    }
    return {};
  }

  [[nodiscard]] std::unexpected<Error> wrong(const toml::source_region& where,
                                             const std::string& what,
                                             Errc code = Errc::kInvalid) const {
    return fail(code, fmt::format("{}:{}: {}", name_, where.begin.line, what));
  }

 private:
  [[nodiscard]] Result<> tables(const TomlField& field, const toml::node& node) const {
    if (!node.is_array_of_tables()) {
      return wrong(node.source(), fmt::format("{} must be {}", field.key, kind_text(field.kind)));
    }
    for (const toml::node& one : *node.as_array()) {
      const std::vector<TomlField> fields = field.begin();
      const Reader reader(name_, fields);
      if (auto read = reader.table(*one.as_table(), field.key + "."); !read) return read;
    }
    return {};
  }

  [[nodiscard]] Result<> value(const TomlField& field, const toml::node& node) const {
    TomlField::Value value;
    if (!take(field.kind, node, value)) {
      return wrong(node.source(), fmt::format("{} must be {}", field.key, kind_text(field.kind)));
    }
    if (auto set = field.set(value); !set) {
      return wrong(node.source(), fmt::format("{}: {}", field.key, set.error().text),
                   set.error().code);
    }
    return {};
  }

  [[nodiscard]] static bool take(Kind kind, const toml::node& node, TomlField::Value& value) {
    const auto* text = node.as_string();
    const auto* number = node.as_integer();
    if (text != nullptr) value.text = text->get();
    if (number != nullptr) value.number = number->get();
    switch (kind) {
      case Kind::kText: return text != nullptr;
      case Kind::kNumber: return number != nullptr;
      case Kind::kBoolean:
        if (const auto* boolean = node.as_boolean()) {
          value.boolean = boolean->get();
          return true;
        }
        return false;
      case Kind::kBytes:
      case Kind::kSeconds: {
        if (number != nullptr) return number->get() >= 0;
        if (text == nullptr) return false;
        const auto parsed =
            kind == Kind::kBytes ? parse_bytes(text->get()) : parse_seconds(text->get());
        if (parsed) value.number = *parsed;
        return parsed.has_value();
      }
      case Kind::kTextList: {
        if (text != nullptr) {
          value.list.push_back(text->get());
          return true;
        }
        const auto* list = node.as_array();
        if (list == nullptr) return false;
        for (const toml::node& element : *list) {
          const auto* item = element.as_string();
          if (item == nullptr) return false;
          value.list.push_back(item->get());
        }
        return true;
      }
      case Kind::kTables: return false;
    }
    return false;
  }

  [[nodiscard]] std::unexpected<Error> unknown(const std::string& path,
                                               const toml::source_region& where) const {
    const std::string near = nearest_key(path, fields_);
    if (!near.empty()) {
      return wrong(where, fmt::format("unknown key '{}'; the nearest there is: '{}'", path, near));
    }
    std::string all;
    for (const auto& name : names_below("", fields_)) all += (all.empty() ? "" : ", ") + name;
    return wrong(where, fmt::format("unknown key '{}'; there are: {}", path, all));
  }

  const std::string& name_;
  const std::vector<TomlField>& fields_;
};

void flatten(const toml::table& table, const std::string& prefix,
             std::map<std::string, std::string>& into) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, path + ".", into);
      continue;
    }
    std::ostringstream value;
    node.visit([&value](const auto& one) { value << one; });
    into[path] = value.str();
  }
}

}  // namespace

Result<> read_toml(std::string_view text, const std::string& name,
                   const std::vector<TomlField>& fields) {
  if (const auto odd = not_ascii(text); odd != text.end()) {
    const auto line = 1 + std::count(text.begin(), odd, '\n');
    return fail(Errc::kInvalid, name + ":" + std::to_string(line) + ": only ASCII is allowed");
  }
  const toml::parse_result parsed = toml::parse(text);
  const Reader reader(name, fields);
  if (!parsed) {
    return reader.wrong(parsed.error().source(), one_line(parsed.error().description()));
  }
  return reader.table(parsed.table(), "");
}

std::map<std::string, std::string> toml_values(std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  std::map<std::string, std::string> values;
  if (parsed) flatten(parsed.table(), "", values);
  return values;
}

Result<std::string> read_config_text(const std::string& path) {
  errno = 0;
  if (std::error_code none; std::filesystem::is_directory(path, none)) {
    return fail_errno(EISDIR, "open " + path);
  }
  const std::ifstream file(path);
  if (!file) return fail_errno(errno != 0 ? errno : EIO, "open " + path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return fail(Errc::kIo, "read " + path);
  return text.str();
}

}  // namespace weft::ds
