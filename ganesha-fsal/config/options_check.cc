#include "ganesha-fsal/config/options_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <span>
#include <variant>

#include "ganesha-fsal/config/ganesha_blocks.h"
#include "ganesha-fsal/config/ganesha_clients.h"
#include "ganesha-fsal/config/ganesha_exports.h"
#include "rpc/base/nearest.h"
#include "rpc/base/units.h"
#include "rpc/peer/keys.h"
#include "rpc/peer/resolve.h"

namespace weft::mds {
namespace {

struct Word {
  std::string_view text;
  std::uint32_t value;
};

#define WEFT_WORD(text, value) {text, value},
constexpr Word layout_kinds[] = {WEFT_LAYOUT_KINDS(WEFT_WORD)};
constexpr Word duplications[] = {WEFT_DUPLICATIONS(WEFT_WORD)};
constexpr Word reads[] = {WEFT_READS(WEFT_WORD)};
#undef WEFT_WORD

struct TextOption {
  std::size_t least, most;
  const char* by_default;
  char* weft_options::* field;
};
struct NumberOption {
  std::uint32_t least, most, by_default;
  std::uint32_t weft_options::* field;
};
struct AmountOption {
  weft_amount kind;
  std::uint32_t one;  // how much a number without a unit counts
  std::uint32_t least, most, by_default;
  std::uint32_t weft_options::* field;
};
struct FlagOption {
  bool by_default;
  bool weft_options::* field;
};
struct ChoiceOption {
  std::span<const Word> words;
  std::uint32_t by_default;
  std::uint32_t weft_options::* field;
};
struct Option {
  std::string_view name;
  std::variant<TextOption, NumberOption, AmountOption, FlagOption, ChoiceOption> kind;
};

#define WEFT_TEXT(name, least, most, by_default, field) \
  {name, TextOption{least, most, by_default, &weft_options::field}},
#define WEFT_NUMBER(name, least, most, by_default, field) \
  {name, NumberOption{least, most, by_default, &weft_options::field}},
#define WEFT_SECONDS_(name, least, most, by_default, field) \
  {name, AmountOption{WEFT_SECONDS, 1, least, most, by_default, &weft_options::field}},
#define WEFT_SIZE(name, one, least, most, by_default, field) \
  {name, AmountOption{WEFT_BYTES, one, least, most, by_default, &weft_options::field}},
#define WEFT_FLAG(name, by_default, field) {name, FlagOption{by_default, &weft_options::field}},
#define WEFT_CHOICE(name, words, by_default, field) \
  {name, ChoiceOption{words, by_default, &weft_options::field}},
const Option kOptions[] = {
    WEFT_OPTIONS(WEFT_TEXT, WEFT_NUMBER, WEFT_SECONDS_, WEFT_SIZE, WEFT_FLAG, WEFT_CHOICE)};
#undef WEFT_TEXT
#undef WEFT_NUMBER
#undef WEFT_SECONDS_
#undef WEFT_SIZE
#undef WEFT_FLAG
#undef WEFT_CHOICE

// What one FSAL block says.
struct Given {
  weft_options values{};                                   // but for texts
  std::map<std::string_view, const ConfStatement*> texts;  // by the option's name
};

Given defaults() {
  Given made;
  for (const Option& option : kOptions) {
    std::visit(
        [&]<class T>(const T& kind) {
          if constexpr (!std::is_same_v<T, TextOption>) made.values.*kind.field = kind.by_default;
        },
        option.kind);
  }
  return made;
}

std::string amount_text(const AmountOption& kind, std::uint32_t value) {
  if (kind.kind == WEFT_SECONDS) return fmt::format("{} s", value);
  return value == 0 ? "0" : bytes_text(std::uint64_t{value} * kind.one);
}

// As amount_text(), in the largest unit of which it is a whole number.
std::string bound_text(const AmountOption& kind, std::uint32_t value) {
  constexpr std::pair<std::uint32_t, const char*> kUnits[] = {
      {86400, "d"}, {3600, "h"}, {60, "min"}};
  for (const auto& [seconds, unit] : kUnits) {
    if (kind.kind != WEFT_SECONDS || value == 0 || value % seconds != 0) continue;
    return fmt::format("{} {}", value / seconds, unit);
  }
  return amount_text(kind, value);
}

// What a number without a unit is the number of.
std::string one_of(const AmountOption& kind) {
  if (kind.kind == WEFT_SECONDS) return "seconds";
  return kind.one == 1 ? "bytes" : bytes_text(kind.one).substr(2);
}

std::string list_of(std::span<const Word> words) {
  std::string list;
  for (const Word& word : words) {
    if (!list.empty()) list += &word == &words.back() ? " or " : ", ";
    list += word.text;
  }
  return list;
}

// Takes a statement's value over; what is wrong with it otherwise.
class Taker {
 public:
  Taker(const Option& option, const ConfStatement& statement, Given& into)
      : option_(option), statement_(statement), term_(statement.terms.front()), into_(into) {}

