#include "tests/simulation/cluster/target_machine.h"

#include "dataserver/targets/target.h"
#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/world/disk.h"

namespace weft::sim {

TargetMachine::TargetMachine(unsigned node, const std::string& folder)
    : Machine(node, "target" + std::to_string(node), folder, std::uint64_t{4} << 30) {
  write_file(key_file(), cluster_key());
}

bool TargetMachine::serve(const std::string& folder) {
  ds::TargetConfig config;
  config.listen = {layout::make_address(address(), kTargetPort).value()};
  config.threads = 2;
  config.pin_threads = false;
  config.memory_limit_bytes = std::size_t{32} << 20;
  config.watchdog = std::chrono::seconds(0);
  config.drain = std::chrono::seconds(2);
  config.store.path = folder + "/store";
  config.key_file = key_file();
  auto opened = ds::Target::open(std::move(config));
  if (!opened) {
    trace(name() + ": " + opened.error().describe());
    return false;
  }
  while (!stopping()) {
    (*opened)->tick();
    rest();
  }
  const auto stopped = (*opened)->stop();
  if (!stopped) {
    trace(name() + ": " + stopped.error().describe());
    // What hangs may not be destroyed (Target::stop()).
    if (stopped.error() == Errc::kTimedOut) static_cast<void>(opened->release());
  }
  return stopped.has_value();
}

}  // namespace weft::sim
