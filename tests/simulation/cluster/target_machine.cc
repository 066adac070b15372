#include "tests/simulation/cluster/target_machine.h"

#include "dataserver/targets/target.h"
#include "tests/simulation/cluster/cluster.h"

namespace weft::sim {

TargetMachine::TargetMachine(unsigned node, const std::string& folder, bool shares_memory,
                             StoreUse use)
    : Machine(node, "target" + std::to_string(node), folder, std::uint64_t{4} << 30),
      socket_(shares_memory ? folder + ".sock" : ""),
      use_(use) {
  write_file(key_file(), cluster_key());
}

ds::TargetAddress TargetMachine::target() const {
  if (!socket_.empty()) return {.path = socket_, .inet = {}};
  return {.path = {}, .inet = layout::make_address(address(), kTargetPort).value()};
}

bool TargetMachine::serve(const std::string& folder) {
  ds::TargetConfig config;
  configure(config, folder, use_);
  config.socket = socket_;
  if (socket_.empty()) config.listen = {target().inet};
  return run_program(ds::Target::open(std::move(config)));
}

}  // namespace weft::sim
