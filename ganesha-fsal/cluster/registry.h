// The data servers of a system: who they are (durably), how they are (live), and the devices made
// of them.
//
// Durable, in the metadata store: for each data server its id, its store's identity, its name,
// failure domain and addresses; devices; fences that a data server has not acknowledged. Ids and
// device numbers are never used twice. Live, and gone with the process: connection, heartbeats,
// load, counters.
//
// A data server is up while its heartbeats arrive, suspect when they are overdue, down when it has
// been silent for longer, and down until it has first been heard. It is not up, nor here, before it
// has fenced what earlier runs of the metadata server sent to it. The state is computed when asked,
// from the clock that was given.
//
// A data server whose store is not there says so with its heartbeats, and has stopped serving
// before it does. It counts as down and gone, and as without a lease, until a heartbeat says that
// the store is back; then it gets what fences it lacks, as one that has connected anew. What counts
// as gone is measured from when it was last in order, having its fences: one that registers again
// and again and never gets so far is gone.
//
// A data server that cannot be reached cannot be told of a fence; but it serves clients only for a
// lease, which heartbeats renew (dataserver/nfs/lease.h has the other half). The lease is granted
// only to one that has all its fences, so one whose lease has lapsed is as good as fenced: lapse().
// For one not heard since this process started, the lease counts from the start, and is the longest
// that was ever given. The margin on top, 5 % and 2 s, is for clocks that run differently: theirs
// may be slow by that much against ours.
//
// A device that somebody has stays: each grant has the devices that its layouts name
// (files/grants.h). Of the others kUnusedDevices stay, those that were used last, so that clients
// that remember one are answered. When a device is made, what is beyond is forgotten in the same
// transaction.
//
// A store that is not in the state it was accepted in last, or comes while another process serves
// with it, is refused (registry_stores.cc); repair/readmission.h has what becomes of the former.
//
// Threading: any thread. Methods that return Result write to, or read from, the metadata store and
// may block for a sync; the others only take a mutex for a moment. What is durable of servers and
// devices is changed by one at a time, since a change is made of what was read before it; the
// others wait for their turn, with a deadline (kBusy). No mutex is held meanwhile.
//
// Invariants:
//  1. A store identity has one data server id, and the other way round.
//  2. Of a store's states one is accepted, or two until the data server has noted the later.
//  3. What a device's number means never changes; a server whose addresses changed has a new
//     generation, and devices with it new numbers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ganesha-fsal/cluster/given_up.h"
#include "ganesha-fsal/cluster/records.h"
#include "ganesha-fsal/meta/kv/kv.h"
#include "layout/candidate.h"
#include "layout/device_table.h"
#include "layout/layout_map.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/control/group_state.h"
#include "rpc/control/heartbeat.h"
#include "rpc/control/messages.h"
#include "rpc/control/transports.h"

namespace weft::mds {

struct RegistryOptions {
  using Clock = std::chrono::steady_clock;

  control::Uuid cluster{};        // the system's identity: the superblock's
  std::uint64_t boot = 0;         // changes with each start of the metadata server
  std::uint32_t device_salt = 0;  // for a store that has none yet; random
  layout::HandleKey seal_key{};   // likewise
  std::uint32_t heartbeat_ms = 1000;
  std::uint32_t lease_seconds = 60;                         // how long a data server serves unheard
  Clock::duration longest_wait = std::chrono::seconds(20);  // for one's turn to change something
  bool by_load = true;  // candidates() tells what data servers measure of their load
  Clock::duration suspect_after = std::chrono::milliseconds(3500);
  Clock::duration down_after = std::chrono::seconds(10);
  // When others take a data server's place: its connection is lost for so long, or it is silent
  // for so long, or it has not come since the metadata server started.
  // One that is silent for probe_after_silence is gone when it turns out to be dead.
  Clock::duration gone_after_loss = std::chrono::seconds(1);
  Clock::duration probe_after_silence = std::chrono::milliseconds(2500);
  Clock::duration gone_after_silence = std::chrono::seconds(5);
  Clock::duration gone_after_start = std::chrono::seconds(10);
  // Of a metadata store that came back from a backup: ids that may have been given out since, the
  // first and the one behind the last. Who says that it has one of these, and that nobody else has,
  // is taken at its word.
  std::uint32_t first_lost = 0;
  std::uint32_t first_fresh = 0;
  std::function<Clock::time_point()> now;
};

// Whether a file with copies counts on a data server, or on the others of the stripe.
enum class Reach : std::uint8_t {
  kHere,  // connected, and heard
  kWait,  // lost a moment ago, or not heard yet since the start: it may be back at once
  kGone,
};

[[nodiscard]] std::string_view to_string(Reach reach);

// Nobody waits for what it has: it is gone, and an administrator is removing it.
[[nodiscard]] constexpr bool is_lost(Reach reach, Duty duty) {
  return reach == Reach::kGone && duty == Duty::kRemoving;
}

// Everything known of one data server, at one moment.
struct ServerView {
  ServerRecord record;
  layout::ServerState state = layout::ServerState::kDown;
  bool seen = false;                     // registered since the metadata server started
  bool connected = false;                // registered on a connection that is open
  bool runs_fenced = false;              // Registry::runs_fenced()
  std::chrono::milliseconds silence{0};  // since its last heartbeat; meaningless unless seen
  std::chrono::milliseconds uptime{0};   // since it registered with its present boot
  std::uint64_t boot = 0;
  LocalEndpoint local;
  std::string version;  // of weft-ds; empty unless seen
  control::Heartbeat last;
  control::TellTransports transports;  // as it told over its connection; empty while it has none
  control::TellGroup group;            // likewise, or as its last heartbeat has it
  std::string refused;  // why a process that asks to be this data server is not accepted
};

class Registry {
 public:
  using Clock = RegistryOptions::Clock;

