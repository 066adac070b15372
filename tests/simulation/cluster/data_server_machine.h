// A machine that runs weft-ds, as its main() does.
//
// Threading: as Machine.
#pragma once

#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

class DataServerMachine final : public Machine {
 public:
  DataServerMachine(unsigned node, const std::string& folder, std::string mds);

 private:
  bool serve(const std::string& folder) override;

  const std::string mds_;  // address of its control port
};

}  // namespace weft::sim