  Result<> operator()(const TextOption& kind) const {
    if (term_.text.size() < kind.least || term_.text.size() > kind.most) {
      return wrong(fmt::format("must have from {} to {} bytes", kind.least, kind.most));
    }
    into_.texts[option_.name] = &statement_;
    return {};
  }
  Result<> operator()(const NumberOption& kind) const {
    const auto number = term_.quoted ? std::nullopt : parse_conf_number(term_.text);
    if (!number || *number < kind.least || *number > kind.most) {
      return wrong(fmt::format("must be a number from {} to {}", kind.least, kind.most));
    }
    into_.values.*kind.field = static_cast<std::uint32_t>(*number);
    return {};
  }
  Result<> operator()(const AmountOption& kind) const {
    std::uint32_t& into = into_.values.*kind.field;
    if (weft_parse_amount(term_.text.c_str(), kind.kind, kind.one, kind.least, kind.most, &into)) {
      return {};
    }
    return wrong(fmt::format("must be {} to {}, or the number of {}", bound_text(kind, kind.least),
                             bound_text(kind, kind.most), one_of(kind)));
  }
  Result<> operator()(const FlagOption& kind) const {
    const auto is = [this](std::string_view word) { return same_name(term_.text, word); };
    const bool on = is("true") || is("yes") || is("on");
    if (term_.quoted || (!on && !is("false") && !is("no") && !is("off"))) {
      return wrong("must be true or false");
    }
    into_.values.*kind.field = on;
    return {};
  }
  Result<> operator()(const ChoiceOption& kind) const {
    const auto word = std::ranges::find_if(
        kind.words, [this](const Word& one) { return same_name(one.text, term_.text); });
    if (word == kind.words.end()) return wrong("must be " + list_of(kind.words));
    into_.values.*kind.field = word->value;
    return {};
  }

 private:
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view what) const {
    return conf_error(statement_.place, fmt::format("{} = {}: {}", option_.name, term_.text, what));
  }

  const Option& option_;
  const ConfStatement& statement_;
  const ConfTerm& term_;
  Given& into_;
};

std::unexpected<Error> unknown(const ConfPlace& place, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Option& option : kOptions) known.push_back(option.name);
  return conf_error(place, fmt::format("FSAL WEFT has no option {}; the nearest there is: {}", name,
                                       nearest(name, known)));
}

Result<> take(const ConfStatement& statement, Given& into) {
  const auto option = std::ranges::find_if(
      kOptions, [&](const Option& one) { return same_name(one.name, statement.name); });
  if (option == std::end(kOptions)) return unknown(statement.place, statement.name);
  if (statement.terms.size() != 1) {
    return conf_error(statement.place, fmt::format("{} takes one value", option->name));
  }
  return std::visit(Taker(*option, statement, into), option->kind);
}

constexpr std::string_view kAddresses[] = {"Control_Address", "Metrics_Address", "Status_Address"};

Result<> check_address(const Given& given, std::string_view option) {
  const auto found = given.texts.find(option);
  if (found == given.texts.end() || found->second->terms.front().text.empty()) return {};
  const std::string& text = found->second->terms.front().text;
  if (const auto good = rpc::peer::check_address(text); !good) {
    return conf_error(found->second->place, fmt::format("{}: {}", option, good.error().text));
  }
  return {};
}

