// What the metadata server does about a file's data: layouts for those who go to the data servers,
// reading and writing for those who do not, and the order between the two and changes of size.
//
// Changes of size. If other clients hold the file's layout for writing, it is recalled first (the
// caller is told kBusy and tries again): their writes, and the LAYOUTCOMMITs that report them, then
// come before the cut and not after. What the caller's own client wrote and has not reported yet
// the data servers tell. Then the size is set and the cut recorded in one transaction, the objects
// are cut, and only then do layouts and I/O of the file go on.
//
// A cut that a crash or a data server interrupted is pending: until it is made good, nobody writes
// through this server, is given a layout, or learns the size from the objects. All layouts for
// writing are recalled first, the caller's own too: what it writes under its layout after it was
// told to try again must not be cut. All that changes a file's size for good is done alone
// (invariants 1 and 2), since a truncate that two make at once may still be on its way to a disk
// for one of them when the other has let writers go on.
//
// A client does not return its own layout for a truncate of its own, and the "last byte written"
// of its next LAYOUTCOMMIT may be one that was cut off (Linux keeps the greatest since the last
// LAYOUTCOMMIT). So after a cut under a layout, that file's LAYOUTCOMMITs are checked against the
// data servers' objects until all its layouts are gone, and so are those of layouts from before a
// restart.
//
// Sizes that nobody tells. A client that dies has not told how far it wrote last. When it has been
// fenced, the data servers are asked, and the file grows to what they hold. When this server dies
// too, the journal (writer_journal.h) says of which files that may be so: after clients have had
// their time to reclaim, or when somebody sets such a file's size before, whoever had a layout to
// write it is fenced by the object's epoch, and the data servers are asked.
//
// Writes that come late. A write through this server that a data server did not answer may be
// carried out there yet. Until that is settled (proxy_io.h) nobody is to write newer bytes, which
// it would replace: later writes through this server wait, no layout for writing is granted, those
// that are out are recalled, and their holders fenced if they do not return them. Its failure is
// told after that, or as kBusy. Objects are not cut, nor holes made in them, meanwhile.
//
// Inline files. While a file is no longer than its policy says, its bytes are in the metadata store
// and no data server is asked (inline_files.cc).
//
// Errors: kBusy, kTimedOut, kUnreachable where the caller is to try again (a data server is away,
// a client is being fenced or recalled).
//
// Waiting for data servers. Reads and writes wait without a thread. A file's size is asked for
// without one, too, so that who needs it waits a moment at most (size_asks.h). A pending cut is
// made by one thread, the others are told kBusy. What else waits, truncates and the like, counts
// among the threads that may (wait_limit.h).
//
// Threading: any thread that may block.
//
// Invariants:
//  1. At most one caller at a time is alone with a file (be_alone()). While one is, no write
//     through this server, no grant, and no learning of the size is under way or begins, and no
//     question for the size is out.
//  2. Objects are cut only by one who is alone with the file, and whose cut is the pending one. So
//     it stays pending until that one has made it, however often it is repeated.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/cluster/cluster.h"
#include "ganesha-fsal/cluster/removal_queue.h"
#include "ganesha-fsal/files/behind.h"
#include "ganesha-fsal/files/changed_since_backup.h"
#include "ganesha-fsal/files/ds_fencer.h"
#include "ganesha-fsal/files/file_table.h"
#include "ganesha-fsal/files/flex_reports.h"
#include "ganesha-fsal/files/layout_maps.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/files/mirrors.h"
#include "ganesha-fsal/files/size_asks.h"
#include "ganesha-fsal/files/used_space.h"
#include "ganesha-fsal/files/writer_journal.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/proxy/proxy_io.h"
#include "layout/placement.h"

namespace weft::mds {

struct DataCounters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t layouts_refused = 0;
  std::uint64_t layout_commits = 0;
  std::uint64_t grown = 0;  // inline files whose bytes went to their objects
  // Of the above, in inline files.
  std::uint64_t inline_reads = 0;
  std::uint64_t inline_writes = 0;
  std::uint64_t inline_read_bytes = 0;
  std::uint64_t inline_written_bytes = 0;
};

