// One I/O thread's way to one partner: an NFSv4.1 session with it, made when first needed.
//
// A partner that answers no call for LinkConfig::timeout while one is out, or loses its session, is
// put away: every call fails
// at once from then on, on all threads, and it is tried again in the background, with its address
// asked anew and a session of a new incarnation. So writes do not wait for a dead partner one after
// the other, and what was sent under the old session is not executed once the new one stands
// (RFC 8881 section 18.35.4: a new client verifier ends the old client's state). The other threads'
// sessions may be with a process that is gone: they are made anew too, when they are next needed.
//
// One that answers others of its calls meanwhile is slow, not away: behind a full link, with tens
// of requests before it, a write may take longer than the timeout. It is waited for as long as
// answers to writes come, LinkConfig::patience at most, and so are the clients. And one from which
// the metadata server hears has twice the timeout: TCP may take seconds to get over a burst of
// losses.
//
// Whether a partner that does not answer is worth waiting for is asked of the metadata server, as
// soon as a call has been out for a moment: what is gone for it (it crashed, or was silent for
// some seconds) is put away at once, and stays so until the metadata server has it back.
//
// While the metadata server cannot be asked, a partner is where the metadata server said last that
// it is, to any thread: a partner is not away because the metadata server is. What the metadata
// server says counts, also that the partner is gone, or unknown: then it is nowhere until the
// metadata server says otherwise.
//
// The connection is by RDMA where both have it. One that came to be by TCP is made anew, between
// two requests, when RDMA turns out to work; a session to a partner that gets RDMA, when nothing is
// out. A partner that is put away soon after RDMA connected is tried by TCP next.
//
// A patient call is one that a living partner may take long for (COMMIT): it fails when the partner
// is put away, and while it is out the partner is asked now and then whether it is there. Answers
// to that question and to patient calls say nothing of writes: a disk may hang under these alone.
//
// Time in which this thread did not run counts for nothing (rpc/base/running_clock.h).
//
// Threading: everything on the thread of `ring`, but for Partner, which threads share.
//
// Ownership: what Config refers to outlives the link. stop() before the thread ends; it completes
// every call.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataserver/mirror/mirror_authority.h"
#include "dataserver/ring/io_ring.h"
#include "rpc/base/mutex.h"
#include "rpc/base/running_clock.h"
#include "rpc/control/transports.h"
#include "rpc/peer/keyring.h"
#include "rpc/session/session_client.h"

namespace weft::ds {

// What all threads know of a partner.
struct Partner {
  std::uint32_t ds_id = 0;
  std::atomic<bool> away{false};
  std::atomic<std::uint64_t> losses{0};    // how often it was put away
  std::atomic<std::uint64_t> verifier{0};  // its write verifier, the newest; 0: none yet
  // Threads that are connected to it, by each transport.
  std::atomic<std::uint32_t> by_rdma{0};
  std::atomic<std::uint32_t> by_tcp{0};

  // Takes its write verifier of an answer. One that it had before it had the newest is of an answer
  // that was read late, and changes nothing; after a loss it may be one that came back, with the
  // store of that time.
  void saw_verifier(std::uint64_t seen);
  // It was put away.
  void lost();

  // Takes what the metadata server answered to the question where it is; returns what is to be
  // believed: that, or where it was last, if the metadata server could not be asked.
  [[nodiscard]] Result<rpc::control::Located> learn(Result<rpc::control::Located> found);

 private:
  static constexpr std::size_t kVerifiersBefore = 8;  // of answers that may still be read
  Mutex mutex_;
  std::deque<std::uint64_t> verifiers_before_ WEFT_GUARDED_BY(mutex_);
  std::optional<rpc::control::Located> place_ WEFT_GUARDED_BY(mutex_);  // it was there last
};

class Partners {
 public:
  [[nodiscard]] std::shared_ptr<Partner> find(std::uint32_t ds_id);
  [[nodiscard]] std::uint32_t away() const;
  // Of those that a thread is connected to, by id.
  [[nodiscard]] std::vector<rpc::control::PartnerTransports> transports() const;

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<Partner>> partners_ WEFT_GUARDED_BY(mutex_);
};

struct LinkConfig {
  // `better` may be called later on the thread of the context: a dial would now make a better
  // connection than the last one did.
  using MakeDial = std::function<rpc::Dial(boost::asio::io_context&, const rpc::control::Located&,
                                           std::function<void()> better)>;
  std::string owner;  // of this data server, the same over restarts; each thread adds its number
  std::chrono::milliseconds timeout{4000};  // without an answer from the partner
  std::chrono::milliseconds probe_every{500};
  std::chrono::milliseconds look_after{400};   // a call is out: whether the partner is gone
  std::chrono::milliseconds patience{40'000};  // of a call that is out while others are answered
  std::size_t max_waiting = 4096;              // calls while the address is asked for
  // How often a partner that had no RDMA, and is used, is asked after; 0: never.
  std::chrono::milliseconds locate_every{0};
  MakeDial make_dial;
  std::shared_ptr<const rpc::peer::Keyring> keys = nullptr;  // to show that it is a server
};

class PartnerLink : public std::enable_shared_from_this<PartnerLink> {
 public:
  using Done = rpc::SessionClient::Done;
  using Ops = std::vector<rpc::nfs4::OpArgs>;

