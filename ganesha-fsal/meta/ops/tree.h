// What the operations are made of: loading and storing records in one transaction, putting names
// into directories and taking them out, taking an inode away. Private to the namespace.
//
// Every call goes to the transaction at once; what is to be noted after its commit the Tree keeps
// (stale_changes(), told()). InodeRecords are the caller's copies: who changes one stores it again.
//
// The caller has locked the inodes that it asks for by inode(). With it come the times of writes
// that are not in the store yet (UntoldWrite), and are stored.
//
// Threading: as Transaction. Ownership: the transaction and the locks outlive it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ganesha-fsal/meta/kv/kv.h"
#include "ganesha-fsal/meta/ops/inode_locks.h"
#include "ganesha-fsal/meta/ops/stale_counts.h"
#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "ganesha-fsal/meta/schema/types.h"

namespace weft::mds {

constexpr int kMaxDepth = 1 << 16;  // of a directory below the root; more is damage

// kInvalid for "", ".", "..", and names with '/' or NUL; kNameTooLong.
[[nodiscard]] Result<> check_name(std::string_view name);

// Without conflict detection, for reading operations. kStale when there is no such inode.
[[nodiscard]] Result<InodeRecord> peek_inode(const KvReader& reader, FileId id);
// In the order of `ids`; nullopt where there is no such inode.
[[nodiscard]] Result<std::vector<std::optional<InodeRecord>>> peek_inodes(
    const KvReader& reader, std::span<const FileId> ids);
// kNotDirectory besides.
[[nodiscard]] Result<InodeRecord> peek_directory(const KvReader& reader, FileId id);
[[nodiscard]] Result<std::optional<EntryRecord>> peek_entry(const KvReader& reader, FileId dir,
                                                            std::string_view name);
[[nodiscard]] Result<ParentRecord> peek_parent(const KvReader& reader, FileId dir);
[[nodiscard]] Result<std::optional<layout::LayoutMap>> peek_layout(const KvReader& reader,
                                                                   FileId id);
// The data servers of every copy, ascending, each once.
[[nodiscard]] std::vector<std::uint32_t> holders(const layout::LayoutMap& map);

// The bytes of a file that are here; empty: none.
[[nodiscard]] Result<std::string> peek_inline(const KvReader& reader, FileId id);
// What is kept for a directory or a file; nullopt: nothing.
[[nodiscard]] Result<std::optional<layout::Policy>> peek_policy(const KvReader& reader, FileId id);

class Tree {
 public:
  // What there may be in the store: only then is it looked for, or erased.
  struct May {
    bool be_restored = false;  // the store came back from a backup
    bool have_policies = true;
  };
  Tree(Transaction& transaction, const InodeLocks& locks, std::int64_t now_ns,
       std::uint64_t boot_epoch, May may)
      : transaction_(transaction),
        locks_(locks),
        now_ns_(now_ns),
        boot_epoch_(boot_epoch),
        may_(may) {}

  [[nodiscard]] Transaction& transaction() { return transaction_; }
  [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }

  [[nodiscard]] Result<InodeRecord> inode(FileId id);
  [[nodiscard]] Result<InodeRecord> directory(FileId id);
  void store(const InodeRecord& inode);
  [[nodiscard]] Result<std::optional<EntryRecord>> entry(FileId dir, std::string_view name);
  [[nodiscard]] Result<std::optional<layout::LayoutMap>> layout(FileId id);
  // The regular file's map, made when there is none yet. kInvalid: not a regular file. kBusy: it
  // has inline bytes, and is not growing.
  using MakeLayout = std::function<Result<layout::LayoutMap>(const InodeAttributes&)>;
  [[nodiscard]] Result<layout::LayoutMap> layout_or(FileId id, const MakeLayout& make);
  // A map in place of the one there is, at the same data servers.
  void change_layout(FileId id, const layout::LayoutMap& map);
  // The map and its reverse entries.
  void put_layout(FileId id, const layout::LayoutMap& map);
  // Only that the data server has an object of it, or is about to.
  void put_reverse(std::uint32_t ds_id, FileId id, std::uint32_t generation);
  // The file has no map any more, and the objects of it are queued for removal. kTooLarge: no epoch
  // is left.
  [[nodiscard]] Result<> give_up_objects(FileId id, const layout::LayoutMap& map);
  // Counts `map`'s epoch up and stores it.
  [[nodiscard]] Result<> bump_object_epoch(FileId id, layout::LayoutMap& map);
  // Walks up to the root.
  [[nodiscard]] Result<layout::Policy> policy_in(FileId dir);
  // Keeps it, or, without any key, nothing.
  void put_policy(FileId id, const layout::Policy& policy);
  // Entries of the journal of stale objects. Only these change it: they note in stale_changes() by
  // how many entries.
  [[nodiscard]] Result<> put_stale(std::uint32_t ds_id, FileId id, std::uint32_t copy,
                                   const StaleRecord& record);
  [[nodiscard]] Result<> erase_stale(std::uint32_t ds_id, FileId id, std::uint32_t copy);
  [[nodiscard]] const StaleChanges& stale_changes() const { return stale_changes_; }
  // Maps that are changed, as they are in the end, or removed.
  using Maps = std::map<FileId, std::optional<layout::LayoutMap>>;
  [[nodiscard]] Maps take_changed_maps() { return std::move(changed_maps_); }
  // Objects whose removal is queued, of file system `fsid`.
  [[nodiscard]] std::vector<layout::ObjectId> removals_queued(std::uint32_t fsid) const;
  // Files that had an UntoldWrite: to be forgotten when this is committed.
  [[nodiscard]] const std::vector<FileId>& told() const { return told_; }

  // The objects there are to be removed, besides those that already are. least_epoch: as
  // RemovalRecord's.
  [[nodiscard]] Result<> queue_removal(FileId id, std::uint32_t generation,
                                       std::vector<std::uint32_t> ds_ids,
                                       std::uint32_t least_epoch = 0);

  // Nothing happens when a later truncate took its place. A file of a backup that was cut to
  // nothing has lost nothing.
  [[nodiscard]] Result<> finish_truncate(const PendingTruncate& done);

  // The bytes of a file that are here; empty: none.
  [[nodiscard]] Result<std::string> inline_bytes(FileId id);
  void put_inline(FileId id, std::string bytes);
  // Those from `size` on go.
  [[nodiscard]] Result<> cut_inline(FileId id, std::uint64_t size);

  // The inode after a write that ends at `end`: size, times, and what a write takes away of the
  // mode.
  void touch_written(InodeRecord& inode, std::uint64_t end) const;
  // ctime and change; mtime too.
  void touch_ctime(InodeRecord& inode) const;
  void touch_mtime(InodeRecord& inode) const;

  // A new name; the directory gets size, times and the next cookie, and is stored by the caller.
  // For a directory also its parent record and the link of "..".
  [[nodiscard]] Result<> add_entry(InodeRecord& dir, std::string_view name, FileId id,
                                   FileType type);
  // The name's entry names another inode from now on; the cookie stays.
  void replace_entry(InodeRecord& dir, std::string_view name, const EntryRecord& old, FileId id,
                     FileType type);
  void drop_entry(InodeRecord& dir, std::string_view name, const EntryRecord& entry);

  // One name less. At the last one the inode goes, or, when `held`, becomes an orphan. A
  // directory must be empty and goes in any case. Returns whether it was orphaned.
  [[nodiscard]] Result<bool> drop_link(InodeRecord& inode, bool held);
  // The inode and all that belongs to it; its objects are queued for removal.
  [[nodiscard]] Result<> destroy(const InodeRecord& inode);

 private:
  [[nodiscard]] Result<> check_not_inline(FileId id);
  [[nodiscard]] Result<> erase_inline(FileId id, bool has_map);

  Transaction& transaction_;
  const InodeLocks& locks_;
  const std::int64_t now_ns_;
  const std::uint64_t boot_epoch_;
  const May may_;
  StaleChanges stale_changes_;
  Maps changed_maps_;
  std::vector<std::pair<FileId, std::uint32_t>> removals_queued_;  // generations of objects
  std::vector<FileId> told_;
};

}  // namespace weft::mds
