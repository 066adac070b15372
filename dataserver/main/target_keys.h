// Which cluster keys a target has, as the metadata server is told.
//
// Threading: any.
#pragma once

#include "dataserver/targets/remote_store.h"
#include "rpc/control/target_keys.h"

namespace weft::ds {

[[nodiscard]] rpc::control::TargetKeys keys_of(const RemoteStore& target);

}  // namespace weft::ds
