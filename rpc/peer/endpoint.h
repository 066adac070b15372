// Converts between our address type and the socket's.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>

#include "layout/net_address.h"

namespace weft::rpc::peer {

[[nodiscard]] inline layout::NetAddress from_endpoint(const boost::asio::ip::tcp::endpoint& point) {
  layout::NetAddress address;
  address.port = point.port();
  boost::asio::ip::address ip = point.address();
  if (ip.is_v6() && ip.to_v6().is_v4_mapped()) {
    ip = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, ip.to_v6());
  }
  address.v6 = ip.is_v6();
  if (address.v6) {
    const auto bytes = ip.to_v6().to_bytes();
    std::copy(bytes.begin(), bytes.end(), address.ip.begin());
  } else {
    const auto bytes = ip.to_v4().to_bytes();
    std::copy(bytes.begin(), bytes.end(), address.ip.begin());
  }
  return address;
}

[[nodiscard]] inline boost::asio::ip::tcp::endpoint to_endpoint(const layout::NetAddress& address) {
  if (address.v6) {
    boost::asio::ip::address_v6::bytes_type bytes;
    std::copy_n(address.ip.begin(), bytes.size(), bytes.begin());
    return {boost::asio::ip::address_v6(bytes), address.port};
  }
  boost::asio::ip::address_v4::bytes_type bytes;
  std::copy_n(address.ip.begin(), bytes.size(), bytes.begin());
  return {boost::asio::ip::address_v4(bytes), address.port};
}

}  // namespace weft::rpc::peer
