// join: makes a disk of this machine a data server of a system.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "rpc/peer/keys.h"
#include "rpc/peer/resolve.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/doctor/checks.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/ask_to_join.h"
#include "tools/weft/setup/drop_ins.h"
#include "tools/weft/setup/setup.h"
#include "tools/weft/setup/setup_texts.h"
#include "tools/weft/setup/tokens.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::chrono::milliseconds kAsking{10'000};
constexpr std::chrono::seconds kPatience{60};
constexpr unsigned kMostOfAMachine = 64;  // data servers

struct Done {
  DsPlan plan;
  std::string conf;
  std::string unit;
  std::vector<std::string> wrote;
  std::string start;               // by hand
  std::vector<std::string> rules;  // of the firewall
  std::vector<std::string> notes;
};

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

bool has_store(const std::string& directory) { return exists(directory + "/identity"); }

// What a format that was cut short leaves (dataserver/store/store_directory.h); others' directories
// have something called objects as well.
bool is_of_a_format(const std::string& name, const std::filesystem::path& path) {
  if (name == "lock" || name.starts_with("identity.")) return true;
  std::error_code error;
  const auto inside = std::filesystem::directory_iterator(path, error);
  return name == "objects" && !error && std::ranges::all_of(inside, [](const auto& entry) {
           const std::string folder = entry.path().filename().string();
           return folder.size() == 3 && folder.find_first_not_of("0123456789abcdef") == folder.npos;
         });
}

// The directory, as it is written into the configuration.
Result<std::string> check_disk(const JoinOptions& options) {
  std::error_code error;
  const auto whole = std::filesystem::canonical(options.disk, error);
  if (error) {
    return fail(Errc::kNotFound, fmt::format("{}: {}: make it, or mount a disk there",
                                             printable(options.disk), error.message()));
  }
  if (!std::filesystem::is_directory(whole, error)) {
    return fail(Errc::kNotDirectory,
                printable(options.disk) + " is no directory: --disk takes one on the disk");
  }
  const std::string path = whole.string();
  if (!is_plain_path(path)) {
    return fail(Errc::kInvalid, printable(path) +
                                    ": its path may have letters, digits, and ._- "
                                    "only");
  }
  for (const std::string_view hidden : {"/home", "/root", "/run/user", "/tmp", "/var/tmp"}) {
    const bool within = path == hidden || path.starts_with(std::string(hidden) + "/");
    if (options.places.prefix.empty() && within) {
      return fail(Errc::kInvalid, path +
                                      " is hidden from services: use a directory that is not "
                                      "below " +
                                      std::string(hidden));
    }
  }
  const auto inside = std::filesystem::directory_iterator(whole, error);
  if (error) return fail(Errc::kIo, path + ": " + error.message());
  const bool store = has_store(path);
  for (const auto& entry : inside) {
    const std::string name = entry.path().filename().string();
    if (store || name == "lost+found" || is_of_a_format(name, entry.path())) continue;
    return fail(Errc::kNotEmpty, fmt::format("{} has other files ({}): use an empty directory",
                                             path, printable(name)));
  }
  return path;
}

std::string conf_of(const Places& places, const std::string& instance) {
  return places.etc() + "/ds-" + instance + ".toml";
}

// The first name that no other directory's data server here has.
Result<std::string> choose_instance(const Places& places, const std::string& disk) {
  for (const std::string& name : instance_names(disk)) {
    auto text = read_text(conf_of(places, name));
    if (!text && text.error() == Errc::kNotFound) return name;
    if (!text) return pass(text);
    const auto paths = toml_texts(*text, "store.path");
    std::error_code error;
    if (paths.empty() || std::filesystem::equivalent(paths.front(), disk, error)) return name;
  }
  return fail(Errc::kExists, disk +
                                 ": data servers of other directories have all names that it could "
                                 "get: use a directory with another name");
}

