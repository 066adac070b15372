// token: makes join tokens, and serves them.
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

#include "layout/wildcard.h"
#include "rpc/base/clock.h"
#include "rpc/base/service_manager.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/join_server.h"
#include "tools/weft/setup/setup.h"
#include "tools/weft/setup/setup_texts.h"
#include "tools/weft/setup/tokens.h"

namespace weft::cli {
namespace {

constexpr const char* kUnit = "weft-join.service";

Result<MdsFacts> facts_of(const TokenOptions& options) {
  const std::string path = options.places.conf();
  auto conf = mds::read_conf(path);
  if (!conf && conf.error() == Errc::kNotFound) {
    return fail(Errc::kNotFound, path +
                                     " is not there: tokens are made on the metadata server's "
                                     "machine, after weft init");
  }
  if (!conf) return pass(conf);
  auto facts = mds_facts(*conf);
  if (!facts) return fail(facts.error().code, path + ": " + facts.error().text);
  return facts;
}

layout::NetAddress join_address(const MdsFacts& facts) {
  layout::NetAddress address = facts.control;
  address.port = kJoinPort;
  return address;
}

// How others name this machine.
std::string host_for_others(const MdsFacts& facts) {
  const auto own = own_address();
  return layout::ip_text(layout::is_wildcard(facts.control) && own ? *own : facts.control);
}

// What a data server gets, read anew for each.
Result<Joined> answer(const MdsFacts& facts) {
  auto keys = rpc::peer::load_cluster_keys(facts.key_file);
  if (!keys) return fail(Errc::kInternal, "the metadata server's machine cannot read its key file");
  auto text = read_text(facts.key_file);
  if (!text) return fail(Errc::kInternal, "the metadata server's machine cannot read its key file");
  text->resize(std::min(text->size(), kMaxJoinKeys));  // as much as is read as keys
  return Joined{.mds = layout::to_string(facts.control), .keys = std::move(*text)};
}

rpc::peer::ClusterKeys secrets_of(const TokenFile& file) {
  rpc::peer::ClusterKeys secrets;
  const auto tokens = file.valid();
  if (!tokens) spdlog::error("event=no_tokens why=\"{}\"", tokens.error().describe());
  if (!tokens) return secrets;
  for (const Token& token : *tokens) {
    if (auto secret = token_secret(token.text)) secrets.push_back(*secret);
  }
  return secrets;
}

int serve(const TokenOptions& options) {
  const auto facts = facts_of(options);
  if (!facts) return complain(facts.error().text);
  const TokenFile file(options.places.tokens(), boottime_clock());
  if (secrets_of(file).empty()) {
    return complain("no token is valid: weft token makes one, and starts this");
  }
  JoinServer server({.listen = join_address(*facts),
                     .secrets = [&file] { return secrets_of(file); },
                     .answer = [&facts] { return answer(*facts); }});
  if (auto started = server.start(); !started) return complain(started.error().describe());
  spdlog::flush_on(spdlog::level::info);
  spdlog::info("event=takes_tokens address={}", layout::to_string(server.address()));
  tell_service_manager("READY=1\nSTATUS=gives the cluster key to who has a valid token");
  while (!secrets_of(file).empty()) std::this_thread::sleep_for(std::chrono::seconds(1));
  server.stop();
  spdlog::info("event=tokens_expired");
  return kExitGood;
}

// Listens already, or does from now on; what to start where services are not systemd's.
Result<std::string> start_serving(const TokenOptions& options) {
  if (has_systemd(options.places)) {
    const auto begun = std::chrono::system_clock::now();
    auto started = run_program({"systemctl", "start", kUnit}, std::chrono::seconds(30));
    if (!started) return pass(started);
    if (started->status == 0) return std::string();
    return fail(Errc::kIo, fmt::format("{} does not start: {} (journalctl -u {})", kUnit,
                                       last_words(kUnit, begun), kUnit));
  }
  const std::string& prefix = options.places.prefix;
  return as_service(options.places,
                    "weft token --serve" + (prefix.empty() ? "" : " --prefix " + prefix));
}

}  // namespace

Result<Invitation> invite(const TokenOptions& options) {
  if (auto may = check_root(options.places); !may) return pass(may);
  auto facts = facts_of(options);
  if (!facts) return pass(facts);
  if (auto keys = rpc::peer::load_cluster_keys(facts->key_file); !keys) return pass(keys);
  auto owner = service_owner(options.places);
  if (!owner) return pass(owner);
  if (auto made = make_folder(options.places.run(), *owner, 0755); !made) return pass(made);
  // Until the file has this one, too. Not lock_setup(): a join that waits for its token has that.
  auto lock = lock_folder(options.places.run());
  if (!lock) return pass(lock);
  auto token = TokenFile(options.places.tokens(), boottime_clock()).add(system_random(), *owner);
  if (!token) return pass(token);
  *lock = OwnedFd();
  auto start = start_serving(options);
  if (!start) return pass(start);
  return Invitation{.token = *token, .host = host_for_others(*facts), .start = *start};
}

int token_command(const Settings& settings, const TokenOptions& options) {
  if (options.serve) return serve(options);
  const auto invitation = invite(options);
  if (!invitation) return complain(invitation.error().text);
  if (settings.json) {
    print(Json{{"token", invitation->token},
               {"host", invitation->host},
               {"valid_ms", std::chrono::milliseconds(kTokenLife).count()},
               {"start", invitation->start}});
    return kExitGood;
  }
  if (!invitation->start.empty()) print("start this now: " + invitation->start + "\n");
  print(
      fmt::format("for 15 minutes, as root on each machine with disks:\n"
                  "  weft join {} {} --disk DIRECTORY --domain RACK\n",
                  invitation->host, invitation->token));
  return kExitGood;
}

}  // namespace weft::cli
