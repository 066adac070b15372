#include "ganesha-fsal/config/ganesha_clients.h"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace weft::mds {
namespace {

constexpr std::uint64_t kMostOf4 = 32;
// Ganesha reads two digits.
constexpr std::uint64_t kMostOf6 = 99;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "name.example", as Ganesha reads it: one that begins with a digit is none.
bool is_name(std::string_view text) {
  const auto fits = [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, fits);
}

bool is_address(int family, std::string_view text) {
  in6_addr address{};
  return ::inet_pton(family, std::string(text).c_str(), &address) == 1;
}

bool is_network(std::string_view address, std::string_view prefix) {
  const bool v4 = is_address(AF_INET, address);
  if (!v4 && !is_address(AF_INET6, address)) return false;
  const auto number = parse_conf_number(prefix);
  return !prefix.starts_with('0') && number && *number <= (v4 ? kMostOf4 : kMostOf6);
}

bool is_wildcard(std::string_view text) {
  const auto fits = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view(".-*?[]!").contains(c);
  };
  return text.find_first_of("*?[") != std::string_view::npos && std::ranges::all_of(text, fits);
}

constexpr std::string_view kAccessType = "Access_Type";
constexpr std::string_view kNobody = "NONE";

// Of an EXPORT. Ganesha lets nobody in where neither it nor EXPORT_DEFAULTS says who may.
std::string_view access_of(const ConfBlock& block, const ConfBlock& conf) {
  std::string_view access = value_of(block, kAccessType);
  const ConfBlock* const defaults = find_block(conf, "EXPORT_DEFAULTS");
  if (access.empty() && defaults != nullptr) access = value_of(*defaults, kAccessType);
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

std::string wrong_client(const ConfTerm& term) {
  const std::string_view text = term.text;
  if (const std::size_t slash = text.find('/'); !term.quoted && slash != std::string_view::npos) {
    if (is_network(text.substr(0, slash), text.substr(slash + 1))) return {};
    return fmt::format("must be an address and a prefix from /1 to /{}, of IPv6 to /{}", kMostOf4,
                       kMostOf6);
  }
  const bool good = !term.quoted && (is_name(text) || is_wildcard(text) ||
                                     is_address(AF_INET, text) || is_address(AF_INET6, text) ||
                                     (text.starts_with('@') && is_name(text.substr(1))));
  if (good) return {};
  return "must be an address, a network, a host's name, a wildcard or a @netgroup, without quotes";
}

std::vector<ConfStatement> client_hosts(const ConfBlock& conf) {
  std::vector<ConfStatement> hosts;
  for (const ConfBlock& block : conf.blocks) {
    for (const ConfBlock& client : block.blocks) {
      if (!same_name(client.name, "CLIENT")) continue;
      for (const ConfStatement& statement : client.statements) {
        if (!same_name(statement.name, "Clients")) continue;
        for (const ConfTerm& term : statement.terms) {
          if (is_name(term.text)) hosts.push_back({statement.name, statement.place, {term}});
        }
      }
    }
  }
  return hosts;
}

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

}  // namespace weft::mds
