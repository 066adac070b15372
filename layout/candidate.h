// What data servers are candidates for new files and objects (layout/placement.h, relocation.h,
// balance.h), and what is wanted of a new file's place.
//
// Threading: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "layout/files_layout.h"
#include "layout/layout_map.h"
#include "layout/load.h"

namespace weft::layout {

enum class ServerState : std::uint8_t {
  kUp,        // heartbeats arrive
  kSuspect,   // one or more are overdue
  kDown,      // silent for longer than the limit, or never seen since the start
  kDraining,  // an operator wants no new files there
};

struct Candidate {
  std::uint32_t ds_id = 0;
  ServerState state = ServerState::kDown;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::string domain;  // servers of one failure domain may die together
  ServerLoad load;     // of the last heartbeat
  // Of what is used there, bytes a second that the server's own clients moved.
  std::uint64_t served = 0;
};

// The widest layout: its body has to fit the 4096 bytes a Linux client offers for LAYOUTGET's
// answer, of which 96 are kept for what is around it.
constexpr std::size_t kMaxLayoutServers = max_servers_within(4000);
static_assert(kMaxLayoutServers == 58);

constexpr std::uint64_t kFirstByTurn = 0;

struct PlacementPolicy {
  LayoutType type = LayoutType::kFiles;
  std::uint32_t stripe_unit = 1u << 20;     // bytes
  std::uint32_t stripe_count = 0;           // data servers for a file; 0 means all that are fit
  std::uint64_t reserve_bytes = 64u << 20;  // a server with less free gets no new files
  std::uint32_t copies = 1;                 // 1 to kMaxMirrors
  Duplication duplication = Duplication::kServerSync;  // with more than one copy
  ReadPolicy reads = ReadPolicy::kAllCopies;           // with more than one copy
  // A file is kept in the metadata store while it is no longer; 0: never.
  std::uint32_t inline_bytes = 0;
  bool skip = true;  // one loaded group may be left out of a new file
  // Files of the same number begin at the same group, as long as that gets new files; kFirstByTurn:
  // each begins one group further on.
  std::uint64_t first = kFirstByTurn;
};

}  // namespace weft::layout
