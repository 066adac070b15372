#include "ganesha-fsal/config/ganesha_blocks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/config/ganesha_tables.h"
#include "rpc/base/nearest.h"

namespace weft::mds {
namespace {

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

constexpr std::string_view kFlags[] = {"true", "false", "yes", "no", "on", "off"};

constexpr std::string_view kFsals[] = {"WEFT", "VFS", "MEM", "NULL", "MDCACHE", "PSEUDO"};

template <class Named>
const Named* find(std::span<const Named> known, std::string_view name) {
  const auto found =
      std::ranges::find_if(known, [name](const Named& one) { return same_name(one.name, name); });
  return found == known.end() ? nullptr : &*found;
}

template <class Named>
std::string_view nearest_of(std::span<const Named> known, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Named& one : known) names.push_back(one.name);
  return nearest(name, names);
}

bool is_any_of(std::span<const std::string_view> words, const ConfTerm& term) {
  return std::ranges::any_of(words,
                             [&term](std::string_view word) { return same_name(term.text, word); });
}

// "-2" where less than 0 is taken, "~0" where any 32 bits are.
bool is_in_range(const GaneshaKey& key, std::string_view text) {
  const char sign = text.empty() ? ' ' : text.front();
  if (sign == '-' || sign == '~') text.remove_prefix(1);
  const auto number = parse_conf_number(text);
  if (!number) return false;
  if (sign == '-') return key.least < 0 && *number <= std::uint64_t(-key.least);
  if (sign == '~') return key.least == 0 && key.most == kMost32 && *number <= kMost32;
  return *number <= key.most && (key.least < 0 || *number >= std::uint64_t(key.least));
}

std::string number_text(const GaneshaKey& key) {
  return fmt::format("must be a number{} from {} to {}, without quotes or a unit",
                     key.takes == GaneshaValue::kSeconds ? " of seconds" : "", key.least, key.most);
}

// Of a value's term; empty: nothing is wrong with it.
std::string what_is_wrong(const GaneshaKey& key, const ConfTerm& term) {
  switch (key.takes) {
    case GaneshaValue::kText:
    case GaneshaValue::kClients: return {};
    case GaneshaValue::kFlag:
      if (!term.quoted && is_any_of(kFlags, term)) return {};
      return "must be true or false, without quotes";
    case GaneshaValue::kNumber:
    case GaneshaValue::kSeconds:
      return !term.quoted && is_in_range(key, term.text) ? "" : number_text(key);
    case GaneshaValue::kWord:
    case GaneshaValue::kWords:
      if (is_any_of(key.words, term)) return {};
      return fmt::format("is no word that it takes; the nearest there is: {}",
                         nearest(term.text, key.words));
  }
  std::unreachable();
}

Result<> check_value(const GaneshaKey& key, const ConfStatement& statement) {
  const bool many = key.takes == GaneshaValue::kWords || key.takes == GaneshaValue::kClients;
  if (!many && statement.terms.size() > 1) {
    return conf_error(statement.place, fmt::format("{} takes one value", key.name));
  }
  for (const ConfTerm& term : statement.terms) {
    const std::string wrong = what_is_wrong(key, term);
    if (wrong.empty()) continue;
    return conf_error(statement.place, fmt::format("{} = {}: {}", key.name, term.text, wrong));
  }
  return {};
}

Result<> check_keys(const GaneshaBlock& known, const ConfBlock& block) {
  std::vector<GaneshaKey> keys(known.keys.begin(), known.keys.end());
  keys.insert(keys.end(), known.shared.begin(), known.shared.end());
  const std::span<const GaneshaKey> all(keys);
  for (const ConfStatement& statement : block.statements) {
    const GaneshaKey* const key = find(all, statement.name);
    if (key == nullptr) {
      return conf_error(statement.place,
                        fmt::format("{} has no parameter {}; the nearest there is: {}", known.name,
                                    statement.name, nearest_of(all, statement.name)));
    }
    if (auto good = check_value(*key, statement); !good) return good;
  }
  return {};
}

Result<> check_block(const GaneshaBlock& known, const ConfBlock& block) {
  if (known.keys.empty()) return {};
  if (auto good = check_keys(known, block); !good) return good;
  for (const ConfBlock& inner : block.blocks) {
    const GaneshaBlock* const below = find(known.blocks, inner.name);
    if (below == nullptr) {
      return conf_error(inner.place, fmt::format("{} has no block {}", known.name, inner.name));
    }
    if (auto good = check_block(*below, inner); !good) return good;
  }
  return {};
}

// Its only value; empty: it is not said.
std::string_view said(const ConfBlock& block, std::string_view name) {
  const auto found = std::ranges::find_if(
      block.statements, [name](const auto& one) { return same_name(one.name, name); });
  if (found == block.statements.end() || found->terms.size() != 1) return {};
  return found->terms.front().text;
}

constexpr std::string_view kAccessType = "Access_Type";
constexpr std::string_view kNobody = "NONE";

// Of an EXPORT. Ganesha lets nobody in where neither it nor EXPORT_DEFAULTS says who may.
std::string_view access_of(const ConfBlock& block, const ConfBlock& conf) {
  std::string_view access = said(block, kAccessType);
  for (const ConfBlock& other : conf.blocks) {
    if (access.empty() && same_name(other.name, "EXPORT_DEFAULTS")) {
      access = said(other, kAccessType);
    }
  }
  return access.empty() ? kNobody : access;
}

// It says nothing that an export with this access does not say anyway.
bool is_idle(const ConfBlock& client, std::string_view access) {
  return std::ranges::all_of(client.statements, [access](const ConfStatement& one) {
    return same_name(one.name, "Clients") ||
           (same_name(one.name, kAccessType) && one.terms.size() == 1 &&
            same_name(one.terms.front().text, access));
  });
}

}  // namespace

