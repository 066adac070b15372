#include "tools/weft/setup_options.h"

#include <memory>

#include "tools/weft/setup/setup.h"

namespace weft::cli {
namespace {

void add_prefix(CLI::App& command, std::string& prefix) {
  command.add_option("--prefix", prefix,
                     "Everything below this directory, and start nothing: to try it out");
}

}  // namespace

void add_setup(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto init = std::make_shared<InitOptions>();
  auto* first = app.add_subcommand("init", "Make this machine the metadata server of a new system");
  first->add_option("--copies", init->copies, "How many data servers have each file")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  first->add_option("--address", init->address, "This machine's, for all others");
  first->add_option("--admin", init->admin, "A client, or a network, where root is root");
  add_prefix(*first, init->places.prefix);
  first->callback([&settings, &chosen, init] {
    chosen = [&settings, init] { return init_command(settings, *init); };
  });

  const auto token = std::make_shared<TokenOptions>();
  auto* another = app.add_subcommand("token", "Let machines join, for 15 minutes");
  another->add_flag("--serve", token->serve, "Give them the key: what weft-join.service does");
  add_prefix(*another, token->places.prefix);
  another->callback([&settings, &chosen, token] {
    chosen = [&settings, token] { return token_command(settings, *token); };
  });

  const auto join = std::make_shared<JoinOptions>();
  auto* next = app.add_subcommand("join", "Make a disk of this machine a data server of a system");
  next->add_option("HOST", join->host, "The metadata server's machine")->required();
  next->add_option("TOKEN", join->token, "As weft init or weft token printed it; -: is read")
      ->required();
  next->add_option("--disk", join->disk, "An empty directory, of a disk of its own")->required();
  next->add_option("--domain", join->domain,
                   "What fails together with it, a rack; the machine when not given");
  next->add_option("--name", join->name, "Machine and directory when not given");
  next->add_option("--address", join->address,
                   "Where clients reach it; by which HOST is reached when not given");
  add_prefix(*next, join->places.prefix);
  next->callback([&settings, &chosen, join] {
    chosen = [&settings, join] { return join_command(settings, *join); };
  });
}

}  // namespace weft::cli
