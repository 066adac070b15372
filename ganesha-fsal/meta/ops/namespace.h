// The namespace: names, inodes and everything durable that hangs on them, over a KvStore.
//
// One operation, one file: ops/lookup.cc, ops/rename.cc and so on. Each runs in one transaction; a
// failed one changed nothing. Operations see of each other what they would see if they ran one
// after another, but for readdir and lookup, which may see the entry and the inode at different
// moments.
//
// Who checks what. Operations that change names, directories or attributes at a client's request
// take the caller's Credentials, and check them in the transaction that makes the change, by
// the rules of Linux's VFS (ops/rights.h): search permission on the directories named, write
// permission on those changed, and on a directory that gets another parent; sticky bits; owners and
// groups; devices; and what becomes of set-user-id and set-group-id. They say kAccess (permission
// bits) and kPermission (the owner's or the superuser's to do), in the order that Linux does: what
// is not there, or there already, comes before a lack of write permission.
//
// The protocol layer checks the rest before it asks: the way to a directory (search permission at
// every LOOKUP), reading of directories, files and extended attributes, opening of files, and
// writing of extended attributes. What has no Credentials is for the server's own use, or the
// protocol layer has checked it.
//
// Times, by our clock. Making a file sets all its times, its directory's mtime and ctime. Removing,
// linking and renaming set the file's ctime and the directories' mtime and ctime; setattr ctime,
// and mtime with a size; grow() mtime and ctime. atime changes only by setattr: reads are not seen.
// Every change of an inode counts `change` up. Of many writes in place that are made while nobody
// asks for the attributes, one does (written_again()).
//
// Errors, where nothing else is said: kNotFound (no such name), kStale (no such inode), kInvalid
// (a bad name, or "." and ".." where they cannot be meant), kNameTooLong, kNotDirectory, kIo,
// kNoSpace, kCorrupt (the store is damaged: run weft-fsck).
//
// While the store has no room (KvStore::room()), what adds names, extended attributes, policies or
// the first layout of a file says kNoSpace, after all its other errors. Everything else goes on:
// removing, renaming, truncating, sizes, layouts of files that have one, open files, repair.
//
// Durability. What an operation has done, and what of others it has seen, is durable when it
// returns. Called in an Owed::Scope, these only note what is to become durable before anybody is
// told: lookup, may_be_below, getattr, made_with, parent, readlink, readdir, create, mkdir,
// symlink, mknod, link, remove, rename, setattr without a size, grow, hold, inline_file,
// write_inline, punch_inline, and what concerns extended attributes and policies. All others wait,
// scope or not, since their callers go on to act at data servers or clients: by maps, epochs and
// records of the journal, cuts, queued removals. A crash loses the end of the order of commits
// only, so one that has waited has done so for all before it.
//
// Inline files. A regular file without layout map has its bytes here, up to a limit that the caller
// says; what is not here of it is zeros. With a layout map they are at its objects, but for a file
// that is growing: it has both, its bytes are those here, and they are changed by nothing until
// they are at the objects.
//
// Threading: any thread; a call blocks for about one sync of the log, which concurrent calls share.
//
// Invariants (fsck.h checks them):
//  1. Every entry names an inode, and is indexed under its cookie. Every inode but the root has an
//     entry, or is an orphan (no links, held open); orphans are recorded durably.
//  2. A directory has exactly one entry and its parent record names where; from every directory
//     the parents lead to the root.
//  3. nlink is the number of entries; of a directory, 2 and one for each subdirectory.
//  4. A directory's size is its number of entries, and its next cookie is above every entry's.
//  5. For every layout map, every pending removal and every move, each data server in it has a
//     reverse entry. An object is not both in the map and queued for removal at one server.
//  6. A file number is handed out once, also over crashes.
//  7. Policies are of directories and regular files, and have at least one key.
//  8. A data server of a copy is not current in the layout map exactly while the journal has an
//     entry for it. Entries of the journal are of files that have a layout map, and fit it.
//  9. A place of a map is vacant only while the file is moved.
//  10. Inline bytes are of regular files, and end where the file does, or before. The file has no
//      layout map, or it is recorded as growing.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/ops/fileid_allocator.h"
#include "ganesha-fsal/meta/ops/first_cookies.h"
#include "ganesha-fsal/meta/ops/inherited_policies.h"
#include "ganesha-fsal/meta/ops/inode_locks.h"
#include "ganesha-fsal/meta/ops/owed.h"
#include "ganesha-fsal/meta/ops/stale_counts.h"
#include "ganesha-fsal/meta/schema/credentials.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "layout/layout_map.h"
#include "layout/policy.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Tree;

