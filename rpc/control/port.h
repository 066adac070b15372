// Where a metadata server listens to data servers unless its Control_Address says otherwise.
//
// Threading: a constant.
#pragma once

#include <cstdint>

namespace weft::rpc::control {

constexpr std::uint16_t kControlPort = 20480;

}  // namespace weft::rpc::control
