// Makes copies equal again: those that missed writes, when their data server is here, and those
// that may differ since a writer died.
//
// A copy that missed writes (Namespace::stale_objects) is mended object by object:
//
//   1. The file's leaders are pinned, so that the leader of the stripe stays: it is the source.
//   2. Namespace::begin_resync: resyncing, durably, at epoch E.
//   3. The object is fenced at E at the current servers of the stripe, and they forget what the
//      copy missed: from now on every write is brought to it. Of those that do not lead one that is
//      not here is not waited for: it has the fence before it serves again.
//   4. A job at the copy's data server makes the dirty extents equal (docs/protocol.md, "Resync").
//   5. Namespace::clear_stale: current, unless it was marked again meanwhile; then again from 2.
//      Again too if the source is no longer a current copy: what it sent may be old.
//
// What the source cannot read, and all else is equal, stays dirty, and the repair waits for that:
// until the source can, or somebody writes it.
//
// Nothing of this is kept but what the namespace keeps: after a restart of this server, of the
// copy's or of the source's it begins again at 1, and comparing costs checksums only. A job of
// before the restart that still runs ends when its object's next begins.
//
// compare(): every current copy of every stripe of a file is made equal to the leader's. They stay
// current: both hold every acknowledged byte, and where they differ either is right, since nobody
// was told that the write was done. All that is written meanwhile goes through the leader, also
// what clients with flexfiles layouts write (mirrors.h): the pin sees to it, here and in a scrub.
// Copies that are not current are to be mended from end to end then: what nobody was told of they
// may have, or lack, outside of what they are known to have missed.
//
// A leader that has no object is no source while another current copy has bytes of it: all that was
// acknowledged is at every current copy, so the object was lost. The copies without it become
// stale, and are mended; what was compared is compared again, with another leader. An object of
// which no copy has bytes is equal everywhere: it was never written.
//
// If no current copy has bytes of it, and one has that is to be mended, that copy becomes current
// as it is, and those without object stale: they lost it, and there is nothing else to mend them
// from.
//
// What a scrub has found to differ, and waits for an administrator (scrubber.h), is left as it is:
// it differed when nobody wrote the file, so the leader's is not the right one because it leads.
//
// While a file is compared nobody cuts it: whoever wants to ends the comparison, which is begun
// again later.
//
// Several objects at once: Limits::per_server at each data server that is mended, whichever the
// sources, and so many more small ones, of which each is little more than waiting for disks and
// answers; Limits::workers in all, one of a file. A data server where something failed is left
// alone for a while, longer each time, up to a minute; success ends that.
//
// Threading: any thread. Workers of its own do the work and block; Parts are called from them.
//
// Ownership: everything in Parts outlives it. stop(), or destruction, cancels what runs and joins.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "ganesha-fsal/cluster/data_servers.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/repair/mend_parts.h"
#include "ganesha-fsal/repair/repair_jobs.h"
#include "ganesha-fsal/repair/resync_runner.h"
#include "ganesha-fsal/repair/scrubber.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Repairer {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    unsigned workers = 64;  // at most half of them compare copies while others are to be mended
    unsigned per_server = 4;
    unsigned small_per_server = 48;
    std::uint64_t small = 1U << 20;  // files of fewer bytes are small
    Clock::duration first_rest = std::chrono::seconds(1);
    Clock::duration longest_rest = std::chrono::seconds(60);
    Clock::duration look_every = std::chrono::seconds(5);  // for what is stale at a server
    Clock::duration idle = std::chrono::seconds(1);        // a worker that found nothing to do
    ResyncRunner::Limits jobs;
    Clock::duration copy_give_up = std::chrono::seconds(3);  // a copy(): its file cannot be written
    unsigned rounds = 4;                                     // of one object, before it rests
    std::size_t max_compares = 65'536;                       // files remembered
    std::size_t max_put_off = 4096;                          // objects that rest by themselves
  };
  struct Parts {
    Namespace& names;
    DataServers& servers;
    // Ids of the data servers that are connected.
    std::function<std::vector<std::uint32_t>()> here;
    // Pins the leaders of a file that has a map.
    std::function<Result<PinnedFile>(FileId)> pin;
    // While what it returns lives the file is not cut, and no hole is made in it; whoever wants to
    // waits, and then cut_waits() is true. kBusy: somebody does. Without that a job between current
    // copies could bring back from one what was cut off at the other a moment before.
    std::function<Result<std::shared_ptr<void>>(FileId)> keep_uncut =
        [](FileId) -> Result<std::shared_ptr<void>> { return nullptr; };
    // While what it returns lives nobody writes the file, or may. kBusy: somebody does.
    std::function<Result<std::shared_ptr<void>>(FileId)> keep_unwritten =
        [](FileId) -> Result<std::shared_ptr<void>> { return nullptr; };
    std::function<bool(FileId)> cut_waits = [](FileId) { return false; };
    // While what it returns lives the file's objects are not removed. kStale: it is gone.
    std::function<Result<std::shared_ptr<void>>(FileId)> keep =
        [](FileId) -> Result<std::shared_ptr<void>> { return nullptr; };
    // Whether somebody writes the file, or may.
    std::function<bool(FileId)> written = [](FileId) { return false; };
    // Scrubber::open_findings()
    std::function<std::vector<ScrubFinding>(FileId)> findings =
        [](FileId) -> std::vector<ScrubFinding> { return {}; };
    // Asked for compares are done, or some are.
    std::function<void()> compared = [] {};
    // The data server has no object of a current copy, and another that is here has bytes of it:
    // its copy is to be mended, and leads no more. Does not wait. Mirrors::no_object()
    std::function<Result<>(FileId, std::uint32_t ds_id)> no_object;
    // The file, which is pinned, is to be compared, and how far it goes is to be learned.
    std::function<void(FileId)> doubt = [](FileId) {};
    // The data server is gone, and is being removed: nobody waits for what it has.
    std::function<bool(std::uint32_t ds_id)> lost = [](std::uint32_t) { return false; };
    Limits limits;
    const weft::Clock& clock;  // outlives it
  };

  explicit Repairer(Parts parts);
  Repairer(const Repairer&) = delete;
  Repairer& operator=(const Repairer&) = delete;
  ~Repairer();
  void start();
  void stop();

  // As ResyncRunner::set_rate().
  void set_rate(std::uint64_t bytes_per_second) { runner_.set_rate(bytes_per_second); }

  // A data server is here: what is stale there is due now.
  void server_up(std::uint32_t ds_id);

  // Something has just become stale there.
  void look_soon(std::uint32_t ds_id);

  // Compares the copies of a file, and makes them equal. kBusy until that is done; then it is
  // success, once: asked again it is done again. A file with one copy is done at once.
  [[nodiscard]] Result<> compare(FileId file);

  // Brings what `source` has of an object, which nobody changes, to another data server at the same
  // stripe, and waits until that has it on its disk. An error, in Limits::copy_give_up or a little
  // more: how much of it has come there, or will, is not known.
  struct CopyJob {
    FileId file = 0;
    const layout::LayoutMap* map = nullptr;
    std::uint32_t source = 0;  // in the map
    std::uint32_t to = 0;
  };
  [[nodiscard]] Result<> copy(const CopyJob& what);

  // Compares the copies of a file that nobody writes, tells what differs, and mends that of which
  // it is known which copy is right (scrubber.h). Blocks until it is done. kBusy: the file is being
  // repaired.
  [[nodiscard]] Result<ScrubOutcome> scrub(FileId file, const ScrubHow& how);

  [[nodiscard]] const RepairJobs& jobs() const { return jobs_; }
  // Data servers where a repair failed, and why; it is tried again after a rest of
  // Limits::longest_rest at most. Without those where one has succeeded since.
  [[nodiscard]] std::map<std::uint32_t, std::string> waits_for() const;
  // In words, for an operator: how far the repair of a copy that is not current is, or what it
  // waits for, as far as it is known here.
  [[nodiscard]] std::string state_of(FileId file, std::uint32_t ds_id) const;

 private:
  struct Waiting {
    StaleObject object;
    bool small = false;
  };
  struct Destination {
    std::deque<Waiting> waiting;
    std::optional<StaleObject> after;  // where the list goes on
    bool listing = false;
    unsigned running = 0;  // but for the small ones
    unsigned small_running = 0;
    Clock::time_point look_at{};
    Clock::time_point not_before{};
    Clock::duration rest{0};
    std::string waits_for;  // why the last attempt failed
  };
  // An object that cannot be repaired for a reason that is not its server's: others go on there.
  struct PutOff {
    Clock::time_point not_before{};
    Clock::duration rest{0};
    std::string why;
  };
  using ObjectAt = std::pair<std::uint32_t, FileId>;  // at a data server
  struct Work {
    std::optional<StaleObject> stale;
    bool small = false;
    FileId compare = 0;
  };
  // A job at a data server, to be waited for.
  struct Running {
    std::uint64_t number = 0;
    std::uint32_t ds_id = 0;
    std::uint32_t source = 0;
  };

  void run();
  // take(), look() and work() let go of the mutex while they ask or wait.
  [[nodiscard]] std::optional<Work> take() WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Work> take_compare() WEFT_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Work> take_stale(std::uint32_t ds_id, Destination& at)
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool has_turn(const Destination& at, bool small) const WEFT_REQUIRES(mutex_) {
    return small ? at.small_running < parts_.limits.small_per_server
                 : at.running < parts_.limits.per_server;
  }
  [[nodiscard]] bool is_small(FileId file) const;
  void failed(const StaleObject& stale, bool at_server, const Error& error) WEFT_REQUIRES(mutex_);
  [[nodiscard]] Clock::time_point rest_longer(Clock::duration& rest) const;
  void look(std::uint32_t ds_id) WEFT_REQUIRES(mutex_);
  void work(const Work& what) WEFT_REQUIRES(mutex_);

  // Whether the leader has the stripe's object. False: nor has any current copy bytes of it that is
  // not lost for good, so they are equal. kBusy: another has, and the copies without are told to
  // Parts::no_object. Another error: who may have it does not answer.
  [[nodiscard]] Result<bool> leader_has(FileId file, const layout::LayoutMap& map,
                                        std::size_t stripe, std::uint32_t leader);
  // `at_server` becomes true when it failed at the copy's own server.
  [[nodiscard]] Result<> mend(const StaleObject& stale, bool& at_server);
  // False: it is to be begun again.
  [[nodiscard]] Result<bool> mend_once(const StaleObject& stale, bool& at_server);
  [[nodiscard]] bool is_here(std::uint32_t ds_id) const;
  [[nodiscard]] Result<bool> has_all_there_is(const ResyncBegun& begun, std::size_t stripe);
  // It is current, and the source's copy stale. As mend_once().
  [[nodiscard]] Result<bool> take_for_current(const ResyncBegun& begun, std::uint32_t source);
  [[nodiscard]] Result<> take_back_writes(const ResyncBegun& begun, std::size_t stripe,
                                          std::uint32_t leader);
  [[nodiscard]] Result<bool> shrink_to_unreadable(const ResyncBegun& begun, std::size_t stripe,
                                                  const control::Resync& job);
  [[nodiscard]] Result<> compare_copies(FileId file);

  Parts parts_;
  RepairJobs jobs_;
  ResyncRunner runner_;
  mutable Mutex mutex_;
  CondVar wake_;  // workers that have nothing to do: one for each thing that there is
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  unsigned watching_ WEFT_GUARDED_BY(mutex_) = 0;  // workers that look now and then
  std::map<std::uint32_t, Destination> destinations_ WEFT_GUARDED_BY(mutex_);
  std::map<ObjectAt, PutOff> put_off_ WEFT_GUARDED_BY(mutex_);
  std::uint32_t last_served_ WEFT_GUARDED_BY(mutex_) = 0;  // destinations have their turns
  std::set<FileId> busy_ WEFT_GUARDED_BY(mutex_);          // files that are worked at
  std::deque<FileId> to_compare_ WEFT_GUARDED_BY(mutex_);
  unsigned comparing_ WEFT_GUARDED_BY(mutex_) = 0;                          // workers
  std::map<FileId, std::optional<bool>> compares_ WEFT_GUARDED_BY(mutex_);  // asked for; true: done
  std::vector<std::thread> workers_;
};

}  // namespace weft::mds