class FileData {
 public:
  struct Parts {
    FileTable& files;
    Namespace& names;
    Cluster& cluster;
    ProxyIo& proxy;
    LayoutService& layouts;
    DsFencer& fencer;
    layout::Placement& placement;
    WriterJournal& journal;
    Mirrors& mirrors;
    // The file's attributes changed without anybody having asked for it.
    std::function<void(FileId)> changed;
    // Makes a file's copies equal that may differ since a writer died: kBusy until it is done.
    std::function<Result<>(FileId)> compare = [](FileId) -> Result<> { return {}; };
    // A file that was written through this server, and not since, is committed after this time.
    Clock::duration commit_after = std::chrono::seconds(10);
  };

  explicit FileData(Parts parts);
  FileData(const FileData&) = delete;
  FileData& operator=(const FileData&) = delete;

  // Reads what a crash left uncut and unsettled. Before anything else is called.
  [[nodiscard]] Result<> open();
  // catch_up() and settle_due() under way end soon, leaving the rest.
  void stop() {
    stopping_ = true;
    parts_.mirrors.stop();
    behind_.stop();
  }
  // Does what could not be done before for want of a data server: cuts, and learning sizes. When
  // one is back, and now and then.
  void catch_up();
  // Files whose writers died: fences them if they are of an earlier run, and asks the data servers
  // how far the files go. A batch of them; true when more are due. Those of an earlier run only
  // once its clients have had their time. Then ends the journal's records that nobody needs.
  bool settle_due(bool grace_over);
  // Commits files that clients wrote through this server and did not commit (unstable_writes.h);
  // those of which something may be lost are in doubt then. Call about once a second.
  void commit_left();
  // Commits files that owe and that nobody writes any more (mirrors.h); those of which something
  // may be lost are in doubt then. True when more are due. Call about once a second.
  bool duplicate_left();
  // What was written through this server is not all committed.
  [[nodiscard]] bool uncommitted(FileId file) const {
    return !FileTable::Looking(parts_.files, file)->unstable.idle();
  }
  // A client lost the layout of the file and has been fenced: how far it wrote, only the data
  // servers may know.
  void writer_fenced(FileId file);
  // A data server is back: what failed for want of it is due.
  void retry_settling() { parts_.journal.retry_all(); }
  // A client that wrote under a layout of before our restart has the file open again: how far it
  // wrote, only the data servers may know. Learned at once if they answer, or else when they do;
  // until then layouts and I/O of the file wait.
  void relearn_size(FileId file);
  // The same without asking at once: a LAYOUTCOMMIT came after its layout was returned, and its
  // sender could say anything. The journal has the doubt when this returns, so that a restart of
  // this server does not end it. After an error only this run knows of it; kBusy, as of
  // WriterJournal::begin(): its sender is to ask again.
  [[nodiscard]] Result<> doubt_size(FileId file);
  // A client gave a layout back, or asked for one as if it had none: it has forgotten it. Linux
  // forgets a layout when a data server refuses it, as one does whose object was fenced, and with
  // it the LAYOUTCOMMIT that was due of what other servers took. So the size is in doubt when a
  // layout to write is forgotten, and when one ends that was recalled: to a recall it then says
  // that it has none.
  void layout_ended(FileId file, ClientId client, layout::Access access, bool forgotten);
  // kBusy while a size is still to be learned: no size is better than one that is too small. But a
  // data server that is lost with the only copy of a stripe is not waited for, once its lease has
  // ended: then what the others know has to do, until it is back.
  [[nodiscard]] Result<> size_known(FileId file);
  // What the namespace says of the size may be too small: size_known() is to be asked first.
  [[nodiscard]] bool size_doubtful(FileId file) const;
  // Learns how far the data servers have the file, if a client may have written more than it has
  // told. kBusy while the file is truncated: an object that is not cut yet would say too much.
  [[nodiscard]] Result<> learn_end(FileId file);

