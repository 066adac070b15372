// weft: the command line of a Weft system. weft(1) says what each command is for.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <span>

#include "ganesha-fsal/admin/protocol.h"
#include "rpc/base/nearest.h"
#include "tools/weft/commands.h"
#include "tools/weft/help.h"
#include "tools/weft/observe.h"
#include "tools/weft/observe_options.h"
#include "tools/weft/output.h"
#include "tools/weft/plan_options.h"
#include "tools/weft/segments.h"
#include "tools/weft/setup_options.h"
#include "tools/weft/units.h"

namespace weft::cli {
namespace {

struct Arguments {
  Settings settings;
  std::string output = "table";
  std::string file;
  std::string path;
  std::vector<std::string> policy;
  std::string key_path;
  std::string key;
  std::string data_server;
  unsigned target = 0;
  bool yes = false;
  bool only_tell = false;
  bool dry_run = false;
  bool stop = false;
  unsigned percent = 5;
  VerifyOptions verify;
  BackupOptions backup;
  double watch_s = 0;           // 0: once
  std::function<int()> chosen;  // what to run once everything is parsed
};

// They may stand before or after the command.
void add_shared(CLI::App& app, Arguments& arguments) {
  app.add_option("--socket", arguments.settings.socket, "Admin socket of the metadata server")
      ->type_name("PATH")
      ->envname("WEFT_ADMIN_SOCKET")
      ->capture_default_str();
  app.add_option("-o,--output", arguments.output, "For people, or for programs")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.fallthrough();
  app.footer("--socket and --output may also stand behind a command. Manual: weft(1).");
}

void add_ds_accept(CLI::App& ds, Arguments& arguments) {
  auto* accept = ds.add_subcommand("accept", "Use one that is refused, with the store it has now");
  accept->add_option("DS", arguments.data_server, "Id or name, as weft ds list says")->required();
  accept->add_flag("--rolled-back", arguments.yes,
                   "Its store is an older state; what was written since is lost");
  accept->callback([&] {
    arguments.chosen = [&] {
      if (arguments.yes) {
        return maintain_command(arguments.settings, mds::admin::Accept{arguments.data_server});
      }
      return complain("what was written to data server " + arguments.data_server +
                      " since its store was copied is lost then, where no other data server has "
                      "it; say --rolled-back if that is meant");
    };
  });
}

void add_ds_maintenance(CLI::App& ds, Arguments& arguments) {
  add_ds_accept(ds, arguments);
  const auto add = [&](const char* name, const char* what) {
    auto* command = ds.add_subcommand(name, what);
    command->add_option("DS", arguments.data_server, "Id or name, as weft ds list says")
        ->required();
    return command;
  };
  const auto maintain = [&]<class R>(R) {
    return [&arguments] {
      arguments.chosen = [&arguments] {
        return maintain_command(arguments.settings, R{arguments.data_server});
      };
    };
  };
  add("drain", "Put nothing new on it, and move what it has elsewhere")
      ->callback(maintain(mds::admin::Drain{}));
  add("undrain", "Let it serve as before")->callback(maintain(mds::admin::Undrain{}));
  auto* remove = add("remove", "Forget one that is drained, or gone for good");
  remove->add_flag("--yes", arguments.yes, "It never comes back: do not ask");
  remove->callback([&, maintain] {
    if (arguments.yes) return maintain(mds::admin::Remove{})();
    arguments.chosen = [&] {
      return complain("what is on data server " + arguments.data_server +
                      " is not used again; say --yes if that is meant");
    };
  });
  auto* give_up = add("give-up", "Go on without a target that its parity group waits for");
  give_up->add_option("TARGET", arguments.target, "Its number in store.parity, from 0")
      ->required()
      ->check(CLI::Range(0, 31));
  give_up->add_flag("--yes", arguments.yes, "It is lost for ever: do not ask");
  give_up->callback([&] {
    arguments.chosen = [&] {
      if (!arguments.yes) {
        return complain("blocks that only target " + std::to_string(arguments.target) +
                        " had are lost then, also if it comes back; say --yes if that is meant");
      }
      return maintain_command(arguments.settings,
                              mds::admin::GiveUp{arguments.data_server, arguments.target});
    };
  });
  auto* rebalance = ds.add_subcommand("rebalance", "Move files from fuller ones to emptier ones");
  auto* dry = rebalance->add_flag("--dry-run", arguments.dry_run, "Only say what would be moved");
  rebalance->add_flag("--stop", arguments.stop, "Begin nothing more")->excludes(dry);
  rebalance->add_option("--within", arguments.percent, "How many percent apart they may be")
      ->check(CLI::Range(1, 50))
      ->capture_default_str();
  rebalance->callback([&] {
    arguments.chosen = [&] {
      if (arguments.stop) {
        return maintain_command(arguments.settings, mds::admin::StopRebalance{});
      }
      return maintain_command(arguments.settings,
                              mds::admin::Rebalance{arguments.percent, arguments.dry_run});
    };
  });
  ds.add_subcommand("add", "How a data server is added")->callback([&] {
    arguments.chosen = [&] { return ds_add_command(arguments.settings); };
  });
}

void add_cluster_commands(CLI::App& app, Arguments& arguments) {
  auto* status = app.add_subcommand("status", "How the system is, and what to look at");
  add_watch(*status, arguments.watch_s);
  status->callback([&] { arguments.chosen = [&] { return status_command(arguments.settings); }; });

  auto* ds = app.add_subcommand("ds", "Data servers: list, drain, remove, rebalance")
                 ->require_subcommand(1);
  auto* list = ds->add_subcommand("list", "State, load and counters of every data server");
  add_watch(*list, arguments.watch_s);
  list->callback([&] { arguments.chosen = [&] { return ds_list_command(arguments.settings); }; });

  ds->add_subcommand("segments", "Segments of data servers' disks, and what they are worth")
      ->callback(
          [&] { arguments.chosen = [&] { return ds_segments_command(arguments.settings); }; });

  add_ds_maintenance(*ds, arguments);

  auto* layout = app.add_subcommand("layout", "Where the data of files is")->require_subcommand(1);
  auto* show = layout->add_subcommand("show", "Where a file's data is, and who holds its layout");
  show->add_option("FILE", arguments.file, "Path on an NFS mount of this machine, or in the export")
      ->required();
  show->callback([&] {
    arguments.chosen = [&] { return layout_show_command(arguments.settings, arguments.file); };
  });
}

void add_scrub(CLI::App& app, Arguments& arguments) {
  auto* scrub =
      app.add_subcommand("scrub", "Compare copies that should be equal")->require_subcommand(1);
  auto* start = scrub->add_subcommand("start", "Compare the copies of all files, or of one");
  start->add_option("FILE", arguments.file,
                    "Path on an NFS mount of this machine, or in the export");
  start->add_flag("--check", arguments.only_tell, "Change nothing, only tell what differs");
  start->callback([&] {
    arguments.chosen = [&] {
      return scrub_command(arguments.settings, arguments.file, arguments.only_tell);
    };
  });
  scrub->add_subcommand("status", "How far it is, and what differed")->callback([&] {
    arguments.chosen = [&] { return scrub_status_command(arguments.settings); };
  });
  auto* resolve =
      scrub->add_subcommand("resolve", "Make a file's copies equal to those of one data server");
  resolve
      ->add_option("FILE", arguments.file,
                   "Path on an NFS mount of this machine, or in the export; or its inode number")
      ->required();
  resolve->add_option("--from", arguments.data_server, "The data server whose copies are right")
      ->required();
  resolve->callback([&] {
    arguments.chosen = [&] {
      return scrub_resolve_command(arguments.settings, arguments.file, arguments.data_server);
    };
  });
  scrub->add_subcommand("stop", "End it")->callback([&] {
    arguments.chosen = [&] {
      return maintain_command(arguments.settings, mds::admin::StopScrub{});
    };
  });
}

void add_audit(CLI::App& app, Arguments& arguments) {
  auto* audit =
      app.add_subcommand("audit", "Look for objects that no file needs")->require_subcommand(1);
  auto* start = audit->add_subcommand(
      "start", "Look through all data servers, and remove what no file needs");
  auto* check =
      start->add_flag("--check", arguments.only_tell, "Change nothing, only tell what there is");
  start
      ->add_flag("--remove-strays", arguments.yes, "Remove them also after a restore from a backup")
      ->excludes(check);
  start->callback([&] {
    arguments.chosen = [&] {
      return maintain_command(arguments.settings,
                              mds::admin::Audit{arguments.only_tell, arguments.yes});
    };
  });
  audit->add_subcommand("status", "How far it is, and what was found")->callback([&] {
    arguments.chosen = [&] { return maintain_command(arguments.settings, mds::admin::GetAudit{}); };
  });
  audit->add_subcommand("stop", "End it")->callback([&] {
    arguments.chosen = [&] {
      return maintain_command(arguments.settings, mds::admin::StopAudit{});
    };
  });
}

void add_backup(CLI::App& app, Arguments& arguments) {
  auto* backup = app.add_subcommand("backup", "Save the metadata store, while it is in use");
  backup->add_option("DIR", arguments.backup.folder, "Where to: a directory that is not there yet")
      ->required();
  auto* conf = backup
                   ->add_option("--config", arguments.backup.configuration,
                                "Configuration of the metadata server, saved as well")
                   ->type_name("FILE")
                   ->capture_default_str();
  backup->callback([&arguments, conf] {
    arguments.backup.configuration_named = conf->count() > 0;
    arguments.chosen = [&] { return backup_command(arguments.settings, arguments.backup); };
  });

  auto* restore = app.add_subcommand("restore", "Make a metadata store of a backup (weft-restore)");
  restore->prefix_command()->fallthrough(false)->set_help_flag();
  restore->callback([&arguments, restore] {
    arguments.chosen = [&arguments, restore] {
      return restore_command(arguments.settings, restore->remaining());
    };
  });

  auto* restored =
      app.add_subcommand("restored", "Files after a restore: compared, or short of bytes")
          ->require_subcommand(1);
  restored->add_subcommand("status", "What is compared, and which files have lost bytes")
      ->callback(
          [&] { arguments.chosen = [&] { return restored_status_command(arguments.settings); }; });
  auto* accept = restored->add_subcommand("accept", "Serve a file that has lost bytes as it is");
  auto* file = accept->add_option(
      "FILE", arguments.file,
      "Path on an NFS mount of this machine, or in the export; or its inode number");
  auto* all = accept->add_flag("--all", arguments.yes, "All that have lost bytes");
  all->excludes(file);
  accept->callback([&] {
    arguments.chosen = [&] {
      if (arguments.file.empty() && !arguments.yes) return complain("which FILE? or --all");
      return restored_accept_command(arguments.settings, arguments.file);
    };
  });
}

void add_policy(CLI::App& app, Arguments& arguments) {
  auto* policy =
      app.add_subcommand("policy", "How new files are to be laid out")->require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    auto* command = policy->add_subcommand(name, what);
    command
        ->add_option("PATH", arguments.path,
                     "Path on an NFS mount of this machine, or in the export")
        ->required();
    return command;
  };
  add("show", "What holds at a directory or file, and where it is from")->callback([&] {
    arguments.chosen = [&] { return policy_show_command(arguments.settings, arguments.path); };
  });
  const auto text = [&] {
    std::string joined;
    for (const std::string& one : arguments.policy) joined += (joined.empty() ? "" : " ") + one;
    return joined;
  };
  const auto apply = [&, text] {
    return policy_set_command(arguments.settings, arguments.path, text());
  };
  auto* set = add("set", "Give a directory these keys; its others stay as they are");
  auto* replace = add("replace", "Give a directory these keys, in place of all that it had");
  for (auto* command : {set, replace}) {
    command
        ->add_option("KEYS", arguments.policy,
                     "KEY=VALUE: stripes, unit, copies, duplication, reads, inline, skip, first; "
                     "see weft(1)")
        ->required();
  }
  set->callback([&, text] {
    arguments.chosen = [&, text] {
      return policy_change_command(arguments.settings, arguments.path, text());
    };
  });
  replace->callback([&, apply] { arguments.chosen = apply; });
  add("clear", "Let a directory inherit everything")->callback([&, apply] {
    arguments.chosen = apply;
  });
}

void add_verify(CLI::App& app, Arguments& arguments) {
  auto* verify = app.add_subcommand("verify", "Check whether a mount really uses pNFS");
  verify->add_option("MOUNT", arguments.verify.mount, "A mounted folder, or any folder below it")
      ->required();
  verify->add_flag("--look-only", arguments.verify.look_only,
                   "Do no I/O; judge by what the mount has counted in its life");
  verify
      ->add_option("--size", arguments.verify.probe_bytes,
                   "How much is written and read; 16MiB when not given")
      ->transform(bytes(std::uint64_t{1} << 20, std::uint64_t{4} << 30, "1MiB to 4GiB"));
  verify->callback([&] {
    arguments.chosen = [&] { return verify_command(arguments.settings, arguments.verify); };
  });
}

void add_key(CLI::App& app, Arguments& arguments) {
  auto* key = app.add_subcommand("key", "Change the cluster key: add, use, drop, in this order")
                  ->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, bool names_key,
                       std::function<int()> run) {
    auto* command = key->add_subcommand(name, what);
    command->add_option("FILE", arguments.key_path, "The key file of this server")->required();
    if (names_key) {
      command->add_option("KEY", arguments.key, "As weft key show says")->required();
    }
    command->callback([&arguments, run = std::move(run)] { arguments.chosen = run; });
  };
  add("show", "Which keys the file has, and which of them is used", false,
      [&] { return key_show_command(arguments.settings, arguments.key_path); });
  auto* status =
      key->add_subcommand("status", "Which servers have which keys, and what may be done next");
  status->callback([&arguments] {
    arguments.chosen = [&arguments] { return key_status_command(arguments.settings); };
  });
  add("add", "Make a second key, accepted and not used yet; at one server", false,
      [&] { return key_add_command(arguments.settings, arguments.key_path); });
  add("use", "Use the new key; at each server, once all accept it", true,
      [&] { return key_use_command(arguments.settings, arguments.key_path, arguments.key); });
  add("drop", "Refuse the old key; at each server, once none uses it", true,
      [&] { return key_drop_command(arguments.settings, arguments.key_path, arguments.key); });
}