  // Reads what is durable. The store outlives the registry.
  [[nodiscard]] static Result<std::unique_ptr<Registry>> open(KvStore& store,
                                                              RegistryOptions options);

  // What handles of exports of directories are sealed with: the store's own for ever, so that
  // clients keep their handles when the cluster key is changed.
  [[nodiscard]] const layout::HandleKey& seal_key() const { return options_.seal_key; }

  // --- for the control server ---
  // Assigns or confirms a data server's id and keeps its addresses; an address without an IP (a
  // server that listens on all) gets the one the connection comes from. kAccess: the store belongs
  // to another system. kInvalid: it claims what does not fit. kBusy: a rival is in its way,
  // `silent` not counted. kStale: the store is foreign().
  [[nodiscard]] Result<control::Registered> register_server(
      const layout::NetAddress& from, const control::Register& request,
      std::optional<std::uint64_t> silent = {});
  // Another process than the one that asks, that serves with that store, or may do so yet.
  struct Rival {
    std::uint32_t ds_id = 0;
    std::uint64_t connection = 0;
    bool alive = false;  // heard a moment ago; false: cut off, with a lease that goes on
    std::vector<layout::NetAddress> addresses{};
    std::string why;
  };
  [[nodiscard]] std::optional<Rival> rival(const layout::NetAddress& from,
                                           const control::Register& request) const;
  // The store has noted that it is in this state: an earlier one is refused from now on. Before
  // its data server is given a lease. kStale: that is not the one that was accepted.
  [[nodiscard]] Result<> confirm(std::uint32_t ds_id, const control::StoreState& state);
  void connected(std::uint32_t ds_id);
  void disconnected(std::uint32_t ds_id);
  struct Beat {
    std::uint64_t first_of = 0;  // the connection's number if this is its first heartbeat, else 0
    control::Lease lease;
  };
  [[nodiscard]] Beat heartbeat(std::uint32_t ds_id, const control::Heartbeat& beat);
  // How the data server reaches others now.
  void told(std::uint32_t ds_id, control::TellTransports transports);
  void told(std::uint32_t ds_id, const control::TellGroup& group);
  // The data server has every fence recorded before this was looked up for that connection: its
  // heartbeats are answered with a lease from now on.
  void caught_up(std::uint32_t ds_id, std::uint64_t connection);
  // True when its lease has surely ended, so that it serves no client. From then on it gets none
  // before it has connected anew and caught up: whatever is recorded before this is called, it has
  // before it serves again.
  [[nodiscard]] bool lapse(std::uint32_t ds_id);
  // Its last heartbeat said so, since its store is not there.
  [[nodiscard]] bool has_stopped(std::uint32_t ds_id) const;
  // Those that are gone or silent, and may still serve for their lease, as far as is known.
  struct Lost {
    std::uint32_t ds_id = 0;
    std::uint64_t connection = 0;  // the last
    std::vector<layout::NetAddress> addresses;
  };
  [[nodiscard]] std::vector<Lost> lost() const;
  // Its process is dead (death_probe.h), unless it has connected anew or was heard meanwhile: it is
  // gone, and has no lease any more. Returns whether that is so; its connection is then to be
  // closed, if it is still open.
  [[nodiscard]] bool found_dead(std::uint32_t ds_id, std::uint64_t connection);
  [[nodiscard]] bool is_dead(std::uint32_t ds_id) const;