  // --- layouts ---
  struct LayoutRequest {
    FileId file = 0;
    ClientId client = 0;
    layout::Access access = layout::Access::kRead;
    std::size_t max_bytes = 0;  // of the body
    layout::LayoutType type = layout::LayoutType::kFiles;
    std::uint8_t fsal = 0;  // both for the device id
    std::uint16_t export_id = 0;
    bool with_open = false;                  // asked for along with an OPEN
    std::optional<layout::NetAddress> from;  // the client; nullopt: not known
  };
  struct Granted {
    std::vector<std::byte> body;
    bool kept = false;  // when the client closes the file (kept_layouts.h)
  };
  // A layout of the whole file; the grant is recorded. kLayoutTryLater: a data server is down;
  // kLayoutUnavailable: the client has no way to one (layout/client_network.h); kNoSpace;
  // kTooLarge: the body does not fit. An inline file is brought to its objects, unless its layout
  // was asked for along with an OPEN: kLayoutUnavailable then, the client is to read and write
  // here. So, too, when it cannot be brought there, and what the client wants can be done here.
  [[nodiscard]] Result<Granted> grant(const LayoutRequest& request,
                                      const layout::PlacementPolicy& policy);
  // Up to what size clients are to read and write the file here; nothing: its bytes are at its
  // objects, or its policy says so. 0, while the metadata store is busy, of a file without bytes.
  [[nodiscard]] Result<std::optional<std::uint64_t>> inline_limit(
      FileId file, const layout::PlacementPolicy& policy) const;
  // The store has more to write than its disk takes (busy_watch.h), or has no more.
  void set_busy(bool busy) { busy_ = busy; }
  [[nodiscard]] bool busy() const { return busy_; }
  // GETDEVICEINFO's body, for that client. kNotFound, also when it has no way to a data server of
  // the device.
  [[nodiscard]] Result<std::vector<std::byte>> device_body(
      const layout::DeviceId& id, layout::LayoutType type,
      const std::optional<layout::NetAddress>& client) const;
  // What clients of the flexfiles layout say of data servers.
  [[nodiscard]] FlexReports& reports() { return reports_; }
  // Whether the client holds a layout to write the file.
  [[nodiscard]] bool may_write(FileId file, ClientId client) const {
    return parts_.layouts.may_write(file, client);
  }
  // Namespace::begin_move(), while nobody writes through this server, cuts or punches the file, and
  // nobody is given a layout: what they do, they do by the map of before or of after. kBusy.
  [[nodiscard]] Result<layout::LayoutMap> begin_move(FileId file, std::uint32_t from,
                                                     std::uint32_t to);
  // A file of which nothing has to be remembered: nobody has a layout of it, or writes it, or may.
  // While what it returns lives this stays so, and its copies are equal and keep what they have;
  // it can be read through this server. kBusy.
  [[nodiscard]] Result<Alone> hold_unused(FileId file, const layout::LayoutMap& map);
  // While what it returns lives, nobody begins to write the file, cuts it, or is given a layout.
  // Layouts that are out already stay. kBusy.
  [[nodiscard]] Result<Alone> hold_unchanged(FileId file);
  // Whether somebody writes it through this server now.
  [[nodiscard]] bool being_written(FileId file) const;
  // Whether a change of this server may come to an object at a data server after its removal: one
  // that is under way with a file that is gone, or one that was given up (late writes, above). Any
  // thread.
  [[nodiscard]] bool may_change(const layout::ObjectId& object, std::uint32_t ds_id) const;
  // LAYOUTCOMMIT: the size the file has then.
  [[nodiscard]] Result<std::uint64_t> commit(const Growth& growth, ClientId client);
  // The last grant of a file is gone. The hold that stood for them is the caller's to release.
  void layouts_gone(FileId file);

  // --- sizes ---
  [[nodiscard]] Result<InodeAttributes> set_attributes(const Credentials& who, FileId file,
                                                       const AttributeChange& change,
                                                       ClientId client);
  // Cuts a file to nothing for an OPEN. kBusy when data servers are slow: it goes on, and the
  // client is to come again.
  [[nodiscard]] Result<> empty_soon(const Credentials& who, FileId file, ClientId client);

