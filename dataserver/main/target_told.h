// What the metadata server is told of a target: which cluster keys it has, and how it is reached.
//
// Threading: any.
#pragma once

#include "dataserver/targets/remote_store.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/transports.h"

namespace weft::ds {

[[nodiscard]] rpc::control::TargetKeys keys_of(const RemoteStore& target);
[[nodiscard]] rpc::control::TargetTransports transport_of(const RemoteStore& target);

}  // namespace weft::ds