  PartnerLink(IoRing& ring, std::shared_ptr<Partner> partner, MirrorAuthority& authority,
              const LinkConfig& config);
  ~PartnerLink();

  [[nodiscard]] Partner& partner() { return *partner_; }
  // Never executed twice.
  void call(Ops ops, Done done);
  void patient_call(Ops ops, Done done);
  // Calls `then` when the partner is not away, and tries it without a pause meanwhile; after
  // `limit` in any case.
  void when_back(std::chrono::milliseconds limit, std::move_only_function<void()> then);
  void stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Call {
    Ops ops;
    bool patient = false;
    Done done;
  };
  void submit(Call call);
  void locate();
  void located(Result<rpc::control::Located> found);
  void make_client(const rpc::control::Located& found);
  [[nodiscard]] const rpc::Dial& dial_to(const rpc::control::Located& found);
  [[nodiscard]] rpc::Dial counted(rpc::Dial dial);
  void count_connection(std::atomic<std::uint32_t>* by);
  void renew();
  void begin_relocate();
  void relocate();
  void relocated(std::uint64_t incarnation, const Result<rpc::control::Located>& found);
  void answered(std::uint64_t incarnation, Result<rpc::nfs4::CompoundResult> result, Done done);
  void put_away(const Error& why);
  void drop_client();
  void end_client();
  void hurry();
  void probe();
  void probed(std::uint64_t incarnation, const Result<rpc::nfs4::CompoundResult>& result);
  void begin_watch();
  void watch();
  void ask();
  [[nodiscard]] bool writes_unanswered(Time now) const;
  [[nodiscard]] bool question_unanswered(Time now) const;
  void begin_look();
  void look();
  void looked(std::uint64_t incarnation, const Result<rpc::control::Located>& found);
  void arm(boost::asio::steady_timer& timer, std::chrono::milliseconds after,
           void (PartnerLink::*then)());
  void fail_patient(const Error& why);

  IoRing& ring_;
  const std::shared_ptr<Partner> partner_;
  MirrorAuthority& authority_;
  const LinkConfig& config_;
  std::unique_ptr<rpc::SessionClient> client_;
  rpc::control::Located dialled_;  // where dial_ goes
  rpc::Dial dial_;
  // Of the partner, that which counts the connection there is; null: none.
  std::atomic<std::uint32_t>* counted_by_ = nullptr;
  std::uint64_t incarnation_ = 0;    // counts clients made
  std::uint64_t losses_ = 0;         // Partner::losses when the client was made
  bool outdated_ = false;            // the partner has RDMA now, and had none when it was made
  std::uint64_t located_calls_ = 0;  // calls made when it was located last
  std::vector<Call> waiting_;        // for the address
  std::list<Done> patient_;          // completed by the answer or by fail_patient()
  struct Return {
    Time until;
    std::move_only_function<void()> then;
  };
  std::vector<Return> returns_;  // who wait for the partner
  bool locating_ = false;
  // This thread tries whether it is back: an attempt is under way, or begins when the probe timer
  // ends.
  bool probing_ = false;
  std::optional<Time> asked_;  // a question whether it is there is out since then
  bool watching_ = false;      // the watch timer is armed
  bool stopped_ = false;
  std::uint64_t calls_ = 0;                   // ever made
  std::set<std::uint64_t> out_;               // those that are out, by number
  std::map<std::uint64_t, Time> writes_out_;  // of these, the ones that are not patient: since when
  Time last_answer_;                          // to any call
  Time last_write_answer_;                    // to one that is not patient
  Time last_up_;                              // the metadata server said that it is there
  std::uint64_t out_before_ = 0;              // calls made when it was looked last
  bool looking_ = false;                      // the look timer is armed, or the answer is to come
  RunningClock clock_;                        // for how long an answer is missing
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer probe_timer_;
  boost::asio::steady_timer hurry_timer_;
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer locate_timer_;
};

}  // namespace weft::ds