void add_local_commands(CLI::App& app, Arguments& arguments) {
  auto* keygen = app.add_subcommand("keygen", "Make a cluster key");
  keygen->add_option("FILE", arguments.key_path, "Where to; nothing may be there yet")->required();
  keygen->callback([&] {
    arguments.chosen = [&] { return keygen_command(arguments.settings, arguments.key_path); };
  });

  auto* check = app.add_subcommand("check-config", "Check a configuration file, and its key file");
  check->add_option("FILE", arguments.file, "ganesha.conf, or a .toml of weft-ds or weft-target")
      ->required();
  check->callback([&] {
    arguments.chosen = [&] { return check_config_command(arguments.settings, arguments.file); };
  });

  auto* fsck = app.add_subcommand("fsck", "Check a metadata store that is not in use (weft-fsck)");
  fsck->prefix_command()->fallthrough(false)->set_help_flag();
  fsck->callback([&arguments, fsck] {
    arguments.chosen = [&arguments, fsck] {
      return fsck_command(arguments.settings, fsck->remaining());
    };
  });
}

// What is wrong with the command's words, empty when they are all known: "there is no command
// 'stauts'; did you mean 'status'?".
std::string unknown_command(const CLI::App& whole, std::span<char* const> words) {
  const CLI::App* app = &whole;
  std::string before;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--socket" || word == "--output" || word == "-o") ++i;  // and its value
    if (word.starts_with('-')) continue;
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return "";  // an argument
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const auto found = std::ranges::find(names, word);
    if (found == names.end()) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      const std::string_view near = nearest(word, known);
      if (!is_near(word, near)) {
        return fmt::format("there is no command '{0}{1}'; weft {0}--help lists them", before, word);
      }
      return fmt::format("there is no command '{}{}'; did you mean '{}{}'?", before, word, before,
                         near);
    }
    app = commands[static_cast<std::size_t>(found - names.begin())];
    before += word + " ";
  }
  return "";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The same of options: "weft status has no option --wacht; did you mean --watch?".
