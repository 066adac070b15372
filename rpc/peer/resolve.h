// Addresses in configuration files: numeric, or a name that is looked up.
//
// A name stands for the first address that this machine's resolver has for it at that moment
// (/etc/hosts, DNS): what changes later counts after a restart. One that leads to this machine's
// loopback interface is refused, unless it is "localhost", since others would be told an address
// that they cannot reach; Debian's /etc/hosts has such a line for the machine's own name.
//
// Threading: any thread. resolve_address() and look_up() may wait for the resolver, as long as that
// tries.
#pragma once

#include <string_view>

#include "layout/net_address.h"
#include "rpc/base/error.h"

namespace weft::rpc::peer {

// Whether it has the form of "192.0.2.1:2051", "[2001:db8::1]:2051" or "name:2051"; asks nobody.
[[nodiscard]] Result<> check_address(std::string_view text);

// With one line that names the address: kInvalid when it has no such form, or its address is of no
// use; kUnreachable when the resolver does not know the name, which may pass.
[[nodiscard]] Result<layout::NetAddress> resolve_address(std::string_view text);

// Whether the resolver knows a host of this name, at whatever address. kUnreachable, with one line
// that names it.
[[nodiscard]] Result<> look_up(std::string_view name);

}  // namespace weft::rpc::peer