Result<> check_path(const Given& given, std::string_view option, const ConfPlace& block,
                    bool required) {
  const auto found = given.texts.find(option);
  if (found == given.texts.end() || found->second->terms.front().text.empty()) {
    if (!required) return {};
    return conf_error(block, fmt::format("{} is not set, in the FSAL block", option));
  }
  const std::string& text = found->second->terms.front().text;
  if (text.starts_with('/')) return {};
  return conf_error(found->second->place,
                    fmt::format("{} = {}: must be an absolute path", option, text));
}

// What no option alone can show.
Result<> check_whole(const Given& given, const ConfBlock& block) {
  if (auto good = check_path(given, "Metadata_Path", block.place, true); !good) return good;
  if (auto good = check_path(given, "Key_File", block.place, true); !good) return good;
  if (auto good = check_path(given, "Admin_Socket", block.place, false); !good) return good;
  for (const std::string_view option : kAddresses) {
    if (auto good = check_address(given, option); !good) return good;
  }
  if (given.values.stripe_unit % layout::kStripeUnitMultiple != 0) {
    return conf_error(block.place, fmt::format("Stripe_Unit = {}: must be a multiple of 64 bytes",
                                               given.values.stripe_unit));
  }
  const auto fits = layout::check(export_policy(given.values), layout_type(given.values));
  return fits ? fits : conf_error(block.place, fits.error().text);
}

// What an export says of an option that is a text; without it, its default at the block's place.
ConfStatement said_of(const Given& given, std::string_view option, const ConfBlock& block) {
  if (const auto found = given.texts.find(option); found != given.texts.end()) {
    return *found->second;
  }
  const auto* known = std::ranges::find(kOptions, option, &Option::name);
  const char* by_default = std::get<TextOption>(known->kind).by_default;
  return {.name = std::string(option),
          .place = block.place,
          .terms = {{.text = by_default == nullptr ? "" : by_default, .quoted = true}}};
}

// Exports that share a store are one server, to data servers.
Result<> check_store(const Given& given, const ConfBlock& block, CheckedConf& checked) {
  auto& store = checked.stores[given.texts.at("Metadata_Path")->terms.front().text];
  for (const std::string_view option : {"Control_Address", "Key_File"}) {
    const ConfStatement said = said_of(given, option, block);
    const auto [first, fresh] = store.try_emplace(option, said);
    if (fresh || first->second.terms.front().text == said.terms.front().text) continue;
    return conf_error(said.place,
                      fmt::format("{} = {}: must be that of the other export with the same "
                                  "Metadata_Path, {} in line {}",
                                  option, said.terms.front().text, first->second.terms.front().text,
                                  first->second.place.line));
  }
  return {};
}

bool is_ours(const ConfBlock& block) {
  if (!same_name(block.name, "FSAL")) return false;
  const ConfStatement* name = find_statement(block, "Name");
  return name != nullptr && name->terms.size() == 1 && same_name(name->terms.front().text, "WEFT");
}

Result<> check_block(const ConfBlock& block, CheckedConf& checked) {
  Given given = defaults();
  for (const ConfStatement& statement : block.statements) {
    const ConfStatement* const before = find_statement(block, statement.name);
    if (before != &statement) {
      return conf_error(statement.place, fmt::format("{} was given in line {} already",
                                                     statement.name, before->place.line));
    }
    if (same_name(statement.name, "Name")) continue;
    if (auto taken = take(statement, given); !taken) return taken;
  }
  if (!block.blocks.empty()) {
    return conf_error(block.blocks.front().place,
                      fmt::format("FSAL WEFT has no block {}", block.blocks.front().name));
  }
  if (auto good = check_whole(given, block); !good) return good;
  if (auto good = check_store(given, block, checked); !good) return good;
  ++checked.exports;
  checked.keys.push_back(*given.texts.at("Key_File"));
  for (const std::string_view option : kAddresses) {
    const auto found = given.texts.find(option);
    if (found == given.texts.end() || found->second->terms.front().text.empty()) continue;
    checked.addresses.push_back(*found->second);
  }
  return {};
}

