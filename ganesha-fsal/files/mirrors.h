// Files with several copies: who leads, what is done when a data server is lost, and when a write
// that a copy misses may be acknowledged.
//
// Leaders. One copy of each stripe leads: everything written to the stripe goes through its data
// server, which brings it to the others in one order. All who write a file at the same time, under
// layouts or through this server, have the same leaders; they are chosen anew, by load, only when
// nobody writes. While there are writers a leader changes only by exclude().
//
// Owing. With server-asynchronous duplication leaders may be ahead of the other copies, also when
// the last writer is gone: a layout may come back without COMMIT, and what was acknowledged is
// still on its way then. Such a file owes. Until a COMMIT through its leaders was answered, after
// all of its writers were gone, the leaders stay, and they alone are read: another leader's bytes
// could be overwritten by what comes late, and another copy could lack what was read before. A data
// server that was restarted meanwhile may have forgotten what it owed: then the copies are compared
// after that COMMIT. A crash of this server forgets it; the journal keeps the file's record as
// long, and the fence of the writers of an earlier run refuses late bytes.
//
// Lost servers. A write that one copy misses may be acknowledged when
//   a. that copy is stale in the layout map, durably, with the extents it lacks (from then on
//      nothing new reads from it), and
//   b. if it led: what its server still brings to the others is refused there, by a fence of the
//      object at the map's new epoch; and its own reports are refused, so that it acknowledges
//      nothing more, and
//   c. nobody reads old bytes from its server: it has acknowledged the object's fence, or serves
//      nobody since its lease ended (Registry::lapse), or no layout that can name it is out from
//      before the mark. Such layouts are recalled. Layouts of before this process started are
//      unknown for the first grace period; then only the fence and the lease count.
// Clients that write under a layout are not asked for it when the server's process is dead: they
// notice at once, by a connection that is refused, and bring the layout back by themselves. Asked
// for it at that moment, a Linux client cannot give it back (exclusion.cc says why). Then c holds
// by the fence, which a server that is dead has before it serves again. So layouts are recalled
// when there was time to find out (Parts::doubt).
//
// c is not waited for under a layout for writing that the copy does not lead: such layouts do not
// name it, and the write that waits may be under one.
//
// Clients that write every copy themselves (flex_grant.h). A job that makes a current copy equal to
// another relies on the leader: what is at a copy is at the leader too, or comes after the job's
// piece. What a client brings to both by itself may be at the one, and not yet at the leader, and
// would be undone. So while leaders are pinned for such a job, and while the journal says that
// copies are to be compared, layouts for writing name the leader alone; those that name all copies
// are recalled before the pin is given. What says so outlives this process: the journal's record,
// and the fence of those who held a layout before.
//
// Lost objects. A copy that has lost its object is found by that when copies are compared, and left
// out (repairer.h). The first write makes the object anew, with nothing else in it. So who begins
// to write a file that has bytes, or whose copies are to be compared, while nobody else may, has
// them asked for their objects first. What is lost while somebody may write, by a layout that is
// out, is not found so.
//
// Late writes. What this server has sent and given up may be carried out yet by the data server
// that it was sent to (Parts::late), which brings a write to the other copies. What is written next
// goes through that one, where it waits for the late one, or without it: it is left out as a leader
// is.
//
// How reads are shared among copies is in read_shares.h.
//
// With one copy there is none of this: no leaders, nothing can be excluded.
//
// Threading: any thread. Calls read and write the metadata store; begin_write, exclude and
// prepare_change also wait for fences and returned layouts, up to Parts::patience or what their
// callers say instead. When that was too short, or stop() was called, they answer kBusy: it is for
// clients, who are to ask again. copy_missed() and server_gone() do not wait.
//
// Invariants:
//  1. Leaders of a file do not change while a Pin of it lives, a layout for writing is out, or it
//     owes, but for those that were excluded.
//  2. A stripe's last current copy is never marked stale.
// What is remembered of a file is in its record (mirror_state.h).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/files/layout_maps.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/files/read_shares.h"
#include "ganesha-fsal/files/writer_journal.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "layout/candidate.h"
#include "layout/copy_choice.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Mirrors final : public MissedCopies {
 public:
  struct Parts {
    FileTable& files;
    Namespace& names;
    WriterJournal& journal;
    LayoutService& layouts;
    std::function<Reach(std::uint32_t ds_id)> reach;
    // Its process is dead, so it serves nobody.
    std::function<bool(std::uint32_t ds_id)> dead = [](std::uint32_t) { return false; };
    std::function<std::vector<std::uint32_t>()> servers;  // that are known
    // What is known of these, of their loads and room.
    std::function<std::vector<layout::Candidate>(std::span<const std::uint32_t> ds_ids)> candidates;
    // As Cluster::fence().
    std::function<void(std::span<const std::uint32_t> ds_ids, const control::Fence& fence,
                       Done<void> done)>
        fence;
    // ObjectCalls::without(). Nothing: nobody is asked.
    using Asked =
        std::function<void(std::vector<std::uint32_t> found, std::vector<std::uint32_t> unasked)>;
    std::function<void(const layout::LayoutMap& map, const layout::ObjectId& object, Asked done)>
        without = nullptr;
    // ObjectCalls::lacks(). Nothing: nobody is asked.
    std::function<void(std::uint32_t ds_id, const layout::ObjectId& object,
                       std::move_only_function<void(bool)> done)>
        lacks = nullptr;
    // A change that was given up may be carried out there yet. ProxyIo::unsettled()
    std::function<bool(const layout::ObjectId& object, std::uint32_t ds_id)> late =
        [](const layout::ObjectId&, std::uint32_t) { return false; };
    // No layout that an earlier run of this server handed out can be in use.
    std::function<bool()> grants_known;
    // So long after a server is left out it may still turn out to be dead; a third of it if it is
    // here still.
    Clock::duration doubt = std::chrono::milliseconds(1500);
    Clock::duration patience = std::chrono::seconds(2);
    // Who is patient goes on with the file's progress: a layout is back, a fence has been answered,
    // copies have said whether they have the object, or one is left out. He looks again so often
    // besides, for what is no progress of a file:
    //   - time: a server counts as gone (Registry), `doubt`, `retry` or the grace period is over
    //     (grants_known());
    //   - of servers: one is back, is found dead, or can no longer carry out what was given up
    //     (late());
    //   - the map has changed, by a repair or a move.
    Clock::duration look_again = std::chrono::milliseconds(50);
    // Of a fence that failed, and of a question that did not come there.
    Clock::duration retry = std::chrono::milliseconds(500);
    // A file that owes is due when nobody has begun to write it for so long, and then again.
    Clock::duration owing_for = std::chrono::seconds(1);
    Clock::duration owing_retry = std::chrono::seconds(10);
    // As ReadShares::Parts::look_every, wrong_for.
    Clock::duration look_at_reads = std::chrono::seconds(1);
    Clock::duration wrong_for = std::chrono::seconds(3);
    layout::ChoiceRules rules;
  };

  explicit Mirrors(Parts parts);
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;

  // Ends every wait, from now on.
  void stop() { stopping_ = true; }

  [[nodiscard]] Reach reach(std::uint32_t ds_id) const { return parts_.reach(ds_id); }

  // A wait's end. Nothing: after Parts::patience.
  using Until = std::optional<Clock::time_point>;
  enum class Use : std::uint8_t {
    kWrite,
    kPin,     // the leaders are to stay, and get nothing that they would owe
    kRepair,  // as kPin, and all is to be written through them: copies are to be made equal
  };
  // While it lives, the file's leaders and its record in the journal stay.
  class Pin {
   public:
    Pin() = default;
    Pin(Mirrors* owner, FileId file, Use use, WriterJournal::Pin journal)
        : owner_(owner), file_(file), use_(use), journal_(std::move(journal)) {}
    Pin(Pin&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          file_(other.file_),
          use_(other.use_),
          journal_(std::move(other.journal_)) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (owner_ != nullptr) owner_->unpin(file_, use_);
    }

   private:
    Mirrors* owner_ = nullptr;
    FileId file_ = 0;
    Use use_ = Use::kWrite;
    WriterJournal::Pin journal_;
  };

  // The handles to write with are made by layout::leading_handle().
  struct View {
    layout::LayoutMap map;
    std::vector<std::uint8_t> leads;  // for each stripe the copy; empty: nobody writes
  };
  struct Target : View {
    Pin pin;
  };

  // The file is about to be written, under a layout or through this server: its map, made by
  // `make` when there is none, in the journal; leaders whose servers are here. Writers of before a
  // restart are fenced first. kLayoutTryLater: a stripe has no current copy whose server is here.
  // kBusy: conditions a to c are still to come true for a copy that is stale; or, for a repair,
  // layouts that name all copies are still out.
  [[nodiscard]] Result<Target> begin_write(FileId file, const Namespace::MakeLayout& make,
                                           Use use = Use::kWrite, Until until = {});

  // A layout for writing, whose grant is recorded, is about to be handed out: whether it may name
  // all copies, for the client to write them itself. Else it is to name the leader.
  [[nodiscard]] bool may_name_all(FileId file);

  // Files that owe and that nobody writes, at most `limit`: each is to be committed, and then
  // duplicated() is to be told what was answered here. Until that it is due again after a while.
  struct Owing {
    FileId file = 0;
    std::uint64_t until = 0;  // the last write begun that counts
    Clock::time_point since;  // no write that counts was begun before
  };
  [[nodiscard]] std::vector<Owing> take_owing(std::size_t limit);
  // Unless somebody began to write it since.
  void duplicated(const Owing& what);
  [[nodiscard]] bool owes(FileId file) const;

  // Map and leaders as they are now, consistent with each other. For one who registered first (a
  // grant, a pin): what changes from here on, he is told of. kStale: no such file or map. kBusy:
  // they are changing.
  [[nodiscard]] Result<View> look(FileId file) const;
  // The data servers that a layout of the files type is to name; for reading at most `most`, if
  // every stripe has one. kLayoutTryLater: a stripe has no current copy whose server is here.
  // A layout for reading, whose grant is recorded, is renewed when it is not right any more.
  // Only those are read that are `usable`, if that is said; such a layout is not renewed.
  using Usable = ReadShares::Usable;
  [[nodiscard]] Result<layout::LayoutServers> servers_for(FileId file, const View& view,
                                                          layout::Access access, std::size_t most,
                                                          const Usable& usable = {});
  // The same for reading, of no layout: what a client is likely to be told.
  [[nodiscard]] Result<layout::LayoutServers> readers(FileId file, const View& view) const;
  // How reads are shared, for layouts of the flexfiles type.
  [[nodiscard]] ReadShares& reads() { return reads_; }

  enum class Cause : std::uint8_t {
    kGone,      // reach() says so
    kNoAnswer,  // it was asked and did not answer
    kMoved,     // another takes its place
    kDisk,      // it says itself that its disk is full or broken
    kStore,     // its store is an older state of itself
    kNoObject,  // it has no object, and another current copy has
  };
  // The data server is to miss writes from now on: conditions a to c. Its whole object counts as
  // dirty, since nobody knows what it may have got alone. Success when it was excluded before.
  // kLayoutTryLater: it has the last current copy of its stripe, or the others' servers are not
  // here.
  [[nodiscard]] Result<> exclude(FileId file, std::uint32_t ds_id, Cause cause, Until until = {});

  // A client that writes the copies itself (flex_grant.h) says that the data server missed a write.
  // Its copy is marked, if another current one is here, and conditions b and c are begun with;
  // does not wait for them: begin_write() does. One that is being repaired from end to end is
  // repaired on: whoever says so again and again keeps none from becoming current. kLayoutTryLater:
  // as of exclude().
  [[nodiscard]] Result<> missed_by_client(FileId file, std::uint32_t ds_id);

  // The data server's store is an older state of itself, and it serves nobody: nothing says what of
  // its copy is missing. As missed_by_client().
  [[nodiscard]] Result<> rolled_back(FileId file, std::uint32_t ds_id);

  // The data server's object is not there, and another current copy's is. As missed_by_client().
  [[nodiscard]] Result<> no_object(FileId file, std::uint32_t ds_id);

  // Namespace::finish_move(): the newcomer, which may lead, has another place in the map.
  [[nodiscard]] Result<> finish_move(FileId file);

  // This server is about to change the objects itself, within `changed` (truncate, allocate,
  // punch). Current copies whose servers are gone are excluded, and `changed` is added to what
  // every copy lacks that is not current. The change is then to be made at the servers of the
  // copies that are current or resyncing in the map that is returned. Errors as of exclude();
  // kUnreachable: a server is away only for a moment.
  [[nodiscard]] Result<layout::LayoutMap> prepare_change(FileId file, DirtyExtent changed);

  // Servers that were to make such a change, within `changed`, did not. Those whose disks failed
  // are left out, if their stripes have another current copy that made it; the change is to be
  // prepared and made again, which waits until nobody uses them. Otherwise the error of one for
  // which nobody was left out: of one that did not answer before that of a disk.
  [[nodiscard]] Result<> change_failed(FileId file, DirtyExtent changed, const Failures& failures);

  // Of the control server. Does not wait: kBusy until the conditions hold. Of the reporter's own
  // copy: it is left out, and conditions b and c are begun with; begin_write() waits for them.
  // kNotFound: it is the last that is current and here. Of another copy, by a reporter whose own
  // store failed: that one is marked only if it is not here; else the reporter's own is left out
  // (kFenced). Of a current copy, by one whose handle is of an older epoch, while copies are to be
  // compared: kFenced, and they are compared after that.
  [[nodiscard]] Result<> copy_missed(std::uint32_t reporter,
                                     const control::CopyMissed& missed) override;

  // Waits for its answers, and for those of others where it lacks something.
  void returning(std::uint32_t ds_id) override;

  // Recalls layouts that name the data server, if the files have other copies, and excludes it
  // where it leads.
  void server_gone(std::uint32_t ds_id);

  // Notices which data servers are gone, forgets leaders that nobody needs, and renews layouts for
  // reading. Call a few times a second.
  void tick();

 private:
  // Of one map: in the next the same data server may have another.
  struct Place {
    std::size_t copy = 0;
    std::size_t stripe = 0;
  };

  void unpin(FileId file, Use use);
  // Those that somebody writes with now; empty: nobody does.
  [[nodiscard]] std::vector<std::uint8_t> leads_of(FileId file) const;
  [[nodiscard]] static std::optional<Place> place_of(const layout::LayoutMap& map,
                                                     std::uint32_t ds_id);
  [[nodiscard]] Result<layout::LayoutMap> map_of(FileId file) const;
  // What a step has come to. What it still waits for has begun: the step is to be made again when
  // something was done with the file.
  struct Step {
    const char* awaited = nullptr;  // null: nothing, it is done
  };
  [[nodiscard]] static bool is_done(const Result<Step>& step) { return step && !step->awaited; }
  // For whoever does not wait: kBusy if it is not done.
  [[nodiscard]] static Result<> answer(Result<Step> step);
  // Makes the step until it is done. The only wait here.
  [[nodiscard]] Result<> await_done(FileId file, Until until,
                                    const std::function<Result<Step>()>& step) const;

  // mirrors.cc: beginning to write
  [[nodiscard]] Result<Step> try_begin(FileId file, Use use, View& view);
  [[nodiscard]] Result<Step> try_look(FileId file, View& view) const;
  [[nodiscard]] Result<Step> check_here(FileId file, const View& view);
  [[nodiscard]] Result<Step> lead(FileId file, const layout::LayoutMap& map);
  // Who leads instead of those that were chosen, since a change may come late there.
  [[nodiscard]] Result<Step> lead_late(FileId file, const layout::LayoutMap& map,
                                       std::vector<std::uint8_t>& leads);
  [[nodiscard]] Result<Step> call_reads_back(FileId file, const layout::LayoutMap& map);
  [[nodiscard]] Result<Step> call_writers_back(FileId file, const layout::LayoutMap& map);
  [[nodiscard]] Result<Step> fence_inherited(FileId file, const layout::LayoutMap& map);
  [[nodiscard]] Result<Step> leave_out_lost(FileId file, const layout::LayoutMap& map);

  // returning.cc
  [[nodiscard]] std::vector<FileId> lacking(std::uint32_t ds_id, std::span<const FileId> files);
  [[nodiscard]] Result<> leave_out_if_lost(FileId file, std::uint32_t ds_id);
  // A current copy's server may be back, or will be gone, the next moment.
  [[nodiscard]] bool one_was_lost(const layout::LayoutMap& map) const;
  [[nodiscard]] Result<layout::Leads> choose(FileId file, const layout::LayoutMap& map,
                                             std::span<const std::uint8_t> before) const;
  [[nodiscard]] layout::ChoiceRules rules_for(FileId file, const layout::LayoutMap& map) const;

  // exclusion.cc
  struct Loss {
    Place place;
    std::uint32_t ds_id = 0;
    bool moved = false;  // another has all of it, and takes its place
    bool led = false;
    bool written = false;  // as of Exclusion
    std::vector<DirtyExtent> dirty;
    std::optional<std::uint32_t> reporter;
    Namespace::Durable durable = Namespace::Durable::kOnReturn;
  };
  // Condition a. Marks it, and if it was current or resyncing begins with b and c, and gives its
  // stripe a new leader. Not done when the loss is of a map of before.
  [[nodiscard]] Result<Step> mark(FileId file, const Loss& loss);
  struct Expected {
    std::uint64_t number = 0;  // of the record that was made; 0: none was
    std::optional<Exclusion> before;
  };
  // With nothing of b and c yet.
  [[nodiscard]] Exclusion begun(const Loss& loss, std::size_t stripe) const;
  // Before it is marked, if that begins with b and c: an earlier exclusion of the data server says
  // nothing any more.
  [[nodiscard]] Expected expect_exclusion(FileId file, const Loss& loss);
  // It was not marked, or somebody else has marked it.
  void expect_no_exclusion(FileId file, const Loss& loss, const Expected& expected);
  void begin_exclusion(FileId file, const layout::LayoutMap& marked, const Loss& loss, Place place);
  // Marks one that is current and will miss what nobody knows; others of its stripe that are gone
  // with it.
  [[nodiscard]] Result<Step> leave_out(FileId file, const layout::LayoutMap& map, Place place,
                                       Cause cause,
                                       Namespace::Durable durable = Namespace::Durable::kOnReturn);
  [[nodiscard]] bool leads_there(FileId file, Place place) const;
  // What is written there now, or comes there late, others get after that.
  [[nodiscard]] bool brings_on(FileId file, const layout::LayoutMap& map, Place place) const;
  [[nodiscard]] bool other_is_here(const layout::LayoutMap& map, Place place) const;
  // Conditions b and c of a copy that is not current, once condition a is durable.
  [[nodiscard]] Result<Step> advance(FileId file, const layout::LayoutMap& map, Place place);
  // The same of the data server's copy as the map is now. Done when it has none; not, when that is
  // current.
  [[nodiscard]] Result<Step> advance_now(FileId file, std::uint32_t ds_id);
  // Of all such copies.
  [[nodiscard]] Result<Step> advance_all(FileId file, const layout::LayoutMap& map);
  struct Steps {
    Exclusion now;
    bool fence_others = false;
    bool recall = false;
  };
  [[nodiscard]] Steps next_steps(FileId file, Place place, std::uint32_t ds_id);
  // Recalls the layouts that may name the data server. False: the exclusion is no longer the one
  // with this number.
  [[nodiscard]] bool recall_named(FileId file, std::uint32_t ds_id, std::uint64_t number,
                                  std::optional<layout::Access> only);
  // False: another's, or the exclusion is no longer the one with this number.
  [[nodiscard]] bool take_own_fence(FileId file, std::uint32_t ds_id, std::uint64_t number);
  void settle_exclusion(FileId file, std::uint32_t ds_id, std::uint64_t number);
  void start_fence(FileId file, const layout::LayoutMap& map, std::vector<std::uint32_t> ds_ids,
                   std::uint32_t excluded, std::uint64_t number, FenceState Exclusion::* which);
  [[nodiscard]] Result<Step> try_change(FileId file, DirtyExtent changed,
                                        std::vector<std::uint32_t>& marked);
  // True: its copy is marked, not durably yet, and advance_now() is to follow.
  [[nodiscard]] bool recall_from(FileId file, std::uint32_t ds_id);
  void sweep();
  void look_after(FileId file);

  // missed_writes.cc
  [[nodiscard]] Result<> missed_all(FileId file, std::uint32_t ds_id, Cause cause);
  [[nodiscard]] Result<> own_copy_missed(FileId file, const layout::LayoutMap& map, Place place);
  [[nodiscard]] Result<> reporter_failed(FileId file, const layout::LayoutMap& map, Place from,
                                         Place other);

  const Parts parts_;
  ReadShares reads_;
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  std::set<std::uint32_t> gone_ WEFT_GUARDED_BY(mutex_);  // data servers, at the last tick
};

}  // namespace weft::mds
