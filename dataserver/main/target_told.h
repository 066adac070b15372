// What the metadata server is told of a target: which cluster keys it has, how it is
// reached, its version and options.
//
// Threading: any.
#pragma once

#include "dataserver/targets/remote_store.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/transports.h"

namespace weft::ds {

[[nodiscard]] rpc::control::TargetKeys keys_of(const RemoteStore& target);
// But for how many targets there are.
[[nodiscard]] rpc::control::AboutTarget about(const RemoteStore& target);
[[nodiscard]] rpc::control::TargetTransports transport_of(const RemoteStore& target);

}  // namespace weft::ds