Result<DsPlan> plan_of(const JoinOptions& options) {
  auto disk = check_disk(options);
  if (!disk) return pass(disk);
  auto instance = choose_instance(options.places, *disk);
  if (!instance) return pass(instance);
  DsPlan plan;
  plan.disk = *disk;
  plan.instance = *instance;
  const std::string host = host_name();
  plan.name = options.name.empty() ? host + "-" + plan.instance : options.name;
  plan.domain = options.domain.empty() ? host : options.domain;
  const std::pair<const char*, std::string_view> names[] = {
      {"--name", plan.name}, {"--domain", plan.domain}, {"the directory's name", plan.instance}};
  for (const auto& [what, text] : names) {
    if (is_plain_name(text)) continue;
    return fail(Errc::kInvalid, fmt::format("{} '{}': letters, digits and ._- only, at most 64",
                                            what, printable(text)));
  }
  return plan;
}

// Of the data servers that are configured here, this one left out.
std::set<std::string> used_addresses(const Places& places) {
  std::set<std::string> used;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(places.etc(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("ds-") || !name.ends_with(".toml")) continue;
    const auto text = read_text(entry.path().string());
    if (!text) continue;
    for (unsigned port = kFirstDsPort; port < kFirstDsPort + kMostOfAMachine; ++port) {
      const std::string end = fmt::format(":{}\"", port);
      if (text->find(end) != std::string::npos) used.insert(std::to_string(port));
    }
  }
  return used;
}

// Where to listen: as said, or by the address that reaches the metadata server; the first port that
// nobody has.
Result<std::string> choose_address(const JoinOptions& options, const layout::NetAddress& own) {
  SaidAddress chosen{.host = layout::ip_text(own), .address = own};
  if (!options.address.empty()) {
    auto said = said_address(options.address, kFirstDsPort);
    if (!said) return fail(said.error().code, "--address: " + said.error().text);
    chosen = std::move(*said);
  }
  layout::NetAddress at = chosen.address;
  if (chosen.has_port) {
    if (can_listen(at)) return chosen.with_port(at.port);
    return fail(Errc::kBusy, options.address + " is taken, or no address of this machine");
  }
  const auto used = used_addresses(options.places);
  for (unsigned port = kFirstDsPort; port < kFirstDsPort + kMostOfAMachine; ++port) {
    at.port = static_cast<std::uint16_t>(port);
    if (!used.contains(std::to_string(port)) && can_listen(at)) return chosen.with_port(at.port);
  }
  return fail(Errc::kBusy, fmt::format("{} is no address of this machine, or has no free port from "
                                       "{}: say --address ADDRESS:PORT",
                                       chosen.host, kFirstDsPort));
}

// As a data server's file has it: HOST, if that is where the metadata server listens, and may be a
// name.
std::string mds_text(const std::string& host, const layout::NetAddress& mds) {
  const auto said = said_address(host, kJoinPort);
  const bool same = said && layout::ip_text(said->address) == layout::ip_text(mds);
  return same ? said->with_port(mds.port) : layout::to_string(mds);
}

// The system's key. One that is there is another system's, or the same.
Result<> install_key(const Places& places, Owner owner, const JoinAnswer& answer, Done& done) {
  const std::string path = places.key();
  if (exists(path)) {
    auto there = rpc::peer::load_cluster_keys(path);
    if (!there) return pass(there);
    const auto has = [&](const auto& key) {
      return std::ranges::find(*there, key) != there->end();
    };
    if (has(answer.keys.front())) return {};
    // The key was changed while this machine was away.
    if (std::ranges::none_of(answer.keys, has)) {
      return fail(Errc::kExists,
                  path +
                      " has another system's key, or one that this system has dropped. Remove the "
                      "file if this machine belongs to no other");
    }
  }
  if (auto made = write_file(path, answer.key_file, owner, 0600); !made) return made;
  done.wrote.push_back(path);
  return {};
}

Result<JoinAnswer> ask(const JoinOptions& options, const std::string& name) {
  std::string token = options.token;
  if (token == "-") std::getline(std::cin, token);
  return ask_to_join(options.host, token, name, kAsking);
}

// Whether a data server's file has this address among those that it listens at; without a port, at
// any.
bool listens_at(const std::string& text, const std::string& address) {
  const auto said = said_address(address, kFirstDsPort);
  return said && std::ranges::any_of(toml_texts(text, "server.listen"), [&](const auto& listen) {
           const auto one = said_address(listen, kFirstDsPort);
           if (!one || layout::ip_text(one->address) != layout::ip_text(said->address))
             return false;
           return !said->has_port || one->address.port == said->address.port;
         });
}