// In an EXPORT, or below other FSALs' blocks there.
Result<> check_below(const ConfBlock& block, CheckedConf& checked) {
  for (const ConfBlock& inner : block.blocks) {
    if (same_name(inner.name, "FSAL")) {
      if (auto named = check_fsal_name(inner); !named) return named;
    }
    if (auto good = is_ours(inner) ? check_block(inner, checked) : check_below(inner, checked);
        !good) {
      return good;
    }
  }
  return {};
}

// Nobody would read it elsewhere.
Result<> check_none_below(const ConfBlock& block, std::string_view outer) {
  for (const ConfBlock& inner : block.blocks) {
    if (is_ours(inner)) {
      return conf_error(inner.place,
                        fmt::format("FSAL WEFT stands in an EXPORT, not in {}", outer));
    }
    if (auto good = check_none_below(inner, outer); !good) return good;
  }
  return {};
}

// Of NFS_CORE_PARAM, which may stand in a file that is not read here.
Result<> check_core(const ConfBlock& conf, Ganesha is) {
  const ConfBlock* const core = find_block(conf, "NFS_CORE_PARAM");
  if (core == nullptr && conf.incomplete) return {};
  const auto said = [core](std::string_view name) {
    return core == nullptr ? nullptr : find_statement(*core, name);
  };
  const auto is_not = [&](const ConfStatement* found, const char* what) {
    const ConfPlace& block = core == nullptr ? conf.place : core->place;
    return conf_error(found == nullptr ? block : found->place, what);
  };
  // Ganesha has it on when nothing is said, and ends.
  const ConfStatement* const quotas = said("Enable_RQUOTA");
  const bool off = quotas != nullptr && is_flag(*quotas, false);
  if (!off && said("Rquota_Port") == nullptr) {
    return is_not(quotas,
                  "Enable_RQUOTA = false is not set, in NFS_CORE_PARAM: Ganesha takes port 875 "
                  "then, which the user weft may not (Rquota_Port sets another)");
  }
  // Ganesha marks its threads as those that free memory, if it may. One that runs is past that.
  const ConfStatement* const allowed = said("Allow_Set_Io_Flusher_Fail");
  const bool fails = allowed == nullptr || !is_flag(*allowed, true);
  if (fails && is == Ganesha::kToBeStarted) {
    return is_not(allowed,
                  "Allow_Set_Io_Flusher_Fail = true is not set, in NFS_CORE_PARAM: Ganesha ends "
                  "then, as the service does not have the capability CAP_SYS_RESOURCE");
  }
  return {};
}

// Ganesha tells no client of layouts without it.
Result<> check_pnfs(const ConfBlock& conf) {
  const ConfBlock* const block = find_block(conf, "NFSv4");
  if (block == nullptr && conf.incomplete) return {};
  if (block == nullptr) {
    return conf_error(conf.place, "PNFS_MDS = true is not set: there is no NFSv4 block");
  }
  const ConfStatement* const pnfs = find_statement(*block, "PNFS_MDS");
  if (pnfs == nullptr || pnfs->terms.empty()) {
    return conf_error(block->place, "PNFS_MDS = true is not set, in the NFSv4 block");
  }
  if (is_flag(*pnfs, true)) return {};
  return conf_error(pnfs->place,
                    fmt::format("PNFS_MDS = {}: must be true for FSAL WEFT; PNFS = false in its "
                                "block is for an export without layouts",
                                pnfs->terms.front().text));
}

}  // namespace

Result<CheckedConf> check_conf(const ConfBlock& conf, Ganesha is) {
  CheckedConf checked;
  for (const ConfBlock& block : conf.blocks) {
    if (same_name(block.name, "WEFT") || is_ours(block)) {
      return conf_error(block.place,
                        fmt::format("options of FSAL WEFT stand in an EXPORT's FSAL block, not in "
                                    "a block {}",
                                    block.name));
    }
  }
  if (auto good = check_ganesha_blocks(conf); !good) return pass(good);
  for (const ConfBlock& block : conf.blocks) {
    auto good = same_name(block.name, "EXPORT") ? check_below(block, checked)
                                                : check_none_below(block, block.name);
    if (!good) return pass(good);
  }
  if (checked.exports == 0) return checked;
  if (auto good = check_exports(conf); !good) return pass(good);
  if (auto good = check_pnfs(conf); !good) return pass(good);
  if (auto good = check_core(conf, is); !good) return pass(good);
  checked.hosts = client_hosts(conf);
  checked.warnings = idle_client_blocks(conf);
  for (std::string& one : exports_without_nfs4(conf)) checked.warnings.push_back(std::move(one));
  return checked;
}

