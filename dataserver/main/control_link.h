// A data server's side of its conversation with the metadata server: what to register as, and what
// the metadata server may ask.
//
// Objects' requests are carried out on the I/O threads, an object's always on the same; fencing on
// a worker of this class's own, since it waits for the disk, and is answered only when no write
// admitted before it is left. A fence of what the metadata server itself has sent waits for the
// truncates, allocations and holes that were asked for before it, too. These wait for a sync of
// what else the object has, and clients' fences do not wait for them. Fences that came with the
// registration are in force, and the store knows its place, before `on_first_registration`: only
// then may clients be served.
//
// While the store is not there (store_watch.h), or a fence could not be noted, clients are refused,
// what waits for a target fails, and the heartbeats say why. They do so, and there is no lease,
// until all writes and changes are over that were under way when the store came back: who asked for
// them may have given them up since. The connection stays, and with it what the metadata server
// knows.
//
// The SizeAuthority half sends queries and reports; completions come on the control thread.
//
// Threading: see rpc/control/client.h for which calls come from where. use() and stop() from the
// program's main thread.
//
// Ownership: all of Parts outlives this. stop() first, then the I/O threads.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dataserver/load/sampler.h"
#include "dataserver/main/addresses.h"
#include "dataserver/main/changes_under_way.h"
#include "dataserver/main/config.h"
#include "dataserver/main/dialer.h"
#include "dataserver/main/read_ahead.h"
#include "dataserver/main/store_chain.h"
#include "dataserver/main/store_watch.h"
#include "dataserver/mirror/duplicator.h"
#include "dataserver/mirror/resync.h"
#include "dataserver/nfs/counters.h"
#include "dataserver/nfs/handle_gate.h"
#include "dataserver/nfs/size_authority.h"
#include "dataserver/ring/writes_in_flight.h"
#include "dataserver/store/state_file.h"
#include "dataserver/store/store_directory.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"
#include "rpc/control/client.h"
#include "rpc/control/options.h"
#include "rpc/control/prefetch.h"
#include "rpc/control/target_keys.h"
#include "rpc/control/target_options.h"
#include "rpc/control/transports.h"
#include "rpc/control/try_addresses.h"
#include "rpc/control/unreadable.h"

