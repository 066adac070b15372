// One I/O thread's connection to a storage target, made again whenever it is lost.
//
// Calls wait, bounded in number and time, while there is no connection, and are sent again over the
// next one when it was lost before they were answered. That is safe: the target answers the Hello
// of a new connection only when nothing of the old one is left to be carried out, and until a call
// is answered nobody has been told that it was. What the write verifier says holds throughout: it
// is the target's, so it changes when, and only when, the target may have lost unstable data.
//
// A target that says nothing at all for LinkOptions::silence, though it was asked (a Hello may take
// longer), is taken for gone: the connection is dropped and tried anew. A call that stays
// unanswered for its patience fails with kTimedOut, and the connection goes with it, so that it
// cannot be carried out later than something that the caller does instead. While nobody is to wait
// for the target (TargetView::awaited), no call does, but for LinkOptions::silence over a
// connection that the target has greeted. Time in which this thread did not run, or had no memory
// for what has come, counts for nothing: answers may wait here (rpc/base/running_clock.h).
//
// A READ takes the memory for its answer when it is sent, or fails with kBusy: by shared memory it
// lends that, else it is counted (PoolHold). A connection that ends for want of memory fails its
// READs with kBusy, so that whoever waits for several lets go of those that have come. All else is
// sent again.
//
// A target whose address is a name is looked up for each connection anew, not on this thread; of
// several addresses the next is tried when one failed.
//
// The transport is chosen when connecting: a path means shared memory; an address means TCP first,
// and shared memory when the target turns out to run on this machine and its socket can be reached.
// An address for RDMA means that first, and TCP at the same port where a connection does not come
// about in time (rpc/session/preferred_dial.h). While it is TCP, RDMA is tried now and then; when
// that gets through the connection is made anew once no call is out, for which new calls wait a
// moment.
//
// Threading: everything on the thread of `context`, but for TargetView, which any thread may ask.
//
// Ownership: what Options refers to outlives the link. stop() before the thread ends; it completes
// every call.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataserver/targets/messages.h"
#include "dataserver/targets/target_lookup.h"
#include "layout/net_address.h"
#include "rpc/base/buffer.h"
#include "rpc/base/mutex.h"
#include "rpc/base/pool_hold.h"
#include "rpc/base/running_clock.h"
#include "rpc/base/standing.h"
#include "rpc/session/server_dial.h"
#include "rpc/transport/channel.h"
#include "rpc/transport/shm/shm_options.h"

