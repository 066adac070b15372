#include "ganesha-fsal/config/ganesha_exports.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace weft::mds {
namespace {

const ConfStatement* find_in(const ConfBlock& conf, std::string_view block, std::string_view name) {
  const ConfBlock* const found = find_block(conf, block);
  return found == nullptr ? nullptr : find_statement(*found, name);
}

bool has(const ConfStatement& protocols, char version) {
  return std::ranges::any_of(
      protocols.terms, [version](const ConfTerm& term) { return term.text.ends_with(version); });
}

// What becomes of an EXPORT without Pseudo, which NFSv4 needs.
enum class WithoutPseudo : std::uint8_t { kServed, kByNfs3, kRefused };

// What the EXPORT does not say is as for all of them. Ganesha serves it by NFSv3 alone where NFSv4
// is not its own word, and clients mount by Path.
WithoutPseudo without_pseudo(const ConfBlock& exported, const ConfBlock& conf) {
  const ConfStatement* const own = find_statement(exported, "Protocols");
  const ConfStatement* const mounts = find_in(conf, "NFS_CORE_PARAM", "mount_path_pseudo");
  const bool by_pseudo = mounts != nullptr && is_flag(*mounts, true);
  if ((own != nullptr && has(*own, '4')) || by_pseudo) return WithoutPseudo::kRefused;
  const std::array<const ConfStatement*, 4> said{own, find_in(conf, "EXPORT_DEFAULTS", "Protocols"),
                                                 find_in(conf, "NFS_CORE_PARAM", "Protocols"),
                                                 find_in(conf, "NFS_CORE_PARAM", "NFS_Protocols")};
  const auto first = std::ranges::find_if(said, [](const auto* one) { return one != nullptr; });
  if (first == said.end()) return WithoutPseudo::kByNfs3;  // both, or it is not read here
  if (!has(**first, '4')) return WithoutPseudo::kServed;
  return has(**first, '3') ? WithoutPseudo::kByNfs3 : WithoutPseudo::kRefused;
}

constexpr std::string_view kNoPseudo =
    "Pseudo is not set, in the EXPORT block: clients do not find it by NFSv4";

Result<> check_paths(const ConfBlock& exported, const ConfBlock& conf) {
  for (const std::string_view name : {"Path", "Pseudo"}) {
    const std::string_view value = value_of(exported, name);
    if (value.empty() || value.starts_with('/')) continue;
    return conf_error(find_statement(exported, name)->place,
                      fmt::format("{} = {}: must be an absolute path", name, value));
  }
  if (!value_of(exported, "Pseudo").empty()) return {};
  if (without_pseudo(exported, conf) != WithoutPseudo::kRefused) return {};
  return conf_error(exported.place, kNoPseudo);
}

// What Ganesha has otherwise for the root of what clients see.
Result<> check_root(const ConfBlock& exported) {
  const ConfStatement* const number = find_statement(exported, "Export_id");
  if (parse_conf_number(number->terms.front().text) != 0) return {};
  const ConfStatement* const protocols = find_statement(exported, "Protocols");
  const bool is_root =
      value_of(exported, "Pseudo").find_first_not_of('/') == std::string_view::npos;
  if (is_root && protocols != nullptr && has(*protocols, '4')) return {};
  return conf_error(number->place,
                    "Export_id = 0: only of an EXPORT with Pseudo = \"/\" and Protocols = 4");
}

// As Ganesha compares it.
std::string told_by(std::string_view name, std::string_view value) {
  if (name == "Export_id") return std::to_string(parse_conf_number(value).value_or(0));
  while (name == "Pseudo" && value.size() > 1 && value.ends_with('/')) value.remove_suffix(1);
  return std::string(value);
}

}  // namespace

Result<> check_exports(const ConfBlock& conf) {
  constexpr std::string_view kOwn[] = {"Export_id", "Pseudo", "Tag"};
  std::map<std::pair<std::string_view, std::string>, int> lines;
  for (const ConfBlock& block : conf.blocks) {
    if (!same_name(block.name, "EXPORT")) continue;
    if (auto good = check_paths(block, conf); !good) return good;
    if (auto good = check_root(block); !good) return good;
    for (const std::string_view name : kOwn) {
      const std::string_view value = value_of(block, name);
      if (value.empty()) continue;
      const ConfPlace& place = find_statement(block, name)->place;
      const auto [first, fresh] = lines.try_emplace({name, told_by(name, value)}, place.line);
      if (fresh) continue;
      return conf_error(place, fmt::format("{} = {}: another EXPORT has it, in line {}", name,
                                           value, first->second));
    }
    if (find_block(block, "FSAL") == nullptr)
      return conf_error(block.place, "there is no FSAL block, in the EXPORT block");
  }
  return {};
}

std::vector<std::string> exports_without_nfs4(const ConfBlock& conf) {
  std::vector<std::string> found;
  for (const ConfBlock& block : conf.blocks) {
    if (!same_name(block.name, "EXPORT") || !value_of(block, "Pseudo").empty()) continue;
    if (without_pseudo(block, conf) != WithoutPseudo::kByNfs3) continue;
    found.push_back(conf_error(block.place, kNoPseudo).error().text);
  }
  return found;
}

}  // namespace weft::mds
