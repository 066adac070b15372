#include "tests/simulation/cluster/data_server_machine.h"

#include "dataserver/main/data_server.h"
#include "tests/simulation/cluster/cluster.h"

namespace weft::sim {

DataServerMachine::DataServerMachine(unsigned node, const std::string& folder, std::string mds,
                                     std::vector<ds::TargetAddress> targets, Kept kept)
    : Machine(node, "ds" + std::to_string(node), folder, std::uint64_t{4} << 30),
      mds_(std::move(mds)),
      targets_(std::move(targets)),
      kept_(kept) {
  write_file(key_file(), cluster_key());
}

bool DataServerMachine::serve(const std::string& folder) {
  ds::DsConfig config;
  configure(config, folder, kept_.use);
  config.listen = {layout::make_address(address(), kDataPort).value()};
  config.name = name();
  config.shared_memory = false;
  if (targets_.size() == 1) {
    config.target = targets_.front();
  } else {
    config.parity = targets_;
  }
  config.parity_chunk = kParityChunk;
  config.checksums = kept_.checksums;
  if (kept_.segments) {
    config.segments.size = std::uint64_t{16} << 20;
    config.segments.cache_bytes = std::uint64_t{16} << 20;
    config.segments.best = 1;  // clients read in no order
    config.segments.idle = std::chrono::seconds(1);
  }
  config.mds = {{.host = mds_, .port = kControlPort}};
  return run_program(ds::DataServer::open(std::move(config), std::nullopt));
}

}  // namespace weft::sim