  // --- stores that are not in the state they were accepted in last ---
  struct Foreign {
    std::uint32_t ds_id = 0;
    std::string name;
    control::StoreState state;
    bool as_is = false;  // an administrator has said so
  };
  // Those whose data servers ask to register.
  [[nodiscard]] std::vector<Foreign> foreign() const;
  // How far the review is, for people: they are refused with this.
  void explain(std::uint32_t ds_id, std::string review);
  // The store is accepted in this state from now on.
  [[nodiscard]] Result<> admit(std::uint32_t ds_id, const control::StoreState& state);
  // An administrator wants it used as it is. kInvalid: it is not foreign.
  [[nodiscard]] Result<> take_as_is(std::uint32_t ds_id);

  // --- what is known ---
  [[nodiscard]] std::optional<ServerView> find(std::uint32_t ds_id) const;
  [[nodiscard]] std::vector<ServerView> list() const;  // by id
  [[nodiscard]] std::vector<std::uint32_t> ids() const;
  // All of them, or those of `ds_ids` that are known: what is asked for at each grant is not to
  // cost more in a larger cluster.
  [[nodiscard]] std::vector<layout::Candidate> candidates() const;
  [[nodiscard]] std::vector<layout::Candidate> candidates(
      std::span<const std::uint32_t> ds_ids) const;
  // Connected, and it has caught up: nothing that was fenced is carried out there any more.
  [[nodiscard]] bool has_fences(std::uint32_t ds_id) const;
  // Nothing that an earlier run of this metadata server sent is carried out there any more.
  [[nodiscard]] bool runs_fenced(std::uint32_t ds_id) const;
  // What this run has sent and given up.
  [[nodiscard]] const std::shared_ptr<GivenUp>& given_up() const { return given_up_; }
  // Whether a client with that address has a way to it: it has no networks, or one that is for the
  // client. True of one that is not known.
  [[nodiscard]] bool is_for(std::uint32_t ds_id,
                            const std::optional<layout::NetAddress>& client) const;
  [[nodiscard]] Reach reach(std::uint32_t ds_id) const;
  // As is_lost(); so is one that was removed.
  [[nodiscard]] bool is_lost(std::uint32_t ds_id) const;
  // The ids of those that are down, of a file's data servers: why its I/O may wait.
  [[nodiscard]] std::vector<std::uint32_t> down_of(const layout::LayoutMap& map) const;
  // For how long it has been gone (Reach::kGone), as far as this process knows; nullopt: it is not.
  [[nodiscard]] std::optional<Clock::duration> gone_for(std::uint32_t ds_id) const;
  // Only a serving one gets new files. kNotFound.
  [[nodiscard]] Result<> set_duty(std::uint32_t ds_id, Duty duty);
  // Forgets a data server that no file and no removal names, and its fences. Its store is refused
  // from then on, its id never used again. Its connection is the caller's to close. kNotFound;
  // kInvalid: it is not being removed (any more).
  [[nodiscard]] Result<> remove_server(std::uint32_t ds_id);

  // --- devices ---
  static constexpr std::size_t kUnusedDevices = 1000;  // that are kept though nobody has them
  // The device of these data servers in this order at their present addresses; made, durably, when
  // there is none yet. kLayoutUnavailable: one of them was never registered.
  [[nodiscard]] Result<std::shared_ptr<const layout::Device>> device_for(
      std::span<const std::uint32_t> ds_ids);
  // The same, but never makes one: nullptr when there is none.
  [[nodiscard]] std::shared_ptr<const layout::Device> known_device(
      std::span<const std::uint32_t> ds_ids) const;
  // nullptr: no such device, one that was forgotten, or of another store (salt).
  [[nodiscard]] std::shared_ptr<const layout::Device> device(const layout::DeviceId& id) const;
  [[nodiscard]] layout::DeviceId device_id(std::uint8_t fsal, std::uint16_t export_id,
                                           const layout::Device& device) const;

  // --- fences not acknowledged yet ---
  [[nodiscard]] Result<> add_fences(std::span<const std::uint32_t> ds_ids,
                                    std::span<const control::Fence> fences);
  [[nodiscard]] Result<> fences_done(std::uint32_t ds_id, std::span<const control::Fence> fences);
  // The first of them, at most `limit`.
  [[nodiscard]] Result<std::vector<control::Fence>> pending_fences(std::uint32_t ds_id,
                                                                   std::size_t limit) const;
  // What it is told before it gets a lease: those, and once in this run the fence of what earlier
  // runs of this metadata server have sent. That may be on its way yet, and is not to be carried
  // out any more.
  [[nodiscard]] Result<std::vector<control::Fence>> missing_fences(std::uint32_t ds_id) const;

