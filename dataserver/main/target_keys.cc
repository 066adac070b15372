#include "dataserver/main/target_keys.h"

namespace weft::ds {

rpc::control::TargetKeys keys_of(const RemoteStore& target) {
  rpc::control::TargetKeys told;
  told.address = to_string(target.address());
  if (auto keys = target.keys()) {
    told.held.fingerprints = std::move(*keys);
  } else {
    told.why = keys.error().text;
  }
  return told;
}

}  // namespace weft::ds
