#include "rpc/xdr/describe_json.h"

namespace weft {
namespace {

bool is_utf8(const std::string& text) {
  // The library's own opinion, since it is what the text is written with.
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

void make_exact(Json& value) {
  if (value.is_structured()) {
    for (Json& item : value) make_exact(item);
  } else if (value.is_string() && !is_utf8(value.get_ref<const std::string&>())) {
    Json bytes = Json::array();
    for (const char c : value.get_ref<const std::string&>()) {
      bytes.push_back(static_cast<unsigned char>(c));
    }
    value = std::move(bytes);
  }
}

}  // namespace

std::string write_json(Json document) {
  make_exact(document);
  return document.dump();
}

Result<Json> parse_json(std::string_view text, int depth) {
  bool too_deep = false;
  // `at`: how many arrays and objects are around what was parsed. What is refused is dropped at
  // once, so that a deep document costs no more than it is long.
  const auto keep = [&](int at, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    too_deep = too_deep || (opens && at >= depth);
    return !too_deep;
  };
  Json document = Json::parse(text, keep, false);
  if (too_deep) return fail(Errc::kProtocol, "JSON that is too deep");
  if (document.is_discarded()) return fail(Errc::kProtocol, "no JSON");
  return document;
}

bool JsonReader::get(const Json& in, std::string& text, AtMost rule) {
  if (in.is_string()) {
    text = in.get_ref<const std::string&>();
    return text.size() <= rule.count;
  }
  if (!in.is_array() || in.size() > rule.count) return false;
  text.clear();
  for (const Json& byte : in) {
    std::uint8_t value = 0;
    if (!integer(byte, value)) return false;
    text += static_cast<char>(value);
  }
  return true;
}

}  // namespace weft
