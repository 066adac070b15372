#include "tools/weft/setup/setup_texts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "rpc/peer/resolve.h"

namespace weft::cli {
namespace {

constexpr std::uint16_t kRocePort = 4791;

bool is_plain(std::string_view text, std::string_view besides) {
  return std::ranges::all_of(text, [besides](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           besides.find(c) != std::string_view::npos;
  });
}

const mds::ConfStatement* find(const mds::ConfBlock& block, std::string_view name) {
  const auto found = std::ranges::find_if(block.statements, [name](const auto& statement) {
    return mds::same_name(statement.name, name) && statement.terms.size() == 1;
  });
  return found == block.statements.end() ? nullptr : &*found;
}

const mds::ConfBlock* find_fsal(const mds::ConfBlock& block) {
  const mds::ConfStatement* const name = find(block, "Name");
  if (mds::same_name(block.name, "FSAL") && name != nullptr &&
      mds::same_name(name->terms.front().text, "WEFT")) {
    return &block;
  }
  for (const mds::ConfBlock& inner : block.blocks) {
    if (const mds::ConfBlock* const found = find_fsal(inner)) return found;
  }
  return nullptr;
}

void add_admins(const mds::ConfBlock& block, std::vector<std::string>& clients) {
  if (mds::same_name(block.name, "CLIENT") &&
      mds::same_name(mds::value_of(block, "Squash"), "no_root_squash")) {
    clients.emplace_back(mds::value_of(block, "Clients"));
  }
  for (const mds::ConfBlock& inner : block.blocks) add_admins(inner, clients);
}

constexpr std::string_view kMayCreate = "\n# create = false\n";
constexpr std::string_view kNeverCreates = "\ncreate = false\n";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

}  // namespace

std::string ganesha_conf(const Places& places, const MdsPlan& plan) {
  const std::string admin = plan.admin.empty()
                                ? ""
                                : fmt::format(
                                      "  # There root makes directories for users.\n"
                                      "  CLIENT {{ Clients = {}; Access_Type = RW; Squash = "
                                      "no_root_squash; }}\n",
                                      plan.admin);
  const std::string shared =
      plan.admin.empty() ? "    # No client has a root that could make directories for users.\n"
                           "    Shared_Root = true;\n"
                         : "";
  return fmt::format(
      R"(# The metadata server of a Weft system, made by weft init. fsal-weft(8) says what
# may stand in the FSAL block, docs/clients.md how users get directories.
NFS_CORE_PARAM {{
  Protocols = 4;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  # The service has no capability, so it does not have the one that this takes.
  allow_set_io_flusher_fail = true;
}}
NFS_KRB5 {{ Active_krb5 = false; }}
NFSv4 {{
  PNFS_MDS = true;
  RecoveryBackend = fs;
  RecoveryRoot = "{0}/recovery";
  Only_Numeric_Owners = true;
}}
# So many names of a directory, times 128, are kept besides those that were listed. Without it the
# metadata store is asked for most names of a directory of more than 128 files.
MDCACHE {{ Detached_Mult = 64; }}
EXPORT {{
  Export_Id = 1;
  Path = "/";
  Pseudo = "/weft";
  # Every address may mount. Where only some may: None, and each CLIENT says RW.
  Access_Type = RW;
  SecType = sys;
  # Root at clients is nobody.
  Squash = root_squash;
  Anonymous_Uid = 65534;
  Anonymous_Gid = 65534;
{1}  FSAL {{
    Name = WEFT;
    Metadata_Path = "{0}/mds";
    # An address of this machine that data servers reach.
    Control_Address = "{2}";
    Key_File = "{3}";
    Admin_Socket = "{4}/mds.sock";
    # In as many failure domains; of one copy nothing is left when its disk is lost.
    Copies = {5};
{6}  }}
}}
)",
      places.state(), admin, plan.address.with_port(kControlPort), places.key(), places.run(),
      plan.copies, shared);
}

std::string ds_toml(const Places& places, const DsPlan& plan) {
  return fmt::format(R"(# A data server of a Weft system, made by weft join: weft-ds.toml(5).
[server]
listen = ["{}"]
name = "{}"
failure_domain = "{}"

[store]
path = "{}"
# For when it has its store: an empty folder is then a disk that is not mounted.{}
[cluster]
mds = ["{}"]
key_file = "{}"
)",
                     plan.listen, plan.name, plan.domain, plan.disk, kMayCreate, plan.mds,
                     places.key());
}

std::string never_creating(std::string toml) {
  return replaced(std::move(toml), kMayCreate, kNeverCreates);
}

std::string creating(std::string toml) {
  return replaced(std::move(toml), kNeverCreates, kMayCreate);
}

std::vector<std::string> instance_names(const std::string& path) {
  std::vector<std::string> names;
  std::string name;
  const std::filesystem::path parts = std::filesystem::path(path).relative_path();
  for (auto part = parts.end(); part != parts.begin();) {
    name = (--part)->string() + (name.empty() ? "" : "-" + name);
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> firewall_rules(const std::string& ports, bool rdma) {
  constexpr const char* kRule = "nft add rule inet filter input {} dport {} accept";
  const std::string quoted = ports.starts_with('{') ? "'" + ports + "'" : ports;
  std::vector<std::string> rules{fmt::format(kRule, "tcp", quoted)};
  if (rdma) {
    rules.push_back(fmt::format(kRule, "udp", kRocePort));
  }
  return rules;
}

bool has_rdma(const Places& places) {
  std::error_code error;
  const std::filesystem::directory_iterator devices(places.prefix + "/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' && text.front() != '-' &&
         is_plain(text, "._-");
}

bool is_plain_path(std::string_view text) {
  return text.starts_with('/') && text.size() <= 1024 && is_plain(text, "/._-");
}

InitSaid what_init_said(const mds::ConfBlock& conf) {
  InitSaid said;
  const mds::ConfBlock* const fsal = find_fsal(conf);
  for (const std::string_view key : {"Control_Address", "Key_File", "Metadata_Path", "Copies"}) {
    said.keys.emplace_back(fsal == nullptr ? "" : mds::value_of(*fsal, key));
  }
  add_admins(conf, said.admins);
  return said;
}

Result<MdsFacts> mds_facts(const mds::ConfBlock& conf) {
  const mds::ConfBlock* const fsal = find_fsal(conf);
  const mds::ConfStatement* const control =
      fsal == nullptr ? nullptr : find(*fsal, "Control_Address");
  const mds::ConfStatement* const key = fsal == nullptr ? nullptr : find(*fsal, "Key_File");
  if (control == nullptr || key == nullptr) {
    return fail(Errc::kNotFound,
                "has no FSAL { Name = WEFT; } with a Control_Address and a Key_File");
  }
  auto address = rpc::peer::resolve_address(control->terms.front().text);
  if (!address) return pass(address);
  return MdsFacts{.control = *address, .key_file = key->terms.front().text};
}

}  // namespace weft::cli
