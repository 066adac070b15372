#include "tools/weft/key_status.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <ranges>

#include "rpc/xdr/describe_json.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

std::string title(const mds::ServerName& server) {
  if (server.id == 0) return "metadata server";
  return fmt::format("data server {} ({})", server.id, printable(server.name));
}

// What a server or target said.
struct Holder {
  std::string title;
  const std::vector<std::string>& keys;
  const std::string& why;
};

struct Holders {
  std::vector<Holder> all;
  bool targets = false;  // there are some
};

// Each data server's targets come behind it.
Holders holders_of(const mds::KeysReport& report) {
  Holders holders;
  for (const mds::ServerKeysReport& server : report.servers) {
    holders.all.push_back({title(server.server), server.keys, server.why});
    for (const mds::TargetKeysReport& target : server.targets) {
      holders.targets = true;
      holders.all.push_back({target.address.empty() ? "  targets, if it has some"
                                                    : "  target " + printable(target.address),
                             target.keys, target.why});
    }
  }
  return holders;
}

std::string text_of(const KeyState& state, const Holders& holders) {
  const std::size_t count = holders.all.size();
  std::string text = fmt::format("used by {}, accepted by {} of {} {}", state.used, state.accepted,
                                 count, holders.targets ? "servers and targets" : "servers");
  if (state.used == count) return text;
  text += state.may_be_used ? "; may be used" : "; not to be used yet";
  text += state.may_be_dropped ? ", may be dropped" : ", not to be dropped yet";
  return text;
}

}  // namespace

std::vector<KeyState> key_states(const mds::KeysReport& report) {
  std::vector<KeyState> states;
  const Holders holders = holders_of(report);
  const bool all_say =
      report.asks_targets &&
      std::ranges::none_of(holders.all, [](const Holder& holder) { return holder.keys.empty(); });
  for (const Holder& holder : holders.all) {
    for (const std::string& key : holder.keys) {
      auto at = std::ranges::find(states, key, &KeyState::key);
      if (at == states.end()) at = states.insert(at, KeyState{.key = key});
      ++at->accepted;
      if (key == holder.keys.front()) ++at->used;
    }
  }
  for (KeyState& state : states) {
    state.may_be_used = all_say && state.accepted == holders.all.size();
    state.may_be_dropped = all_say && state.used == 0;
  }
  return states;
}

std::string keys_text(const mds::KeysReport& report) {
  const Holders holders = holders_of(report);
  Table table({"SERVER", "USES", "ALSO ACCEPTS"}, {"SERVER"});
  bool all_say = true;
  std::string unknown;
  for (const Holder& holder : holders.all) {
    if (holder.keys.empty()) {
      all_say = false;
      table.add({holder.title, "-", "not known"});
      const std::string name = holder.title.substr(holder.title.find_first_not_of(' '));
      unknown += wrapped("", name + ": not known: " + printable(holder.why));
      continue;
    }
    std::string others;
    for (const std::string& key : holder.keys | std::views::drop(1)) {
      others += (others.empty() ? "" : ", ") + printable(key);
    }
    table.add({holder.title, printable(holder.keys.front()), others});
  }
  std::string text = table.text() + "\n" + unknown;
  const std::vector<KeyState> states = key_states(report);
  for (const KeyState& state : states) {
    text += wrapped(fmt::format("key {}: ", printable(state.key)), text_of(state, holders));
  }
  if (states.size() < 2) return text;
  if (!all_say) {
    text += wrapped("",
                    "as long as the keys of one are not known, no key is to be used or dropped: "
                    "start it, upgrade it, or, if it is gone for ever, take it out of the system "
                    "or configuration");
  }
  if (!report.asks_targets) {
    text += wrapped("",
                    "targets (weft-target) are not asked by a metadata server of this version, so "
                    "none may be used or dropped: upgrade it, or look at the targets' logs, which "
                    "say what they accept");
  }
  return text;
}

nlohmann::ordered_json keys_json(const mds::KeysReport& report) {
  Json document = to_json(report);
  document["keys"] = Json::array();
  for (const KeyState& state : key_states(report)) {
    document["keys"].push_back({{"key", state.key},
                                {"used", state.used},
                                {"accepted", state.accepted},
                                {"may_be_used", state.may_be_used},
                                {"may_be_dropped", state.may_be_dropped}});
  }
  return document;
}

}  // namespace weft::cli
