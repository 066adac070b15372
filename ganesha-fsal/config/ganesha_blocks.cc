#include "ganesha-fsal/config/ganesha_blocks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/config/ganesha_clients.h"
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

// "-2" where less than 0 is taken; "~0", all bits of 32 or of 64, where not.
bool is_in_range(const GaneshaKey& key, std::string_view text) {
  const char sign = text.empty() ? ' ' : text.front();
  if (sign == '-' || sign == '~') text.remove_prefix(1);
  const auto number = parse_conf_number(text);
  if (!number) return false;
  if (sign == '-') return key.least < 0 && *number <= std::uint64_t(-key.least);
  if (sign == '~') {
    const auto fits = [&key](std::uint64_t bits) {
      return bits <= key.most && bits >= std::uint64_t(key.least);
    };
    if (key.least < 0) return false;
    return (*number <= kMost32 && fits(~*number & kMost32)) ||
           (key.most > kMost32 && fits(~*number));
  }
  return *number <= key.most && (key.least < 0 || *number >= std::uint64_t(key.least));
}

std::string number_text(const GaneshaKey& key) {
  if (key.least == 0 && key.most == 0) return "must be 0";
  return fmt::format("must be a number{} from {} to {}, without quotes or a unit",
                     key.takes == GaneshaValue::kSeconds ? " of seconds" : "", key.least, key.most);
}

// Of a value's term; empty: nothing is wrong with it.
std::string what_is_wrong(const GaneshaKey& key, const ConfTerm& term) {
  switch (key.takes) {
    case GaneshaValue::kText: return {};
    case GaneshaValue::kClients: return wrong_client(term);
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
    const ConfStatement* const before = find_statement(block, statement.name);
    if (before != &statement && key->takes != GaneshaValue::kClients) {
      return conf_error(statement.place, fmt::format("{} was given in line {} already", key->name,
                                                     before->place.line));
    }
  }
  return {};
}

Result<> check_required(const GaneshaBlock& known, const ConfBlock& block) {
  for (const std::string_view required : known.required) {
    const ConfStatement* const found = find_statement(block, required);
    if (found == nullptr || found->terms.empty()) {
      return conf_error(block.place,
                        fmt::format("{} is not set, in the {} block", required, known.name));
    }
  }
  return {};
}

// Of those that stand beside each other.
Result<> check_once(const GaneshaBlock& known, std::span<const ConfBlock> beside,
                    const ConfBlock& block) {
  if (known.many) return {};
  const auto before = std::ranges::find_if(
      beside, [&block](const ConfBlock& one) { return same_name(one.name, block.name); });
  if (&*before == &block) return {};
  return conf_error(block.place, fmt::format("a block {} stands in line {} already", known.name,
                                             before->place.line));
}

std::string no_block(const GaneshaBlock& known, const ConfBlock& inner) {
  const std::string_view near = nearest_of(known.blocks, inner.name);
  return fmt::format("{} has no block {}{}{}", known.name, inner.name,
                     near.empty() ? "" : "; the nearest there is: ", near);
}

Result<> check_block(const GaneshaBlock& known, const ConfBlock& block) {
  if (known.keys.empty()) return {};
  if (auto good = check_keys(known, block); !good) return good;
  for (const ConfBlock& inner : block.blocks) {
    const GaneshaBlock* const below = find(known.blocks, inner.name);
    if (below == nullptr) {
      return conf_error(inner.place, no_block(known, inner));
    }
    const bool empty = inner.statements.empty() && inner.blocks.empty();  // Ganesha passes over it
    auto good = empty ? Result<>() : check_block(*below, inner);
    if (good) good = check_once(*below, block.blocks, inner);
    if (!good) return good;
  }
  return check_required(known, block);
}

}  // namespace

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
    if (auto good = check_once(*known, conf.blocks, block); !good) return good;
  }
  return {};
}

}  // namespace weft::mds