  // --- data through this server ---
  struct Read {
    Payload data;
    bool eof = false;
  };
  // In two steps, so that no thread is held meanwhile: begin_*() sends what there is to send. If
  // `later` is set in what it returns, end_*() is to be called once `answered` was called: on any
  // thread, perhaps before begin_*() returns. Otherwise `answered` is not called, and end_*() is to
  // be called at once. After an error there is nothing to end; `answered` is not called then.
  struct BegunRead;
  struct BegunWrite;
  using Answered = std::move_only_function<void()>;
  [[nodiscard]] Result<std::shared_ptr<BegunRead>> begin_read(FileId file, std::uint64_t offset,
                                                              std::uint32_t count,
                                                              Answered answered);
  [[nodiscard]] Result<Read> end_read(BegunRead& begun);
  // All of `data`, and the file is durably as long as it reaches. Of several copies, leaders that
  // do not answer are excluded (mirrors.h) and the write goes on without them, on the thread that
  // ends it; `data` is then sent again. A client must be told the verifier that is returned, and no
  // later one.
  [[nodiscard]] Result<std::shared_ptr<BegunWrite>> begin_write(
      FileId file, std::uint64_t offset, ProxyIo::Pieces data, ProxyIo::Stability wanted,
      const layout::PlacementPolicy& policy, Answered answered);
  [[nodiscard]] Result<ProxyIo::WriteResult> end_write(BegunWrite& begun, ProxyIo::Pieces data);
  // COMMIT of the whole file, in two steps as well. The verifier to be told is
  // ProxyIo::verifier(), after both. If it is another than that of what is committed, the copies
  // are to be compared.
  struct BegunSync;
  [[nodiscard]] Result<std::shared_ptr<BegunSync>> begin_sync(FileId file, Answered answered);
  [[nodiscard]] Result<> end_sync(BegunSync& begun);
  // Both, on the calling thread.
  [[nodiscard]] Result<> sync(FileId file);
  [[nodiscard]] Result<> allocate(FileId file, std::uint64_t offset, std::uint64_t length,
                                  const layout::PlacementPolicy& policy);
  [[nodiscard]] Result<> punch(FileId file, std::uint64_t offset, std::uint64_t length);

  // --- holes: holes.cc ---
  // SEEK (RFC 7862 section 15.11): where the first data, or the first hole, at or after `from` is
  // in a file of this size. The size stands for no data, and for the hole that every file has at
  // its end. What data servers do not say in time counts as data, up to the end.
  [[nodiscard]] Result<std::uint64_t> seek(FileId file, std::uint64_t from, bool hole,
                                           std::uint64_t size);
  // What storage large files use.
  [[nodiscard]] UsedSpace& space() { return space_; }

  // --- files of a store that came back from a backup (restored_files.cc) ---
  // The file's objects have what it had at the backup, and it may be served. kIo: they do not;
  // kBusy, kUnreachable: that is not known yet, it is to be tried again.
  [[nodiscard]] Result<> fit(FileId file);
  // A file whose objects do not is served as it is: what is gone is zeros. kInvalid: they do.
  [[nodiscard]] Result<> accept_restored(FileId file);
  // Those that were found to be written since.
  [[nodiscard]] ChangedSinceBackup& changed_since_backup() { return changed_since_backup_; }

  [[nodiscard]] DataCounters counters() const;

 private:
  // Who needs a size that is in doubt is answered kBusy after this time. A usual answer takes
  // milliseconds; GETATTRs of the file wait in Ganesha's cache behind the first meanwhile.
  static constexpr std::chrono::milliseconds kSizePatience{200};

