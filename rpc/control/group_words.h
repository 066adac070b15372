// How Heartbeat::store begins when a data server's parity group is not whole. The text is for
// people; the metadata server knows these states by it, of data servers of every version.
//
// Threading: plain values.
#pragma once

#include <string_view>

namespace weft::rpc::control {

constexpr std::string_view kGroupDegraded = "parity, degraded";
constexpr std::string_view kGroupRebuilding = "parity, rebuilding";  // and how far: " 40 %"

}  // namespace weft::rpc::control
