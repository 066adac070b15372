// A machine that runs weft-target, as its main() does, by TCP.
//
// Threading: as Machine.
#pragma once

#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

class TargetMachine final : public Machine {
 public:
  TargetMachine(unsigned node, const std::string& folder);

 private:
  bool serve(const std::string& folder) override;
};

}  // namespace weft::sim
