// A target, in this process or in one of its own, and a data server's store over it.
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "dataserver/store/disk.h"
#include "dataserver/store/state_file.h"
#include "dataserver/targets/remote_store.h"
#include "dataserver/targets/target.h"
#include "rpc/base/shared_memory.h"
#include "tests/dataserver/store/store_calls.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::test {

using namespace std::chrono_literals;

inline std::string key_text(char digit) { return std::string(64, digit) + "\n"; }

struct TargetRig {
  TargetRig() {
    std::ofstream(folder.path() + "/key") << key_text('a');
    ::chmod((folder.path() + "/key").c_str(), 0600);
    ::mkdir((folder.path() + "/ds").c_str(), 0700);
  }
  [[nodiscard]] ds::TargetConfig config() const {
    ds::TargetConfig config;
    config.socket = socket();
    config.listen = {layout::parse_address("127.0.0.1:0").value()};
    config.threads = 2;
    config.pin_threads = false;
    config.watchdog = 0s;
    config.store.path = folder.path() + "/objects";
    config.store.max_open_files = 64;
    config.key_file = folder.path() + "/key";
    return config;
  }
  [[nodiscard]] std::unique_ptr<ds::Target> start() const {
    return ds::Target::open(config()).value();
  }
  [[nodiscard]] std::string socket() const { return folder.path() + "/socket"; }
  [[nodiscard]] ds::TargetAddress local() const { return {.path = socket()}; }
  TempFolder folder;
};

// Where a data server, whose folder this is, notes what its target has noted.
inline std::string noted_file(const std::string& folder) {
  std::ifstream file(folder + "/target");
  std::string store;
  std::getline(file, store);
  return folder + "/target-state-" + store;
}
inline ds::StoreState noted_target(const std::string& folder) {
  const auto at = ds::open_directory(folder).value();
  const std::string file = noted_file(folder);
  return ds::read_state(at.get(), file.substr(folder.size() + 1).c_str()).value();
}

// A target in a process of its own, to be killed and stopped.
class TargetChild {
 public:
  explicit TargetChild(const TargetRig& rig) : pid_(::fork()) {
    if (pid_ != 0) return;
    auto target = ds::Target::open(rig.config());
    if (!target) ::_exit(1);
    for (;;) ::pause();
  }
  TargetChild(const TargetChild&) = delete;
  TargetChild& operator=(const TargetChild&) = delete;
  ~TargetChild() {
    tell(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // Told to stop, it has when this returns.
  void tell(int signal) const {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    int status = 0;
    if (signal == SIGSTOP) ::waitpid(pid_, &status, WUNTRACED);
  }

 private:
  pid_t pid_;
};

inline ds::Uuid space_of(std::uint8_t number) {
  ds::Uuid space{};
  space.fill(static_cast<std::byte>(number));
  return space;
}

inline ds::LinkOptions quick_link() {
  ds::LinkOptions options;
  options.silence = 1000ms;
  options.patience = 10'000ms;
  options.commit_patience = 10'000ms;
  options.retry_every = 10ms;
  return options;
}

inline ds::TargetAddress by_tcp(const ds::Target& target) {
  return {.inet = layout::make_address("127.0.0.1", target.ports().at(0)).value()};
}

class RemoteRunner : public StoreCalls {
 public:
  RemoteRunner(const TargetRig& rig, const ds::TargetAddress& address,
               const ds::LinkOptions& options = quick_link(), std::uint8_t space = 1,
               char key = 'a', bool replaceable = false, std::size_t bypass = 64,
               std::uint32_t threads = 1, ds::DialRdma dial_rdma = {})
      : StoreCalls(
            std::make_shared<Arena>(SharedMemory::create(std::size_t{64} << 20, "test").value())),
        keys_(std::make_shared<rpc::peer::Keyring>(
            rpc::peer::parse_cluster_key(key_text(key)).value())),
        folder_(ds::open_directory(rig.folder.path() + "/ds").value()) {
    std::vector<ds::IoRing*> rings{ring_.get()};
    for (std::uint32_t thread = 1; thread < threads; ++thread) {
      more_rings_.push_back(ds::IoRing::create(context_, thread).value());
      rings.push_back(more_rings_.back().get());
    }
    store_ = ds::RemoteStore::open({.address = address,
                                    .space = space_of(space),
                                    .keys = keys_,
                                    .options = options,
                                    .pool = pool_,
                                    .random = system_random(),
                                    .rings = rings,
                                    .folder = folder_.get(),
                                    .replaceable = replaceable,
                                    .dial_rdma = std::move(dial_rdma),
                                    .bypass = bypass})
                 .value();
  }
  ~RemoteRunner() override {
    store_->close();
    run_for(50ms);
    store_.reset();
    run_for(50ms);
  }
  ds::Store& any() override { return *store_; }
  [[nodiscard]] ds::RemoteStore& remote() { return *store_; }
  [[nodiscard]] const ds::TargetView& view() const { return store_->view(); }
  [[nodiscard]] rpc::peer::Keyring& keys() { return *keys_; }
  void run_for(std::chrono::milliseconds time) {
    context_.restart();
    context_.run_for(time);
  }
  // What is called from now on comes from the thread of this number.
  void be_thread(std::size_t number) {
    (number == 0 ? *ring_ : *more_rings_.at(number - 1)).bind_to_this_thread();
  }
  // Runs until `check` holds, 20 s at most.
  template <class Check>
  bool eventually(Check check) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!check()) {
      if (std::chrono::steady_clock::now() > end) return false;
      context_.restart();
      context_.run_one_for(10ms);
    }
    return true;
  }

 private:
  const std::shared_ptr<rpc::peer::Keyring> keys_;
  OwnedFd folder_;
  std::vector<std::unique_ptr<ds::IoRing>> more_rings_;
  std::unique_ptr<ds::RemoteStore> store_;
};

}  // namespace weft::test