// What the file of a data server that was joined before says otherwise; empty: nothing.
std::string contradiction(const std::string& text, const JoinOptions& options, const DsPlan& plan) {
  const auto says = [&text](std::string_view key, const std::string& value) {
    return toml_texts(text, key) == std::vector{value};
  };
  if (toml_texts(text, "store.path").empty()) return "no path of a store";
  if (!options.domain.empty() && !says("server.failure_domain", plan.domain)) {
    return "another domain";
  }
  if (!options.name.empty() && !says("server.name", plan.name)) return "another name";
  if (!options.address.empty() && !listens_at(text, options.address)) return "another address";
  return "";
}

// Whether it is evident that a data server's file is of the system whose metadata server is this.
bool names_host(const std::string& text, const std::string& host) {
  const auto said = said_address(host, kJoinPort);
  return said && std::ranges::any_of(toml_texts(text, "cluster.mds"), [&](const auto& mds) {
           const auto one = said_address(mds, kControlPort);
           return one && layout::ip_text(one->address) == layout::ip_text(said->address);
         });
}

// Of a data server that was joined before. A new disk in the place of its store is a new one.
Result<> take_up(const JoinOptions& options, Owner owner, Done& done) {
  auto text = read_text(done.conf);
  if (!text) return pass(text);
  if (const std::string other = contradiction(*text, options, done.plan); !other.empty()) {
    return fail(Errc::kExists,
                fmt::format("{} is there and says {}: change it there, and systemctl restart {}",
                            done.conf, other, done.unit));
  }
  const std::string once = has_store(done.plan.disk) ? *text : creating(*text);
  const bool anew = once != *text;
  const bool named = names_host(*text, options.host);
  if (!named && !exists(options.places.key())) {
    return fail(Errc::kExists,
                fmt::format("{} is there, and does not name {}: remove it if it is of a system "
                            "that is over",
                            done.conf, options.host));
  }
  if (!anew && named) {
    done.notes.push_back(done.conf + " was there; no token was needed");
    return {};
  }
  auto answer = ask(options, done.plan.name);
  if (!answer) {
    const std::string why =
        anew ? fmt::format("{} has no store: mount its disk; a new disk", done.plan.disk)
             : fmt::format("does not name {}: to tell whether that is its system", options.host);
    return fail(answer.error().code, fmt::format("{} is there, and {} takes a token: {}", done.conf,
                                                 why, answer.error().text));
  }
  if (auto key = install_key(options.places, owner, *answer, done); !key) return key;
  if (!anew) {
    done.notes.push_back(done.conf + " was there");
    return {};
  }
  if (has_systemd(options.places)) {
    if (auto stopped = stop_unit(done.unit); !stopped) return stopped;
  }
  const Owner self{.user = ::geteuid(), .group = ::getegid()};
  if (auto wrote = write_file(done.conf, once, self, 0644); !wrote) return wrote;
  done.wrote.push_back(done.conf);
  return {};
}

Result<> configure(const JoinOptions& options, Owner owner, Done& done) {
  auto answer = ask(options, done.plan.name);
  if (!answer) return pass(answer);
  auto listen = choose_address(options, answer->own);
  if (!listen) return pass(listen);
  done.plan.listen = *listen;
  done.plan.mds = mds_text(options.host, answer->mds);
  if (auto reached = can_connect(answer->mds, std::chrono::seconds(5)); !reached) {
    return fail(reached.error().code,
                fmt::format("the metadata server: {}: is weft-mds running there, and does its "
                            "firewall pass TCP port {} from here?",
                            reached.error().text, answer->mds.port));
  }
  if (auto key = install_key(options.places, owner, *answer, done); !key) return key;
  const Owner self{.user = ::geteuid(), .group = ::getegid()};
  if (auto wrote = write_file(done.conf, ds_toml(options.places, done.plan), self, 0644); !wrote) {
    return wrote;
  }
  const auto checked = run_program(
      {program_path("weft-ds"), "--check-config", "--config", done.conf}, std::chrono::seconds(20));
  if (checked && checked->status == 0) {
    done.wrote.push_back(done.conf);
    return {};
  }
  ::unlink(done.conf.c_str());
  if (!checked) return fail(checked.error().code, checked.error().text);
  return fail(Errc::kInvalid, printable(checked->output));
}