  [[nodiscard]] Namespace::MakeLayout placer(const layout::PlacementPolicy& policy);
  [[nodiscard]] Result<layout::LayoutMap> map_of(FileId file,
                                                 const layout::PlacementPolicy& policy);
  // The map for a grant, with leaders and in the journal first when the grant is for writing.
  [[nodiscard]] Result<Mirrors::Target> begin_grant(const LayoutRequest& request,
                                                    const layout::PlacementPolicy& policy);
  // The writers of an earlier run, if the file may have any.
  [[nodiscard]] Result<> settle_inherited(FileId file);
  // Returns those that may be asked for their sizes now.
  [[nodiscard]] std::vector<WriterJournal::Unsettled> fence_inherited(
      const std::vector<WriterJournal::Unsettled>& files);
  [[nodiscard]] Result<> settle(const WriterJournal::Unsettled& unsettled);
  // Since that doubt; else that is under way, or waits.
  [[nodiscard]] bool copies_compared(const WriterJournal::Unsettled& what);
  // kBusy while the file is fenced; does first what is left to do, waiting so long for its size.
  [[nodiscard]] Result<> ready(FileId file, std::chrono::milliseconds patience);
  [[nodiscard]] Result<> ready(FileId file);
  [[nodiscard]] Result<> finish_learning(FileId file, std::chrono::milliseconds patience);
  // The map with which a change of objects is to be made, at current copies and those being
  // repaired; Mirrors::prepare_change() if there are several.
  [[nodiscard]] Result<layout::LayoutMap> prepare_change(FileId file, const layout::LayoutMap& map,
                                                         DirtyExtent changed);
  [[nodiscard]] Result<> settle_duplication(FileId file, const layout::LayoutMap& map);
  // Whether a data server with a current copy is another process than at that time.
  [[nodiscard]] bool restarted_since(FileId file, Clock::time_point since) const;
  [[nodiscard]] Result<> recall_writers(FileId file, std::optional<ClientId> except,
                                        std::string_view why);
  [[nodiscard]] Result<> recall_before_cut(FileId file, ClientId client);
  // Of a file whose size is in doubt. Not complete: a data server is lost that may know more. kBusy
  // when `patience` was too short.
  [[nodiscard]] Result<ObjectsEnd> learn_doubted(FileId file, std::uint64_t doubt,
                                                 std::chrono::milliseconds patience);
  [[nodiscard]] Result<ObjectsEnd> grow_to(const InodeAttributes& before, const ObjectsEnd& end);
  [[nodiscard]] Result<> learn_size(FileId file, std::uint64_t wanted);
  [[nodiscard]] Result<> empty(const Credentials& who, FileId file, ClientId client);
  [[nodiscard]] Result<InodeAttributes> set_size(const Credentials& who, FileId file,
                                                 const AttributeChange& change);
  [[nodiscard]] Result<> earlier_runs_over(layout::Access access,
                                           const layout::LayoutMap& map) const;
  // Of a grant that is recorded: its layout may be made.
  [[nodiscard]] Result<> may_hand_out(const LayoutRequest& request,
                                      const layout::LayoutMap& map) const;
  [[nodiscard]] Result<Granted> make_layout(const LayoutRequest& request);
  [[nodiscard]] bool keep(const LayoutRequest& request, std::span<const std::uint32_t> ds_ids);
  [[nodiscard]] Result<ObjectsEnd> written_end(FileId file);

  // Nobody else is alone with the file, and nobody asks for its size, while the guard lives.
  [[nodiscard]] Result<Alone> be_alone(FileId file, Phase::Alone why, Clock::duration patience,
                                       IfAlone others = IfAlone::kWait);
  [[nodiscard]] bool uncut(FileId file) const;  // a cut is pending

  // Makes the pending cut, if there is one.
  [[nodiscard]] Result<> finish_cut(FileId file, IfAlone others);
  [[nodiscard]] Result<> finish_cut(const Alone& alone, FileId file);
  [[nodiscard]] Result<> cut(const PendingTruncate& pending);