std::vector<std::string> idle_client_blocks(const ConfBlock& conf) {
  std::vector<std::string> found;
  for (const ConfBlock& block : conf.blocks) {
    if (!same_name(block.name, "EXPORT") && !same_name(block.name, "EXPORT_DEFAULTS")) continue;
    const std::string_view access = access_of(block, conf);
    if (same_name(access, kNobody)) continue;
    std::vector<const ConfBlock*> idle;
    for (const ConfBlock& client : block.blocks) {
      if (!same_name(client.name, "CLIENT")) continue;
      idle.push_back(&client);
      // The first block that has an address decides: those before this one keep it away from it.
      if (!is_idle(client, access)) idle.clear();
    }
    for (const ConfBlock* const client : idle) {
      found.push_back(
          conf_error(client->place,
                     fmt::format("CLIENT has no effect: with Access_Type = {} the {} lets every "
                                 "address mount. Where only some may, Access_Type = None stands in "
                                 "the {}, and Access_Type = {} in the CLIENT block",
                                 access, block.name, block.name, access))
              .error()
              .text);
    }
  }
  return found;
}

Result<> check_fsal_name(const ConfBlock& fsal) {
  const auto name = std::ranges::find_if(
      fsal.statements, [](const auto& one) { return same_name(one.name, "Name"); });
  if (name == fsal.statements.end() || name->terms.size() != 1) {
    return conf_error(fsal.place, "Name is not set, in the FSAL block");
  }
  const std::string& text = name->terms.front().text;
  const auto is = [&text](std::string_view one) { return same_name(text, one); };
  if (std::ranges::any_of(kFsals, is)) return {};
  return conf_error(name->place, fmt::format("Ganesha has no FSAL {}; the nearest there is: {}",
                                             text, nearest(text, kFsals)));
}

Result<> check_ganesha_blocks(const ConfBlock& conf) {
  if (!conf.statements.empty()) {
    const ConfStatement& first = conf.statements.front();
    return conf_error(first.place, fmt::format("{} stands in no block", first.name));
  }
  for (const ConfBlock& block : conf.blocks) {
    const GaneshaBlock* const known = find(ganesha_blocks(), block.name);
    if (known == nullptr) {
      return conf_error(block.place,
                        fmt::format("Ganesha has no block {}; the nearest there is: {}", block.name,
                                    nearest_of(ganesha_blocks(), block.name)));
    }
    if (auto good = check_block(*known, block); !good) return good;
  }
  return {};
}

}  // namespace weft::mds
