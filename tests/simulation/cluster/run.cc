#include "tests/simulation/cluster/run.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "layout/relocation.h"
#include "tests/simulation/cluster/client.h"
#include "tests/simulation/cluster/data_server_machine.h"
#include "tests/simulation/cluster/faults.h"
#include "tests/simulation/cluster/metadata_machine.h"
#include "tests/simulation/cluster/stored_objects.h"
#include "tests/simulation/cluster/target_machine.h"
#include "tests/simulation/world/fork.h"
#include "tests/simulation/world/network.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

using namespace std::chrono_literals;

namespace {

// What the programs log, among what the run traces; a run goes the same way with it and without. No
// disk here changes a bit by itself: who finds one that fits no checksum is wrong.
class TraceSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view line{message.payload.data(), message.payload.size()};
    trace(line);
    if (line.starts_with("event=bad_block")) fail_run("a good block was called bad");
  }
  void flush_() override {}
};

constexpr Ns kQuietWithin = 900 * kSecond;

class Cluster final : Clients {
 public:
  explicit Cluster(const RunOptions& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void start();
  void work();
  void end_work();
  void make_faults();
  void end_faults();
  void await_quiet();
  void check();
  [[nodiscard]] ClientTotals totals() const;
  [[nodiscard]] std::string summary() const;

 private:
  void recall(mds::FileId file, mds::ClientId client) override;
  // Three, or all: that many in a row.
  [[nodiscard]] std::span<const std::unique_ptr<SharedFile>> some_files() const;
  [[nodiscard]] bool quiet();
  [[nodiscard]] Result<std::optional<layout::LayoutMap>> settled_layout(mds::FileId file);
  void check_stored(const SharedFile& file);
  void check_strays();
  void check_lost_object();
  void doubt(const SharedFile& file);
  void await_unused(const SharedFile& file);
  void leave_out_whole(const SharedFile& file, std::uint32_t ds_id);
  void await_here(std::uint32_t ds_id);
  void await_settled(mds::FileId file);
  [[nodiscard]] Storage storage_of(std::uint32_t ds_id);
  [[noreturn]] void failed(const std::string& what);

  const RunOptions options_;
  MetadataMachine mds_;
  std::vector<std::unique_ptr<TargetMachine>> targets_;
  std::vector<std::unique_ptr<DataServerMachine>> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<SharedFile>> files_;
  std::vector<std::thread> applications_;
  unsigned at_work_ = 0;        // applications that have not ended
  bool shares_memory_ = false;  // data servers and targets, which are on one machine then
  bool segments_ = false;
  bool may_lose_ = false;  // an object at the end: data servers have them in folders, as they are
  bool disks_fail_ = false;
  Faults faults_;
  std::size_t compared_ = 0;  // objects, on the disks
  bool over_ = false;         // the clients go
};

StoreKind kind_of(StoreKind kind) {
  if (kind != StoreKind::kAny) return kind;
  switch (choose(10)) {
    case 0: return StoreKind::kTarget;
    case 1: return StoreKind::kParity;
    case 6: return StoreKind::kSegments;
    case 7: return StoreKind::kBoth;
    case 8:
    case 9: return StoreKind::kChecksums;
    default: return StoreKind::kFolder;
  }
}

DataServerMachine::Kept kept_with(StoreKind kind) {
  return {.checksums = kind == StoreKind::kChecksums || kind == StoreKind::kBoth,
          .segments = kind == StoreKind::kSegments || kind == StoreKind::kBoth};
}

unsigned targets_of(StoreKind kind) {
  if (kind == StoreKind::kParity) return choose(2) == 0 ? 2 : choose(2) == 0 ? 3 : 5;
  return kind == StoreKind::kTarget ? 1 : 0;
}

Cluster::Cluster(const RunOptions& options)
    : options_(options),
      mds_(kMetadataNode, options.folder + "/mds", *this),
      faults_({.mds = mds_,
               .targets = targets_,
               .servers = servers_,
               .clients = clients_,
               .files = files_}) {
  std::vector<ds::TargetAddress> addresses;
  const StoreKind kind = kind_of(options.stores);
  const unsigned targets = targets_of(kind);
  shares_memory_ = targets > 0 && (options.transport == Transport::kAny
                                       ? choose(2) == 0
                                       : options.transport == Transport::kSharedMemory);
  // Who goes through the kernel's page cache has none of its own.
  const bool direct = options.direct || choose(4) == 0;
  const auto use_of = [&](bool may_cache) {
    return StoreUse{.direct = direct, .cached = may_cache && (options.cached || choose(2) == 0)};
  };
  for (unsigned i = 0; i < targets; ++i) {
    targets_.push_back(std::make_unique<TargetMachine>(
        kFirstTargetNode + i, options.folder + "/target" + std::to_string(i), shares_memory_,
        use_of(direct)));
    addresses.push_back(targets_.back()->target());
  }
  DataServerMachine::Kept kept = kept_with(kind);
  kept.use = use_of(direct || targets > 0);
  segments_ = kept.segments;
  may_lose_ = targets == 0 && !segments_;
  for (unsigned i = 1; i <= options.data_servers; ++i) {
    servers_.push_back(std::make_unique<DataServerMachine>(
        i, options.folder + "/ds" + std::to_string(i), mds_.address(), addresses, kept));
  }
  layout::PlacementPolicy policy;
  policy.stripe_unit = kBlockBytes;
  policy.reserve_bytes = 0;
  policy.stripe_count = options.stripes;
  policy.copies = options.copies;
  if (policy.copies == 0) policy.copies = choose(5) == 0 ? 1 : 2;
  const bool flexible =
      options.layouts == Layouts::kAny ? choose(4) == 0 : options.layouts == Layouts::kFlexFiles;
  if (flexible) {
    policy.type = layout::LayoutType::kFlexFiles;
    policy.stripe_count = 1;
    policy.duplication = layout::Duplication::kClientSync;
  } else if (choose(3) == 0) {
    policy.duplication = layout::Duplication::kServerAsync;
  }
  // Files begin in the metadata store, and grow out of it sooner or later.
  if (choose(3) == 0) {
    policy.inline_bytes = static_cast<std::uint32_t>((1 + choose(options.blocks)) * kBlockBytes);
  }
  disks_fail_ = options.failing_disks != 0 && choose(options.failing_disks) == 0;
  // All data servers have their objects at the same targets: two of a group that fail one after the
  // other, or one that has no group, take the last copy of what was written.
  if (!targets_.empty()) disks_fail_ = false;
  for (unsigned i = 0; i < options.clients; ++i) {
    clients_.push_back(std::make_unique<Client>(i, mds_, policy));
    for (unsigned f = 0; f < options.files; ++f) {
      const auto number = static_cast<std::uint32_t>(files_.size() + 1);
      files_.push_back(std::make_unique<SharedFile>(number, options.blocks));
    }
  }
}

// A program with an operation that hangs does not stop in order; of one that does, the pool asserts
// that no memory is lent.
Cluster::~Cluster() {
  over_ = true;
  clients_.clear();
  const auto stop = [this](Machine& machine) {
    if (!machine.stop()) failed(machine.name() + " does not stop in order");
  };
  for (auto& server : servers_) stop(*server);
  for (auto& target : targets_) stop(*target);
  stop(mds_);
}

void Cluster::failed(const std::string& what) {
  {
    const Real real;
    std::fprintf(stderr, "%s\n", what.c_str());
  }
  fail_run("an invariant does not hold");
}

void Cluster::start() {
  mds_.start();
  for (auto& target : targets_) target->start();
  for (auto& server : servers_) server->start();
  const Ns deadline = now() + 60 * kSecond;
  const auto all_up = [this] {
    if (!mds_.up()) return false;
    const auto list = mds_.server()->cluster().registry().list();
    return list.size() == servers_.size() &&
           std::ranges::all_of(list, [](const auto& server) { return server.connected; });
  };
  while (!all_up()) {
    if (now() > deadline) failed("the cluster does not come up");
    std::this_thread::sleep_for(100ms);
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    clients_[i / options_.files]->create(*files_[i], "file" + std::to_string(i));
  }
  enter_node(kNoNode);
}

std::span<const std::unique_ptr<SharedFile>> Cluster::some_files() const {
  const std::size_t count = std::min<std::size_t>(files_.size(), 3);
  return std::span(files_).subspan(choose(files_.size() - count + 1), count);
}

void Cluster::work() {
  at_work_ = static_cast<unsigned>(clients_.size());
  for (unsigned c = 0; c < clients_.size(); ++c) {
    applications_.emplace_back([this, c] {
      Client& client = *clients_[c];
      enter_node(client.node());
      for (unsigned i = 0; i < options_.operations; ++i) {
        SharedFile& own = *files_[c * options_.files + choose(options_.files)];
        SharedFile& any = *files_[choose(files_.size())];
        // What a lease is for: while one runs out, fences that only its end makes good.
        // And files go while objects move, or while what is sent to some of these is kept.
        const bool lease_runs_out = faults_.lease_runs_out();
        const bool some_go = faults_.drains() || lease_runs_out;
        const std::uint64_t what = lease_runs_out && choose(2) == 0 ? 4
                                   : some_go && choose(3) == 0      ? 10
                                                                    : choose(13);
        switch (what) {
          case 0: client.work_on_names(); break;
          case 4: client.write_when_fenced(own); break;
          case 5: client.truncate(own); break;
          case 1: client.read(own, true); break;
          case 2: client.read(any, false); break;
          case 3:
            if (segments_) {
              client.read_in_order(some_files());
            } else {
              client.read(any, true);
            }
            break;
          case 10: client.work_on_passing_files(some_go); break;
          case 11: client.look(any); break;
          case 12:
            for (int again = 0; again < 3; ++again) {
              client.write_and_sync(own);
              client.look(own);
            }
            break;
          default: client.write_and_sync(own); break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(choose(400)));
      }
      --at_work_;
    });
  }
}

void Cluster::make_faults() {
  faults_.run({.count = options_.faults,
               .threads = options_.fault_threads,
               .shares_memory = shares_memory_,
               .disks_fail = disks_fail_});
}

void Cluster::end_faults() {
  network::heal_all();
  faults_.revive();
}

// A program that met the last fault may end a while later.
void Cluster::end_work() {
  while (at_work_ > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    faults_.revive();
  }
  for (auto& application : applications_) application.join();
  applications_.clear();
}

bool Cluster::quiet() {
  if (!mds_.up()) return false;
  const auto left = mds_.call<std::size_t>(kFirstClientNode, [](mds::MetadataServer& server) {
    std::size_t waiting = 0;
    for (const auto& one : server.cluster().registry().list()) {
      if (!one.connected) ++waiting;
      using rpc::control::GroupState;
      if (one.group.state != GroupState::kNone && one.group.state != GroupState::kWhole) ++waiting;
      if (one.record.duty != mds::Duty::kServing) {
        ++waiting;
        static_cast<void>(server.cluster().registry().set_duty(one.record.id, mds::Duty::kServing));
        server.repairs().mover().give_up(one.record.id);
      }
      const auto stale = server.names().stale_objects(one.record.id, std::nullopt, 1);
      waiting += stale ? stale->size() : 1;
    }
    const auto removals = server.names().pending_removals(std::nullopt, 1);
    waiting += removals ? removals->size() : 1;
    const auto growing = server.names().growing();
    waiting += growing ? growing->size() : 1;
    return waiting;
  });
  return left == 0;
}

void Cluster::await_quiet() {
  const Ns deadline = now() + kQuietWithin;
  while (!quiet()) {
    if (now() > deadline) failed("copies are not made equal");
    std::this_thread::sleep_for(500ms);
  }
}

void Cluster::recall(mds::FileId file, mds::ClientId client) {
  if (!over_) clients_[client - client_id(0)]->recalled(file);
}

Storage Cluster::storage_of(std::uint32_t ds_id) {
  std::string name;
  for (const auto& one : mds_.server()->cluster().registry().list()) {
    if (one.record.id == ds_id) name = one.record.name;
  }
  for (const auto& server : servers_) {
    if (server->name() != name) continue;
    Storage storage{.server = server.get()};
    for (const auto& target : targets_) storage.targets.push_back(target.get());
    return storage;
  }
  failed("no data server " + std::to_string(ds_id));
}

bool all_current(const Result<std::optional<layout::LayoutMap>>& map) {
  const auto current = [](const layout::Copy& copy) {
    for (std::size_t s = 0; s < copy.ds_ids.size(); ++s) {
      if (copy.state_of(s) != layout::CopyState::kCurrent) return false;
    }
    return true;
  };
  return map && *map && std::ranges::all_of((*map)->copies, current);
}

// A move that was put off while its server was away ends, or is undone, a moment after that is
// back.
Result<std::optional<layout::LayoutMap>> Cluster::settled_layout(mds::FileId file) {
  const Ns deadline = now() + 120 * kSecond;
  for (;;) {
    auto map = mds_.server()->names().layout(file);
    if (!map || !*map || now() > deadline || all_current(map)) return map;
    std::this_thread::sleep_for(500ms);
  }
}

// Every copy of a stripe is the same on the disks, and parity fits.
void Cluster::check_stored(const SharedFile& file) {
  const auto map = settled_layout(file.id);
  if (!map || !*map) return;
  const layout::ObjectId object = mds_.server()->names().object_of(file.id, **map);
  const std::size_t size = options_.blocks * kBlockBytes;
  const auto& first = (*map)->copies.front();
  for (std::size_t c = 0; c < (*map)->copies.size(); ++c) {
    const auto& copy = (*map)->copies[c];
    for (std::size_t s = 0; s < copy.ds_ids.size(); ++s) {
      if (copy.state_of(s) != layout::CopyState::kCurrent) {
        failed("a copy of inode " + std::to_string(file.id) + " is not current");
      }
      const Storage here = storage_of(copy.ds_ids[s]);
      // A member is written anew a moment after its group counts as whole.
      const Ns deadline = now() + 30 * kSecond;
      while (!parity_fits(here, object, size)) {
        if (now() < deadline) {
          std::this_thread::sleep_for(500ms);
          continue;
        }
        failed("parity of inode " + std::to_string(file.id) + " does not fit at data server " +
               std::to_string(copy.ds_ids[s]));
      }
      const auto found = stored_object(here, object, size);
      if (found) ++compared_;
      const std::string zeros(size, '\0');
      const std::string other = found.value_or(zeros);
      const std::string one =
          stored_object(storage_of(first.ds_ids[s]), object, size).value_or(zeros);
      if (one == other) continue;
      const auto differ = std::ranges::mismatch(one, other).in1 - one.begin();
      failed("copies of inode " + std::to_string(file.id) + " differ at byte " +
             std::to_string(differ) + ": data servers " + std::to_string(first.ds_ids[s]) +
             " and " + std::to_string(copy.ds_ids[s]));
    }
  }
}

// No data server has an object that no file needs: what was moved or removed is gone.
void Cluster::check_strays() {
  const Ns deadline = now() + 120 * kSecond;
  for (const auto& one : mds_.server()->cluster().registry().list()) {
    for (;;) {
      const auto there = objects_in_folder(storage_of(one.record.id));
      const auto strays = mds_.server()->names().without_entry(one.record.id, there);
      if (!strays) failed("the index of objects cannot be read");
      if (strays->empty()) break;
      if (now() > deadline) {
        failed("data server " + std::to_string(one.record.id) + " has object " +
               to_string(strays->front()) + ", which no file needs");
      }
      std::this_thread::sleep_for(500ms);
    }
  }
}

void Cluster::await_settled(mds::FileId file) {
  const Ns deadline = now() + kQuietWithin;
  for (;;) {
    const auto left = mds_.call<bool>(kFirstClientNode, [&](mds::MetadataServer& server) {
      return server.journal().unsettled(file).has_value();
    });
    if (left == false) break;
    if (now() > deadline) failed("inode " + std::to_string(file) + " stays in doubt");
    std::this_thread::sleep_for(500ms);
  }
  await_quiet();
}

void Cluster::await_here(std::uint32_t ds_id) {
  const Ns deadline = now() + 60 * kSecond;
  for (;;) {
    const auto here = mds_.call<bool>(kFirstClientNode, [&](mds::MetadataServer& mds) {
      return mds.mirrors().reach(ds_id) == mds::Reach::kHere;
    });
    if (here == true) return;
    if (now() > deadline) failed("data server " + std::to_string(ds_id) + " does not come back");
    std::this_thread::sleep_for(100ms);
  }
}

// The data server's copy is left out while its server is away, though no other has the object;
// unless that is known.
void Cluster::leave_out_whole(const SharedFile& file, std::uint32_t ds_id) {
  const Storage other = storage_of(ds_id);
  const auto server =
      std::ranges::find(servers_, other.server, [](const auto& s) { return s.get(); });
  if (!(*server)->stop()) failed((*server)->name() + " does not stop in order");
  const Ns deadline = now() + kQuietWithin;
  for (;;) {
    const auto out = mds_.call<bool>(kFirstClientNode, [&](mds::MetadataServer& mds) {
      if (mds.mirrors().reach(ds_id) != mds::Reach::kGone) return false;
      if (mds.mirrors().exclude(file.id, ds_id, mds::Mirrors::Cause::kGone)) return true;
      // A comparison that was due anyway may have found the loss: then this is the only copy.
      const auto map = mds.names().layout(file.id);
      const auto seat = map && *map ? layout::seat_of(**map, ds_id) : std::nullopt;
      return seat && std::ranges::any_of((*map)->copies, [&](const layout::Copy& copy) {
               return copy.ds_ids[seat->stripe] != ds_id &&
                      copy.state_of(seat->stripe) != layout::CopyState::kCurrent;
             });
    });
    if (out == true) break;
    if (now() > deadline) failed("a copy is not left out");
    std::this_thread::sleep_for(500ms);
  }
  (*server)->start();
}

// The metadata server dies, and finds the file in doubt.
void Cluster::doubt(const SharedFile& file) {
  const auto doubted = mds_.call<bool>(kFirstClientNode, [&](mds::MetadataServer& mds) {
    return mds.journal().ensure(file.id).has_value();
  });
  if (doubted != true) failed("no record of inode " + std::to_string(file.id));
  mds_.die(Machine::Loss::kNothing);
  mds_.start();
}

// Nobody may write the file, and the metadata server remembers nothing of who did.
void Cluster::await_unused(const SharedFile& file) {
  const Ns deadline = now() + kQuietWithin;
  for (;;) {
    const auto unused = mds_.call<bool>(kFirstClientNode, [&](mds::MetadataServer& mds) {
      mds.layouts().recall(file.id, "its object is to be lost");
      if (!mds.layouts().idle(file.id) || mds.journal().unsettled(file.id)) return false;
      const mds::FileTable::Looking record(mds.files(), file.id);
      return record->mirrors.idle();
    });
    if (unused == true) return;
    if (now() > deadline) failed("inode " + std::to_string(file.id) + " stays in use");
    std::this_thread::sleep_for(500ms);
  }
}

// A data server loses an object, and does not know. The other copy stays as it is, and its bytes
// come back: when the file is in doubt for another reason, also if its writer goes on before it is
// looked at; when the other copy is the one that is to be repaired; and when nothing is in doubt,
// and its writer goes on, who may have his layout already.
void Cluster::check_lost_object() {
  const std::size_t size = options_.blocks * kBlockBytes;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    SharedFile& file = *files_[f];
    const auto map = settled_layout(file.id);
    if (!map || !*map || (*map)->copies.size() < 2) continue;
    const layout::ObjectId object = mds_.server()->names().object_of(file.id, **map);
    const std::size_t copy = choose((*map)->copies.size());
    const auto& ds_ids = (*map)->copies[copy].ds_ids;
    const std::size_t stripe = choose(ds_ids.size());
    const Storage there = storage_of(ds_ids[stripe]);
    const auto before = stored_object(there, object, size);
    if (!before || before->find_first_not_of('\0') == std::string::npos) continue;
    if ((*map)->copies.size() != 2) continue;
    const std::uint64_t how = choose(5);
    const bool written = how == 1 || how >= 3;
    Client& writer = *clients_[f / options_.files];
    if (how == 3) await_unused(file);
    if (how == 4) {
      writer.write_and_sync(file);
      if (!all_current(mds_.server()->names().layout(file.id))) return;  // then it has the only one
    }
    const auto server =
        std::ranges::find(servers_, there.server, [](const auto& s) { return s.get(); });
    trace((*server)->name() + " loses an object of inode " + std::to_string(file.id));
    if (!(*server)->stop()) failed((*server)->name() + " does not stop in order");
    if (!lose_object(there, object)) failed("an object that is there cannot be removed");
    if (how == 1 || how == 2) doubt(file);
    (*server)->start();
    if (how == 3) await_here(ds_ids[stripe]);
    if (how == 0) {
      await_here(ds_ids[stripe]);
      leave_out_whole(file, (*map)->copies[1 - copy].ds_ids[stripe]);
      await_quiet();
    }
    if (written) writer.write_and_sync(file);
    if (how == 4) {
      std::this_thread::sleep_for(1s);  // it is not taken for here any more
      await_here(ds_ids[stripe]);
    }
    await_settled(file.id);
    check_stored(file);
    if (!written && stored_object(there, object, size) != before) {
      failed("a lost object does not come back");
    }
    for (unsigned i = 0; i < 2 * options_.blocks; ++i) clients_.front()->read(file, i % 2 == 0);
    return;
  }
}

