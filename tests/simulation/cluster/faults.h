// What goes wrong in a run: programs are killed, machines lose power, stand still or are cut off,
// disks are slow, full, stuck or failing, leases are lost, data servers are drained. In half of the
// seeds one fault comes after the other, but for those while a data server is drained; in the
// others two or three threads make them, so that faults of all kinds overlap, at one machine too.
//
// A fault takes what it changes (a machine's program, disk, network or duty, a link) and gives it
// back once it has undone that: no other fault undoes it before. Nothing here destroys what a disk
// has synced, so however many machines are away at a time, each comes back with that.
//
// Threading: run() by the thread that directs the run; it makes the others. The rest from anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/simulation/cluster/client.h"
#include "tests/simulation/cluster/data_server_machine.h"
#include "tests/simulation/cluster/metadata_machine.h"
#include "tests/simulation/cluster/target_machine.h"

namespace weft::sim {

// Of the cluster, which has them for longer than this is used.
struct FaultPlaces {
  MetadataMachine& mds;
  const std::vector<std::unique_ptr<TargetMachine>>& targets;
  const std::vector<std::unique_ptr<DataServerMachine>>& servers;
  const std::vector<std::unique_ptr<Client>>& clients;
  const std::vector<std::unique_ptr<SharedFile>>& files;
};

struct FaultOptions {
  unsigned count = 0;    // when one thread makes them; each further one makes half as many more
  unsigned threads = 0;  // that make faults; 0: the seed says
  bool shares_memory = false;  // data servers and targets are on one machine
  bool disks_fail = false;     // reads, writes and syncs end with EIO, too
};

class Faults {
 public:
  explicit Faults(const FaultPlaces& places) : places_(places) {}
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // Returns when all faults are over.
  void run(const FaultOptions& options);
  // Programs that have ended by themselves are started again, but for those that a fault has taken.
  void revive();

  // Whether one is under way during which clients do what it is meant for.
  [[nodiscard]] bool drains() const { return drains_ > 0; }
  [[nodiscard]] bool lease_runs_out() const { return leases_ > 0; }
  [[nodiscard]] unsigned deaths() const { return deaths_; }

 private:
  enum class Part { kProgram, kDisk, kNetwork, kDuty, kLink };
  // The part of a node; of a link both ends, the lesser one first.
  using Mark = std::tuple<Part, unsigned, unsigned>;
  class Taken;
  static Mark program(const Machine& machine) { return {Part::kProgram, machine.node(), 0}; }
  static Mark link(unsigned a, unsigned b);

  void make_faults();
  void fault();
  // Each: false when a part that it needs is taken; then nothing was done.
  [[nodiscard]] bool try_fault();
  [[nodiscard]] bool power_fault(Machine& one, Machine& other);
  [[nodiscard]] bool power_of_all();
  [[nodiscard]] bool end_program(Machine& machine, bool in_order);
  [[nodiscard]] bool cut_link(unsigned a, unsigned b);
  [[nodiscard]] bool isolate(const Machine& machine);
  [[nodiscard]] bool stand_still(Machine& machine);
  [[nodiscard]] bool disk_fault(const Machine& machine);
  [[nodiscard]] bool lease_fault();
  [[nodiscard]] bool client_lease_fault();
  [[nodiscard]] bool drain_fault();

  static void restart(Machine& machine);
  void revive(Machine& machine);
  // For how long each data server was silent, as the metadata server counts. None while it is away.
  [[nodiscard]] std::map<std::uint32_t, std::chrono::milliseconds> silences();
  // Whether it was said; the metadata server may be away.
  bool set_duty(std::uint32_t ds_id, mds::Duty duty);
  [[nodiscard]] Machine& any_machine();

  const FaultPlaces places_;
  FaultOptions options_;
  std::set<Mark> taken_;
  unsigned left_ = 0;  // faults that have not begun
  unsigned deaths_ = 0;
  unsigned drains_ = 0;  // under way
  unsigned leases_ = 0;  // of data servers, that run out
};

}  // namespace weft::sim
