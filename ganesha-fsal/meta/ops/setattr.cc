// SETATTR, and what a change of size leaves to do at the data servers.
//
// A pending truncate remembers the least size since the objects were last cut: a file shrunk and
// grown again before the data servers heard of it must still read zeros in between.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/rights.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

Result<std::optional<TruncateRecord>> to_truncate(Result<std::optional<std::string>> value) {
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode_truncate(**value);
  if (!record) return pass(record);
  return *record;
}

Result<> check(const InodeAttributes& inode, const AttributeChange& change) {
  if (change.mode && *change.mode > 07777) return fail(Errc::kInvalid, "mode");
  if (!change.size) return {};
  if (inode.type == FileType::kDirectory) return fail(Errc::kIsDirectory);
  if (inode.type != FileType::kRegular) return fail(Errc::kInvalid, "it has no size to set");
  if (*change.size > kMaxFileSize) return fail(Errc::kFileTooLarge);
  return {};
}

void assign(InodeAttributes& to, const Credentials& who, const AttributeChange& change,
            std::int64_t now_ns) {
  to.mode = mode_set(who, to, change);
  if (change.uid) to.uid = *change.uid;
  if (change.gid) to.gid = *change.gid;
  if (change.size) to.size = *change.size;
  if (change.size || change.mtime_now) to.mtime_ns = now_ns;
  if (change.mtime_ns && !change.mtime_now) to.mtime_ns = *change.mtime_ns;
  if (change.atime_ns) to.atime_ns = *change.atime_ns;
  if (change.atime_now) to.atime_ns = now_ns;
}

// Records what to cut when the file has a layout; `size_before` guards against bytes past the end
// that data servers may hold without anybody having told of them.
Result<std::optional<PendingTruncate>> record_truncate(Tree& tree, const InodeAttributes& after,
                                                       std::uint64_t size_before) {
  auto map = tree.layout(after.id);
  if (!map) return pass(map);
  if (!*map) return std::nullopt;
  auto before = to_truncate(tree.transaction().get(keys::truncate(after.id)));
  if (!before) return pass(before);
  TruncateRecord record{std::min(size_before, after.size), after.change};
  if (*before) record.cut_at = std::min(record.cut_at, (*before)->cut_at);
  tree.transaction().put(keys::truncate(after.id), encode(record));
  return PendingTruncate{after.id, record.cut_at, record.ticket, std::move(**map)};
}

Result<std::optional<PendingTruncate>> with_layout(const KvReader& reader, FileId id,
                                                   const TruncateRecord& record) {
  auto map = peek_layout(reader, id);
  if (!map) return pass(map);
  if (!*map) return std::nullopt;  // removed meanwhile
  return PendingTruncate{id, record.cut_at, record.ticket, std::move(**map)};
}

}  // namespace

Result<AttributesChanged> Namespace::setattr(const Credentials& who, FileId id,
                                             const AttributeChange& request) {
  AttributesChanged out;
  const auto set = [&](Tree& tree) -> Result<> {
    auto inode = tree.inode(id);
    if (!inode) return pass(inode);
    InodeAttributes& attributes = inode->attributes;
    if (auto good = check(attributes, request); !good) return good;
    if (auto good = may_set(who, attributes, request); !good) return good;
    out.before = attributes;
    assign(attributes, who, request, tree.now_ns());
    tree.touch_ctime(*inode);
    tree.store(*inode);
    out.after = attributes;
    out.truncate.reset();
    if (!request.size) return {};
    if (inlines_) {
      if (auto done = tree.cut_inline(id, *request.size); !done) return done;
    }
    auto truncate = record_truncate(tree, attributes, out.before.size);
    if (!truncate) return pass(truncate);
    out.truncate = std::move(*truncate);
    return {};
  };
  // A new size is durable before objects are cut to it.
  auto guard = locks_.lock({id});
  auto done = request.size ? change(std::move(guard), set) : change_told(std::move(guard), set);
  if (!done) return pass(done);
  return out;
}

Result<> Tree::finish_truncate(const PendingTruncate& done) {
  auto record = to_truncate(transaction_.get(keys::truncate(done.id)));
  if (!record) return pass(record);
  if (!*record || (*record)->ticket != done.ticket) return {};
  transaction_.erase(keys::truncate(done.id));
  if (may_.be_restored && done.cut_at == 0) transaction_.erase(keys::restored(done.id));
  return {};
}

Result<> Namespace::finish_truncate(const PendingTruncate& done) {
  return change(locks_.lock({done.id}), [&](Tree& tree) { return tree.finish_truncate(done); });
}

Result<std::optional<PendingTruncate>> Namespace::pending_truncate(FileId id) const {
  auto record = to_truncate(store_.latest().peek(keys::truncate(id)));
  if (auto settled = settle({id}); !settled) return pass(settled);
  if (!record) return pass(record);
  if (!*record) return std::nullopt;
  return with_layout(store_.latest(), id, **record);
}

Result<std::vector<PendingTruncate>> Namespace::pending_truncates(std::size_t limit) const {
  std::vector<FileId> ids;
  const keys::Range range = keys::all(keys::Prefix::kTruncate);
  const auto visit = [&](std::string_view key, std::string_view) {
    if (const auto at = keys::parse_number(keys::Prefix::kTruncate, key)) ids.push_back(at->id);
    return true;
  };
  if (auto done = store_.latest().scan(range.begin, range.end, limit, visit); !done) {
    return pass(done);
  }
  std::vector<PendingTruncate> out;
  for (const FileId id : ids) {
    auto pending = pending_truncate(id);
    if (!pending) return pass(pending);
    if (*pending) out.push_back(std::move(**pending));
  }
  return out;
}

}  // namespace weft::mds