void Cluster::check() {
  Client& reader = *clients_.front();
  for (const auto& file : files_) {
    for (unsigned i = 0; i < 4; ++i) reader.read(*file, i % 2 == 0);
    reader.look(*file);
  }
  for (const auto& client : clients_) client->check_names();
  await_quiet();
  for (const auto& file : files_) check_stored(*file);
  for (const auto& client : clients_) {
    for (const auto& file : client->passing_files()) check_stored(*file);
  }
  check_strays();
  if (may_lose_ && choose(3) == 0) check_lost_object();
  if (compared_ == 0) failed("no object is on any disk");
}

ClientTotals Cluster::totals() const {
  ClientTotals all;
  for (const auto& client : clients_) {
    all.syncs += client->totals().syncs;
    all.reads += client->totals().reads;
    all.looks += client->totals().looks;
    all.names += client->totals().names;
    all.removed += client->totals().removed;
    all.again += client->totals().again;
  }
  return all;
}

std::string Cluster::summary() const {
  const ClientTotals all = totals();
  return std::to_string(all.syncs) + " syncs, " + std::to_string(all.reads) + " reads, " +
         std::to_string(all.looks) + " looks, " + std::to_string(all.names) + " names, " +
         std::to_string(all.removed) + " removed, " + std::to_string(all.again) + " again, " +
         std::to_string(faults_.deaths()) + " deaths, " + std::to_string(now() / kSecond) + " s";
}