  [[nodiscard]] Result<ProxyIo::File> readable(FileId file, const layout::LayoutMap& map);
  // Data servers refused what went by a map of that epoch (kAccess): the map there is now. kAccess:
  // it is still that one.
  [[nodiscard]] Result<layout::LayoutMap> newer_map(FileId file, std::uint32_t epoch);
  // A write through this server, a cut or a hole has failed and may be carried out yet.
  [[nodiscard]] bool late(FileId file, const layout::LayoutMap& map) const;
  // Leaves out copies where that is so and whose servers are gone: they may never say that it is
  // over.
  void leave_out_late(FileId file);
  // One of these has failed. While it may be carried out yet, layouts for writing
  // are recalled, and waited for until those who had them have returned them or are fenced. kBusy:
  // that takes longer.
  [[nodiscard]] Result<> end_layouts_beside_late(FileId file);
  // What there is to be committed, read before it is.
  [[nodiscard]] Result<std::shared_ptr<BegunSync>> prepare_sync(FileId file);
  // What was written through this server is gone, or with it the file.
  void forget_unstable(FileId file);
  template <class T>
  using LeaderCall = std::function<void(const ProxyIo::File&, Finished<T>)>;
  // Makes a call at the leaders of a file with several copies, and again with others when some
  // fail.
  template <class T>
  [[nodiscard]] Result<T> through_leaders(FileId file, const Namespace::MakeLayout& make,
                                          Mirrors::Use use, const LeaderCall<T>& call,
                                          Mirrors::Until until = {});
  // Where to send a write of a file with several copies. Nothing: the leaders are to be found,
  // which may take time.
  [[nodiscard]] std::optional<ProxyIo::File> leaders_for(BegunWrite& begun);
  // The second step of a change: `call` makes it again, where the first step had no answer that
  // counts, or made no call.
  template <class T>
  struct Asked;
  template <class T>
  [[nodiscard]] Result<T> by_leaders(Asked<T>& begun, const Namespace::MakeLayout& make,
                                     Mirrors::Use use, const LeaderCall<T>& call);
  template <class T>
  [[nodiscard]] Result<T> by_one_copy(Asked<T>& begun, const LeaderCall<T>& call);
  [[nodiscard]] Result<> give_way(FileId file, const layout::LayoutMap& map,
                                  const Failures& failures, Clock::time_point until);
  // file_size.cc: the newest doubt of the size, if it is in doubt; and the end of it, and no other.
  [[nodiscard]] std::optional<std::uint64_t> doubt_of(FileId file) const;
  // The same before the size is told: that of a file whose writers of an earlier run are not
  // settled yet is in doubt then, once.
  [[nodiscard]] std::optional<std::uint64_t> doubt_to_tell(FileId file);
  void end_doubt(FileId file, std::uint64_t doubt);
  // The size is answered with what is known, for the first time since it is in doubt.
  [[nodiscard]] bool first_guess(FileId file, std::uint64_t doubt);
  // A call of the cluster's that changes objects: at the servers of this map.
  using ObjectsChange = std::function<void(const layout::LayoutMap& map,
                                           const layout::ObjectId& object, Finished<void> done)>;
  // Prepares it, and makes it at every copy that is in use then. It may be made several times: what
  // would be lost then, by a cut or a hole, is the caller's to keep away (Writing, Alone).
  [[nodiscard]] Result<> change_objects(FileId file, const layout::LayoutMap& map,
                                        DirtyExtent changed, const ObjectsChange& change);
  [[nodiscard]] Result<> punch_copies(FileId file, std::uint64_t offset, std::uint64_t length);
  // If the file has no more; how many it has.
  [[nodiscard]] Result<std::size_t> punch_one_copy(FileId file, std::uint64_t offset,
                                                   std::uint64_t length);
  [[nodiscard]] Result<> punch_objects(FileId file, const layout::LayoutMap& map,
                                       std::uint64_t offset, std::uint64_t length);

  // inline_files.cc
  [[nodiscard]] bool may_be_inline(const layout::PlacementPolicy& policy) const;
  [[nodiscard]] bool growing(FileId file) const;  // on its way to its objects
  // Its bytes are in the metadata store, or will be if there are none yet.
  [[nodiscard]] Result<bool> is_inline(FileId file) const;
  // Null: its bytes are at its objects.
  [[nodiscard]] Result<std::shared_ptr<BegunRead>> read_inline(FileId file, std::uint64_t offset,
                                                               std::uint32_t count);
  // False: to be done at its objects. It has been brought to them if need be.
  [[nodiscard]] Result<bool> write_inline(FileId file, std::uint64_t offset, ProxyIo::Pieces data,
                                          const layout::PlacementPolicy& policy);
  [[nodiscard]] Result<bool> allocate_inline(FileId file, std::uint64_t end,
                                             const layout::PlacementPolicy& policy);
  [[nodiscard]] Result<bool> punch_inline(FileId file, std::uint64_t offset, std::uint64_t length);
  [[nodiscard]] Result<> leave_store(const LayoutRequest& request,
                                     const layout::PlacementPolicy& policy);
  [[nodiscard]] Result<> to_objects(FileId file, const layout::PlacementPolicy& policy);
  // Whether a client that gets no layout, for this reason, can do without.
  [[nodiscard]] bool served_here(const LayoutRequest& request,
                                 const layout::PlacementPolicy& policy, const Error& why) const;
  // Goes on with what failed, or what a crash interrupted.
  [[nodiscard]] Result<> finish_growth(FileId file, IfAlone others);
  [[nodiscard]] Result<> finish_growth(const Alone& alone, FileId file);
  [[nodiscard]] Result<> grow(const Alone& alone, FileId file, const Namespace::MakeLayout& make);
  [[nodiscard]] Result<> write_grown(FileId file, Namespace::GrowthBegun begun);
  // Whether the servers of all current copies of a stripe are lost, and being removed.
  [[nodiscard]] bool lost_for_good(const layout::LayoutMap& map);
  [[nodiscard]] Result<layout::LayoutMap> grow_elsewhere(FileId file,
                                                         const layout::LayoutMap& before);

