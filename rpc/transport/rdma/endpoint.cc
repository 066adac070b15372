#include "rpc/transport/rdma/endpoint.h"

#include <netinet/in.h>

#include <boost/asio/ip/address.hpp>
#include <cstring>

namespace weft::rpc::rdma {

Result<sockaddr_storage> socket_address(const Endpoint& endpoint) {
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(endpoint.ip, error);
  if (error) return fail(Errc::kInvalid, "not a numeric address: " + endpoint.ip);
  sockaddr_storage out{};
  if (ip.is_v6()) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&out);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(endpoint.port);
    const auto bytes = ip.to_v6().to_bytes();
    std::memcpy(&to->sin6_addr, bytes.data(), bytes.size());
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&out);
    to->sin_family = AF_INET;
    to->sin_port = htons(endpoint.port);
    const auto bytes = ip.to_v4().to_bytes();
    std::memcpy(&to->sin_addr, bytes.data(), bytes.size());
  }
  return out;
}

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.ip.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.ip + "]" : endpoint.ip) + ":" + std::to_string(endpoint.port);
}

}  // namespace weft::rpc::rdma
