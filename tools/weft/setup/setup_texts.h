// The files that init and join write, and the lines they print: pure functions of what was decided.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/config/conf_reader.h"
#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/control/port.h"
#include "tools/weft/setup/machine.h"

namespace weft::cli {

using rpc::control::kControlPort;

constexpr std::uint16_t kNfsPort = 2049;
constexpr std::uint16_t kFirstDsPort = 2051;

struct MdsPlan {
  SaidAddress address;  // of this machine; the port is not used
  unsigned copies = 2;
  std::string admin;  // a client whose root is not squashed; empty: none
};
[[nodiscard]] std::string ganesha_conf(const Places& places, const MdsPlan& plan);

struct DsPlan {
  std::string instance;  // of the unit, and in the file's name
  std::string name;
  std::string domain;
  std::string disk;
  std::string listen;  // with its port
  std::string mds;     // likewise
};
// In an empty folder it makes a store.
[[nodiscard]] std::string ds_toml(const Places& places, const DsPlan& plan);
// The same file once there is a store: an empty folder is then a disk that is not mounted. What
// somebody has changed otherwise stays.
[[nodiscard]] std::string never_creating(std::string toml);
// And back: for a new disk in the place of one that is lost.
[[nodiscard]] std::string creating(std::string toml);

// What a data server's unit and file may be called by its directory, the shortest first: its last
// part, "disk1-weft" of /mnt/disk1/weft, and so on.
[[nodiscard]] std::vector<std::string> instance_names(const std::string& path);

// What a machine's firewall is to pass to this TCP port, or to these ("{ 2049, 20480 }"), by the
// command line of nftables. `rdma`: RoCE as well.
[[nodiscard]] std::vector<std::string> firewall_rules(const std::string& ports, bool rdma);
// Whether the machine has a device for RDMA.
[[nodiscard]] bool has_rdma(const Places& places);

// Letters, digits, ".", "_", "-", at most 64, not beginning with "." or "-": what needs no quotes
// anywhere.
[[nodiscard]] bool is_plain_name(std::string_view text);
// The same for an absolute path, with "/".
[[nodiscard]] bool is_plain_path(std::string_view text);

// What a ganesha.conf says about its FSAL WEFT.
struct MdsFacts {
  layout::NetAddress control;
  std::string key_file;
};
// kNotFound when it has no such block.
[[nodiscard]] Result<MdsFacts> mds_facts(const mds::ConfBlock& conf);
// What init's options and places come to in a ganesha.conf.
struct InitSaid {
  std::vector<std::string> keys;    // Control_Address, Key_File, Metadata_Path, Copies
  std::vector<std::string> admins;  // the clients whose root is not squashed
};
[[nodiscard]] InitSaid what_init_said(const mds::ConfBlock& conf);

}  // namespace weft::cli
