// Grants, recall and fencing of layouts: what has to happen so that a client that may no longer
// write to a file cannot.
//
//   grant    LAYOUTGET asks here first; a file being recalled or fenced gets no new layout.
//   recall   CB_LAYOUTRECALL to each holder, through the Recaller, and a deadline of our own
//            (Ganesha waits for ever for a client that acknowledged a recall).
//   revoke   a holder that is gone (lease, backchannel) or late loses its grant, and is fenced at
//            the data servers through the Fencer. Until they answered, the file is blocked:
//            whatever conflicts with that client's writes has to wait (blocked()).
//   gone     when a file's last grant is gone and nothing of it is being fenced, the watcher is
//            told, once for each grant() that answered true: an unlinked file's objects may be
//            removed then.
//   keep     Some layouts stay with their clients when these close the files (kept_layouts.h).
//   fenced   when a fence holds, and before the file goes on, whoever asked for it is told: what
//            the client wrote last it may have told nobody.
//
// What is known of a file is in its record (grants.h). Recaller and Fencer may be slow: both are
// called without the record held, and answer later. A client's voluntary return is never fenced.
// Nothing here waits; tick() drives the deadlines.
//
// Threading: every method may be called from any thread, also from the callbacks of Recaller and
// Fencer, except that stop() must not be called from a callback.
//
// Invariants:
//  1. A revoked grant blocks its file from the moment it is forgotten until the fence holds.
//  2. A failed fence is tried again until it succeeds or the service stops.
//  3. At most LayoutLimits::most layouts are out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/files/kept_layouts.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// Asks a client to return its layout of a file.
class Recaller {
 public:
  virtual ~Recaller() = default;
  // `only`: layouts of that mode. `none` is called, if ever, when the protocol's side knows of no
  // such layout, and gives none out that it was granted before this recall.
  virtual void recall(FileId file, ClientId client, std::optional<layout::Access> only,
                      std::function<void()> none) = 0;
  // Asks a client for the layouts of all files that it does not use. `answered` is called once, or
  // never if it does not answer, with whether it understood.
  virtual void recall_unused(ClientId client, std::function<void(bool understood)> answered) = 0;
};

// Makes the data servers of a file refuse what the client was granted before, durably.
class Fencer {
 public:
  virtual ~Fencer() = default;
  // `done` is called exactly once: success when every data server of the file has answered.
  virtual void fence(FileId file, ClientId client, std::function<void(Result<>)> done) = 0;
};

struct LayoutLimits {
  Clock::duration recall_timeout = std::chrono::seconds(60);  // from when the client was asked
  Clock::duration fence_retry = std::chrono::seconds(2);
  std::size_t most = std::size_t{1} << 20;  // layouts out at a time
  std::uint32_t segments = 64;              // of one client and file; Linux has one of each mode
};

struct LayoutCounters {
  std::uint64_t granted = 0;
  std::uint64_t returned = 0;
  std::uint64_t recalls = 0;
  std::uint64_t revoked = 0;
  std::uint64_t fence_failures = 0;
  // At this moment:
  std::uint64_t out = 0;
  std::uint64_t recalled = 0;  // and not back
};

// Which layouts clients keep; by default none.
struct LayoutKeeping {
  KeptLayouts::Limits limits = {.per_client = 0};
  // The client has the file open. May lock, must not call back.
  std::function<bool(FileId, ClientId)> in_use = [](FileId, ClientId) { return true; };
};

class LayoutService {
 public:
  using Now = std::function<Clock::time_point()>;
  using Watcher = std::function<void(FileId)>;

  // `gone` is called without the record held, from whichever thread gave back the last grant; so is
  // `fenced`, from the fencer's.
  LayoutService(
      FileTable& files, Recaller& recaller, Fencer& fencer, LayoutLimits limits, Now now,
      Watcher gone, Watcher fenced = [](FileId) {}, LayoutKeeping keeping = {});
  LayoutService(const LayoutService&) = delete;
  LayoutService& operator=(const LayoutService&) = delete;

  // One more segment. True when the file had no grants before: the watcher will hear of it again.
  // kRecallConflict while layouts of the file that it would conflict with are recalled, kBusy while
  // something is fenced, kLayoutTryLater while too many are out, or the client has too many.
  [[nodiscard]] Result<bool> grant(FileId file, ClientId client, layout::Access access);

