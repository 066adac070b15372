// Connections by the better of two transports, for sessions between servers: RDMA, where both have
// it, and TCP else.
//
// It tries the preferred one first, and where that does not come about, the other. It tries the
// other first if the last connection by the preferred one did not last so long as to be proven:
// such a one may be made and then carry nothing. As long as the last connection is by the other
// one, it tries the preferred one again now and then; less often, the more of its connections did
// not last, one after the other. When that has come about it keeps the connection, and says so:
// whoever is told makes its connections anew when that disturbs nothing
// (SessionClient::renew_connections()), and gets it.
//
// Threading: one I/O thread. Ownership: dial() holds it; with the last copy of that it is gone, and
// with it what it tries. Nothing is called then any more.
//
// Invariants:
//  1. Whoever dials gets a connection if either transport makes one.
//  2. At most one connection is kept for whoever dials next, for kKept at most.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "rpc/transport/channel.h"

namespace weft::rpc {

// How long a connection by the preferred one is to last, at least.
constexpr std::chrono::seconds kProven{10};

struct PreferredDialOptions {
  Dial preferred;
  Dial other;
  std::chrono::milliseconds proven{kProven};     // longer than whoever dials waits for answers
  std::chrono::milliseconds look_every{30'000};  // for the preferred one
  // A connection was made, by the preferred one or the other.
  std::function<void(const Channel&, bool preferred)> on_connected;
  // There is a better one for whoever dials now.
  std::function<void()> on_better;
};

// For how long a connection is kept that nobody has asked for yet.
constexpr std::chrono::seconds kKept{5};

[[nodiscard]] Dial preferred_dial(boost::asio::io_context& context, PreferredDialOptions options);

}  // namespace weft::rpc
