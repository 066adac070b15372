// Typed calls and answers over the bytes that a Connection carries. Internal to rpc/control.
//
// Threading: as Connection.
#pragma once

#include <memory>

#include "rpc/control/connection.h"
#include "rpc/control/messages.h"

namespace weft::rpc::control {

template <class T>
[[nodiscard]] Bytes to_bytes(const T& message) {
  xdr::Encoder out(64);
  encode(out, message);
  return out.take();
}

// A completion for a call's result bytes that decodes them for `done`.
template <class T>
[[nodiscard]] Done<Bytes> expect(Done<T> done) {
  return [done = std::move(done)](Result<Bytes> results) mutable {
    if (!results) return done(std::unexpected(std::move(results.error())));
    done(decode<T>(*results));
  };
}
[[nodiscard]] inline Done<Bytes> expect_nothing(Done<void> done) {
  return [done = std::move(done)](Result<Bytes> results) mutable {
    if (!results) return done(std::unexpected(std::move(results.error())));
    if (!results->empty()) return done(fail(Errc::kProtocol, "result where there is none"));
    done({});
  };
}

// What an event is given to answer with, over what the connection gave us.
template <class T>
[[nodiscard]] Done<T> answer_with(Connection::Responder respond) {
  return [respond = std::move(respond)](Result<T> result) mutable {
    if (!result) return respond(std::unexpected(std::move(result.error())));
    if constexpr (std::is_void_v<T>) {
      respond(Bytes{});
    } else {
      respond(to_bytes(*result));
    }
  };
}

// Decodes a call's arguments and hands them to `serve`; malformed ones are answered here.
template <class T, class Serve>
void with_arguments(const Bytes& arguments, Connection::Responder respond, Serve&& serve) {
  auto message = decode<T>(arguments);
  if (!message) return respond(std::unexpected(std::move(message.error())));
  serve(std::move(*message), std::move(respond));
}

// Converts between our address type and the socket's.
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

}  // namespace weft::rpc::control
