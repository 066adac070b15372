#include "ganesha-fsal/meta/following.h"

#include <charconv>

#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"

namespace weft::mds {
namespace {

using Files = std::vector<NamedFile>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Result<std::optional<EntryRecord>> entry_of(const KvReader& store, FileId dir,
                                            std::string_view name) {
  auto value = store.peek(keys::entry(dir, name));
  if (!value) return pass(value);
  if (!*value) return std::nullopt;
  auto record = decode_entry(**value);
  if (!record) return pass(record);
  return *record;
}

Result<Files> in_listing(const KvReader& store, FileId dir, std::string_view name,
                         std::size_t limit) {
  auto entry = entry_of(store, dir, name);
  if (!entry) return pass(entry);
  Files files;
  if (!*entry || (*entry)->cookie == UINT64_MAX) return files;
  Result<> bad;
  auto scanned = store.scan(keys::cookie(dir, (*entry)->cookie + 1),
                            keys::under(keys::Prefix::kCookie, dir).end, limit,
                            [&](std::string_view /*key*/, std::string_view value) {
                              auto record = decode_cookie(value);
                              if (!record) bad = pass(record);
                              if (record && record->type == FileType::kRegular) {
                                files.push_back({std::move(record->name), record->id});
                              }
                              return bad.has_value();
                            });
  if (!scanned) return pass(scanned);
  if (!bad) return pass(bad);
  return files;
}

Result<Files> by_name(const KvReader& store, FileId dir, std::string_view name, std::size_t limit) {
  Files files;
  Result<> bad;
  auto scanned =
      store.scan(keys::after(keys::entry(dir, name)), keys::under(keys::Prefix::kEntry, dir).end,
                 limit, [&](std::string_view key, std::string_view value) {
                   auto at = keys::parse_named(keys::Prefix::kEntry, key);
                   auto record = decode_entry(value);
                   if (!at || !record) bad = fail(Errc::kCorrupt, "malformed entry");
                   if (bad && record->type == FileType::kRegular) {
                     files.push_back({std::string(at->name), record->id});
                   }
                   return bad.has_value();
                 });
  if (!scanned) return pass(scanned);
  if (!bad) return pass(bad);
  return files;
}

Result<Files> by_number(const KvReader& store, FileId dir, std::string_view name,
                        std::size_t limit) {
  Files files;
  std::string next = next_in_numbers(name);
  while (files.size() < limit && !next.empty()) {
    auto entry = entry_of(store, dir, next);
    if (!entry) return pass(entry);
    if (!*entry || (*entry)->type != FileType::kRegular) break;
    files.push_back({next, (*entry)->id});
    next = next_in_numbers(next);
  }
  return files;
}

}  // namespace

std::string next_in_numbers(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  constexpr std::size_t kMostDigits = 18;  // of 64 bits
  if (begin == end || end - begin > kMostDigits) return {};
  std::uint64_t number = 0;
  std::from_chars(name.data() + begin, name.data() + end, number);
  std::string digits = std::to_string(number + 1);
  if (digits.size() < end - begin) digits.insert(0, end - begin - digits.size(), '0');
  return std::string(name.substr(0, begin)) + digits + std::string(name.substr(end));
}

Result<Files> files_after(const KvReader& store, FileId dir, std::string_view name, FileOrder order,
                          std::size_t limit) {
  switch (order) {
    case FileOrder::kListing: return in_listing(store, dir, name, limit);
    case FileOrder::kNames: return by_name(store, dir, name, limit);
    case FileOrder::kNumbers: return by_number(store, dir, name, limit);
  }
  return fail(Errc::kInvalid, "an order");
}

}  // namespace weft::mds