namespace weft::ds {

// Where a target is: "unix:/run/weft/target.sock", "tcp:192.0.2.1:9640", "tcp:disks1:9640",
// "rdma://disks1:9640".
struct TargetAddress {
  std::string path;         // of a Unix socket
  std::string host;         // a name, to be looked up; of `inet` there is the port only
  layout::NetAddress inet;  // when there is no path
  bool rdma = false;        // by RDMA, and by TCP at the same port where that does not get through
  friend bool operator==(const TargetAddress&, const TargetAddress&) = default;
};
// Of the form alone: a name is not looked up.
[[nodiscard]] Result<TargetAddress> parse_target_address(std::string_view text);
[[nodiscard]] std::string to_string(const TargetAddress& address);

struct LinkOptions {
  std::chrono::milliseconds silence{5'000};
  std::chrono::milliseconds greeting{60'000};  // for a Hello to be answered
  std::chrono::milliseconds patience{30'000};
  std::chrono::milliseconds commit_patience{120'000};
  std::chrono::milliseconds retry_every{200};
  std::chrono::milliseconds rdma_within{1'000};  // a connection is to come about, or it is TCP
  std::chrono::milliseconds rdma_look_every{30'000};
  std::size_t max_calls = 2048;
  bool prefer_shared_memory = true;
  rpc::ShmLimits shm;
};

enum class TargetTransport : std::uint8_t { kNone, kSharedMemory, kTcp, kRdma };
[[nodiscard]] std::string_view to_string(TargetTransport transport);

// What all links of a data server know of the target.
struct TargetView {
  std::atomic<WriteVerifier> verifier{0};
  std::atomic<TargetTransport> transport{TargetTransport::kNone};
  std::atomic<std::uint32_t> connected{0};     // links
  std::atomic<std::uint32_t> by_rdma{0};       // of those
  std::atomic<std::uint64_t> connections{0};   // made, in all
  std::atomic<std::uint64_t> lent_bytes{0};    // read and written through lent memory
  std::atomic<std::uint64_t> past_bytes{0};    // read from the page cache, past the target
  std::atomic<std::uint64_t> past_written{0};  // bytes written there
  std::atomic<std::uint64_t> timed_out{0};     // calls
  // Whether calls are to wait for it (RemoteStore::wait_for_target()).
  std::atomic<bool> awaited{true};
  // Links of which a call failed that the target may carry out until it answers the next Hello.
  std::atomic<std::uint32_t> unsettled{0};
  std::atomic<bool> store_fails{false};  // it cannot say how much room it has
  std::atomic<std::uint64_t> capacity_bytes{0};
  std::atomic<std::uint64_t> free_bytes{0};
  std::atomic<std::uint64_t> objects{0};
  std::atomic<std::uint32_t> version{0};  // of the protocol, over the connection made last

  // Fingerprints of the cluster keys that it has, the one that it uses first, as it said last.
  // Empty: it has not said since it connected.
  [[nodiscard]] std::vector<std::uint64_t> keys() const {
    const MutexLock lock(told_mutex_);
    return keys_;
  }
  void set_keys(std::vector<std::uint64_t> keys) {
    const MutexLock lock(told_mutex_);
    keys_ = std::move(keys);
  }
  // Version and options, likewise; no version: it has not said.
  [[nodiscard]] rpc::control::About about() const {
    const MutexLock lock(told_mutex_);
    return about_;
  }
  void set_about(rpc::control::About about) {
    const MutexLock lock(told_mutex_);
    about_ = std::move(about);
  }

 private:
  mutable Mutex told_mutex_;
  std::vector<std::uint64_t> keys_ WEFT_GUARDED_BY(told_mutex_);
  rpc::control::About about_ WEFT_GUARDED_BY(told_mutex_);
};

// How the links there are go: as to_string(), or "rdma and tcp" while they differ.
[[nodiscard]] std::string transport_text(const TargetView& view);

using rpc::DialRdma;

// What a target said of its store when it greeted.
struct TargetStore {
  Uuid store{};
  std::uint64_t objects = 0;
  std::uint64_t instance = 0;       // of the target, if it tells what it has noted
  StoreState expected;              // it had noted this, or a later one, when it was asked
  std::optional<StoreState> noted;  // that it has noted; nullopt: its version does not tell
};

class TargetLink : public std::enable_shared_from_this<TargetLink> {
 public:
  struct Config {
    TargetAddress address;
    Uuid space{};
    std::uint64_t boot = 0;
    std::shared_ptr<const rpc::peer::Keyring> keys;
    LinkOptions options;
    BufferPool& pool;
    Random& random;
    TargetView& view;
    // What the target is sure to have noted at this moment.
    std::function<StoreState()> noted;
    // Whether this is the store it was last time; called with what a target says it is and has.
    std::function<Result<>(const TargetStore& store)> same_store;
    // A connection is ready whose target keeps notes (version 10).
    std::function<void(TargetLink& link, const TargetStore& store)> greeted;
    DialRdma dial_rdma;  // none: TCP is taken
    // A connection ended: what the target handed over may be of a store that is gone.
    std::function<void()> left;
  };
  struct Answer {
    TargetResponse response;
    Buffer data;         // of a READ
    OwnedFd descriptor;  // if one was welcome and came
  };
  using Done = std::move_only_function<void(Result<Answer>)>;

  TargetLink(boost::asio::io_context& context, std::uint32_t index, const Config& config);
  ~TargetLink();

  void start();
  // `data` of a WRITE, which the caller does not change until it is answered. What is lent for a
  // READ is of the part `share` of the pool, or the call fails with kBusy.
  void call(TargetRequest request, std::vector<Buffer> data, Done done,
            PoolShare share = PoolShare::kServers);
  void stop();
  // Whether the target has greeted this connection, which has not ended as far as is known.
  [[nodiscard]] bool ready() const { return state_ == State::kReady; }
  [[nodiscard]] std::size_t calls() const { return calls_.size(); }

 private:
  struct User;
  struct Call {
    TargetRequest request;
    std::vector<Buffer> data;
    PoolShare share = PoolShare::kServers;  // of `room` and `hold`
    Buffer room;                            // lent for a READ
    // For a READ whose answer is received: what that takes, so that no more is asked for than there
    // is memory for.
    std::optional<PoolHold> hold;
    Done done;
    TimePoint since;
    TimePoint deadline;
    bool sent = false;  // over this connection
  };
  enum class State { kIdle, kConnecting, kGreeting, kReady };

  void connect();
  void look_up();
  void dial_inet(std::string ip);
  [[nodiscard]] rpc::Dial by_tcp() const;
  [[nodiscard]] rpc::Dial by_rdma() const;
  [[nodiscard]] rpc::Dial by_rdma_or_tcp();
  void dial(rpc::Dial by, TargetTransport transport);
  void connected(std::uint64_t attempt, TargetTransport transport,
                 Result<std::shared_ptr<rpc::Channel>> channel);
  void on_record(const rpc::ReceivedRecord& received);
  void on_challenge(const Buffer& record);
  void on_welcome(const TargetResponse& response);
  void on_response(const rpc::ReceivedRecord& received);
  [[nodiscard]] static Result<Buffer> data_of(Call& call, const TargetResponse& response,
                                              const Buffer& from, std::size_t at);
  void transmit(std::uint64_t tag, Call& call);
  void transmit_waiting();
  void renew();
  void renew_if_quiet();
  [[nodiscard]] Result<> prepare(Call& call);
  void complete(std::uint64_t tag, Result<Answer> answer);
  void ping();
  void drop(const Error& why);
  void leave();
  void tick();
  void expire(TimePoint now);
  [[nodiscard]] bool is_late(const Call& call, TimePoint now) const;

  boost::asio::io_context& context_;
  const std::uint32_t index_;
  const Config& config_;
  boost::asio::steady_timer timer_;
  RunningClock clock_;
  const std::shared_ptr<TargetLookup> lookup_;  // null: the address is no name
  State state_ = State::kIdle;
  TargetTransport transport_ = TargetTransport::kNone;
  std::shared_ptr<rpc::Channel> channel_;
  std::uint64_t attempt_ = 0;  // counts connections; what concerns an earlier one is dropped
  std::string ip_;             // that was dialled last
  rpc::Dial rdma_or_tcp_;      // once it was, until it is shared memory
  TimePoint renew_until_{};    // until then it may be made anew; the epoch: it is not to be
  std::string local_socket_;   // where shared memory is to be tried next
  TimePoint no_local_until_{};
  TimePoint retry_at_{};
  TimePoint heard_at_{};
  TimePoint asked_at_{};
  unsigned pings_ = 0;  // over this connection
  Nonce challenge_{};
  rpc::peer::Key key_{};  // target_key() of the one that this connection proves to have
  TargetHello hello_;
  StoreState expected_;  // Config::noted() when the Hello was sent
  bool challenged_ = false;
  std::uint32_t version_ = 0;  // of the protocol, of this connection once it is ready
  std::uint64_t next_tag_ = 1;
  std::map<std::uint64_t, Call> calls_;
  std::string complaint_;  // what was logged last; nothing while it is connected
  bool unsettled_ = false;
  bool stopped_ = false;
};

}  // namespace weft::ds
