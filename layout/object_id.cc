#include "layout/object_id.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>

namespace weft::layout {

std::string to_string(const ObjectId& id) {
  char text[48];
  std::snprintf(text, sizeof text, "%" PRIx32 ".%016" PRIx64 ".%" PRIx32, id.fsid, id.fileid,
                id.generation);
  return text;
}

std::optional<ObjectId> parse_object_id(std::string_view text) {
  ObjectId id;
  const auto take = [&text](auto& into, char end) {
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), into, 16);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(at - text.data()));
    if (end == '\0') return text.empty();
    if (!text.starts_with(end)) return false;
    text.remove_prefix(1);
    return true;
  };
  const std::string_view whole = text;
  if (!take(id.fsid, '.') || !take(id.fileid, '.') || !take(id.generation, '\0')) return {};
  if (to_string(id) != whole) return {};
  return id;
}

}  // namespace weft::layout
