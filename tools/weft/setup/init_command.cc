// init: makes this machine the metadata server of a new system.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ganesha-fsal/config/ganesha_clients.h"
#include "ganesha-fsal/config/options_check.h"
#include "layout/wildcard.h"
#include "rpc/peer/keys.h"
#include "rpc/xdr/describe_json.h"
#include "tools/weft/output.h"
#include "tools/weft/setup/join_messages.h"
#include "tools/weft/setup/setup.h"
#include "tools/weft/setup/setup_texts.h"

namespace weft::cli {
namespace {

constexpr const char* kUnit = "weft-mds.service";
constexpr std::chrono::seconds kPatience{90};

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

// An address, or a network of them ("192.0.2.0/24").
bool is_client(const std::string& text) {
  const std::string_view address = std::string_view(text).substr(0, text.find('/'));
  return layout::make_address(address, 0).has_value() && mds::wrong_client({.text = text}).empty();
}

Result<MdsPlan> plan_of(const InitOptions& options) {
  MdsPlan plan{.address = {}, .copies = options.copies, .admin = options.admin};
  if (!options.admin.empty() && !is_client(options.admin)) {
    return fail(Errc::kInvalid,
                "--admin takes an address or a network, like 192.0.2.10 or "
                "192.0.2.0/24, but not all addresses");
  }
  if (options.address.empty()) {
    auto own = own_address();
    if (!own) return pass(own);
    plan.address = {.host = layout::ip_text(*own), .address = *own};
  } else {
    auto said = said_address(options.address, kControlPort);
    if (!said) return fail(said.error().code, "--address: " + said.error().text);
    if (said->has_port) {
      return fail(Errc::kInvalid, "--address takes an address or a name, without a port");
    }
    if (layout::is_wildcard(said->address)) {
      return fail(Errc::kInvalid,
                  "--address takes one address, by which others reach this machine");
    }
    plan.address = std::move(*said);
  }
  layout::NetAddress any = plan.address.address;
  any.port = 0;
  if (can_listen(any)) return plan;
  const std::string ip = layout::ip_text(any);
  const std::string named =
      plan.address.host == ip ? ip : fmt::format("{}, which is {} here,", plan.address.host, ip);
  return fail(Errc::kInvalid, named + " is no address of this machine");
}

// What is to be served is free: of a machine that is to be the metadata server, and is not yet.
Result<> check_ports(const MdsPlan& plan) {
  for (const std::uint16_t port : {kNfsPort, kControlPort, kJoinPort}) {
    layout::NetAddress address = plan.address.address;
    address.port = port;
    if (can_listen(address)) continue;
    return fail(Errc::kBusy, fmt::format("something listens at {} already: ss -Hltnp 'sport = :{}' "
                                         "says what; stop it first",
                                         layout::to_string(address), port));
  }
  return {};
}

struct Done {
  std::vector<std::string> wrote;
  std::string start;  // by hand
  bool rdma = false;
};

// One that is there stays. It may be root's: of weft keygen.
Result<> write_key(const Places& places, Owner owner, Done& done) {
  const std::string path = places.key();
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    if (auto keys = rpc::peer::load_cluster_keys(path); !keys) return pass(keys);
    if (status.st_uid != 0 || ::lchown(path.c_str(), owner.user, owner.group) == 0) return {};
    return fail_errno(errno, "chown " + path);
  }
  const std::string text = rpc::peer::key_line(rpc::peer::random_cluster_key());
  if (auto made = write_file(path, text, owner, 0600); !made) return made;
  done.wrote.push_back(path);
  return {};
}

// That a ganesha.conf which init made, perhaps of an older version, and perhaps changed since, is
// of such a system.
bool is_of(const Places& places, const MdsPlan& plan) {
  const auto none = [](const std::string& path) -> Result<std::string> {
    return fail(Errc::kNotFound, path);
  };
  const auto there = mds::read_conf(places.conf());
  const auto wanted = mds::parse_conf(ganesha_conf(places, plan), places.conf(), none);
  if (!there || !wanted) return false;
  const InitSaid is = what_init_said(*there);
  const InitSaid was = what_init_said(*wanted);
  return is.keys == was.keys && std::ranges::all_of(was.admins, [&is](const auto& admin) {
           return std::ranges::find(is.admins, admin) != is.admins.end();
         });
}

// One that is there stays, and has to say what is asked for, if init made it. Before anything is
// made.
Result<> check_before(const Places& places, const MdsPlan& plan) {
  if (has_systemd(places)) {
    const auto unit = run_program({"systemctl", "cat", kUnit}, std::chrono::seconds(20));
    if (!unit || unit->status != 0) {
      return fail(Errc::kNotFound, "there is no weft-mds.service: apt install weft-mds");
    }
  }
  const std::string path = places.conf();
  if (!exists(path)) return check_ports(plan);
  auto text = read_text(path);
  if (!text) return pass(text);
  const bool ours = text->find("made by weft init") != std::string::npos;
  if (!ours || is_of(places, plan)) return {};
  return fail(Errc::kExists, path +
                                 " is there and says something else than this command: run init "
                                 "as it was run first, or change the file, and systemctl restart "
                                 "weft-mds");
}

Result<> write_conf(const Places& places, const MdsPlan& plan, Done& done) {
  const std::string path = places.conf();
  const bool there = exists(path);
  if (!there) {
    const Owner self{.user = ::geteuid(), .group = ::getegid()};
    if (auto wrote = write_file(path, ganesha_conf(places, plan), self, 0644); !wrote) return wrote;
  }
  auto checked = mds::check_conf_file(path);
  if (!checked && !there) ::unlink(path.c_str());
  if (!checked) return pass(checked);
  if (!there) done.wrote.push_back(path);
  return {};
}

Result<> start(const Places& places, Done& done) {
  if (has_systemd(places)) return start_unit(kUnit, kPatience);
  done.start = as_service(places, std::string(WEFT_GANESHA_BIN) +
                                      "/ganesha.nfsd -F -x -L STDERR -N NIV_EVENT -f " +
                                      places.conf() + " -p " + places.run() + "/ganesha.pid");
  return {};
}

Result<Done> set_up(const InitOptions& options, const MdsPlan& plan) {
  const Places& places = options.places;
  auto owner = service_owner(places);
  if (!owner) return pass(owner);
  auto lock = lock_setup(places);  // until the files are there
  if (!lock) return pass(lock);
  if (auto may = check_before(places, plan); !may) return pass(may);
  Done done{.wrote = {}, .start = {}, .rdma = has_rdma(places)};
  if (auto key = write_key(places, *owner, done); !key) return pass(key);
  if (auto conf = write_conf(places, plan, done); !conf) return pass(conf);
  *lock = OwnedFd();
  for (const std::string& folder : {places.state(), places.state() + "/recovery", places.run()}) {
    const mode_t mode = folder == places.run() ? 0755 : 0700;
    if (auto made = make_folder(folder, *owner, mode); !made) return pass(made);
  }
  if (auto started = start(places, done); !started) return pass(started);
  return done;
}

std::string mount_source(const MdsPlan& plan) {
  const std::string& host = plan.address.host;
  return (host.contains(':') ? "[" + host + "]" : host) + ":/weft";
}

std::vector<std::string> own_rules() {
  return firewall_rules(fmt::format("{{ {}, {}, {} }}", kNfsPort, kControlPort, kJoinPort), false);
}

std::string text_of(const MdsPlan& plan, const Done& done, const Invitation& invited) {
  const std::string& address = plan.address.host;
  std::string out;
  for (const std::string& file : done.wrote) out += "wrote " + file + "\n";
  if (done.start.empty()) {
    out += "weft-mds.service serves clients at " + address + "\n";
  } else {
    out += "there is no systemd here; start these, in this order:\n  " + done.start + "\n  " +
           invited.start + "\n";
  }
  out += fmt::format(
      "\nfor 15 minutes, as root on each machine with disks (weft token makes another):\n"
      "  weft join {0} {1} --disk DIRECTORY --domain RACK\n"
      "\nfirewalls, where there are any; here, and on each machine with disks:\n"
      "  {2}\n"
      "  {3}\n"
      "\non clients:\n"
      "  mount -t nfs -o vers=4.2 {4} /mnt\n",
      address, invited.token, fmt::join(own_rules(), "\n  "),
      fmt::join(firewall_rules(std::to_string(kFirstDsPort), done.rdma), "\n  "),
      mount_source(plan));
  if (plan.admin.empty()) {
    out +=
        "\nroot at clients is nobody, and everybody may make names in the root directory,\n"
        "as in /tmp. To have directories made by root of one client, write into the\n"
        "EXPORT of /etc/weft/ganesha.conf, and then systemctl reload weft-mds:\n"
        "  CLIENT { Clients = ADDRESS; Access_Type = RW; Squash = no_root_squash; }\n";
  }
  return out;
}

}  // namespace

int init_command(const Settings& settings, const InitOptions& options) {
  if (auto may = check_root(options.places); !may) return complain(may.error().text);
  const auto plan = plan_of(options);
  if (!plan) return complain(plan.error().text);
  const auto done = set_up(options, *plan);
  if (!done) return complain(done.error().text);
  const auto invited = invite({.places = options.places, .serve = false});
  if (!invited) return complain(invited.error().text);
  if (!settings.json) {
    print(text_of(*plan, *done, *invited));
    return kExitGood;
  }
  Json start = Json::array();
  for (const std::string& one : {done->start, invited->start}) {
    if (!one.empty()) start.push_back(one);
  }
  print(Json{{"wrote", done->wrote},
             {"start", start},
             {"address", plan->address.host},
             {"copies", plan->copies},
             {"token", invited->token},
             {"valid_ms", 15 * 60 * 1000},
             {"mount", mount_source(*plan)}});
  return kExitGood;
}

}  // namespace weft::cli
