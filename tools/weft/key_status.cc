#include "tools/weft/key_status.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "rpc/xdr/describe_json.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

std::string title(const mds::ServerName& server) {
  if (server.id == 0) return "metadata server";
  return fmt::format("data server {} ({})", server.id, printable(server.name));
}

std::string text_of(const KeyState& state, std::size_t servers) {
  std::string text = fmt::format("key {}: used by {}, accepted by {} of {} servers", state.key,
                                 state.used, state.accepted, servers);
  if (state.used == servers) return text;
  text += state.may_be_used ? "; may be used" : "; not to be used yet";
  text += state.may_be_dropped ? ", may be dropped" : ", not to be dropped yet";
  return text;
}

}  // namespace

std::vector<KeyState> key_states(const mds::KeysReport& report) {
  std::vector<KeyState> states;
  const auto all_say = std::ranges::none_of(
      report.servers, [](const mds::ServerKeysReport& server) { return server.keys.empty(); });
  for (const mds::ServerKeysReport& server : report.servers) {
    for (const std::string& key : server.keys) {
      auto at = std::ranges::find(states, key, &KeyState::key);
      if (at == states.end()) at = states.insert(at, KeyState{.key = key});
      ++at->accepted;
      if (key == server.keys.front()) ++at->used;
    }
  }
  for (KeyState& state : states) {
    state.may_be_used = state.accepted == report.servers.size();
    state.may_be_dropped = all_say && state.used == 0;
  }
  return states;
}

std::string keys_text(const mds::KeysReport& report) {
  Table table({"SERVER", "USES", "ACCEPTS"});
  for (const mds::ServerKeysReport& server : report.servers) {
    std::string accepts;
    for (const std::string& key : server.keys) {
      accepts += (accepts.empty() ? "" : ", ") + printable(key);
    }
    if (server.keys.empty()) {
      table.add({title(server.server), "-", "not known: " + printable(server.why)});
    } else {
      table.add({title(server.server), printable(server.keys.front()), std::move(accepts)});
    }
  }
  std::string text = table.text() + "\n";
  const std::vector<KeyState> states = key_states(report);
  for (const KeyState& state : states) text += text_of(state, report.servers.size()) + "\n";
  if (states.size() > 1) {
    text += "targets (weft-target) are not asked: their logs say which keys they accept\n";
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
