// Inline files: regular files without a layout map, whose bytes are in this store, and their way to
// objects.
#include <algorithm>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

std::uint64_t size_of(Namespace::Pieces data) {
  std::uint64_t size = 0;
  for (const auto& piece : data) size += piece.size();
  return size;
}

void overwrite(std::string& bytes, std::uint64_t offset, Namespace::Pieces data) {
  bytes.resize(std::max<std::size_t>(bytes.size(), offset + size_of(data)));
  char* to = bytes.data() + offset;
  for (const auto& piece : data) {
    to = std::ranges::copy(
             std::string_view(reinterpret_cast<const char*>(piece.data()), piece.size()), to)
             .out;
  }
}

// Nothing: the file has a layout map.
Result<std::optional<InodeRecord>> without_map(Tree& tree, FileId id) {
  auto inode = tree.inode(id);
  if (!inode) return pass(inode);
  if (inode->attributes.type != FileType::kRegular) return fail(Errc::kInvalid, "no regular file");
  auto map = tree.layout(id);
  if (!map) return pass(map);
  if (*map) return std::nullopt;
  return std::move(*inode);
}

Result<bool> is_growing(const KvReader& reader, FileId id) {
  auto there = reader.peek(keys::growing(id));
  if (!there) return pass(there);
  return there->has_value();
}

}  // namespace

Result<> Namespace::look_for_inline() {
  for (const auto prefix : {keys::Prefix::kInline, keys::Prefix::kGrowing}) {
    const keys::Range range = keys::all(prefix);
    const auto found = [this](auto, auto) {
      inlines_ = true;
      return false;
    };
    if (auto done = store_.latest().scan(range.begin, range.end, 1, found); !done) return done;
  }
  return {};
}

Result<std::optional<Namespace::InlineFile>> Namespace::inline_file(FileId id) const {
  const auto read = [&]() -> Result<std::optional<InlineFile>> {
    const KvReader& reader = store_.latest();
    auto inode = peek_inode(reader, id);
    if (!inode) return pass(inode);
    if (inode->attributes.type != FileType::kRegular) {
      return fail(Errc::kInvalid, "no regular file");
    }
    auto map = peek_layout(reader, id);
    if (!map) return pass(map);
    if (*map) {
      auto growing = is_growing(reader, id);
      if (!growing) return pass(growing);
      if (!*growing) return std::nullopt;
    }
    auto bytes = inlines_ ? peek_inline(reader, id) : Result<std::string>();
    if (!bytes) return pass(bytes);
    return InlineFile{inode->attributes, std::move(*bytes)};
  };
  // Locked, or a size could be read with bytes of another moment.
  auto guard = locks_.lock({id});
  auto file = read();
  const CommitSeq seen = guard.seen();
  guard.unlock();
  if (auto noted = told(seen); !noted) return pass(noted);
  return file;
}

Result<std::optional<InodeAttributes>> Namespace::write_inline(FileId id, std::uint64_t offset,
                                                               Pieces data, std::uint32_t limit) {
  const std::uint64_t size = size_of(data);
  if (offset > limit || size > limit - offset) return std::nullopt;
  inlines_ = true;  // before any are there
  std::optional<InodeAttributes> out;
  auto done = change_told(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    out.reset();
    auto inode = without_map(tree, id);
    if (!inode) return pass(inode);
    if (!*inode) return {};
    if (auto room = store_.room(); !room) return room;
    if (size > 0) {
      auto bytes = tree.inline_bytes(id);
      if (!bytes) return pass(bytes);
      overwrite(*bytes, offset, data);
      tree.put_inline(id, std::move(*bytes));
    }
    tree.touch_written(**inode, size > 0 ? offset + size : 0);
    tree.store(**inode);
    out = (*inode)->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<std::optional<InodeAttributes>> Namespace::punch_inline(FileId id, std::uint64_t offset,
                                                               std::uint64_t length) {
  std::optional<InodeAttributes> out;
  auto done = change_told(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    out.reset();
    auto inode = without_map(tree, id);
    if (!inode) return pass(inode);
    if (!*inode) return {};
    auto bytes = inlines_ ? tree.inline_bytes(id) : Result<std::string>();
    if (!bytes) return pass(bytes);
    if (offset < bytes->size()) {
      if (length >= bytes->size() - offset) {
        bytes->resize(offset);
      } else {
        std::fill_n(bytes->begin() + static_cast<std::ptrdiff_t>(offset), length, '\0');
      }
      tree.put_inline(id, std::move(*bytes));
    }
    tree.touch_written(**inode, 0);
    tree.store(**inode);
    out = (*inode)->attributes;
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<Namespace::GrowthBegun> Namespace::begin_growth(FileId id, const MakeLayout& make) {
  GrowthBegun out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    out = {};
    auto before = tree.layout(id);
    if (!before) return pass(before);
    auto growing = tree.transaction().get(keys::growing(id));
    if (!growing) return pass(growing);
    if (!*before || *growing) {
      auto bytes = tree.inline_bytes(id);
      if (!bytes) return pass(bytes);
      out.bytes = std::move(*bytes);
    }
    if (!*before && !out.bytes.empty()) tree.transaction().put(keys::growing(id), "");
    auto map = tree.layout_or(id, with_room(make));
    if (!map) return pass(map);
    out.map = std::move(*map);
    return {};
  });
  if (!done) return pass(done);
  return out;
}

// The record of who writes it stays: whoever did in an earlier run is fenced at the new objects.
Result<layout::LayoutMap> Namespace::grow_elsewhere(FileId id, const MakeLayout& make) {
  layout::LayoutMap out;
  auto done = change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto growing = is_growing(tree.transaction(), id);
    if (!growing) return pass(growing);
    auto before = tree.layout(id);
    if (!before) return pass(before);
    if (!*growing || !*before) return fail(Errc::kNotFound, "the file is not growing");
    if (auto given_up = tree.give_up_objects(id, **before); !given_up) return given_up;
    const auto next = [&](const InodeAttributes& file) {
      auto map = with_room(make)(file);
      if (!map) return map;
      map->object_generation = std::max(map->object_generation, (*before)->object_generation + 1);
      map->object_epoch = (*before)->object_epoch + 1;
      return map;
    };
    auto map = tree.layout_or(id, next);
    if (!map) return pass(map);
    out = std::move(*map);
    return {};
  });
  if (!done) return pass(done);
  return out;
}

Result<> Namespace::finish_growth(FileId id) {
  return change(locks_.lock({id}), [&](Tree& tree) -> Result<> {
    auto growing = tree.transaction().get(keys::growing(id));
    if (!growing) return pass(growing);
    if (!*growing) return {};
    tree.transaction().erase(keys::growing(id));
    tree.transaction().erase(keys::inline_bytes(id));
    return {};
  });
}

Result<std::vector<FileId>> Namespace::growing() const {
  std::vector<FileId> out;
  const keys::Range range = keys::all(keys::Prefix::kGrowing);
  const auto visit = [&](std::string_view key, std::string_view) {
    if (const auto at = keys::parse_number(keys::Prefix::kGrowing, key)) out.push_back(at->id);
    return true;
  };
  if (auto done = store_.latest().scan(range.begin, range.end, SIZE_MAX, visit); !done) {
    return pass(done);
  }
  return out;
}

}  // namespace weft::mds
