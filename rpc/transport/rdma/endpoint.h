// An address of an RDMA device, as sockets have them.
//
// Threading: values and pure functions.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "rpc/base/error.h"
#include "rpc/transport/rdma/header.h"

namespace weft::rpc::rdma {

struct Endpoint {
  std::string ip;  // numeric, IPv4 or IPv6
  std::uint16_t port = kPort;
};

// kInvalid: the address is not numeric.
[[nodiscard]] Result<sockaddr_storage> socket_address(const Endpoint& endpoint);
// "192.0.2.7:812" or "[2001:db8::7]:812", for logs.
[[nodiscard]] std::string to_string(const Endpoint& endpoint);

}  // namespace weft::rpc::rdma
