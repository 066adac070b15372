// What the machines of a simulated cluster agree on: node numbers, addresses, ports, the key.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "ganesha-fsal/meta/schema/types.h"

namespace weft::sim {

constexpr unsigned kMetadataNode = 0;  // data servers follow from 1
constexpr unsigned kFirstTargetNode = 2000;
constexpr unsigned kFirstClientNode = 3000;
constexpr std::uint16_t kControlPort = 9630;
constexpr std::uint16_t kDataPort = 2049;
constexpr std::uint16_t kTargetPort = 20481;
constexpr std::uint32_t kParityChunk = 4096;

// A key file's text.
[[nodiscard]] inline std::string cluster_key() {
  std::string text;
  for (int i = 0; i < 32; ++i) text += "2a";
  return text;
}

[[nodiscard]] inline mds::ClientId client_id(unsigned index) { return 1000 + index; }
[[nodiscard]] inline unsigned node_of_client(mds::ClientId client) {
  return kFirstClientNode + static_cast<unsigned>(client - 1000);
}

}  // namespace weft::sim
