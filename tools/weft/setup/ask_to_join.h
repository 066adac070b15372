// The joining machine's end: asks the metadata server's machine, with a token, for what a data
// server needs.
//
// Threading: blocks, with a thread of its own for as long.
#pragma once

#include <chrono>
#include <string>

#include "layout/net_address.h"
#include "rpc/base/error.h"
#include "rpc/peer/keys.h"
#include "tools/weft/setup/join_messages.h"

namespace weft::cli {

struct JoinAnswer {
  layout::NetAddress mds;  // control address, never a wildcard
  rpc::peer::ClusterKeys keys;
  std::string key_file;    // what it has: the keys
  layout::NetAddress own;  // this machine's, by which it reached the other; port 0
};

// `host`: a name or numeric address, with a port perhaps ("m1", "m1:20481", "[2001:db8::1]:20481").
// kAuth: the token is not valid there. kUnreachable, kTimedOut: nobody takes tokens there. kInvalid
// and kProtocol otherwise. The text says what to do.
[[nodiscard]] Result<JoinAnswer> ask_to_join(const std::string& host, const std::string& token,
                                             const std::string& name,
                                             std::chrono::milliseconds timeout);

}  // namespace weft::cli
