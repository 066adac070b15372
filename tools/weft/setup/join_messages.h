// What a machine that joins a system and the metadata server's machine say to each other, over a
// peer::Connection whose secret is a token: docs/protocol.md.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rpc/peer/request.h"
#include "rpc/xdr/describe.h"

namespace weft::cli {

constexpr std::uint16_t kJoinPort = 20481;
constexpr std::size_t kMaxJoinName = 255;
constexpr std::size_t kMaxJoinKeys = 256;  // of a key file

// What a data server needs to be one of the system.
struct Joined {
  std::string mds;   // the metadata server's Control_Address; perhaps a wildcard
  std::string keys;  // the key file
};
template <class Io>
void describe(Io& io, Joined& r) {
  io("mds", r.mds, at_most(64));
  io("keys", r.keys, at_most(kMaxJoinKeys));
}

struct Join {
  static constexpr std::uint32_t kVerb = 1;
  using Reply = Joined;
  std::string name;  // of who joins, for the log
};
template <class Io>
void describe(Io& io, Join& r) {
  io("name", r.name, at_most(kMaxJoinName));
}

}  // namespace weft::cli