  // What a segment that was granted just now names.
  void names(FileId file, ClientId client, layout::Access access,
             std::shared_ptr<const layout::Device> device);
  // Of a segment that was granted just now and names these data servers, all of which are here:
  // whether the client is to keep it when it closes the file.
  [[nodiscard]] bool keep(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids);
  [[nodiscard]] bool keeps(FileId file, ClientId client) const;
  // The client keeps its layouts of the file, and does not have it open.
  [[nodiscard]] bool unused(FileId file, ClientId client) const;
  // A client holds a layout of the file that it does not only keep.
  [[nodiscard]] bool used(FileId file) const;
  // Asks for kept layouts that are to come back, `away` being data servers that are not
  // here. Call a few times a second.
  void look_at_kept(const std::set<std::uint32_t>& away);

  // One segment came back.
  void returned(FileId file, ClientId client, layout::Access access);
  // The client lost the layout against its will: drop it and fence.
  void revoke(FileId file, ClientId client, std::string_view cause);

  // Recalls grants of a file; of all files that have any. Returns how many clients were asked now.
  std::size_t recall(FileId file, std::string_view reason, const RecallWhat& what = {});
  std::size_t recall_all(std::string_view reason, const RecallWhat& what);
  // What was recalled of the client, of one mode or all, is not asked for yet: as long as the
  // client has not answered others, the protocol's side sends no more. The deadline is that much
  // later, up to twice recall_timeout after the recall.
  void waits(FileId file, ClientId client, std::optional<layout::Access> only);
  // Grants of the file, of one mode or all, that were recalled and are not back; or a client that
  // lost its layouts is being fenced.
  [[nodiscard]] bool returning(FileId file, std::optional<layout::Access> only) const;

  // Something of the file is being fenced: let conflicting operations wait.
  [[nodiscard]] bool blocked(FileId file) const;
  // No grants and nothing being fenced.
  [[nodiscard]] bool idle(FileId file) const;

  // Revokes what is overdue and tries failed fences again. Call about once a second.
  void tick();

  [[nodiscard]] std::vector<Grant> grants_of(FileId file) const;
  // As FileTable::with_layouts().
  [[nodiscard]] std::vector<FileId> files(std::optional<std::uint32_t> ds_id = {}) const {
    return files_.with_layouts(ds_id);
  }
  // By anybody but `except`.
  [[nodiscard]] bool held_for_write(FileId file,
                                    std::optional<ClientId> except = std::nullopt) const;
  [[nodiscard]] bool known(FileId file, ClientId client) const;
  [[nodiscard]] bool holds(FileId file, ClientId client, layout::Access access) const;
  // Whether the client holds a layout for writing, whatever else it holds.
  [[nodiscard]] bool may_write(FileId file, ClientId client) const;
  // Whether what the client holds in that mode was recalled.
  [[nodiscard]] bool recalled(FileId file, ClientId client, layout::Access access) const;
  [[nodiscard]] LayoutCounters counters() const;
  // When the oldest recall began that is not answered; nullopt: there is none.
  [[nodiscard]] std::optional<Clock::time_point> oldest_recall() const;

 private:
  void start_fence(FileId file, ClientId client);
  void end_fence(FileId file, ClientId client, Result<> outcome);
  // Makes a change of the file's record, and counts what it does.
  template <class Change>
  auto change(FileId file, const Change& make);
  void forget_kept(FileId file, ClientId client);
  // What remove(grants) takes away is no longer the client's; it says whether that was the last.
  template <class Remove>
  void let_go(FileId file, ClientId client, const Remove& remove);
  void tell_if_idle(FileId file);
  void ask(FileId file, const std::vector<Recalled>& asked, std::string_view reason,
           std::uint64_t number);
  // The protocol's side knows nothing of what was recalled.
  void none_of(FileId file, const Recalled& what, std::uint64_t number);

  Recaller& recaller_;
  Fencer& fencer_;
  const LayoutLimits limits_;
  const Now now_;
  const Watcher gone_;
  const Watcher fenced_;
  const std::function<bool(FileId, ClientId)> in_use_;

  FileTable& files_;
  mutable Mutex kept_mutex_;  // taken with a record held, too; nothing is taken with it held
  KeptLayouts kept_ WEFT_GUARDED_BY(kept_mutex_);
  // What clients said to recall_unused(). They may say it when this service is gone.
  struct Answers {
    Mutex mutex;
    std::vector<std::pair<ClientId, bool>> got WEFT_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::atomic<std::uint64_t> granted_{0};
  std::atomic<std::uint64_t> returned_{0};
  std::atomic<std::uint64_t> recalls_{0};
  std::atomic<std::uint64_t> recall_number_{0};
  std::atomic<std::uint64_t> revoked_{0};
  std::atomic<std::uint64_t> fence_failures_{0};
  std::atomic<std::uint64_t> out_{0};
  std::atomic<std::uint64_t> recalled_{0};
};

}  // namespace weft::mds
