#include "dataserver/process/reload.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dataserver/process/toml_fields.h"

namespace weft::ds {
namespace {

std::map<std::string, std::string> values_of(const std::string& path) {
  const auto text = read_config_text(path);
  return text ? toml_values(*text) : std::map<std::string, std::string>{};
}

}  // namespace

Reloader::Reloader(std::string path, std::span<const std::string_view> keys)
    : path_(std::move(path)), keys_(keys), values_(values_of(path_)) {}

void Reloader::reload(const std::function<Result<>()>& apply) {
  if (auto applied = apply(); !applied) {
    spdlog::error("event=reload_refused why=\"{}\"", applied.error().text);
    return;
  }
  auto next = values_of(path_);
  std::set<std::string> known;
  for (const auto& [key, value] : values_) known.insert(key);
  for (const auto& [key, value] : next) known.insert(key);
  std::size_t changed = 0;
  for (const std::string& key : known) {
    const auto in = [&key](const auto& values) {
      const auto found = values.find(key);
      return found == values.end() ? std::string("default") : found->second;
    };
    const std::string before = in(values_);
    const std::string after = in(next);
    if (before == after) continue;
    ++changed;
    if (std::ranges::find(keys_, key) != keys_.end()) {
      spdlog::info("event=reloaded key={} from={} to={}", key, before, after);
    } else {
      spdlog::warn("event=reload_needs_restart key={} from={} to={}", key, before, after);
    }
  }
  values_ = std::move(next);
  if (changed == 0) spdlog::info("event=reloaded changed=0");
}

}  // namespace weft::ds
