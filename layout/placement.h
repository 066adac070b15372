// Placement: which data servers a new file is put on, and why.
//
// The metadata server asks once for each file it creates, with what it knows of every data server,
// and records the answer in the file's layout map. Placement is a pure choice: round robin here,
// by load and mirrored in layout/placement_by_load.h, from the same candidates.
//
// Threading: choose() may be called from any thread at once; all else are plain values.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/files_layout.h"
#include "layout/layout_map.h"
#include "layout/load.h"
#include "layout/mirror_groups.h"
#include "rpc/base/error.h"

namespace weft::layout {

enum class ServerState : std::uint8_t {
  kUp,        // heartbeats arrive
  kSuspect,   // one or more are overdue
  kDown,      // silent for longer than the limit, or never seen since the start
  kDraining,  // an operator wants no new files there
};

[[nodiscard]] std::string_view to_string(ServerState state);

struct Candidate {
  std::uint32_t ds_id = 0;
  ServerState state = ServerState::kDown;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::string domain;  // servers of one failure domain may die together
  ServerLoad load;     // of the last heartbeat
};

// The widest layout: its body has to fit the 4096 bytes a Linux client offers for LAYOUTGET's
// answer, of which 96 are kept for what is around it.
constexpr std::size_t kMaxLayoutServers = max_servers_within(4000);
static_assert(kMaxLayoutServers == 58);

struct PlacementPolicy {
  LayoutType type = LayoutType::kFiles;
  std::uint32_t stripe_unit = 1u << 20;     // bytes
  std::uint32_t stripe_count = 0;           // data servers for a file; 0 means all that are fit
  std::uint64_t reserve_bytes = 64u << 20;  // a server with less free gets no new files
  std::uint32_t copies = 1;                 // 1 to kMaxMirrors
  Duplication duplication = Duplication::kServerSync;  // with more than one copy
  ReadPolicy reads = ReadPolicy::kAllCopies;           // with more than one copy
};

struct PlacementChoice {
  LayoutMap map;
  std::string reason;  // for logs and `weft layout show`: "round-robin turn=7 fit=3 of 4"
};

class Placement {
 public:
  Placement() = default;
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  virtual ~Placement() = default;

  // Fewer servers than the policy's stripes is no error: the file is striped over those that are
  // fit. kNoSpace when every server that is up is full, kLayoutTryLater when none is up, kInvalid
  // for a policy that makes no layout.
  [[nodiscard]] virtual Result<PlacementChoice> choose(std::span<const Candidate> candidates,
                                                       const PlacementPolicy& policy) = 0;
};

// The files' data at one server each, whatever their load: kInvalid for more than one copy.
//
// Every file starts one server further on, over the servers ordered by id, so that files of one
// stripe spread as evenly as files striped over all. A file over all the servers that are fit
// differs from the next in its first index only, and shares the device.
class RoundRobin final : public Placement {
 public:
  // `start`: the first turn, so that restarts do not all begin at the same server.
  explicit RoundRobin(std::uint64_t start = 0) : turn_(start) {}
  [[nodiscard]] Result<PlacementChoice> choose(std::span<const Candidate> candidates,
                                               const PlacementPolicy& policy) override;

 private:
  std::atomic<std::uint64_t> turn_;
};

}  // namespace weft::layout