Result<> start(const JoinOptions& options, Done& done) {
  if (!has_systemd(options.places)) {
    done.start = as_service(options.places, "weft-ds --supervise --config " + done.conf);
    done.notes.push_back("once it has started, write create = false into " + done.conf +
                         ": an empty directory is then a disk that is not mounted");
    return {};
  }
  auto notes = write_drop_ins(done.unit, done.plan.instance, done.plan.disk);
  if (!notes) return pass(notes);
  std::ranges::move(*notes, std::back_inserter(done.notes));
  if (auto started = start_unit(done.unit, kPatience); !started) return started;
  auto text = read_text(done.conf);
  if (!text) return pass(text);
  const std::string never = never_creating(*text);
  return never == *text ? Result<>() : write_file(done.conf, never, Owner{}, 0644);
}

// What the firewall here is to pass: to the ports that the file names.
void note_rules(const Places& places, Done& done) {
  const auto text = read_text(done.conf);
  if (!text) return;
  const bool rdma = has_rdma(places) || text->contains("\"rdma://");
  for (const std::string& listen : toml_texts(*text, "server.listen")) {
    if (!rpc::peer::check_address(listen)) continue;
    for (std::string& rule : firewall_rules(listen.substr(listen.rfind(':') + 1), rdma)) {
      if (std::ranges::find(done.rules, rule) == done.rules.end()) {
        done.rules.push_back(std::move(rule));
      }
    }
  }
}

Result<Done> set_up(const JoinOptions& options) {
  if (auto may = check_root(options.places); !may) return pass(may);
  auto owner = service_owner(options.places);
  if (!owner) return pass(owner);
  if (!run_program({program_path("weft-ds"), "--version"}, std::chrono::seconds(20))) {
    return fail(Errc::kNotFound, "weft-ds is not installed: apt install weft-ds");
  }
  auto lock = lock_setup(options.places);  // until a file has this one's name and address
  if (!lock) return pass(lock);
  auto plan = plan_of(options);
  if (!plan) return pass(plan);
  Done done{.plan = *plan,
            .conf = conf_of(options.places, plan->instance),
            .unit = "weft-ds@" + plan->instance + ".service",
            .wrote = {},
            .start = {},
            .rules = {},
            .notes = {}};
  auto configured =
      exists(done.conf) ? take_up(options, *owner, done) : configure(options, *owner, done);
  if (!configured) return pass(configured);
  *lock = OwnedFd();
  note_rules(options.places, done);
  if (auto made = make_folder(done.plan.disk, *owner, 0700); !made) return pass(made);
  if (auto started = start(options, done); !started) return pass(started);
  return done;
}

void note_shared_disk(Done& done) {
  struct stat disk{};
  struct stat root{};
  if (::stat(done.plan.disk.c_str(), &disk) != 0 || ::stat("/", &root) != 0) return;
  if (disk.st_dev == root.st_dev) {
    done.notes.push_back(done.plan.disk +
                         " is on the disk of /, which it may fill: a disk of its "
                         "own is better");
  }
}

}  // namespace

int join_command(const Settings& settings, const JoinOptions& options) {
  auto done = set_up(options);
  if (!done) return complain(done.error().text);
  note_shared_disk(*done);
  if (settings.json) {
    print(Json{{"name", done->plan.name},
               {"failure_domain", done->plan.domain},
               {"configuration", done->conf},
               {"unit", done->unit},
               {"wrote", done->wrote},
               {"start", done->start},
               {"firewall", done->rules},
               {"notes", done->notes}});
    return kExitGood;
  }
  std::string out;
  for (const std::string& file : done->wrote) out += "wrote " + file + "\n";
  out += done->start.empty()
             ? done->unit + " serves clients; on the metadata server weft ds list shows it\n"
             : "there is no systemd here; start this: " + done->start + "\n";
  if (!done->rules.empty()) {
    out += "the firewall here, if there is one:\n";
    for (const std::string& rule : done->rules) out += "  " + rule + "\n";
  }
  for (const std::string& note : done->notes) out += "note: " + note + "\n";
  print(out);
  return kExitGood;
}

}  // namespace weft::cli