struct NamespaceOptions {
  std::function<std::int64_t()> now_ns;  // nanoseconds since 1970; the system's when empty
  std::uint32_t max_links = 65'000;      // names of one file
  // For a store that is empty and is made here.
  std::uint32_t fsid = 1;
  std::array<std::byte, 16> cluster_uuid{};  // drawn at random when all zero
  std::uint32_t root_mode = 0755;
};

enum class RemoveWhat : std::uint8_t { kAny, kFile, kDirectory };
enum class CreateHow : std::uint8_t {
  kUnchecked,  // an existing regular file is success: Created::existed
  kGuarded,    // kExists
  kExclusive,  // kExists unless it was made with the same verifier
};

class Namespace {
 public:
  // Opens the namespace in `store`, or makes it when the store is empty, and counts up the boot
  // epoch. kNotSupported: of a later format. The store must outlive the namespace.
  [[nodiscard]] static Result<std::unique_ptr<Namespace>> open(KvStore& store,
                                                               NamespaceOptions options = {});

  [[nodiscard]] const SuperblockInfo& superblock() const { return superblock_; }
  [[nodiscard]] layout::ObjectId object_of(FileId id, const layout::LayoutMap& map) const;
  [[nodiscard]] Result<NamespaceCounts> counts() const;

  // --- durability ---
  // Until all that is noted is durable.
  [[nodiscard]] Result<> settle(const Owed& owed) const { return store_.wait_durable(owed.upto()); }
  // What was read of the inode before, perhaps for somebody else, is told now: notes, or waits for,
  // its last change.
  [[nodiscard]] Result<> tell(FileId id) const { return told(locks_.last(id)); }
  // Until what was last done to the inode is durable, scope or not.
  [[nodiscard]] Result<> settle(FileId id) const { return settle({id}); }

  // --- reading ---
  // "." is the directory itself, ".." its parent (the root's is the root).
  [[nodiscard]] Result<InodeAttributes> lookup(FileId dir, std::string_view name) const;
  [[nodiscard]] Result<InodeAttributes> getattr(FileId id) const;
  // For the server's own use: nobody is told its other attributes.
  [[nodiscard]] Result<std::uint64_t> size(FileId id) const;
  // False when `id` is a directory that is neither `top` nor below it. True of anything else: where
  // files are is not recorded with them.
  [[nodiscard]] Result<bool> may_be_below(FileId id, FileId top) const;
  // A name of `id` in its path, from the root; for directories only ("/a/b").
  [[nodiscard]] Result<std::string> path_of(FileId dir) const;
  // Follows directories only; kNotDirectory when a component but the last is none.
  [[nodiscard]] Result<InodeAttributes> lookup_path(std::string_view path) const;
  // kInvalid when not a symbolic link.
  [[nodiscard]] Result<std::string> readlink(FileId id) const;
  // Entries after `cookie` (0: from the start), at most `limit`, in cookie order.
  [[nodiscard]] Result<DirectoryPage> readdir(FileId dir, std::uint64_t cookie, std::size_t limit,
                                              bool with_attributes) const;

  // `changed` is called for each file whose layout map is changed or removed, when layout() says so
  // and before whoever changes it is told: on any thread, holding the file's lock, so it must not
  // call back, and is told of a file's changes in their order. `now`: the map; null: removed, or
  // not known, since the store has failed. Before anything else is called; at most once.
  using MapChanged = std::function<void(FileId, const layout::LayoutMap* now)>;
  void watch_maps(MapChanged changed) { map_changed_ = std::move(changed); }
  // `queued` is called with objects whose removal is queued, in the same way.
  using RemovalQueued = std::function<void(std::span<const layout::ObjectId>)>;
  void watch_removals(RemovalQueued queued) { removal_queued_ = std::move(queued); }
  [[nodiscard]] bool maps_watched() const { return static_cast<bool>(map_changed_); }