namespace weft::ds {

class ControlLink final : public rpc::control::ClientEvents,
                          public SizeAuthority,
                          public MirrorAuthority {
 public:
  struct Parts {
    const DsConfig& config;
    StoreChain& chain;
    FenceTable& fences;
    HandleGate& gate;
    WritesInFlight& writes;
    Counters& counters;
    LoadSource& load;   // asked on the control thread only
    StoreWatch& watch;  // likewise
    std::vector<IoRing*> rings;
    std::shared_ptr<const rpc::peer::Keyring> keys;
    std::uint64_t boot = 0;  // drawn at random when the process started
    StoreState state;        // of the store, when it started
    std::function<rpc::control::Counters()> session_counts;  // connections and sessions only
    std::function<void()> on_first_registration;             // on a thread of this class
    std::function<Told()> told;       // where it is, as of now; on the control thread
    ReadAhead* read_ahead = nullptr;  // null: nothing is read ahead
  };

  explicit ControlLink(Parts parts);
  ~ControlLink() override;

  // Who mirrors; before use(), and it outlives the conversation.
  void mirror_by(Duplicator& duplicator, Resyncs& resyncs) {
    duplicator_ = &duplicator;
    resyncs_ = &resyncs;
  }
  // What the metadata server is told when it asks which options hold.
  void tell_options(const std::vector<ConfigValue>& values);
  // As a fence of the metadata server's own client id.
  void fence_object(const layout::ObjectId& object, std::uint32_t epoch,
                    rpc::control::Done<void> done);
  // Talks to this metadata server from now on, and to no other.
  void use(const HostPort& mds);
  void stop();
  // What clients are told is not what it was.
  void addresses_changed();
  [[nodiscard]] bool registered() const;
  // Why the metadata server is away; empty while it is not, and before it is known.
  [[nodiscard]] std::string away() const {
    const MutexLock lock(mutex_);
    return complaint_;
  }

  // MirrorAuthority
  void locate(std::uint32_t ds_id, std::chrono::milliseconds timeout,
              rpc::control::Done<rpc::control::Located> done) override;
  void copy_missed(const rpc::control::CopyMissed& missed, rpc::control::Done<void> done) override;

  // SizeAuthority
  void query(const layout::ObjectId& object, SizeAuthority::Done<std::uint64_t> done) override;
  void report(const layout::Handle& by, std::uint64_t end, std::int64_t mtime_ns,
              SizeAuthority::Done<void> done) override;

 private:
  template <class T>
  using Answer = rpc::control::Done<T>;

  // rpc::control::ClientEvents
  [[nodiscard]] rpc::control::Register registration() override;
  void on_registered(rpc::control::Registered answer, Answer<void> done) override;
  void on_disconnected(const Error& why) override;
  [[nodiscard]] rpc::control::Heartbeat heartbeat() override;
  // Whoever has a lease has all its fences, whenever they came.
  void on_lease(TimePoint sent, std::chrono::seconds length) override {
    if (length.count() > 0) std::call_once(first_, parts_.on_first_registration);
    parts_.gate.lease().renew(sent, length);
    tell_state();
  }

  // What the metadata server asks.
  [[nodiscard]] rpc::peer::Table<> requests();
  void on_fence(rpc::control::FenceRequest request, Answer<void> done);
  void on_truncate(rpc::control::Truncate request, Answer<rpc::control::ObjectStat> done);
  void on_remove(rpc::control::Remove request, Answer<void> done);
  void on_stat(rpc::control::Stat request, Answer<rpc::control::ObjectStat> done);
  void on_allocate(rpc::control::Allocate request, Answer<void> done);
  void on_allocate_share(rpc::control::AllocateShare request, Answer<void> done);
  void on_seek(rpc::control::Seek request, Answer<rpc::control::SeekAnswer> done);
  void on_punch(rpc::control::Punch request, Answer<void> done);
  void on_forget_missed(rpc::control::ForgetMissed forget, Answer<void> done);
  void on_resync(rpc::control::Resync request, Answer<void> done);
  void on_resync_status(rpc::control::ResyncStatus request,
                        Answer<rpc::control::ResyncProgress> done);
  void on_resync_cancel(rpc::control::ResyncCancel request, Answer<void> done);
  void on_unreadable(rpc::control::GetUnreadable request, Answer<rpc::control::Unreadable> done);
  void on_scrub(rpc::control::Scrub request, Answer<void> done) {
    done(parts_.chain.scrub(request));
  }
  void on_give_up(rpc::control::GiveUp request, Answer<void> done) {
    done(parts_.chain.give_up(request));
  }
  void on_keys(rpc::control::GetKeys /*request*/, Answer<rpc::control::HeldKeys> done) {
    done(rpc::control::HeldKeys{parts_.keys->now().fingerprints});
  }
  void on_target_keys(rpc::control::GetTargetKeys /*request*/,
                      Answer<rpc::control::HeldByTargets> done) {
    done(rpc::control::HeldByTargets{parts_.chain.target_keys()});
  }
  void on_about_target(rpc::control::GetAboutTarget request,
                       Answer<rpc::control::AboutTarget> done) {
    done(parts_.chain.about_target(request.at));
  }
  void on_prefetch(rpc::control::Prefetch request, Answer<void> done);
  void on_try_addresses(rpc::control::TryAddresses request,
                        Answer<rpc::control::TriedAddresses> done) {
    dialer_.try_all(request, std::move(done));
  }
  void on_segments(rpc::control::GetSegments request, Answer<rpc::control::SegmentCounts> done);
  void on_options(rpc::control::GetOptions request, Answer<rpc::control::Options> done);
  void on_list(rpc::control::ListFrom from, Answer<rpc::control::Listed> done);

  // Asks the metadata server.
  template <rpc::peer::Request R>
  void call(const R& request, std::chrono::milliseconds timeout, Answer<typename R::Reply> done);
  // The control thread's: what was told over this connection; and that nothing is to be told now,
  // since that is on its way, or the metadata server does not know the request.
  template <class R>
  struct LastTold {
    R last;
    bool telling = false;
  };
  // If it is not what was told, and the metadata server wants to know.
  template <class R>
  void tell(R now, LastTold<R>& told);
  void tell_state();  // how others are reached, and how the parity group is
  // `rolled_back`: as the registration said that was answered.
  [[nodiscard]] Result<> join(const rpc::control::Registered& answer, bool rolled_back);
  [[nodiscard]] Result<> follow(std::uint64_t mds_boot);
  [[nodiscard]] Result<> advance(bool rolled_back);
  // What a registration says of the store.
  [[nodiscard]] StoreState state_to_tell(bool rolled_back) const WEFT_REQUIRES(mutex_);
  enum class Changes : std::uint8_t { kGoOn, kEnd };  // those that were asked for before
  [[nodiscard]] static bool concerns_changes(const std::vector<rpc::control::Fence>& fences);
  void fence(const std::vector<rpc::control::Fence>& fences, Changes changes, Answer<void> done);
  void fence_and_changes(std::vector<rpc::control::Fence> fences, Answer<void> done);
  template <class T>
  [[nodiscard]] static Answer<T> held(ChangesUnderWay::Token token, Answer<T> done);
  // A change of that object by the run that this one is registered at.
  [[nodiscard]] ChangesUnderWay::Token enter_change(const layout::ObjectId& object);
  void tell_late_changes();
  // All that were asked for since the worker looked last: one sync serves them.
  void fence_asked();
  // Calls back when what was admitted before is over, and the store is settled, or with an error.
  void when_over(Changes changes, Answer<void> done);
  // Calls back when the store is settled, or with an error after so many more looks.
  void when_settled(int looks, Answer<void> done);
  [[nodiscard]] IoRing& ring_of(const layout::ObjectId& object);
  [[nodiscard]] StoreWatch::State look();
  // Whether what was under way when the trouble ended is over; asked again and again.
  [[nodiscard]] bool all_over();
  [[nodiscard]] std::shared_ptr<rpc::control::Client> client() const;

  Parts parts_;
  Duplicator* duplicator_ = nullptr;
  Resyncs* resyncs_ = nullptr;
  bool trouble_ = false;  // the control thread's: that the store is not there was told
  // Likewise: that the last registration was of a store whose target was rolled back.
  bool told_rolled_back_ = false;
  // The control thread's, but for the value: of what was under way when the trouble ended.
  enum class Rest : std::uint8_t { kUnderWay, kOver, kUnknown };
  std::shared_ptr<std::atomic<Rest>> rest_;
  LastTold<rpc::control::TellTransports> transports_;
  LastTold<rpc::control::TellGroup> group_;
  std::string refused_;                 // the worker's: why a registration was not taken, as logged
  std::optional<StoreState> followed_;  // the worker's: the file `mds`, once it was read
  std::atomic<std::uint64_t> joined_{0};  // the metadata server's boot, of the last that was taken
  std::once_flag first_;
  boost::asio::thread_pool worker_{1};
  mutable Mutex mutex_;
  std::string complaint_ WEFT_GUARDED_BY(mutex_);  // why the metadata server is away, as logged
  rpc::control::Options options_ WEFT_GUARDED_BY(mutex_);
  std::shared_ptr<rpc::control::Client> client_ WEFT_GUARDED_BY(mutex_);
  std::vector<rpc::control::Fence> fences_asked_ WEFT_GUARDED_BY(mutex_);
  std::vector<Answer<void>> fences_answers_ WEFT_GUARDED_BY(mutex_);
  StoreIdentity identity_ WEFT_GUARDED_BY(mutex_);  // the store's, copied
  StoreState state_ WEFT_GUARDED_BY(mutex_);        // only the worker changes it
  ChangesUnderWay changes_;
  LogLimit late_log_;
  Dialer dialer_;
};

}  // namespace weft::ds