Costs::Times times_of(const std::map<unsigned, Ns>& costs, double divisor) {
  Costs::Times times;
  for (const auto& [node, cost] : costs) {
    const double us = static_cast<double>(cost) / kMicrosecond / divisor;
    if (node == kNoNode) {
      times.own += us;
    } else if (node == kMetadataNode) {
      times.metadata_server += us;
    } else if (node < kFirstClientNode) {
      times.data_servers += us;
    } else {
      times.clients += us;
    }
  }
  return times;
}

double resident_mib() {
  const Real real;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long size = 0;
  unsigned long resident = 0;
  if (std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
  std::fclose(file);
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

}  // namespace

std::string run_cluster(const RunOptions& options) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("simulation", std::make_shared<TraceSink>()));
  std::string summary;
  {
    Cluster cluster(options);
    cluster.start();
    cluster.work();
    cluster.make_faults();
    cluster.end_faults();
    cluster.end_work();
    cluster.await_quiet();
    cluster.check();
    summary = cluster.summary();
  }
  return summary;
}

Costs measure_cluster(const RunOptions& options) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("simulation", std::make_shared<TraceSink>()));
  constexpr int kIdleSeconds = 10;
  Costs costs;
  Cluster cluster(options);
  cluster.start();
  costs.started_mib = resident_mib();
  measure_costs();
  std::this_thread::sleep_for(std::chrono::seconds(kIdleSeconds));
  costs.idle_us_a_second = times_of(sim::costs(), kIdleSeconds);
  measure_costs();
  const std::uint64_t switches_before = switches();
  cluster.work();
  cluster.end_work();
  costs.operations = std::uint64_t{options.clients} * options.operations;
  const auto operations = static_cast<double>(costs.operations);
  costs.us_an_operation = times_of(sim::costs(), operations);
  costs.switches_an_operation = static_cast<double>(switches() - switches_before) / operations;
  costs.worked_mib = resident_mib();
  cluster.await_quiet();
  cluster.check();
  return costs;
}

}  // namespace weft::sim