  // --- making ---
  // Regular files. `verifier` matters for kExclusive only. An existing directory is kIsDirectory,
  // anything else existing that is no regular file kExists (kSymlink when a symbolic link).
  [[nodiscard]] Result<Created> create(const Credentials& who, FileId dir, std::string_view name,
                                       const CreateRequest& request,
                                       CreateHow how = CreateHow::kGuarded,
                                       CreateVerifier verifier = {});
  // Whether an exclusive create with this verifier made the file.
  [[nodiscard]] Result<bool> made_with(FileId id, const CreateVerifier& verifier) const;
  [[nodiscard]] Result<Created> mkdir(const Credentials& who, FileId dir, std::string_view name,
                                      const CreateRequest& request);
  // kInvalid for an empty target or one with a NUL; kNameTooLong over kMaxSymlinkBytes.
  [[nodiscard]] Result<Created> symlink(const Credentials& who, FileId dir, std::string_view name,
                                        std::string_view target, const CreateRequest& request);
  // Devices (the superuser's), FIFOs and sockets; kInvalid for other types.
  [[nodiscard]] Result<Created> mknod(const Credentials& who, FileId dir, std::string_view name,
                                      FileType type, DeviceNumber rdev,
                                      const CreateRequest& request);
  // kIsDirectory; kTooManyLinks; kStale for an orphan.
  [[nodiscard]] Result<Linked> link(const Credentials& who, FileId file, FileId dir,
                                    std::string_view name);

  // --- removing and moving ---
  // kNotEmpty; kIsDirectory or kNotDirectory when it is not `what`. The last name of a regular
  // file queues its objects' removal, unless it is held: then release() does. `guess`: what the
  // caller believes that it names, which saves a look; 0: it does not know.
  [[nodiscard]] Result<Removed> remove(const Credentials& who, FileId dir, std::string_view name,
                                       RemoveWhat what = RemoveWhat::kAny, FileId guess = 0);
  // POSIX rename: replaces a file, or an empty directory by a directory. Two names of the same
  // file: nothing happens. kInvalid: a directory into itself or below itself. `guess`: as
  // remove()'s, of the old name; the new one is believed to be free.
  [[nodiscard]] Result<Renamed> rename(const Credentials& who, FileId from_dir,
                                       std::string_view from_name, FileId to_dir,
                                       std::string_view to_name, FileId guess = 0);

  // --- attributes ---
  // kIsDirectory, kInvalid (size of anything but a regular file), kFileTooLarge. With a size of a
  // file that has a layout, `truncate` says what to do at the data servers; it stays in
  // pending_truncates() until finish_truncate(). The order is the caller's: recall layouts, then
  // setattr, then cut, then finish, then grant layouts again.
  [[nodiscard]] Result<AttributesChanged> setattr(const Credentials& who, FileId id,
                                                  const AttributeChange& change);
  // Done at every data server. Nothing happens when a later truncate took its place. What was found
  // of a file's objects after a restore is forgotten when it was cut to nothing.
  [[nodiscard]] Result<> finish_truncate(const PendingTruncate& done);
  [[nodiscard]] Result<std::optional<PendingTruncate>> pending_truncate(FileId id) const;
  // After a restart these must be done again before layouts of their files are granted.
  [[nodiscard]] Result<std::vector<PendingTruncate>> pending_truncates(std::size_t limit) const;

