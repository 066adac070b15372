#include "tests/simulation/world/network.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "tests/simulation/world/local_sockets.h"
#include "tests/simulation/world/shared_mappings.h"
#include "tests/simulation/world/tcp.h"

namespace weft::sim {
namespace tcp {
namespace {

constexpr std::uint32_t kFirst = 0x0a000001;    // 10.0.0.1
constexpr std::uint32_t kOutside = 0x0afffffe;  // of threads that belong to no machine

struct Network {
  std::map<unsigned, Host> hosts;
  std::set<std::pair<unsigned, unsigned>> cuts;  // from, to
  std::map<std::pair<unsigned, unsigned>, network::Delay> delays;
  network::Delay others;
  network::Totals totals;
  std::map<std::uint64_t, Connection*> connections;
};

Network& net() {
  static auto* const made = new Network;
  return *made;
}

}  // namespace

std::uint16_t Host::free_port() {
  for (;;) {
    const std::uint16_t port = next_port;
    next_port = port == 60999 ? 32768 : static_cast<std::uint16_t>(port + 1);
    const auto found = bound.find(port);
    if (found == bound.end() || found->second.expired()) return port;
  }
}

Host& host(unsigned node) { return net().hosts[node]; }
std::uint32_t ip_of(unsigned node) { return node == kNoNode ? kOutside : kFirst + node; }

unsigned node_of(std::uint32_t ip, unsigned from) {
  if ((ip >> 24) == 127 || ip == 0) return from;
  return ip == kOutside ? kNoNode : ip - kFirst;
}

bool reaches(unsigned from, unsigned to) {
  const Network& all = net();
  if (!host(from).alive || !host(to).alive) return false;
  if (from == to) return true;
  return !host(from).isolated && !host(to).isolated && !all.cuts.contains({from, to});
}

Ns travel_time(unsigned from, unsigned to) {
  if (from == to) return 5 * kMicrosecond + static_cast<Ns>(choose(20 * kMicrosecond));
  const auto found = net().delays.find({from, to});
  const network::Delay& delay = found == net().delays.end() ? net().others : found->second;
  Ns time = delay.base + static_cast<Ns>(choose(static_cast<std::uint64_t>(delay.spread) + 1));
  // Now and then a piece takes far longer than its fellows: a switch's queue, a lost packet.
  if (chance(5'000)) time += static_cast<Ns>(choose(20 * kMillisecond));
  if (delay.lost_in_million > 0 && chance(delay.lost_in_million)) {
    time += 200 * kMillisecond + static_cast<Ns>(choose(400 * kMillisecond));
  }
  return time;
}

network::Totals& counts() { return net().totals; }
std::map<std::uint64_t, Connection*>& all_connections() { return net().connections; }

}  // namespace tcp

namespace network {
namespace {

using tcp::Connection;

std::vector<std::shared_ptr<Connection>> connections_of_all() {
  std::vector<std::shared_ptr<Connection>> out;
  for (const auto& [id, connection] : tcp::all_connections()) {
    if (auto held = connection->weak_from_this().lock()) out.push_back(std::move(held));
  }
  return out;
}

void retry_all() {
  for (const auto& connection : connections_of_all()) connection->retry();
}

void note_fault(unsigned kind, unsigned a, unsigned b) {
  note((static_cast<std::uint64_t>(kind) << 56) ^ (static_cast<std::uint64_t>(a) << 24) ^ b);
}

}  // namespace

std::string address(unsigned node) {
  const std::uint32_t ip = tcp::ip_of(node);
  return std::to_string(ip >> 24) + "." + std::to_string(ip >> 16 & 255) + "." +
         std::to_string(ip >> 8 & 255) + "." + std::to_string(ip & 255);
}

void cut(unsigned a, unsigned b) {
  cut_one_way(a, b);
  cut_one_way(b, a);
}
void cut_one_way(unsigned from, unsigned to) {
  note_fault(1, from, to);
  tcp::net().cuts.insert({from, to});
}
void heal(unsigned a, unsigned b) {
  note_fault(2, a, b);
  tcp::net().cuts.erase({a, b});
  tcp::net().cuts.erase({b, a});
  retry_all();
}
void isolate(unsigned node) {
  note_fault(3, node, 0);
  tcp::host(node).isolated = true;
}
void rejoin(unsigned node) {
  note_fault(4, node, 0);
  tcp::host(node).isolated = false;
  retry_all();
}
void heal_all() {
  note_fault(5, 0, 0);
  tcp::net().cuts.clear();
  for (auto& [node, host] : tcp::net().hosts) host.isolated = false;
  retry_all();
}

void delay(unsigned a, unsigned b, const Delay& delay) {
  tcp::net().delays[{a, b}] = delay;
  tcp::net().delays[{b, a}] = delay;
}
void delay_all(const Delay& delay) { tcp::net().others = delay; }

void reset_connections(unsigned node) {
  note_fault(6, node, 0);
  for (const auto& connection : connections_of_all()) {
    if (connection->side(0).node != node && connection->side(1).node != node) continue;
    connection->fail(0, ECONNRESET);
    connection->fail(1, ECONNRESET);
  }
}

void kill(unsigned node) {
  note_fault(7, node, 0);
  tcp::Host& host = tcp::host(node);
  if (!host.alive) return;
  for (const auto& connection : connections_of_all()) {
    for (unsigned s : {0U, 1U}) {
      if (connection->side(s).node == node) connection->vanish(s);
    }
  }
  part_mappings(node);
  LocalSocket::kill(node);
  host.alive = false;
  begin_life(node);
  for (const auto& [port, weak] : std::exchange(host.bound, {})) {
    if (const auto socket = weak.lock(); socket != nullptr) socket->vanish();
  }
}

void revive(unsigned node) {
  note_fault(8, node, 0);
  tcp::Host& host = tcp::host(node);
  if (host.alive) return;
  host.alive = true;
  retry_all();
}

const Totals& totals() { return tcp::counts(); }
std::size_t connections() { return tcp::all_connections().size(); }

}  // namespace network
}  // namespace weft::sim
