// A machine of the simulated cluster, and the program of ours that it runs: started, stopped in
// order, killed, its power lost, started again on what its disk has kept.
//
// A machine that dies is cut off from the network and from its disk in that moment. What is left of
// the program in memory is then taken down in order, which nobody else notices any more.
//
// Threading: by the thread that directs the run. serve() runs on a thread of the machine.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "dataserver/store/file_store.h"
#include "rpc/base/error.h"
#include "tests/simulation/world/scheduler.h"

namespace weft::sim {

// How the program uses its store.
struct StoreUse {
  bool direct = false;  // around the page cache
  bool cached = false;  // with a cache of its own
};

class Machine {
 public:
  // What a death costs: nothing that was written, or what was not synced.
  enum class Loss { kNothing, kUnsynced };

  // `folder` is made; the disk is in it.
  Machine(unsigned node, std::string name, const std::string& folder, std::uint64_t disk_bytes);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine();

  void start();
  // In order. False: the program said that it was not.
  bool stop();
  void die(Loss loss);
  [[nodiscard]] bool running() const { return thread_.joinable(); }
  // The program has ended by itself, as it does when its disk fails.
  [[nodiscard]] bool ended() const { return ended_; }

  [[nodiscard]] unsigned node() const { return node_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] unsigned disk() const { return disk_; }
  [[nodiscard]] std::string address() const;
  // Of the machine's system, which outlives its disks.
  [[nodiscard]] const std::string& key_file() const { return key_file_; }
  // How often it was started.
  [[nodiscard]] unsigned lives() const { return lives_; }

 protected:
  // The program: returns once stopping(), or when it can go on no longer; whether it ended well.
  virtual bool serve(const std::string& folder) = 0;
  // It is about to die: what others in this process know of it goes.
  virtual void vanish() {}
  [[nodiscard]] bool stopping() const { return stopping_; }
  // Each of the program's turns ends with this: as in its main() it waits until the next one is
  // due, or it is to end.
  void rest();

  // What the configurations of weft-ds and weft-target have in common.
  template <class Config>
  void configure(Config& config, const std::string& folder, StoreUse use) const {
    config.threads = 2;
    config.pin_threads = false;
    config.memory_limit_bytes = std::size_t{32} << 20;
    config.watchdog = std::chrono::seconds(0);
    config.drain = std::chrono::seconds(2);
    config.store.path = folder + "/store";
    if (use.direct) config.store.mode = ds::IoMode::kDirect;
    if (use.cached) config.cache_bytes = std::size_t{1} << 20;
    config.key_file = key_file();
  }
  // What their main()s do.
  template <class Program>
  bool run_program(Result<std::unique_ptr<Program>> program) {
    if (!program) return failed(program.error());
    while (!stopping()) {
      if (const auto ticked = (*program)->tick(); !ticked) {
        failed(ticked.error());
        break;
      }
      rest();
    }
    const auto stopped = (*program)->stop();
    if (stopped) return true;
    // What hangs may not be destroyed (DataServer::stop(), Target::stop()).
    if (stopped.error() == Errc::kTimedOut) {
      static_cast<void>(program->release());
      hangs_ = true;
    }
    return failed(stopped.error());
  }

 private:
  void run();
  void exit();
  void end();
  bool failed(const Error& error) const;

  const unsigned node_;
  const std::string name_;
  const unsigned disk_;
  const std::string key_file_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  WaitList resting_;
  bool ended_well_ = false;
  bool hangs_ = false;  // something of the program is left, which ends with its process
  unsigned lives_ = 0;
  std::thread thread_;
};

// What a machine's system holds from the start.
void write_file(const std::string& path, const std::string& text);

}  // namespace weft::sim