std::string unknown_option(const CLI::App& whole, std::span<char* const> words) {
  const CLI::App* app = &whole;
  std::string before = "weft";
  for (const char* const text : words) {
    const std::string word = text;
    if (word == "--") return "";
    if (!word.starts_with('-')) {
      const auto named =
          app->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
      if (named.empty()) continue;
      app = named.front();
      before += " " + word;
    }
    const bool is_short = word.size() > 1 && word[0] == '-' && std::isalpha(word[1]) != 0;
    if (!is_short && !word.starts_with("--")) continue;
    const std::string name = is_short ? word.substr(0, 2) : word.substr(0, word.find('='));
    std::vector<std::string> names = option_names(*app);
    if (app != &whole) std::ranges::move(option_names(whole), std::back_inserter(names));
    if (std::ranges::find(names, name) != names.end()) continue;
    if (is_short)
      return fmt::format("{} has no option {}; {} --help says more", before, name, before);
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string_view near = nearest(name, known);
    if (!is_near(name, near)) {
      return fmt::format("{} has no option {}; {} --help says more", before, name, before);
    }
    return fmt::format("{} has no option {}; did you mean {}?", before, name, near);
  }
  return "";
}

// "there is no output 'josn'; did you mean 'json'?", empty when it is one or is not said.
std::string unknown_output(const CLI::App& whole) {
  constexpr std::array<std::string_view, 2> kOutputs = {"table", "json"};
  for (const std::string& output : whole.get_option("--output")->results()) {
    if (std::ranges::find(kOutputs, output) != kOutputs.end()) continue;
    return fmt::format("there is no output '{}'; did you mean '{}'?", output,
                       nearest(output, kOutputs));
  }
  return "";
}

