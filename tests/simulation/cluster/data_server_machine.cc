#include "tests/simulation/cluster/data_server_machine.h"

#include "dataserver/main/data_server.h"
#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/world/disk.h"

namespace weft::sim {

DataServerMachine::DataServerMachine(unsigned node, const std::string& folder, std::string mds,
                                     std::vector<std::string> targets)
    : Machine(node, "ds" + std::to_string(node), folder, std::uint64_t{4} << 30),
      mds_(std::move(mds)),
      targets_(std::move(targets)) {
  write_file(key_file(), cluster_key());
}

bool DataServerMachine::serve(const std::string& folder) {
  ds::DsConfig config;
  config.listen = {layout::make_address(address(), kDataPort).value()};
  config.name = name();
  config.threads = 2;
  config.pin_threads = false;
  config.memory_limit_bytes = std::size_t{32} << 20;
  config.watchdog = std::chrono::seconds(0);
  config.drain = std::chrono::seconds(2);
  config.shared_memory = false;
  config.store.path = folder + "/store";
  for (const std::string& target : targets_) {
    config.parity.push_back({.inet = layout::make_address(target, kTargetPort).value()});
  }
  if (targets_.size() == 1) {
    config.target = config.parity.front();
    config.parity.clear();
  }
  config.parity_chunk = kParityChunk;
  config.mds = {{.host = mds_, .port = kControlPort}};
  config.key_file = key_file();
  auto opened = ds::DataServer::open(std::move(config), std::nullopt);
  if (!opened) {
    trace(name() + ": " + opened.error().describe());
    return false;
  }
  while (!stopping()) {
    if (const auto ticked = (*opened)->tick(); !ticked) {
      trace(name() + ": " + ticked.error().describe());
      break;
    }
    rest();
  }
  const auto stopped = (*opened)->stop();
  if (!stopped) {
    trace(name() + ": " + stopped.error().describe());
    // What hangs may not be destroyed (DataServer::stop()).
    if (stopped.error() == Errc::kTimedOut) static_cast<void>(opened->release());
  }
  return stopped.has_value();
}

}  // namespace weft::sim
