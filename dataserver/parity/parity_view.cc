#include "dataserver/parity/parity_view.h"

namespace weft::ds {

std::string_view to_string(GroupState state) {
  switch (state) {
    case GroupState::kStarting: return "starting";
    case GroupState::kWhole: return "whole";
    case GroupState::kDegraded: return "degraded";
    case GroupState::kRebuilding: return "rebuilding";
  }
  return "unknown";
}

}  // namespace weft::ds
