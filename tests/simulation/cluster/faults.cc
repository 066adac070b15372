#include "tests/simulation/cluster/faults.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/network.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

using namespace std::chrono_literals;

namespace {

constexpr int kDutyTries = 300;  // a second each: longer than any fault

// Most faults are short, since time costs; some last longer than any lease.
void outlast() {
  const std::uint64_t most = choose(4) == 0 ? 20'000 : 2'500;
  std::this_thread::sleep_for(std::chrono::milliseconds(choose(most)));
}

disk::Behaviour trouble(bool failing) {
  disk::Behaviour behaviour;
  switch (choose(failing ? 4 : 3)) {
    case 0:
      behaviour.sync_time = 300 * kMillisecond;
      behaviour.write_time = 20 * kMillisecond;
      break;
    case 1: behaviour.full = true; break;
    case 2: behaviour.stuck = true; break;
    default: behaviour.errors_in_million = std::uint64_t{1'000} << choose(9); break;
  }
  return behaviour;
}

}  // namespace

// What a fault has taken, until this goes; nothing when some of it was taken already.
class Faults::Taken {
 public:
  Taken(Faults& faults, std::set<Mark> marks) : faults_(faults) {
    if (std::ranges::any_of(marks, [&](const Mark& m) { return faults.taken_.contains(m); })) {
      return;
    }
    faults.taken_.insert(marks.begin(), marks.end());
    marks_ = std::move(marks);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    for (const Mark& mark : marks_) faults_.taken_.erase(mark);
  }
  explicit operator bool() const { return !marks_.empty(); }

