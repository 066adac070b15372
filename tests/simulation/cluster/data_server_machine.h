// A machine that runs weft-ds, as its main() does.
//
// Threading: as Machine.
#pragma once

#include <vector>

#include "dataserver/targets/target_link.h"
#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

class DataServerMachine final : public Machine {
 public:
  // `targets`: where its objects are; none: in its own folder. One: at that target.
  // Three and more: at a parity group of them. `kept`: what its own folder keeps besides objects.
  struct Kept {
    bool checksums = false;
    bool segments = false;
    StoreUse use = {};
  };
  DataServerMachine(unsigned node, const std::string& folder, std::string mds,
                    std::vector<ds::TargetAddress> targets, Kept kept);

 private:
  bool serve(const std::string& folder) override;

  const std::string mds_;  // address of its control port
  const std::vector<ds::TargetAddress> targets_;
  const Kept kept_;
};

}  // namespace weft::sim
