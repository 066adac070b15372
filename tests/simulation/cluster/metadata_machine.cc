#include "tests/simulation/cluster/metadata_machine.h"

#include <thread>

#include "rpc/base/process_clock.h"
#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/tcp.h"

namespace weft::sim {

using namespace std::chrono_literals;

namespace {

constexpr Ns kGrace = 5 * kSecond;

void travel() { sleep_until(now() + 50 * kMicrosecond + static_cast<Ns>(choose(kMillisecond))); }

}  // namespace

MetadataMachine::MetadataMachine(unsigned node, const std::string& folder, Clients& clients)
    : Machine(node, "mds", folder, std::uint64_t{1} << 30), clients_(clients) {
  write_file(key_file(), cluster_key());
}

mds::Environment MetadataMachine::environment(Clock& clock) {
  return {.clock = clock,
          .random = system_random(),
          .lease = 20s,
          .grace = 5s,
          .grace_left =
              [this] {
                const Ns left = std::max<Ns>(0, grace_ends_ - now());
                return std::chrono::milliseconds(left / kMillisecond);
              },
          .clients = [] { return std::map<mds::ClientId, mds::NfsClient>(); },
          .is_open = [](mds::FileId, std::optional<mds::ClientId>) { return true; },
          .recaller = *this,
          .invalidate_attributes = [](mds::FileId) {},
          .find_path = [](std::string_view) { return std::optional<mds::PathInExport>(); }};
}

bool MetadataMachine::serve(const std::string& folder) {
  std::atomic<bool> failed{false};
  auto store = mds::open_rocks_kv({.path = folder + "/meta",
                                   .block_cache_bytes = 1U << 20,
                                   .write_buffer_bytes = 1U << 20,
                                   .on_failure = [&failed](const Error&) { failed = true; },
                                   .clock = system_clock(),
                                   .floor_bytes = 1U << 20});
  if (!store) {
    trace("mds: " + store.error().describe());
    return false;
  }
  mds::ServerOptions options;
  options.control_address = address() + ":" + std::to_string(kControlPort);
  options.key_file = key_file();
  options.data_server_lease = 10s;
  options.recall_timeout = 5s;
  options.proxy_timeout = 10s;
  grace_ends_ = lives() == 1 ? now() : now() + kGrace;
  ProcessClock clock(system_clock());
  auto server = mds::MetadataServer::start(options, environment(clock), **store);
  if (!server) {
    trace("mds: " + server.error().describe());
    return false;
  }
  (*server)->start_background();
  server_ = server->get();
  up_ = true;
  while (!stopping() && !failed) rest();
  up_ = false;
  wait_for_calls();
  server_ = nullptr;
  server->reset();
  return !failed;
}

void MetadataMachine::vanish() { up_ = false; }

void MetadataMachine::wait_for_calls() {
  while (calls_ > 0) std::this_thread::sleep_for(50ms);
}

bool MetadataMachine::begin_call(unsigned from, unsigned* life) {
  if (!tcp::reaches(from, node())) {
    std::this_thread::sleep_for(1s);
    return false;
  }
  travel();
  if (!up_) {
    std::this_thread::sleep_for(100ms);
    return false;
  }
  if (life != nullptr) *life = lives();
  ++calls_;
  enter_node(node());
  return true;
}

bool MetadataMachine::end_call(unsigned from, unsigned asked) {
  enter_node(from);
  --calls_;
  if (!up_ || lives() != asked) return false;
  travel();
  if (!tcp::reaches(node(), from)) {
    std::this_thread::sleep_for(1s);
    return false;
  }
  return up_ && lives() == asked;
}

void MetadataMachine::recall(mds::FileId file, mds::ClientId client,
                             std::optional<layout::Access> /*only*/,
                             std::function<void()> /*none*/) {
  const unsigned to = node_of_client(client);
  // Some clients take their time, or the call is lost and made again.
  const Ns most = choose(4) == 0 ? 3 * kSecond : 10 * kMillisecond;
  after(static_cast<Ns>(choose(static_cast<std::uint64_t>(most))), [this, file, client, to] {
    if (tcp::reaches(node(), to)) clients_.recall(file, client);
  });
}

}  // namespace weft::sim
