#include "layout/candidate.h"

namespace weft::layout {

std::string_view to_string(ServerState state) {
  switch (state) {
    case ServerState::kUp: return "up";
    case ServerState::kSuspect: return "suspect";
    case ServerState::kDown: return "down";
    case ServerState::kDraining: return "draining";
  }
  return "unknown";
}

}  // namespace weft::layout
