#include "dataserver/main/target_told.h"

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

rpc::control::AboutTarget about(const RemoteStore& target) {
  rpc::control::AboutTarget told{.address = to_string(target.address())};
  if (auto known = target.about()) {
    told.about = std::move(*known);
  } else {
    told.why = known.error().text;
  }
  return told;
}

rpc::control::TargetTransports transport_of(const RemoteStore& target) {
  return {.address = to_string(target.address()), .transport = transport_text(target.view())};
}

}  // namespace weft::ds
