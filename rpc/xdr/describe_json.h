// Described records (describe.h) as JSON objects, in both directions.
//
// A field is a member of its name; an optional one without a value is left out. A record within
// another is an object within it, a list an array, an enumeration the text that to_string() gives
// for it. A reader refuses a member that is missing, of another type, out of range or too long;
// members that it does not know it leaves alone. So two versions understand each other as long as
// what the later one added is newer() (newer.h).
//
// JSON's texts are UTF-8; names of files may be any bytes. to_json() leaves a text as it is, so
// that who prints it decides. write_json() writes one that is no UTF-8 as an array of its bytes,
// and from_json() takes either: nothing is lost on the way.
//
// Threading: pure functions on values.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "rpc/xdr/describe.h"
#include "rpc/xdr/newer.h"

namespace weft {

using Json = nlohmann::ordered_json;

// The document in one line, without an end of line.
[[nodiscard]] std::string write_json(Json document);
// kProtocol unless `text` is one document whose arrays and objects are at most `depth` deep.
[[nodiscard]] Result<Json> parse_json(std::string_view text, int depth);

class JsonWriter {
 public:
  static constexpr bool kReads = false;

  template <class T>
  void operator()(const char* name, const T& field) {
    out_[name] = of(field);
  }
  template <class T>
  void operator()(const char* name, const T& field, AtMost) {
    first(out_[name], field, field.size(), SIZE_MAX);
  }
  template <class T>
  void operator()(const char* name, const T& field, CutAt rule) {
    first(out_[name], field, std::min(field.size(), rule.count), rule.each);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& field) {
    if (field) (*this)(name, *field);
  }
  template <class E>
  void operator()(const char* name, const E& field, Among<E>) {
    out_[name] = to_string(field);
  }
  template <class T>
  void operator()(const char* name, const T& field, Newer<Nothing>) {
    (*this)(name, field);
  }
  template <class T, class Rule>
  void operator()(const char* name, const T& field, Newer<Rule> newer) {
    (*this)(name, field, newer.rule);
  }
  void check(bool) {}

  [[nodiscard]] Json take() { return std::move(out_); }

 private:
  template <class T>
  static Json of(const T& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      return field;
    } else {
      JsonWriter writer;
      describe(writer, const_cast<T&>(field));  // which a writer does not change
      return writer.take();
    }
  }
  static void first(Json& out, const std::string& text, std::size_t count, std::size_t) {
    out = text.substr(0, count);
  }
  template <class T>
  static void first(Json& out, const std::vector<T>& list, std::size_t count, std::size_t each) {
    out = Json::array();
    for (const T& item : std::span(list).first(count)) {
      if constexpr (std::is_same_v<T, std::string>) {
        first(out.emplace_back(), item, each, 0);
      } else {
        out.push_back(of(item));
      }
    }
  }

  Json out_ = Json::object();
};

class JsonReader {
 public:
  static constexpr bool kReads = true;

  // Both must outlive the reader. `wrong`: the member that was refused first; empty: none was.
  JsonReader(const Json& in, std::string& wrong) : in_(in), wrong_(wrong) {}

  template <class T>
  void operator()(const char* name, T& field) {
    take(name, [&](const Json& in) { return get(in, field); });
  }
  template <class T>
  void operator()(const char* name, T& field, AtMost rule) {
    take(name, [&](const Json& in) { return get(in, field, rule); });
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& field) {
    field.reset();
    if (in_.contains(name)) (*this)(name, field.emplace());
  }
  template <class E>
  void operator()(const char* name, E& field, Among<E> rule) {
    take(name, [&](const Json& in) {
      std::string text;
      if (!get(in, text, at_most(kMaxName))) return false;
      for (auto value = std::to_underlying(rule.least); value <= std::to_underlying(rule.most);
           ++value) {
        if (to_string(static_cast<E>(value)) != text) continue;
        field = static_cast<E>(value);
        return true;
      }
      return false;
    });
  }
  template <class T>
  void operator()(const char* name, T& field, Newer<Nothing>) {
    if (in_.contains(name)) (*this)(name, field);
  }
  template <class T, class Rule>
  void operator()(const char* name, T& field, Newer<Rule> newer) {
    if (in_.contains(name)) (*this)(name, field, newer.rule);
  }
  void check(bool holds) {
    if (!holds && wrong_.empty()) wrong_ = "what it says together";
  }

 private:
  static constexpr std::size_t kMaxName = 64;  // of an enumeration's values

  template <class Get>
  void take(const char* name, Get get) {
    if (!wrong_.empty()) return;
    const auto found = in_.find(name);
    if ((found == in_.end() || !get(*found)) && wrong_.empty()) wrong_ = name;
  }
  template <class T>
  bool get(const Json& in, T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      if (in.is_boolean()) field = in.get<bool>();
      return in.is_boolean();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (in.is_number()) field = in.get<T>();
      return in.is_number();
    } else if constexpr (std::is_integral_v<T>) {
      return integer(in, field);
    } else {
      if (!in.is_object()) return false;
      JsonReader reader(in, wrong_);
      describe(reader, field);
      return wrong_.empty();
    }
  }
  template <class T>
  static bool integer(const Json& in, T& field) {
    if (in.is_number_unsigned() && std::in_range<T>(in.get<std::uint64_t>())) {
      field = static_cast<T>(in.get<std::uint64_t>());
      return true;
    }
    if (in.is_number_unsigned() || !in.is_number_integer()) return false;
    if (!std::in_range<T>(in.get<std::int64_t>())) return false;
    field = static_cast<T>(in.get<std::int64_t>());
    return true;
  }
  static bool get(const Json& in, std::string& text, AtMost rule);
  template <class T>
  bool get(const Json& in, std::vector<T>& list, AtMost rule) {
    if (!in.is_array() || in.size() > rule.count) return false;
    list.clear();
    for (const Json& item : in) {
      if constexpr (std::is_same_v<T, std::string>) {
        if (!get(item, list.emplace_back(), at_most(rule.each))) return false;
      } else {
        if (!get(item, list.emplace_back())) return false;
      }
    }
    return true;
  }

  const Json& in_;
  std::string& wrong_;
};

template <class Record>
[[nodiscard]] Json to_json(const Record& record) {
  JsonWriter writer;
  describe(writer, const_cast<Record&>(record));  // which a writer does not change
  return writer.take();
}
// kProtocol naming `what` and the member that is wrong.
template <class Record>
[[nodiscard]] Result<Record> from_json(const Json& in, std::string_view what) {
  Record record;
  std::string wrong;
  if (!in.is_object()) return fail(Errc::kProtocol, "malformed " + std::string(what));
  JsonReader reader(in, wrong);
  describe(reader, record);
  if (wrong.empty()) return record;
  return fail(Errc::kProtocol, "malformed " + std::string(what) + ": " + wrong);
}

}  // namespace weft