Result<CheckedConf> check_conf_file(const std::string& path, Ganesha is) {
  auto conf = read_conf(path);
  if (!conf) return pass(conf);
  auto checked = check_conf(*conf, is);
  if (!checked) return checked;
  for (const ConfStatement& key : checked->keys) {
    if (const auto keys = rpc::peer::load_cluster_keys(key.terms.front().text); !keys) {
      return conf_error(key.place, "Key_File: " + keys.error().text);
    }
  }
  for (const ConfStatement& address : checked->addresses) {
    const auto resolved = rpc::peer::resolve_address(address.terms.front().text);
    if (!resolved) {
      const std::string text = address.name + ": " + resolved.error().text;
      return fail(resolved.error().code, conf_error(address.place, text).error().text);
    }
  }
  for (const ConfStatement& host : checked->hosts) {
    if (const auto known = rpc::peer::look_up(host.terms.front().text); !known) {
      const std::string text = host.name + ": " + known.error().text;
      return fail(known.error().code, conf_error(host.place, text).error().text);
    }
  }
  return checked;
}

namespace {

std::string text_of(const TextOption&, const char* value) { return value == nullptr ? "" : value; }
std::string text_of(const NumberOption&, std::uint32_t value) { return std::to_string(value); }
std::string text_of(const AmountOption& kind, std::uint32_t value) {
  return amount_text(kind, value);
}
std::string text_of(const FlagOption&, bool value) { return value ? "true" : "false"; }
std::string text_of(const ChoiceOption& kind, std::uint32_t value) {
  const auto word = std::ranges::find(kind.words, value, &Word::value);
  return word == kind.words.end() ? "" : std::string(word->text);
}

bool is_of_export(std::string_view name) {
  constexpr std::string_view kOwn[] = {"Layout_Type", "Stripe_Unit", "Stripe_Count", "Copies",
                                       "Duplication", "Reads",       "Inline",       "PNFS"};
  return std::ranges::find(kOwn, name) != std::end(kOwn);
}

}  // namespace

extern "C" bool weft_parse_amount(const char* text, weft_amount kind, std::uint32_t one,
                                  std::uint32_t least, std::uint32_t most, std::uint32_t* into) {
  const std::string_view all = text;
  const auto parsed = kind == WEFT_SECONDS ? parse_seconds(all) : parse_bytes(all);
  if (!parsed) return false;
  const bool plain = all.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!plain && *parsed % one != 0) return false;
  const auto amount = static_cast<std::uint64_t>(*parsed) / (plain ? 1 : one);
  if (amount < least || amount > most) return false;
  *into = static_cast<std::uint32_t>(amount);
  return true;
}

std::vector<OptionValue> option_values(const weft_options& options, OptionsOf whose) {
  std::vector<OptionValue> values;
  for (const Option& option : kOptions) {
    if (is_of_export(option.name) != (whose == OptionsOf::kExport)) continue;
    std::visit(
        [&](const auto& kind) {
          values.push_back(
              {option.name, text_of(kind, options.*kind.field), text_of(kind, kind.by_default)});
        },
        option.kind);
  }
  return values;
}

layout::Policy export_policy(const weft_options& options) {
  layout::Policy policy;
  if (options.stripe_count != 0) policy.stripes = options.stripe_count;
  policy.unit = options.stripe_unit;
  policy.copies = options.copies;
  if (options.duplication != WEFT_DUPLICATION_DEFAULT) {
    policy.duplication = static_cast<layout::Duplication>(options.duplication);
  }
  policy.reads = static_cast<layout::ReadPolicy>(options.reads);
  policy.inline_bytes = options.inline_bytes;
  return policy;
}

layout::LayoutType layout_type(const weft_options& options) {
  return options.layout_kind == WEFT_LAYOUT_FLEXFILES ? layout::LayoutType::kFlexFiles
                                                      : layout::LayoutType::kFiles;
}

}  // namespace weft::mds