  // Data was written: the size only grows, and `change` is counted up; clears set-user-id and
  // set-group-id. Files that are gone are left out. Returns attributes in the order of `growths`,
  // nullopt for those gone. One transaction for each 32, one wait for the sync.
  enum class Again : bool { kUnknown, kExpected };
  [[nodiscard]] Result<std::vector<std::optional<InodeAttributes>>> grow(
      std::span<const Growth> growths, Again again = Again::kUnknown);
  [[nodiscard]] Result<InodeAttributes> grow_size(const Growth& growth);
  // A file that is written over and over, with Again::kExpected. `change` is to differ between two
  // looks at the attributes with a write between them, and a crash is not to take it back. So it is
  // counted up, durably, for the first write after a look, and not for others until the next look.
  //
  // Once what grow() has done to the file is durable, and caches of its attributes are dropped.
  void settled_write(const InodeAttributes& grown) { locks_.set_known(grown.id, grown.change); }
  // A write ended there. True: nothing else is to be done for it; its time is told by who looks
  // next. A crash may set that back to a second before. False: grow(). Does not wait.
  [[nodiscard]] bool written_again(FileId id, std::uint64_t end);

  // --- extended attributes (user.* only; the name is stored as given) ---
  enum class XattrHow : std::uint8_t { kEither, kCreate, kReplace };
  [[nodiscard]] Result<std::string> get_xattr(FileId id, std::string_view name) const;
  // kExists, kNotFound by `how`; kTooLarge (a value), kNoSpace (the file's total).
  [[nodiscard]] Result<InodeAttributes> set_xattr(FileId id, std::string_view name,
                                                  std::string_view value, XattrHow how);
  [[nodiscard]] Result<InodeAttributes> remove_xattr(FileId id, std::string_view name);
  // Names after `after` (empty: from the start), in byte order, at most `limit`.
  [[nodiscard]] Result<std::vector<std::string>> list_xattrs(FileId id, std::string_view after,
                                                             std::size_t limit) const;

  // --- policies (layout/policy.h) ---
  // A directory's own keys, or those that a file took from its directory when it was made: renames,
  // links and changes of the directory's policy do not matter to it later. Keys that are not set
  // are the export's.
  [[nodiscard]] Result<layout::Policy> policy(FileId id) const;
  // The directory and those above it that have keys of their own, the nearest first.
  struct PolicyAt {
    FileId dir = 0;
    layout::Policy own;
  };
  [[nodiscard]] Result<std::vector<PolicyAt>> policies_above(FileId dir) const;
  // In place of the directory's own keys; none: it inherits everything. kNotDirectory.
  [[nodiscard]] Result<InodeAttributes> set_policy(FileId dir, const layout::Policy& policy);

  // --- open files ---
  // While a file is held its inode stays after its last name goes. Memory only, counted. kStale.
  // create() holds a file that it makes if it is asked to.
  [[nodiscard]] Result<InodeAttributes> hold(FileId id);
  // The last release of an orphan removes it and queues its objects' removal.
  [[nodiscard]] Result<> release(FileId id);
  // After a restart, when clients have reclaimed what they had open, or after a release that
  // failed: removes every orphan that nobody holds. Returns how many. kStale, kCorrupt: of one; all
  // others are removed.
  [[nodiscard]] Result<std::size_t> reclaim_orphans();

  // --- layouts ---
  // kSayNow: that there is none is said before what has been done with the file is durable.
  enum class IfNone : std::uint8_t { kWait, kSayNow };
  [[nodiscard]] Result<std::optional<layout::LayoutMap>> layout(FileId id,
                                                                IfNone none = IfNone::kWait) const;
  // The file's map; makes it by `make` when there is none yet. Concurrent callers get the same.
  // `make` may run more than once, and uses the namespace for nothing. kInvalid: not a regular
  // file. kBusy: it has inline bytes (begin_growth()).
  using MakeLayout = std::function<Result<layout::LayoutMap>(const InodeAttributes&)>;
  [[nodiscard]] Result<layout::LayoutMap> ensure_layout(FileId id, const MakeLayout& make);
  // Whether there is one, durable or not.
  [[nodiscard]] Result<bool> has_layout(FileId id) const;
  // Files that have a map, with numbers above `after`, at most `limit`, in order.
  [[nodiscard]] Result<std::vector<FileId>> laid_out(FileId after, std::size_t limit) const;
  // Counts up the object epoch in the file's map and returns the new map. kNotFound without map.
  [[nodiscard]] Result<layout::LayoutMap> bump_object_epoch(FileId id);
  // The epoch under which a client's handles are sealed; 1 until bumped. It stays when the client
  // is gone: its handles are good wherever their cluster key is accepted and the fence is not
  // known, and a data server that comes with an older state of its store gets all fences anew from
  // here. A data server forgets a fence when all keys of its time are dropped; here no key is
  // recorded, and a backup that is restored may be older than what was dropped. So the number of
  // epochs is that of clients that were ever fenced, 50 bytes each (docs/sizing.md).
  [[nodiscard]] Result<std::uint32_t> client_epoch(ClientId client) const;
  [[nodiscard]] Result<std::uint32_t> bump_client_epoch(ClientId client);
  struct ClientEpoch {
    ClientId client = 0;
    std::uint32_t epoch = 0;
  };
  [[nodiscard]] Result<std::vector<ClientEpoch>> client_epochs() const;

