// Hands the cluster key to machines that prove to have a valid token.
//
// TLS with the token as pre-shared key (rpc/peer/secure_channel.h) proves the token to both ends
// and hides the key on its way. Who joins is TLS's client here and says which token it has by a
// hash of it.
//
// Threading: one thread of its own, on which the functions of Config run; start() and stop() from
// the owner's.
//
// Invariants:
//  1. Nothing but TLS's own refusal is answered before the token is proved, and that is the same
//     for a wrong token, an expired one, and none at all.
//  2. Connections at a time, and those accepted in a second, are bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/peer/keys.h"
#include "tools/weft/setup/join_messages.h"

namespace weft::cli {

class JoinServer {
 public:
  struct Config {
    layout::NetAddress listen;
    // The secrets of the tokens that are valid now.
    std::function<rpc::peer::ClusterKeys()> secrets;
    std::function<Result<Joined>()> answer;
    std::size_t most_connections = 32;
    std::size_t most_of_an_address = 8;
    std::chrono::milliseconds pause{20};  // before the next connection is accepted
    std::chrono::milliseconds handshake{5000};
  };

  explicit JoinServer(Config config);
  JoinServer(const JoinServer&) = delete;
  JoinServer& operator=(const JoinServer&) = delete;
  ~JoinServer();

  // Listens.
  [[nodiscard]] Result<> start();
  void stop();
  // Once started.
  [[nodiscard]] layout::NetAddress address() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::cli
