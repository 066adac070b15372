#include "ganesha-fsal/files/policies.h"

#include <algorithm>

#include "rpc/base/log_limit.h"

namespace weft::mds {
namespace {

using layout::Policy;

Policy fitting(Policy policy, const layout::PlacementPolicy& options) {
  if (!check(Policy{.stripes = policy.stripes}, options.type)) policy.stripes.reset();
  if (!check(Policy{.duplication = policy.duplication}, options.type)) policy.duplication.reset();
  return policy;
}

// The keys of `policy` that are not in `keys` yet.
void add_keys(std::vector<PolicyKey>& keys, const Policy& policy, PolicyKey::From from,
              FileId dir = 0) {
  const std::string text = to_string(policy);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::size_t equals = text.find('=', at);
    PolicyKey one{text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1), from,
                  dir};
    at = end + 1;
    if (std::ranges::find(keys, one.key, &PolicyKey::key) == keys.end()) keys.push_back(one);
  }
}

// In the order in which policies are written.
void sort_as_written(std::vector<PolicyKey>& keys, const layout::PlacementPolicy& options) {
  std::vector<PolicyKey> order;
  add_keys(order, policy_of(options), PolicyKey::From::kExport);
  std::ranges::sort(keys, {}, [&](const PolicyKey& one) {
    return std::ranges::find(order, one.key, &PolicyKey::key) - order.begin();
  });
}

}  // namespace

Result<layout::PlacementPolicy> placement_for(const Namespace& names, FileId file,
                                              const layout::PlacementPolicy& options) {
  auto taken = names.policy(file);
  if (!taken) return pass(taken);
  if (*taken == Policy{}) return options;
  return placement_policy(inherit(policy_of(options), fitting(*taken, options)), options.type,
                          options);
}

Result<std::vector<PolicyKey>> policy_keys(const Namespace& names, const InodeAttributes& of,
                                           const layout::PlacementPolicy& options) {
  using From = PolicyKey::From;
  std::vector<PolicyKey> keys;
  if (of.type == FileType::kDirectory) {
    auto above = names.policies_above(of.id);
    if (!above) return pass(above);
    for (const auto& [dir, own] : *above) {
      add_keys(keys, fitting(own, options), From::kDirectory, dir);
    }
  } else if (of.type == FileType::kRegular) {
    auto map = names.layout(of.id);
    if (!map) return pass(map);
    if (*map) {
      add_keys(keys, policy_of(**map), From::kLayout);
      return keys;
    }
    auto taken = names.policy(of.id);
    if (!taken) return pass(taken);
    add_keys(keys, fitting(*taken, options), From::kMadeWith);
  } else {
    return fail(Errc::kWrongType, "policies are of directories and regular files");
  }
  add_keys(keys, policy_of(options), From::kExport);
  sort_as_written(keys, options);
  return keys;
}

Result<std::string> policy_text(const Namespace& names, const InodeAttributes& of,
                                const layout::PlacementPolicy& options) {
  auto keys = policy_keys(names, of, options);
  if (!keys) return pass(keys);
  std::string text;
  for (const PolicyKey& one : *keys) {
    text.append(text.empty() ? "" : " ").append(one.key).append("=").append(one.value);
  }
  return text;
}

Result<std::string> shown_policy(const Namespace& names, FileId file,
                                 const layout::PlacementPolicy& options) {
  auto attributes = names.getattr(file);
  if (!attributes) return pass(attributes);
  if (attributes->type == FileType::kRegular) return policy_text(names, *attributes, options);
  auto own = names.policy(file);
  if (!own) return pass(own);
  if (*own == Policy{}) return fail(Errc::kNotFound);
  return to_string(*own);
}

Result<> change_policy(Namespace& names, const Credentials& who, FileId file, std::string_view text,
                       Namespace::XattrHow how, const layout::PlacementPolicy& options) {
  auto now = shown_policy(names, file, options);
  if (!now && now.error() != Errc::kNotFound) return pass(now);
  if (now && how == Namespace::XattrHow::kCreate) return fail(Errc::kExists);
  if (!now && how == Namespace::XattrHow::kReplace) return fail(Errc::kNotFound);
  auto attributes = names.getattr(file);
  if (!attributes) return pass(attributes);
  if (!who.superuser && who.uid != attributes->uid) return fail(Errc::kPermission);
  if (attributes->type != FileType::kDirectory) {
    if (now && *now == text) return {};
    return fail(Errc::kPermission, "a file's policy is fixed when it is made");
  }
  auto set = set_policy(names, file, text, options);
  if (set) return {};
  static LogLimit& log = *new LogLimit;
  log.warn("policy refused dir={:x} uid={} error=\"{}\"", file, who.uid, set.error().describe());
  return pass(set);
}

Result<InodeAttributes> set_policy(Namespace& names, FileId dir, std::string_view text,
                                   const layout::PlacementPolicy& options) {
  auto policy = layout::parse_policy(text);
  if (!policy) return pass(policy);
  if (auto fine = check(*policy, options.type); !fine) return pass(fine);
  return names.set_policy(dir, *policy);
}

}  // namespace weft::mds