  // --- inline files ---
  // Whether any file has or had bytes here: while none has, nobody looks.
  [[nodiscard]] bool inlines() const { return inlines_; }
  struct InlineFile {
    InodeAttributes attributes;
    std::string bytes;  // at most attributes.size: the rest is zeros
  };
  // The file and its bytes, as they were at one moment. nullopt: they are at its objects. kInvalid:
  // not a regular file.
  [[nodiscard]] Result<std::optional<InlineFile>> inline_file(FileId id) const;
  // Writes, and lets the file grow as grow() does. nullopt, and nothing is changed: the file has a
  // layout map, or the write ends beyond `limit`. kNoSpace while the store has no room.
  using Pieces = std::span<const std::span<const std::byte>>;
  [[nodiscard]] Result<std::optional<InodeAttributes>> write_inline(FileId id, std::uint64_t offset,
                                                                    Pieces data,
                                                                    std::uint32_t limit);
  // Makes zeros of a range, as far as the file goes. nullopt: it has a layout map.
  [[nodiscard]] Result<std::optional<InodeAttributes>> punch_inline(FileId id, std::uint64_t offset,
                                                                    std::uint64_t length);
  // The file's bytes are about to go to its objects: its map, made when there is none. If there are
  // bytes, the file is growing from now on, durably, until finish_growth(). The caller keeps this,
  // and all between the two, apart from changes of the file's bytes and size.
  struct GrowthBegun {
    layout::LayoutMap map;
    std::string bytes;
  };
  [[nodiscard]] Result<GrowthBegun> begin_growth(FileId id, const MakeLayout& make);
  // Its objects are given up, whatever they have got, and queued for removal; it gets a map by
  // `make`, of a new generation, in place of the one there is. kNotFound: it is not growing.
  [[nodiscard]] Result<layout::LayoutMap> grow_elsewhere(FileId id, const MakeLayout& make);
  // They are there, durably.
  [[nodiscard]] Result<> finish_growth(FileId id);
  // Files that are growing.
  [[nodiscard]] Result<std::vector<FileId>> growing() const;

