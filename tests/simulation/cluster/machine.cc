#include "tests/simulation/cluster/machine.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/simulation/world/disk.h"
#include "tests/simulation/world/network.h"

namespace weft::sim {

namespace {

constexpr Ns kTurn = 200 * kMillisecond;  // run_until_stopped()'s

}  // namespace

Machine::Machine(unsigned node, std::string name, const std::string& folder,
                 std::uint64_t disk_bytes)
    : node_(node),
      name_(std::move(name)),
      disk_(disk::make(folder, disk_bytes)),
      key_file_(folder + ".key") {}

Machine::~Machine() {
  if (running()) static_cast<void>(stop());
}

std::string Machine::address() const { return network::address(node_); }

void Machine::start() {
  ++lives_;
  stopping_ = false;
  ended_ = false;
  trace(name_ + " starts");
  note(0x1000 + node_);
  thread_ = std::thread([this] { run(); });
}

void Machine::run() {
  enter_node(node_);
  ended_well_ = serve(disk::path(disk_));
  if (std::exchange(hangs_, false)) exit();
  ended_ = true;
  trace(name_ + " has ended");
}

// What is left of a program loses its connections, files and locks, as a process does.
void Machine::exit() {
  network::kill(node_);
  disk::keep_all(disk_);
  network::revive(node_);
}

bool Machine::stop() {
  trace(name_ + " is stopped");
  end();
  return ended_well_;
}

void Machine::die(Loss loss) {
  trace(name_ + (loss == Loss::kUnsynced ? " loses power" : " is killed"));
  note(0x2000 + node_);
  network::kill(node_);
  if (loss == Loss::kUnsynced) {
    disk::lose_power(disk_);
  } else {
    disk::keep_all(disk_);
  }
  resume(node_);
  vanish();
  end();
  network::revive(node_);
}

bool Machine::failed(const Error& error) const {
  trace(name_ + ": " + error.describe());
  return false;
}

void Machine::end() {
  stopping_ = true;
  wake_all(resting_);
  thread_.join();
}

void Machine::rest() { static_cast<void>(wait_until(resting_, now() + kTurn)); }

void write_file(const std::string& path, const std::string& text) {
  const Real real;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) std::abort();
  std::fputs(text.c_str(), file);
  std::fclose(file);
  ::chmod(path.c_str(), 0600);
}

}  // namespace weft::sim