 private:
  struct Live {
    bool connected = false;
    std::uint64_t boot = 0;
    Clock::time_point registered;
    LocalEndpoint local;
    std::string version;
    Clock::time_point lost;  // its last connection on which it was in order; while it is not
    Clock::time_point heard;
    bool beaten = false;           // a heartbeat has come: it has the fences of its registration
    bool stopped = false;          // its store is not there; until it has caught up again
    std::uint64_t connection = 0;  // number of the connection, or of what lapse() began
    bool leased = false;           // caught up
    bool runs_fenced = false;      // it has the fence of earlier runs
    bool dead = false;             // its process is, until it connects anew
    std::optional<Clock::time_point> answered;  // with a lease, the last time
    control::Heartbeat last;
    control::TellTransports transports;
    std::optional<control::TellGroup> group;
    std::uint64_t served = 0;  // bytes a second that clients moved, between the last two
  };

  struct Refused {
    control::StoreState state;
    Clock::time_point at;
    bool rival = false;
    std::string why{};
    std::string review{};
  };

  Registry(KvStore& store, RegistryOptions options, std::uint32_t salt, std::uint32_t lease);
  [[nodiscard]] Result<> load();
  struct EndTurn {
    void operator()(Registry* registry) const { registry->end_turn(); }
  };
  // While it lives, nobody else changes what is durable of servers and devices.
  using Turn = std::unique_ptr<Registry, EndTurn>;
  [[nodiscard]] Result<Turn> await_turn() WEFT_EXCLUDES(mutex_);
  void end_turn() WEFT_EXCLUDES(mutex_);
  [[nodiscard]] Result<ServerRecord> adopt(const layout::NetAddress& from,
                                           const control::Register& request) const;
  [[nodiscard]] Reach reach_locked(std::uint32_t ds_id) const WEFT_REQUIRES(mutex_);
  // Connected and heard, and nothing that earlier runs sent is carried out there any more.
  [[nodiscard]] bool in_touch_locked(const Live& live) const WEFT_REQUIRES(mutex_);
  // So, and its store is there.
  [[nodiscard]] bool in_order_locked(const Live& live) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool silent_locked(const Live& live) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] Clock::time_point in_order_until(const Live& live) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] layout::ServerState state_of(const ServerRecord& record, const Live* live) const
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] Result<layout::Device> compose(std::span<const std::uint32_t> ds_ids) const;
  [[nodiscard]] std::shared_ptr<const layout::Device> use(const layout::Device& like);
  [[nodiscard]] std::vector<std::uint64_t> forgettable_devices() const;
  [[nodiscard]] ServerView view_of(const ServerRecord& record) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] layout::Candidate candidate_of(const ServerRecord& record) const
      WEFT_REQUIRES(mutex_);
  void started_anew(std::uint32_t ds_id, std::uint64_t boot);
  // Of earlier runs; none when nothing says which run this is.
  [[nodiscard]] std::optional<control::Fence> run_fence() const;
  [[nodiscard]] bool heard_of_late_locked(std::uint32_t ds_id) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool lapsed_locked(const Live* live) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] Result<> change_record(std::uint32_t ds_id,
                                       const std::function<void(ServerRecord&)>& change);
  // registry_stores.cc
  [[nodiscard]] bool serves_locked(const Live& live, std::optional<std::uint64_t> silent) const
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Rival> rival_locked(const ServerRecord& record,
                                                  const std::vector<layout::NetAddress>& addresses,
                                                  std::uint64_t boot,
                                                  std::optional<std::uint64_t> silent) const
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] Result<> check_store(std::uint32_t ds_id, const layout::NetAddress& from,
                                     const control::Register& request,
                                     std::optional<std::uint64_t> silent);
  [[nodiscard]] static std::string text_of(const Refused& refused);
  [[nodiscard]] std::optional<std::string> refused_locked(std::uint32_t ds_id) const
      WEFT_REQUIRES(mutex_);

  KvStore& store_;
  const RegistryOptions options_;
  const Clock::time_point opened_ = options_.now();
  const std::chrono::seconds longest_lease_;
  const std::shared_ptr<GivenUp> given_up_ = std::make_shared<GivenUp>();
  mutable Mutex mutex_;
  CondVar changed_;
  bool changing_ WEFT_GUARDED_BY(mutex_) = false;  // there is a Turn
  std::map<std::uint32_t, ServerRecord> servers_ WEFT_GUARDED_BY(mutex_);
  std::map<std::uint32_t, Live> live_ WEFT_GUARDED_BY(mutex_);
  std::map<std::uint32_t, Refused> refused_ WEFT_GUARDED_BY(mutex_);  // of servers_
  layout::DeviceTable devices_ WEFT_GUARDED_BY(mutex_);
};

// The addresses to keep: those without an IP get the one the connection comes from.
[[nodiscard]] std::vector<layout::NetAddress> concrete(const layout::NetAddress& from,
                                                       std::vector<layout::NetAddress> addresses);

// A lease, and how much slower than ours the clock may be that counts it.
[[nodiscard]] RegistryOptions::Clock::duration with_margin(std::chrono::seconds lease);

}  // namespace weft::mds