  // --- the journal (schema/journal.h) ---
  // A layout for writing is about to be handed out: the file's map, made when there is none, and
  // a record of it, durable on return. A record of an earlier run is taken over by this one, and
  // the object epoch counted up: handles sealed from now on are above those of the earlier run.
  [[nodiscard]] Result<layout::LayoutMap> begin_writing(FileId id, const MakeLayout& make);
  // No layout for writing is out, and the file is as long as its objects reach. The caller keeps
  // this apart from begin_writing() of the same files. Not durable: a record that a crash brings
  // back only makes work.
  [[nodiscard]] Result<> end_writing(std::span<const FileId> ids);
  // Records of files with numbers above `after`, at most `limit`, in order.
  [[nodiscard]] Result<std::vector<WrittenFile>> written_files(FileId after,
                                                               std::size_t limit) const;
  // A data server is about to miss writes to these extents of a copy: recorded durably, with the
  // server stale in the map, before any of them is acknowledged. since_ns and ticket are not looked
  // at. When it was not stale, the object's epoch is counted up, so that it can be fenced there
  // against holders of older handles. Returns the map. kInvalid: nothing dirty. kBusy: the server
  // is not at this copy, or the copy is the only one: the map has changed since it was read.
  // kLayoutTryLater: it is the last that is current at its stripe. kFenced: `reporter`, the server
  // that says so, is not current at that stripe itself. With kLater, in an Owed::Scope, it is not
  // durable on return: the caller marks other files with the same sync, and settles each before it
  // acts by that.
  struct Marked : layout::LayoutMap {
    bool fresh = false;  // it was not stale before
  };
  enum class Durable : bool { kOnReturn, kLater };
  // Whether writes may have come to others from there: what it sent late may be at those that are
  // resyncing at its stripe, and nowhere else. If it was current, they get all of the file then.
  enum class Led : bool { kNo, kYes };
  [[nodiscard]] Result<Marked> mark_stale(const StaleObject& missed,
                                          std::optional<std::uint32_t> reporter = std::nullopt,
                                          Durable when = Durable::kOnReturn, Led led = Led::kNo);
  // The file is in doubt: whatever is not current of it may lack any byte that others have, or have
  // what they lack, and gets all of it. Durable on return. kStale.
  [[nodiscard]] Result<> doubt_stale(FileId id);
  // It is about to get what it missed: resyncing in the map, durably. When it was stale, the
  // object's epoch is counted up: writers have to come back with handles of that epoch, which bid
  // their data server to bring writes here again. Nothing is changed for one that is resyncing
  // already, as after a restart: what is to be done is the same. nullopt: it misses nothing, or
  // another that is current takes its place.
  [[nodiscard]] Result<std::optional<ResyncBegun>> begin_resync(const StaleObject& which);
  // It has what it missed, and is current. False, and nothing is changed, when it was marked again
  // since begin_resync() returned `mended`.
  [[nodiscard]] Result<bool> clear_stale(const StaleObject& mended);
  // It has what it missed but for `left`. False, and nothing is changed, as with clear_stale(), and
  // when nothing of `left` was dirty.
  [[nodiscard]] Result<bool> shrink_stale(const StaleObject& mended,
                                          const std::vector<DirtyExtent>& left);
  // What `ds_id` missed, after `after`, by file and copy, at most `limit`.
  [[nodiscard]] Result<std::vector<StaleObject>> stale_objects(std::uint32_t ds_id,
                                                               std::optional<StaleObject> after,
                                                               std::size_t limit) const;
  // How many stale_objects() there are at each data server that has any. Costs no scan.
  [[nodiscard]] std::map<std::uint32_t, std::uint64_t> stale_counts() const {
    return stale_counts_.all();
  }

  // --- moving: a data server takes another's place in a map (layout/relocation.h) ---
  // A file has one move at a time. The order is the caller's (repair/mover.h): begin; the newcomer
  // is stale from end to end, and gets current as any copy does; nobody writes through, or reads
  // from, the one that leaves; finish; fence it; end, which queues its object for removal.
  //
  // `to` is in the map on success, stale, with everything dirty. When the stripe has room, it is
  // there besides `from`. When it has none, it is in the place of `from`, which must not be
  // current (kInvalid). kBusy: the file is moved already, or an object of it is still to be removed
  // there. kNotFound: no layout, or `from` is not in it. kExists: `to` is.
  [[nodiscard]] Result<layout::LayoutMap> begin_move(FileId id, std::uint32_t from,
                                                     std::uint32_t to);
  // `to` takes the place of `from`, at a new object epoch. kBusy: `to` is not current, or `from`
  // is. kNotFound: no such move.
  [[nodiscard]] Result<layout::LayoutMap> finish_move(FileId id);
  // `to` leaves instead. kBusy: it is current, so that the move is to be finished.
  [[nodiscard]] Result<layout::LayoutMap> cancel_move(FileId id);
  // The objects of those that left, which are fenced, are queued for removal. Of a file that is not
  // being moved nothing is done. kBusy: one of them has not left; nothing is done.
  [[nodiscard]] Result<> end_moves(std::span<const FileId> ids);
  // Moves of files that nobody uses: `to` is filled before it is in the map, and until then it is
  // one that left (Move::from) and has an object to be removed. Many files in one transaction; the
  // answers are in their order. Errors of a file as of begin_move(); kBusy besides: its map has
  // another epoch, or `from` is not current. The caller keeps the file as it is between the two.
  [[nodiscard]] Result<std::vector<Result<>>> begin_direct(std::span<const DirectMove> moves);
  // `to`, which is filled, takes the place of `from`, at a new object epoch.
  [[nodiscard]] Result<std::vector<Result<>>> finish_direct(std::span<const DirectMove> moves);
  [[nodiscard]] Result<std::optional<Move>> move_of(FileId id) const;
  // Of files with numbers above `after`, at most `limit`, in order.
  [[nodiscard]] Result<std::vector<Move>> moves(FileId after, std::size_t limit) const;