 private:
  Faults& faults_;
  std::set<Mark> marks_;
};

Faults::Mark Faults::link(unsigned a, unsigned b) {
  return {Part::kLink, std::min(a, b), std::max(a, b)};
}

void Faults::run(const FaultOptions& options) {
  options_ = options;
  if (options_.threads == 0)
    options_.threads = choose(2) == 0 ? 1 : 2 + static_cast<unsigned>(choose(2));
  left_ = options_.count * (options_.threads + 1) / 2;
  trace(std::to_string(left_) + " faults, " + std::to_string(options_.threads) + " at a time");
  std::vector<std::thread> others;
  for (unsigned i = 1; i < options_.threads; ++i) others.emplace_back([this] { make_faults(); });
  make_faults();
  for (std::thread& other : others) other.join();
}

void Faults::make_faults() {
  while (left_ > 0) {
    --left_;
    std::this_thread::sleep_for(std::chrono::milliseconds(choose(1'500)));
    fault();
  }
}

void Faults::fault() {
  while (!try_fault()) std::this_thread::sleep_for(100ms);
  revive();
}

bool Faults::try_fault() {
  Machine& one = any_machine();
  Machine& other = any_machine();
  switch (choose(13)) {
    case 0:
    case 1: return power_fault(one, other);
    case 2: return end_program(one, false);
    case 12: return end_program(one, true);
    case 3: return cut_link(one.node(), other.node());
    case 4: return isolate(one);
    case 5: network::reset_connections(one.node()); return true;
    case 6: return stand_still(one);
    case 7: return choose(3) == 0 ? client_lease_fault() : lease_fault();
    case 11: return drain_fault();
    case 8: {
      const unsigned client = places_.clients[choose(places_.clients.size())]->node();
      return cut_link(client, places_.servers[choose(places_.servers.size())]->node());
    }
    default: return disk_fault(one);
  }
}

Machine& Faults::any_machine() {
  const auto& [mds, targets, servers, clients, files] = places_;
  if (!targets.empty() && choose(2) == 0) return *targets[choose(targets.size())];
  const std::uint64_t chosen = choose(servers.size() + 1);
  return chosen == servers.size() ? static_cast<Machine&>(mds) : *servers[chosen];
}

void Faults::restart(Machine& machine) {
  outlast();
  machine.start();
}

void Faults::revive(Machine& machine) {
  if (!machine.ended()) return;
  const Taken taken(*this, {program(machine)});
  if (!taken) return;
  static_cast<void>(machine.stop());
  machine.start();
}

void Faults::revive() {
  revive(places_.mds);
  for (const auto& target : places_.targets) revive(*target);
  for (const auto& server : places_.servers) revive(*server);
}

bool Faults::power_fault(Machine& one, Machine& other) {
  if (options_.shares_memory && &one != &places_.mds) return power_of_all();
  const bool both = &other != &one && !options_.shares_memory && choose(4) == 0;
  const Taken taken(*this, {program(one), program(both ? other : one)});
  if (!taken) return false;
  ++deaths_;
  one.die(Machine::Loss::kUnsynced);
  if (both) {
    other.die(Machine::Loss::kUnsynced);
    other.start();
  }
  restart(one);
  return true;
}

// The machine of the targets and the data servers that share memory with them.
bool Faults::power_of_all() {
  std::set<Mark> all;
  for (const auto& server : places_.servers) all.insert(program(*server));
  for (const auto& target : places_.targets) all.insert(program(*target));
  const Taken taken(*this, std::move(all));
  if (!taken) return false;
  ++deaths_;
  // None of them goes on with what another has lost.
  for (const auto& server : places_.servers) server->die(Machine::Loss::kUnsynced);
  for (const auto& target : places_.targets) target->die(Machine::Loss::kUnsynced);
  outlast();
  for (const auto& target : places_.targets) target->start();
  for (const auto& server : places_.servers) server->start();
  return true;
}

bool Faults::end_program(Machine& machine, bool in_order) {
  const Taken taken(*this, {program(machine)});
  if (!taken) return false;
  if (in_order) {
    static_cast<void>(machine.stop());
  } else {
    ++deaths_;
    machine.die(Machine::Loss::kNothing);
  }
  restart(machine);
  return true;
}

bool Faults::cut_link(unsigned a, unsigned b) {
  const Taken taken(*this, {link(a, b)});
  if (!taken) return false;
  trace("node " + std::to_string(a) + " does not reach " + std::to_string(b));
  network::cut(a, b);
  outlast();
  network::heal(a, b);
  return true;
}

bool Faults::isolate(const Machine& machine) {
  const Taken taken(*this, {{Part::kNetwork, machine.node(), 0}});
  if (!taken) return false;
  trace(machine.name() + " reaches nobody");
  network::isolate(machine.node());
  outlast();
  network::rejoin(machine.node());
  return true;
}

bool Faults::disk_fault(const Machine& machine) {
  const Taken taken(*this, {{Part::kDisk, machine.node(), 0}});
  if (!taken) return false;
  trace(machine.name() + " has trouble with its disk");
  disk::behave(machine.disk(), trouble(options_.disks_fail));
  outlast();
  disk::behave(machine.disk(), {});
  return true;
}

std::map<std::uint32_t, std::chrono::milliseconds> Faults::silences() {
  using Silences = std::map<std::uint32_t, std::chrono::milliseconds>;
  const auto found =
      places_.mds.call<Silences>(places_.mds.node(), [](mds::MetadataServer& server) {
        Silences all;
        for (const auto& one : server.cluster().registry().list()) {
          if (one.seen) all[one.record.id] = one.silence;
        }
        return all;
      });
  enter_node(kNoNode);
  return found.value_or(Silences{});
}

// The time in which the metadata server stands still it counts for nobody.
bool Faults::stand_still(Machine& machine) {
  const Taken taken(*this, {program(machine)});
  if (!taken) return false;
  const bool counts = &machine == &places_.mds;
  const Ns asked = now();
  const auto before = counts ? silences() : std::map<std::uint32_t, std::chrono::milliseconds>();
  trace(machine.name() + " stands still");
  pause(machine.node());
  const Ns stood = now();
  outlast();
  const Ns went_on = now();
  resume(machine.node());
  if (!counts) return true;
  const auto after = silences();
  // What goes by before and after: with a stuck disk silences() take their time. And a second of
  // the time that it stood.
  const auto counted = std::chrono::nanoseconds(now() - went_on + stood - asked) + 2s;
  for (const auto& [id, silence] : after) {
    const auto known = before.find(id);
    if (known == before.end() || silence <= known->second + counted) continue;
    {
      const Real real;
      std::fprintf(stderr, "data server id %u counts as silent while mds stood still\n", id);
    }
    fail_run("an invariant does not hold");
  }
  return true;
}

// A client is away for longer than its lease, after which the metadata server takes its layouts
// away. It comes back knowing nothing of that, and writes and reads on.
bool Faults::client_lease_fault() {
  Client& client = *places_.clients[choose(places_.clients.size())];
  const Taken taken(*this, {{Part::kNetwork, client.node(), 0}});
  if (!taken) return false;
  trace("client " + std::to_string(client.id()) + " is away for longer than its lease");
  network::isolate(client.node());
  std::this_thread::sleep_for(std::chrono::milliseconds(20'000 + choose(5'000)));
  static_cast<void>(places_.mds.call<bool>(places_.mds.node(), [&](mds::MetadataServer& server) {
    for (const auto& file : places_.files) {
      server.layouts().revoke(file->id, client.id(), "its lease has ended");
    }
    return true;
  }));
  enter_node(kNoNode);
  network::rejoin(client.node());
  return true;
}

// A data server loses its lease, and clients still reach it; what is lost may be one way only.
bool Faults::lease_fault() {
  const unsigned mds = places_.mds.node();
  const unsigned server = places_.servers[choose(places_.servers.size())]->node();
  const Taken taken(*this, {link(server, mds)});
  if (!taken) return false;
  trace("data server " + std::to_string(server) + " and mds do not hear each other");
  switch (choose(3)) {
    case 0: network::cut_one_way(server, mds); break;
    case 1: network::cut_one_way(mds, server); break;
    default: network::cut(server, mds); break;
  }
  ++leases_;
  std::this_thread::sleep_for(std::chrono::milliseconds(5'000 + choose(15'000)));
  --leases_;
  network::heal(server, mds);
  return true;
}

bool Faults::set_duty(std::uint32_t ds_id, mds::Duty duty) {
  const auto done = places_.mds.call<bool>(places_.mds.node(), [&](mds::MetadataServer& server) {
    if (!server.cluster().registry().set_duty(ds_id, duty)) return false;
    if (duty == mds::Duty::kServing) server.repairs().mover().give_up(ds_id);
    server.repairs().mover().look_now();
    return true;
  });
  enter_node(kNoNode);
  return done.value_or(false);
}

// A data server's objects move elsewhere, for as long as that may take or less, while clients and
// other faults go on.
bool Faults::drain_fault() {
  const auto ds_id = static_cast<std::uint32_t>(1 + choose(places_.servers.size()));
  const Taken taken(*this, {{Part::kDuty, ds_id, 0}});
  if (!taken) return false;
  trace("data server id " + std::to_string(ds_id) + " is drained");
  const bool told = set_duty(ds_id, mds::Duty::kDraining);  // or it may have been told
  ++drains_;
  const std::uint64_t faults = told ? choose(3) : 0;
  for (std::uint64_t i = 0; i <= faults; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(choose(10'000)));
    if (i < faults) fault();
  }
  // The metadata server may be down: other faults of it end.
  for (int tries = 0; tries < kDutyTries && !set_duty(ds_id, mds::Duty::kServing); ++tries) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  --drains_;
  trace("data server id " + std::to_string(ds_id) + " serves again");
  return true;
}

}  // namespace weft::sim