// What the parser says of a command that there is: "weft layout show: FILE is required".
std::string what_is_wrong(const CLI::App& whole, std::span<char* const> words, std::string why) {
  constexpr std::string_view kUnexpected = "The following argument was not expected: ";
  if (why.starts_with(kUnexpected)) why = why.substr(kUnexpected.size()) + " is one too many";
  const CLI::App* app = &whole;
  std::string command = "weft";
  for (const std::string word : words) {
    const auto named =
        app->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (named.empty()) continue;
    app = named.front();
    command += " " + word;
  }
  if (app != &whole && why == "A subcommand is required") why = "it needs one more word";
  if (app == &whole && why == "A subcommand is required") why = "it needs a command";
  if (app == &whole) return why + "; weft --help says more";  // "weft: " is in front of all
  return fmt::format("{}: {}; {} --help says more", command, why, command);
}

int run(int argc, char** argv) {
  CLI::App app{"The command line of Weft, a parallel NFS server", "weft"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  arguments.settings.socket = mds::admin::kDefaultSocket;
  add_shared(app, arguments);
  add_setup(app, arguments.settings, arguments.chosen);
  add_cluster_commands(app, arguments);
  add_observe(app, arguments.settings, arguments.chosen, arguments.watch_s);
  add_policy(app, arguments);
  add_scrub(app, arguments);
  add_audit(app, arguments);
  add_backup(app, arguments);
  add_verify(app, arguments);
  add_key(app, arguments);
  add_local_commands(app, arguments);
  add_plan(app, arguments.settings, arguments.chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::string unknown = unknown_command(app, {argv + 1, argv + argc});
    if (unknown.empty()) unknown = unknown_option(app, {argv + 1, argv + argc});
    if (unknown.empty()) unknown = unknown_output(app);
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    if (unknown.empty()) unknown = what_is_wrong(app, {argv + 1, argv + argc}, error.what());
    return complain(unknown);
  }
  arguments.settings.json = arguments.output == "json";
  if (arguments.watch_s > 0) return watch(arguments.watch_s, arguments.chosen);
  return arguments.chosen();
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  try {
    return weft::cli::run(argc, argv);
  } catch (const std::exception& error) {
    return weft::cli::complain(error.what());
  }
}