  // --- files of a store that came back from a backup (schema/records.h) ---
  // nullopt: it never did.
  [[nodiscard]] const std::optional<RestoreRecord>& restore() const { return restore_; }
  // Nothing: the file's objects were found to fit, or it is younger than the backup.
  [[nodiscard]] Result<std::optional<RestoredRecord>> restored_file(FileId id) const;
  // Those with numbers above `after`, at most `limit`, in order.
  struct RestoredFile {
    FileId id = 0;
    RestoredRecord record;
  };
  [[nodiscard]] Result<std::vector<RestoredFile>> restored_files(FileId after,
                                                                 std::size_t limit) const;
  // What was found of its objects; nothing: they fit. All at once: the file's size, or a cut, would
  // be judged as another's without the rest. kStale: no such file.
  [[nodiscard]] Result<> judge_restored(FileId id, const std::optional<RestoredRecord>& found,
                                        const SinceBackup& since = {});
  // How many were, since the restore.
  [[nodiscard]] Result<std::uint64_t> restored_grown() const;
  // A name of each of these files, in its path from the root. Goes through all names.
  [[nodiscard]] Result<std::map<FileId, std::string>> names_of(const std::set<FileId>& files) const;

  // --- the reverse index ---
  // Objects that `ds_id` may hold, greater than `after`, at most `limit`, in order.
  [[nodiscard]] Result<std::vector<layout::ObjectId>> objects_of(
      std::uint32_t ds_id, std::optional<layout::ObjectId> after, std::size_t limit) const;

  // --- strays: objects at a data server that no file, removal or move of ours is about ---
  // Those of `objects` that the reverse index does not have for `ds_id`. What is made is in it
  // before its first handle is sealed; what is removed is, until that is acknowledged.
  [[nodiscard]] Result<std::vector<layout::ObjectId>> without_entry(
      std::uint32_t ds_id, std::span<const layout::ObjectId> objects) const;
  // Whether a file of that number was made here, or may have been. Objects of others are another
  // system's, or this metadata store is older than they are.
  [[nodiscard]] Result<bool> was_made(const layout::ObjectId& object) const;
  // Queues a stray for removal, with all handles of it that were sealed until now refused first;
  // those that are sealed after a later restore are not. False: it is none any more. kInvalid: not
  // was_made(), or the clock is wrong.
  [[nodiscard]] Result<bool> queue_stray(std::uint32_t ds_id, const layout::ObjectId& object);

  // --- objects of removed files ---
  // Removals after `after` (nullopt: from the start) by file number, at most `limit`.
  [[nodiscard]] Result<std::vector<PendingRemoval>> pending_removals(
      std::optional<layout::ObjectId> after, std::size_t limit) const;
  // Those of these objects that are queued.
  [[nodiscard]] Result<std::vector<PendingRemoval>> pending_removals(
      std::span<const layout::ObjectId> objects) const;
  // The data servers named have removed the objects, or never had them. Not durable on return: what
  // a crash undoes is removed once more. Many objects share a commit.
  [[nodiscard]] Result<> finish_removals(std::span<const PendingRemoval> removed);
  // The same data servers have removed all of them.
  [[nodiscard]] Result<> finish_removals(std::span<const layout::ObjectId> objects,
                                         std::span<const std::uint32_t> ds_ids);

