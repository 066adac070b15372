// READDIR: one scan of the cookie index, from where the last page ended.
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds {
namespace {

// From the cookie `from` on. Reads one entry more than `limit` where there is one, to know whether
// the page is the last.
Result<std::vector<DirectoryEntry>> scan_entries(const KvReader& reader, FileId dir,
                                                 std::uint64_t from, std::size_t limit) {
  std::vector<DirectoryEntry> entries;
  Result<> bad;
  const auto visit = [&](std::string_view key, std::string_view value) {
    const auto at = keys::parse_cookie(key);
    auto record = decode_cookie(value);
    if (!at || !record) {
      bad = record ? Result<>(fail(Errc::kCorrupt, "malformed cookie key")) : pass(record);
      return false;
    }
    entries.push_back({at->cookie, std::move(record->name), record->id, record->type, {}});
    return true;
  };
  const std::string end = keys::under(keys::Prefix::kCookie, dir).end;
  auto done = reader.scan(keys::cookie(dir, from), end, limit + 1, visit);
  if (!done) return pass(done);
  if (!bad) return pass(bad);
  return entries;
}

}  // namespace

Result<DirectoryPage> Namespace::readdir(FileId dir, std::uint64_t cookie, std::size_t limit,
                                         bool with_attributes) const {
  if (limit == 0 || limit > kMaxPageEntries) return fail(Errc::kInvalid, "size of a page");
  const KvReader& reader = store_.latest();
  auto inode = peek_directory(reader, dir);
  if (!inode) return pass(inode);
  DirectoryPage page;
  page.end = true;
  if (cookie == UINT64_MAX) return page;
  const std::uint64_t known = first_cookies_.of(dir);
  const std::uint64_t from = std::max({cookie + 1, known, kFirstCookie});
  auto entries = scan_entries(reader, dir, from, limit);
  if (!entries) return pass(entries);
  // What is made after the directory was read has no smaller cookie than the next it had then.
  if (cookie < std::max(known, kFirstCookie)) {
    first_cookies_.found(dir, from,
                         entries->empty() ? inode->next_cookie : entries->front().cookie);
  }
  if (entries->size() > limit) {
    page.end = false;
    entries->pop_back();
  }
  std::vector<std::optional<InodeRecord>> inodes;
  if (with_attributes) {
    std::vector<FileId> ids;
    ids.reserve(entries->size());
    for (const DirectoryEntry& entry : *entries) ids.push_back(entry.id);
    auto found = peek_inodes(reader, ids);
    if (!found) return pass(found);
    inodes = std::move(*found);
  }
  CommitSeq seen = 0;
  for (std::size_t at = 0; at < entries->size(); ++at) {
    DirectoryEntry& entry = (*entries)[at];
    if (with_attributes) {
      if (!inodes[at]) continue;  // removed meanwhile
      entry.attributes = std::move(inodes[at]->attributes);
      seen = std::max(seen, locks_.seen({entry.id}));
    }
    page.entries.push_back(std::move(entry));
  }
  seen = std::max(seen, locks_.seen({dir}));
  if (auto noted = told(seen); !noted) return pass(noted);
  for (DirectoryEntry& entry : page.entries) {
    if (!entry.attributes || !locks_.untold(entry.id)) continue;
    auto written = tell_write(entry.id);
    if (!written && written.error() != Errc::kStale) return pass(written);
    if (written) entry.attributes = written->attributes;
  }
  return page;
}

}  // namespace weft::mds
