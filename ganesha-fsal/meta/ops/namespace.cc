#include "ganesha-fsal/meta/ops/namespace.h"

#include <algorithm>
#include <span>

#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "rpc/base/clock.h"

namespace weft::mds {
namespace {

constexpr FileId kFirstFileId = 16;  // those below are the root's and kept back

NamespaceOptions complete(NamespaceOptions options) {
  if (!options.now_ns) options.now_ns = [] { return system_clock().wall_ns(); };
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::ranges::all_of(options.cluster_uuid, zero)) system_random().fill(options.cluster_uuid);
  return options;
}

// The root, the counter of file numbers and the superblock of a new store.
Result<> format(Transaction& transaction, const NamespaceOptions& options, SuperblockInfo& super) {
  const keys::Range inodes = keys::all(keys::Prefix::kInode);
  bool empty = true;
  auto done = transaction.scan(inodes.begin, inodes.end, 1, [&](auto, auto) {
    empty = false;
    return false;
  });
  if (!done) return done;
  if (!empty) return fail(Errc::kCorrupt, "inodes without a superblock");
  super = {kStoreFormat, options.cluster_uuid, options.fsid, 0, options.now_ns()};
  transaction.put(keys::next_fileid(), encode_counter(kFirstFileId));
  InodeRecord root;
  root.attributes = {.id = kRootFileId,
                     .type = FileType::kDirectory,
                     .mode = options.root_mode & 07777,
                     .nlink = 2,
                     .atime_ns = super.created_ns,
                     .mtime_ns = super.created_ns,
                     .ctime_ns = super.created_ns,
                     .btime_ns = super.created_ns,
                     .change = 1};
  transaction.put(keys::inode(kRootFileId), encode(root));
  return {};
}

}  // namespace

Namespace::Namespace(KvStore& store, NamespaceOptions options)
    : store_(store), options_(complete(std::move(options))), ids_(store) {}

Result<std::unique_ptr<Namespace>> Namespace::open(KvStore& store, NamespaceOptions options) {
  std::unique_ptr<Namespace> made(new Namespace(store, std::move(options)));
  if (auto done = made->start(); !done) return pass(done);
  return made;
}

Result<> Namespace::start() {
  if (auto looked = look_for_policies(); !looked) return looked;
  if (auto looked = look_for_inline(); !looked) return looked;
  if (auto counted = count_stale(); !counted) return counted;
  if (auto looked = look_for_restored(); !looked) return looked;
  return store_.run([this](Transaction& transaction) -> Result<> {
    auto value = transaction.get(keys::superblock());
    if (!value) return pass(value);
    if (*value) {
      auto super = decode_superblock(**value);
      if (!super) return pass(super);
      superblock_ = *super;
      superblock_.format = std::max(superblock_.format, kStoreFormat);
    } else if (auto done = format(transaction, options_, superblock_); !done) {
      return done;
    }
    ++superblock_.boot_epoch;
    transaction.put(keys::superblock(), encode(superblock_));
    return {};
  });
}

layout::ObjectId Namespace::object_of(FileId id, const layout::LayoutMap& map) const {
  return map.object(superblock_.fsid, id);
}

Result<NamespaceCounts> Namespace::counts() const {
  auto value = store_.latest().peek(keys::next_fileid());
  if (!value) return pass(value);
  if (!*value) return fail(Errc::kCorrupt, "the metadata store has no file number counter");
  auto counter = decode_counter(**value);
  if (!counter) return pass(counter);
  auto jumps = store_.latest().peek(keys::skipped_fileids());
  if (!jumps) return pass(jumps);
  auto skipped = *jumps ? decode_counter(**jumps) : Result<std::uint64_t>(0);
  if (!skipped) return pass(skipped);
  return NamespaceCounts{.next_fileid = *counter - std::min(*counter, *skipped)};
}

Result<CommitSeq> Namespace::commit(InodeLocks::Guard& guard, const Change& body, Told whether) {
  const std::int64_t now_ns = options_.now_ns();
  // Of the attempt that is committed, which is the last.
  StaleChanges stale;
  Tree::Maps maps;
  std::vector<FileId> told_writes;
  std::vector<layout::ObjectId> removals;
  auto seq = store_.apply([&](Transaction& transaction) {
    Tree tree(transaction, locks_, now_ns, superblock_.boot_epoch,
              {.be_restored = restore_.has_value(), .have_policies = policies_});
    auto done = body(tree);
    told_writes = tree.told();
    stale = tree.stale_changes();
    maps = tree.take_changed_maps();
    removals = tree.removals_queued(superblock_.fsid);
    return done;
  });
  // After an error, too: what it has done to the store is not known.
  for (const auto& [id, map] : maps) {
    if (map_changed_) map_changed_(id, seq && map ? &*map : nullptr);
  }
  if (!removals.empty() && removal_queued_) removal_queued_(removals);
  if (!seq) return pass(seq);
  for (const FileId id : told_writes) locks_.forget(id);
  stale_counts_.add(stale);
  if (*seq != 0 && whether == Told::kLater) guard.committed(*seq);
  return std::max(*seq, guard.seen());
}

Result<CommitSeq> Namespace::apply(InodeLocks::Guard& guard, const Change& body, Told whether) {
  auto seq = commit(guard, body, whether);
  if (seq) guard.unlock();
  return seq;
}

Result<> Namespace::change(InodeLocks::Guard guard, const Change& body) {
  auto seq = apply(guard, body);
  const CommitSeq upto = seq ? *seq : guard.seen();
  guard.unlock();
  if (auto durable = store_.wait_durable(upto); !durable) return durable;
  if (!seq) return pass(seq);
  return {};
}

Result<> Namespace::change_told(InodeLocks::Guard guard, const Change& body) {
  auto seq = apply(guard, body);
  const CommitSeq upto = seq ? *seq : guard.seen();
  guard.unlock();
  if (auto noted = told(upto); !noted) return noted;
  if (!seq) return pass(seq);
  return {};
}

Result<> Namespace::settle(std::initializer_list<FileId> ids) const {
  return store_.wait_durable(locks_.seen(ids));
}

Result<> Namespace::told(std::initializer_list<FileId> ids) const { return told(locks_.seen(ids)); }

Result<> Namespace::told(CommitSeq seq) const {
  if (seq <= store_.durable()) return {};
  Owed* owed = Owed::current();
  if (owed == nullptr) return store_.wait_durable(seq);
  owed->note(seq);
  return {};
}

}  // namespace weft::mds
