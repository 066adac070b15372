// Moves what data servers hold to others, on live files: off those that are drained, removed, or
// gone for too long.
//
// One object is moved so (Namespace has the steps, layout/relocation.h what the map looks like):
//
//   1. A successor is chosen and added to the map, stale from end to end. The Repairer makes it
//      current, as any copy; once that has begun, what is written is brought there too. Copies
//      whose servers are gone are excluded before. With three copies there is no room for a
//      fourth: then the one that leaves is excluded first, and the successor is in its place from
//      the start. That waits until both others are current and here.
//   2. When the successor is current, the one that leaves is excluded (mirrors.h): nobody writes
//      through it or reads from it any more. So with one or two copies a stripe never has fewer
//      current ones than it had.
//   3. The successor takes its place in the map. Old handles are fenced at the one that left.
//   4. After a while (Limits::linger: this server may still be reading there itself) its object is
//      queued for removal.
//
// Each step is durable before the next begins, and each may be done again: after a crash the moves
// that Namespace::moves() knows go on from where they are. A successor that is gone before it is
// current is given up, and another is chosen.
//
// A step waits for disks and data servers, and small objects are nothing but steps. So many moves
// do theirs at the same time and share syncs and fences. And a small file that nobody uses goes
// directly: while nobody can get a layout of it or write it, its object is copied to the successor,
// which then takes the place at once; a hundred and more in two transactions. Until then the move
// is durable as one that left the successor, so that after a crash what it has is removed. If that
// fails, the file is moved as above.
//
// Of large files few are under way at once: they wait for their bytes, and as long as a file has a
// copy that is not current it is written less directly.
//
// A successor has the room that its last heartbeat told, less what is coming there by moves that
// are under way. A file for which only that leaves no room waits for them; others go on.
//
// A file whose copies differ stays as it is until an administrator has said which of them is right,
// or one of the two is lost.
//
// Who is left:
//   - draining and removing data servers (Duty), whether they are here or gone;
//   - those that have been gone for Limits::replace_after, as long as all of these are in one
//     failure domain: when more is away at once, something is wrong that copying does not mend.
// Of one that is gone nothing is moved before its lease has ended. A removing one is forgotten when
// it has nothing left.
//
// Rebalancing moves objects from the fullest data server to emptier ones in the same way, until all
// are as full as each other (layout/balance.h). It is not durable: a restart of this server ends
// it, but for the moves that have begun.
//
// How many objects are left at a data server the thread below counts: page by page when it begins
// to leave that one, and anew each time it gets to the end of its list. In between it takes off
// what it has moved. So whoever asks costs nothing, however much is left.
//
// Threading: any thread. A thread of its own decides what is done; the steps of what is under way,
// and what begins, are done beside each other, by Limits::threads each, which block. Parts are
// called from these. The copying is done by the data servers themselves, several at once, under the
// Repairer.
//
// Ownership: everything in Parts outlives it. stop(), or destruction, joins.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ganesha-fsal/cluster/registry.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "layout/balance.h"
#include "layout/candidate.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Mover {
 public:
  using Clock = std::chrono::steady_clock;

  struct Server {
    layout::Candidate candidate;
    Reach reach = Reach::kGone;
    Duty duty = Duty::kServing;
    std::optional<Clock::duration> gone_for;
  };
  struct Limits {
    std::size_t at_once = 512;  // objects that are being filled
    unsigned per_server = 512;  // of them at one successor
    // While their files have more bytes than this, no more than so many.
    std::uint64_t bytes = 256U << 20;
    std::size_t large_at_once = 32;
    unsigned large_per_server = 8;
    std::size_t known = 65'536;     // moves in memory: most of them are of objects that linger
    std::size_t page = 512;         // of a data server's objects, looked at in one round
    std::size_t count_page = 8192;  // of them, counted in one round
    std::uint64_t direct_bytes = 64U << 10;  // files of at most so many bytes are moved directly
    std::size_t direct = 128;  // of them in one transaction: nobody can write them meanwhile
    std::size_t batches = 2;   // such, at once
    std::size_t ended = 512;   // moves that end in one transaction
    unsigned threads = 48;
    Clock::duration round = std::chrono::milliseconds(50);  // while there is something to do
    Clock::duration idle = std::chrono::seconds(1);
    Clock::duration look_every = std::chrono::seconds(3);  // when the list was gone through
    Clock::duration rest = std::chrono::seconds(1);        // of a file that could not get on
    Clock::duration patience = std::chrono::minutes(10);   // of a rebalance that meets only those
    Clock::duration linger = std::chrono::seconds(31);
    Clock::duration replace_after{0};  // 0: never
    std::uint64_t reserve_bytes = 64U << 20;
    std::size_t most_named = 100;  // files of Stuck::first
  };
  struct Parts {
    Namespace& names;
    std::function<std::vector<Server>()> servers;
    std::function<bool(std::uint32_t ds_id)> lapse;  // Registry::lapse()
    // FileData::begin_move()
    std::function<Result<layout::LayoutMap>(FileId, std::uint32_t from, std::uint32_t to)> begin;
    // FileData::hold_unused(), and Repairer::copy().
    std::function<Result<std::shared_ptr<void>>(FileId, const layout::LayoutMap&)> hold_unused;
    std::function<Result<>(FileId, const layout::LayoutMap&, std::uint32_t source,
                           std::uint32_t to)>
        copy;
    // Bytes of storage of one of its copies, ObjectCalls::stat(). Waits for data servers.
    std::function<Result<std::uint64_t>(FileId, const layout::LayoutMap&)> allocated;
    std::function<Result<>(FileId, std::uint32_t ds_id)> exclude;  // Mirrors::exclude()
    std::function<Result<>(FileId)> finish;                        // Mirrors::finish_move()
    // At most control::kMaxFences.
    std::function<Result<>(std::uint32_t ds_id, std::vector<control::Fence>)> fence;
    std::function<void(std::uint32_t ds_id)> fill;  // something is stale there
    std::function<void()> removals;                 // there is something to be removed
    std::function<Result<>(std::uint32_t)> forget;  // Cluster::remove_server()
    // Whether an administrator is to say which of its copies is right (Scrubber::open_findings()).
    std::function<bool(FileId)> differs;
    Limits limits;
    const weft::Clock& clock;  // outlives it
  };

  // Objects that cannot be moved, for one reason.
  struct Stuck {
    std::uint64_t objects = 0;
    std::vector<FileId> first;  // whose they are
  };
  // How far a data server is with being left.
  struct Leaving {
    std::uint32_t ds_id = 0;
    bool drained = false;                    // nothing was left there when it was counted last
    std::uint64_t left = 0;                  // objects, about; 0 only if it is drained
    std::uint64_t moved = 0;                 // since it began, in this process
    std::uint64_t moved_bytes = 0;           // of the files' sizes
    std::chrono::milliseconds remaining{0};  // at the rate so far; 0: not known
    std::map<std::string, Stuck> stuck;      // by the reason, the last time round
  };

  struct RebalanceState {
    bool running = false;
    double within = 0;          // parts of servers' space, as the next two
    double spread_before = 0;   // between the fullest and the emptiest
    double spread = 0;          // once what was begun is done
    std::uint64_t objects = 0;  // begun
    std::uint64_t bytes = 0;
  };
  struct PlannedMoves {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  struct Plan {
    double spread_before = 0;
    double spread_after = 0;
    bool whole = true;  // false: there are more objects than were looked at
    std::map<std::pair<std::uint32_t, std::uint32_t>, PlannedMoves> moves;  // from, to
  };

  explicit Mover(Parts parts);
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  ~Mover();
  void start();
  void stop();

  // Limits::replace_after, from now on.
  void set_replace_after(Clock::duration after) { replace_after_ = after; }

  // Duties have changed, or a data server is back.
  void look_now();
  // Moves off it that are being filled are given up.
  void give_up(std::uint32_t ds_id);
  // Of those that are being left now. Asks nothing of the namespace.
  [[nodiscard]] std::vector<Leaving> leaving() const;
  [[nodiscard]] std::uint64_t moved() const;  // objects, in all

  // Until fullest and emptiest are no more than `within` (a part of their space) apart, or nothing
  // more can be moved. kBusy: one runs.
  [[nodiscard]] Result<> begin_rebalance(double within);
  // Begins nothing more. False: none ran.
  bool end_rebalance();
  [[nodiscard]] RebalanceState rebalance() const;
  // What it would do, by the sizes of the files.
  [[nodiscard]] Result<Plan> plan(double within) const;

  // One round; what the thread does. True: there is more to do at once. For tests.
  bool turn();

 private:
  // Of the objects that one has. What is moved after it was begun is taken off.
  struct Count {
    std::uint64_t objects = 0;
    std::uint64_t moved = 0;  // Source::moved when it was begun
  };
  struct Source {
    Clock::time_point since;
    Count count;                                 // the last that is whole, or the first
    bool counted = false;                        // it is whole
    std::optional<layout::ObjectId> counted_to;  // of the first
    Count passing;                               // this time through the list
    std::optional<layout::ObjectId> after;       // where the list goes on
    Clock::time_point look_at{};
    std::uint64_t moved = 0;
    std::uint64_t moved_bytes = 0;
    std::map<std::string, Stuck> stuck;  // the whole list
    std::map<std::string, Stuck> found;  // this time round
  };
  // Of one move.
  struct Size {
    std::uint64_t file = 0;    // bytes of the file, when it was seen first
    std::uint64_t stripe = 0;  // of these at one data server, at most
  };
  struct Amount {
    std::size_t moves = 0;
    Size bytes;
  };
  // What one round goes by.
  struct Round {
    explicit Round(std::vector<Server> all);
    std::vector<Server> servers;
    std::vector<layout::Candidate> candidates;
    std::map<std::uint32_t, Amount> filling;  // by successor
    Amount under_way;

    [[nodiscard]] const Server* find(std::uint32_t ds_id) const;
    [[nodiscard]] std::size_t moves_to(std::uint32_t ds_id) const;
    // Bytes that it has not got yet, or not all of them.
    [[nodiscard]] std::uint64_t coming_to(std::uint32_t ds_id) const;
    void add(std::uint32_t to, const Size& size);
    void take_off(std::uint32_t to, const Size& size);
  };
  // A move as this process knows it: the namespace has it too.
  struct Known {
    Move move;
    Size size;
    std::optional<Clock::time_point> fenced;  // the object that left
    bool given_up = false;                    // it is not to leave any more
  };
  // What is due of the moves that are known, taken beside what begins in the same round.
  struct Steps {
    struct Step {
      Known known;
      Result<bool> outcome = false;
    };
    std::vector<Step> fences;    // true: it is fenced; false: there may be nothing to be fenced
    std::vector<Step> filling;   // true: it may be at another stage
    std::vector<Step> lingered;  // true: it has ended
  };
  // One that is to begin.
  struct Chosen {
    FileId file = 0;
    layout::LayoutMap map;
    std::uint32_t to = 0;
    Size size;
    Result<std::optional<Move>> begun = std::nullopt;
    std::shared_ptr<void> held = nullptr;  // while it is moved directly
    Result<bool> directly = false;         // whether it was; false: it is used
  };
  struct Rebalance {
    Rebalance(const std::vector<Server>& servers, double part);
    layout::Balance balance;
    RebalanceState state;
    std::uint32_t from = 0;                 // whose objects are gone through
    std::optional<layout::ObjectId> after;  // where that goes on
    bool gave = false;                      // since it began from the start
    bool waits = false;                     // so: it met files that could not get on just then
    Clock::time_point look_at{};            // from the start again
    Clock::time_point gave_at{};            // the last time, or since it gives
  };
  // An object that may go from a fuller one to an emptier one.
  struct Relief {
    layout::LayoutMap map;
    std::uint32_t to = 0;
    Size size;
  };
  enum class Begun : std::uint8_t { kYes, kNothing, kFull };

  void run();
  [[nodiscard]] bool is_stopping() const;
  // What an earlier run has begun, as far as there is room for it.
  void learn_moves();
  // Of those that are being filled.
  void note_given_up();
  // What successors are to get yet.
  void count_filling(Round& round);
  [[nodiscard]] bool full(const Round& round) const;
  [[nodiscard]] bool full(const Round& round, std::uint32_t to) const;
  // mover_steps.cc: the steps of moves
  [[nodiscard]] Steps due() const;
  // Takes them, beside what begins: it reads of the round and of this what that does not change.
  void take(Steps& steps, const Round& round);
  void put_down(const Steps& steps);
  void fence_those_that_left(std::vector<Steps::Step>& steps) const;
  void fence_at(std::uint32_t ds_id, std::span<Steps::Step* const> steps) const;
  // What is to be fenced where an object was; nothing if the file is gone.
  [[nodiscard]] Result<std::optional<control::Fence>> fence_of(FileId file) const;
  // True: it may be at another stage now.
  [[nodiscard]] Result<bool> fill_or_finish(const Known& known, const Round& round);
  void end_those_that_lingered(std::vector<Steps::Step>& steps) const;
  [[nodiscard]] Result<> cancel(const Move& move, const Server* to);
  // As the namespace has it now.
  void look_at(FileId file);
  void rest(FileId file);  // it is left alone for Limits::rest
  void put_off(FileId file, const Error& error);
  void count(std::uint32_t from, std::uint64_t bytes);
  [[nodiscard]] Begun choose(FileId file, std::uint32_t from, Round& round,
                             std::vector<Chosen>& chosen);
  // Of a file of so many bytes.
  [[nodiscard]] static Size size_of(std::uint64_t file, const layout::LayoutMap& map);
  struct Successor {
    std::uint32_t ds_id = 0;
    std::uint64_t bytes = 0;  // that it is to get
  };
  // By the file's size; by what is stored of it where that is for no other data server. kBusy: the
  // one that would be chosen has enough to do. kLayoutTryLater: there is room, but for what is
  // coming there already. Any other error: there is none.
  [[nodiscard]] Result<Successor> successor(const InodeAttributes& file,
                                            const layout::LayoutMap& map, std::uint32_t from,
                                            const Round& round) const;
  // For so many bytes. Errors as of successor().
  [[nodiscard]] Result<Successor> with_room(const layout::LayoutMap& map, std::uint64_t bytes,
                                            std::uint32_t from, const Round& round) const;
  // Returns those that did not begin. `begun` has the error, but of those that could not go
  // directly: they begin as any file the next time.
  std::vector<Chosen> begin_all(std::vector<Chosen> chosen, std::uint32_t from, Round& round);
  // False: it would be left out before another is made, as there are three, and without it fewer
  // than two would be current and here.
  [[nodiscard]] static bool may_be_left(const layout::LayoutMap& map, std::uint32_t from,
                                        const Round& round);
  [[nodiscard]] static bool is_lost(const Server* server);
  // Whether a copy is left that the one at `to` can be made from.
  [[nodiscard]] static bool has_source(const layout::LayoutMap& map, std::uint32_t to,
                                       const Round& round);
  [[nodiscard]] static bool is_overtaken(const Error& error);
  [[nodiscard]] Result<std::optional<Move>> add(const Chosen& chosen, std::uint32_t from,
                                                const Round& round);
  [[nodiscard]] bool strip_removal(const layout::ObjectId& object, std::uint32_t ds_id);
  // mover_direct.cc
  [[nodiscard]] bool may_go_directly(const Chosen& one, std::uint32_t from,
                                     const Round& round) const;
  // Takes those from `chosen` that are moved now, and returns those of them that could not be.
  [[nodiscard]] std::vector<Chosen> move_directly(std::vector<Chosen>& chosen, std::uint32_t from,
                                                  Round& round);
  // On any thread.
  void move_batch(std::span<Chosen> batch, std::uint32_t from) const;
  [[nodiscard]] static std::vector<DirectMove> direct_moves(const std::vector<Chosen*>& going,
                                                            std::uint32_t from);
  static void keep_if(std::vector<Chosen*>& going, const Result<std::vector<Result<>>>& outcomes);

  [[nodiscard]] std::vector<std::uint32_t> sources(const std::vector<Server>& servers) const;
  bool leave(std::uint32_t ds_id, Round& round);
  // The next page of the first count. True: it goes on.
  bool count_first(std::uint32_t ds_id);
  [[nodiscard]] static std::uint64_t left_of(const Source& source);
  void look_through(std::uint32_t ds_id, Round& round);
  void note_stuck(std::uint32_t ds_id, FileId file, const std::string& why);
  // mover_balance.cc
  bool even_out(Round& round);
  void relieve(Rebalance& now, std::uint32_t from, Round& round);
  [[nodiscard]] std::uint64_t bytes_at(const InodeAttributes& file, const layout::LayoutMap& map,
                                       std::size_t stripe) const;
  [[nodiscard]] std::optional<Relief> relief(const layout::Balance& balance, FileId file,
                                             std::uint32_t from, const Round& round) const;

  const Parts parts_;
  std::atomic<Clock::duration> replace_after_{parts_.limits.replace_after};
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  bool look_now_ WEFT_GUARDED_BY(mutex_) = false;
  std::map<std::uint32_t, Source> sources_ WEFT_GUARDED_BY(mutex_);
  std::set<std::uint32_t> given_up_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t moved_ WEFT_GUARDED_BY(mutex_) = 0;
  std::optional<Rebalance> rebalance_ WEFT_GUARDED_BY(mutex_);
  // The thread's.
  std::map<FileId, Clock::time_point> not_before_;
  std::set<FileId> not_directly_;  // since that has failed
  bool moved_directly_ = false;    // in this round: there may be more to move at once
  std::map<FileId, Known> moves_;
  // Successors that took a place before they had anything, as there were three copies: until they
  // are current, also when the move has ended.
  std::map<std::pair<FileId, std::uint32_t>, Size> unfilled_;
  std::optional<FileId> learnt_ = 0;  // moves up to this file are in it; nothing: all are
  std::thread thread_;
};

}  // namespace weft::mds
