// This machine, as far as the commands that set a system up look at it and change it.
//
// Threading: blocking; one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/buffer.h"
#include "rpc/base/error.h"

namespace weft::cli {

// Where a system's files are. With a prefix everything is below it, no service is touched, and
// files belong to who runs this: to try something out.
struct Places {
  std::string prefix;
  [[nodiscard]] std::string conf() const { return prefix + "/etc/weft/ganesha.conf"; }
  [[nodiscard]] std::string key() const { return prefix + "/etc/weft/cluster.key"; }
  [[nodiscard]] std::string etc() const { return prefix + "/etc/weft"; }
  [[nodiscard]] std::string run() const { return prefix + "/run/weft"; }
  [[nodiscard]] std::string state() const { return prefix + "/var/lib/weft"; }
  [[nodiscard]] std::string tokens() const { return run() + "/join-tokens"; }
};

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};
// The user of Weft's services; with a prefix, who runs this. kNotFound says what to install.
[[nodiscard]] Result<Owner> service_owner(const Places& places);
// That this is run by root; with a prefix, by anybody.
[[nodiscard]] Result<> check_root(const Places& places);

// A command line that an administrator types where there is no systemd, as the services' user; with
// a prefix, as who types it.
[[nodiscard]] std::string as_service(const Places& places, const std::string& command);

// A program of ours: of the same folder as this one, or of PATH.
[[nodiscard]] std::string program_path(const std::string& name);

struct Ran {
  int status = 0;      // its exit status; 128 and its signal's number
  std::string output;  // standard output and error, the last 4 MiB at least
};
// kNotFound when there is no such program; kTimedOut, and it is killed.
[[nodiscard]] Result<Ran> run_program(const std::vector<std::string>& words,
                                      std::chrono::seconds timeout);

// Whether systemd runs services here.
[[nodiscard]] bool has_systemd(const Places& places);
using Properties = std::map<std::string, std::string>;
// What systemd says of a unit.
[[nodiscard]] Result<Properties> unit_properties(const std::string& unit,
                                                 const std::vector<std::string>& names);
// Starts a unit, now and at each boot, and waits until it is active. What does not get there is
// stopped and disabled again, unless it was enabled before: that one may wait for what it needs,
// and goes on. The error says which, why, and where more is said.
[[nodiscard]] Result<> start_unit(const std::string& unit, std::chrono::seconds patience);

// It is not running any more; kIo when it does not end.
[[nodiscard]] Result<> stop_unit(const std::string& unit);
// Why a unit of ours ended: the last error that its service has written to the journal since then,
// or the last line, or what systemd says of it.
[[nodiscard]] std::string last_words(const std::string& unit,
                                     std::chrono::system_clock::time_point since);

// Waits until no other command sets this machine up, and keeps others off while it is held.
[[nodiscard]] Result<OwnedFd> lock_setup(const Places& places);
// The same of a directory that is there.
[[nodiscard]] Result<OwnedFd> lock_folder(const std::string& path);
// A directory with this owner and mode. One that is there is changed to that; what is in it stays
// as it is. kNotDirectory also for a symbolic link.
[[nodiscard]] Result<> make_folder(const std::string& path, Owner owner, mode_t mode);
// A file, whole or not at all, and durable. One that is there is replaced.
[[nodiscard]] Result<> write_file(const std::string& path, std::string_view text, Owner owner,
                                  mode_t mode);
// At most 1 MiB. kNotFound.
[[nodiscard]] Result<std::string> read_text(const std::string& path);

// The address by which others reach this machine: that of the default route, or the only one.
// kNotFound.
[[nodiscard]] Result<layout::NetAddress> own_address();
// What an administrator says of an address: numeric, or a name, which is looked up here now.
struct SaidAddress {
  std::string host;  // as it was said, without a port and brackets
  bool has_port = false;
  layout::NetAddress address;
  // With that port, as configuration files have it.
  [[nodiscard]] std::string with_port(std::uint16_t port) const;
};
// "m1", "192.0.2.1", "2001:db8::1", "m1:2051", "[2001:db8::1]:2051"; the port is this one if none
// is said. With one line that names what was said.
[[nodiscard]] Result<SaidAddress> said_address(const std::string& said, std::uint16_t port);
// Whether a socket can listen there now.
[[nodiscard]] bool can_listen(const layout::NetAddress& address);
// Whether somebody accepts a TCP connection.
[[nodiscard]] Result<> can_connect(const layout::NetAddress& address,
                                   std::chrono::milliseconds timeout);
[[nodiscard]] std::string host_name();  // without its domain

}  // namespace weft::cli