  // holes.cc
  [[nodiscard]] Result<std::optional<std::uint64_t>> seek_in_objects(FileId file,
                                                                     const layout::LayoutMap& map,
                                                                     std::uint64_t from, bool hole);

  // restored_files.cc
  struct RestoredStripe;
  [[nodiscard]] Result<> look_at_objects(FileId file, bool as_is);
  [[nodiscard]] Result<> judge_objects(FileId file, const layout::LayoutMap& map,
                                       std::span<const RestoredStripe> stripes, bool as_is);
  void note_changes(const InodeAttributes& before, std::span<const RestoredStripe> stripes,
                    const SinceBackup& since);

  // flex_files.cc: the flexfiles layout
  [[nodiscard]] Result<Granted> make_flex_layout(const LayoutRequest& request,
                                                 const Mirrors::View& view,
                                                 const Mirrors::Usable& usable);
  // Leaves out the copies of a file that is to be written whose servers have no space for it, as
  // clients that write the copies have reported. kNoSpace: that is all of them.
  [[nodiscard]] Result<> make_room(FileId file);
  [[nodiscard]] FlexReports::Parts report_parts();
  void look_at(FileId file, std::uint32_t ds_id, std::uint64_t offset,
               const std::function<void(Result<>)>& done);

  Parts parts_;
  SizeAsks asks_;
  FlexReports reports_;
  UsedSpace space_;
  ChangedSinceBackup changed_since_backup_;

  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> read_bytes_{0};
  std::atomic<std::uint64_t> written_bytes_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> grown_{0};
  std::atomic<std::uint64_t> inline_reads_{0};
  std::atomic<std::uint64_t> inline_writes_{0};
  std::atomic<std::uint64_t> inline_read_bytes_{0};
  std::atomic<std::uint64_t> inline_written_bytes_{0};
  std::atomic<bool> busy_{false};
  Behind behind_;  // last: its work uses the rest
};

// A read, a write or a COMMIT between its two steps. Whoever began it may look at `later`, and at
// nothing else.
struct FileData::BegunRead {
  bool later = false;
  FileId file = 0;
  std::uint64_t size = 0;  // of the file
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  std::uint32_t epoch = 0;  // of the map that it goes by
  Read result;
  Result<ProxyIo::ReadResult> got;  // if later
};

template <class T>
struct FileData::Asked {
  bool later = false;
  FileId file = 0;
  std::optional<Mirrors::Target> target;   // of several copies
  std::uint32_t epoch = 0;                 // of the map that it goes by; 0: of one older than any
  Result<T> result = fail(Errc::kAccess);  // if later, as below
  Failures failures;
};

struct FileData::BegunWrite : Asked<ProxyIo::WriteResult> {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  ProxyIo::Stability wanted{};
  layout::PlacementPolicy policy;
  bool mirrored = false;
  std::optional<Writing> writing;
  bool inlined = false;  // done, in the metadata store
};

struct FileData::BegunSync : Asked<std::uint64_t> {
  std::optional<layout::LayoutMap> map;  // nothing: there is nothing to be committed
  std::uint64_t last = 0;                // of the file's unstable writes
};

}  // namespace weft::mds
