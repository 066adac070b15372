#include "tools/weft/setup_options.h"

#include <memory>

#include "tools/weft/setup/setup.h"

namespace weft::cli {
namespace {

void add_prefix(CLI::App& command, std::string& prefix) {
  command
      .add_option("--prefix", prefix,
                  "Write everything below this folder and start nothing: to try it out")
      ->type_name("FOLDER");
}

}  // namespace

void add_setup(CLI::App& app, const Settings& settings, std::function<int()>& chosen) {
  const auto init = std::make_shared<InitOptions>();
  auto* first = app.add_subcommand("init", "Make this machine the metadata server of a new system");
  first->add_option("--copies", init->copies, "Copies of each file, at different data servers")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  first
      ->add_option("--address", init->address,
                   "Address or name of this machine for all others; that of the default route when "
                   "not given")
      ->type_name("ADDRESS");
  first
      ->add_option("--admin", init->admin,
                   "A client, or a network (192.0.2.0/24), where root stays root")
      ->type_name("CLIENT");
  add_prefix(*first, init->places.prefix);
  first->callback([&settings, &chosen, init] {
    chosen = [&settings, init] { return init_command(settings, *init); };
  });

  const auto token = std::make_shared<TokenOptions>();
  auto* another = app.add_subcommand("token", "Make a join token, good for 15 minutes");
  another->add_flag("--serve", token->serve,
                    "Give the key to who has a token: what weft-join.service runs");
  add_prefix(*another, token->places.prefix);
  another->callback([&settings, &chosen, token] {
    chosen = [&settings, token] { return token_command(settings, *token); };
  });

  const auto join = std::make_shared<JoinOptions>();
  auto* next = app.add_subcommand("join", "Make a disk of this machine a data server of a system");
  next->add_option("HOST", join->host, "The metadata server's machine")->required();
  next->add_option("TOKEN", join->token,
                   "As weft init or weft token printed it; - reads standard input")
      ->required();
  next->add_option("--disk", join->disk, "An empty directory, on a disk of its own")
      ->type_name("DIRECTORY")
      ->required();
  next->add_option("--domain", join->domain,
                   "What fails together with it, a rack; the machine when not given")
      ->type_name("DOMAIN");
  next->add_option("--name", join->name, "What people see; machine and directory when not given")
      ->type_name("NAME");
  next->add_option("--address", join->address,
                   "Where clients reach it, with a port or without; when not given that by which "
                   "HOST is reached, and the first free port from 2051")
      ->type_name("ADDRESS");
  add_prefix(*next, join->places.prefix);
  next->callback([&settings, &chosen, join] {
    chosen = [&settings, join] { return join_command(settings, *join); };
  });
}

}  // namespace weft::cli
