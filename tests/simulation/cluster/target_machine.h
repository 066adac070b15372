// A machine that runs weft-target, as its main() does: by TCP, or, for data servers that count as
// being on the same machine, through shared memory.
//
// Threading: as Machine.
#pragma once

#include "dataserver/targets/target_link.h"
#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

class TargetMachine final : public Machine {
 public:
  TargetMachine(unsigned node, const std::string& folder, bool shares_memory, StoreUse use);
  // Where data servers find it.
  [[nodiscard]] ds::TargetAddress target() const;

 private:
  bool serve(const std::string& folder) override;

  const std::string socket_;  // empty: by TCP
  const StoreUse use_;
};

}  // namespace weft::sim