 private:
  // The same, once they are durable.
  [[nodiscard]] Result<std::vector<PendingRemoval>> certain(
      std::vector<PendingRemoval> removals) const;
  Namespace(KvStore& store, NamespaceOptions options);
  [[nodiscard]] Result<> start();
  [[nodiscard]] Result<> look_for_policies();
  [[nodiscard]] Result<> look_for_inline();
  [[nodiscard]] Result<> look_for_restored();
  [[nodiscard]] Result<> count_stale();

  // kNoSpace when the store has no room for a layout; valid as long as `make`. After a restore the
  // objects get another generation than any that a file may have got since the backup.
  [[nodiscard]] MakeLayout with_room(const MakeLayout& make) const;

  using Change = std::function<Result<>(Tree&)>;
  // Whether anybody is ever told what a change was, so that who tells it waits.
  enum class Told : bool { kNever, kLater };
  // Runs `body` in a transaction under `guard` and commits. The commit to wait for; for a body that
  // wrote nothing, the newest that it may have seen.
  [[nodiscard]] Result<CommitSeq> commit(InodeLocks::Guard& guard, const Change& body,
                                         Told whether = Told::kLater);
  // commit(), and unlocks, unless it failed.
  [[nodiscard]] Result<CommitSeq> apply(InodeLocks::Guard& guard, const Change& body,
                                        Told whether = Told::kLater);
  // apply(), and waits until it is durable. After an error too, for what the error has told.
  [[nodiscard]] Result<> change(InodeLocks::Guard guard, const Change& body);
  // In one of them what is done with each, which either changes something or fails.
  [[nodiscard]] Result<std::vector<Result<>>> for_each(
      std::span<const DirectMove> moves,
      const std::function<Result<>(Tree&, const DirectMove&)>& body);
  // The same, but in an Owed::Scope it is only noted.
  [[nodiscard]] Result<> change_told(InodeLocks::Guard guard, const Change& body);
  // Waits until what was read of these inodes is durable.
  [[nodiscard]] Result<> settle(std::initializer_list<FileId> ids) const;
  // The same, but in an Owed::Scope it is only noted.
  [[nodiscard]] Result<> told(std::initializer_list<FileId> ids) const;
  [[nodiscard]] Result<> told(CommitSeq seq) const;
  // The file has an UntoldWrite: its inode, which is going to be told, with the time of that.
  [[nodiscard]] Result<InodeRecord> tell_write(FileId id) const;
  void remember(std::span<const std::optional<InodeAttributes>> written);

  struct MakeRequest;
  [[nodiscard]] Result<Created> make(const MakeRequest& request);
  [[nodiscard]] Result<> make_in(Tree& tree, const MakeRequest& request, FileId id, Created& out);
  // For a file that is made there: the directory's own keys, and for the rest those of the
  // directories above.
  [[nodiscard]] Result<layout::Policy> policy_in(Tree& tree, FileId dir);
  struct RenameNames;
  struct RenameLocks;
  [[nodiscard]] Result<RenameLocks> look_at(const RenameNames& names) const;
  // kBusy, and `locks` are those that it takes: they are others.
  static Result<> rename_in(Tree& tree, const RenameNames& names, RenameLocks& locks,
                            bool replaced_held, Renamed& out);
  // Of objects that no file is known of.
  [[nodiscard]] Result<std::uint32_t> epoch_above_all() const;

  KvStore& store_;
  const NamespaceOptions options_;
  MapChanged map_changed_;
  RemovalQueued removal_queued_;
  SuperblockInfo superblock_;  // constant after open, as the next
  std::optional<RestoreRecord> restore_;
  FileIdAllocator ids_;
  mutable InodeLocks locks_;
  mutable FirstCookies first_cookies_;
  StaleCounts stale_counts_;
  // Whether anything has or had a policy: while nothing has, nobody looks for one.
  std::atomic<bool> policies_{false};
  InheritedPolicies inherited_;
  std::atomic<bool> inlines_{false};  // the same of inline files
  Mutex rename_mutex_;                // directories moving between directories, one at a time
};

}  // namespace weft::mds
