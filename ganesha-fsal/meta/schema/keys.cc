#include "ganesha-fsal/meta/schema/keys.h"

namespace weft::mds::keys {
namespace {

void put_u32(std::string& key, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(value >> shift));
}

void put_u64(std::string& key, std::uint64_t value) {
  put_u32(key, static_cast<std::uint32_t>(value >> 32));
  put_u32(key, static_cast<std::uint32_t>(value));
}

// Precondition: four bytes there.
std::uint32_t get_u32(std::string_view key, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<unsigned char>(key[at + i]);
  }
  return value;
}

std::uint64_t get_u64(std::string_view key, std::size_t at) {
  return std::uint64_t{get_u32(key, at)} << 32 | get_u32(key, at + 4);
}

std::string begin(Prefix prefix, std::size_t extra = 0) {
  std::string key;
  key.reserve(1 + 16 + extra);
  key.push_back(static_cast<char>(prefix));
  return key;
}

std::string number(Prefix prefix, std::uint64_t id) {
  std::string key = begin(prefix);
  put_u64(key, id);
  return key;
}

std::string named(Prefix prefix, std::uint64_t id, std::string_view name) {
  std::string key = begin(prefix, name.size());
  put_u64(key, id);
  key.append(name);
  return key;
}

std::string journal(char kind) {
  std::string key = begin(Prefix::kJournal, 2);
  key.push_back(kind);
  return key;
}

bool has_prefix(std::string_view key, Prefix prefix) {
  return !key.empty() && key[0] == static_cast<char>(prefix);
}

bool is_journal(std::string_view key, char kind) {
  return has_prefix(key, Prefix::kJournal) && key.size() > 1 && key[1] == kind;
}

constexpr char kWriters = 'w';
constexpr char kStale = 's';
constexpr char kMove = 'm';

}  // namespace

std::string superblock() { return begin(Prefix::kStore).append("super"); }
std::string next_fileid() { return begin(Prefix::kStore).append("next"); }
std::string skipped_fileids() { return begin(Prefix::kStore).append("skipped"); }
std::string restore() { return begin(Prefix::kStore).append("restored"); }
std::string restored_grown() { return begin(Prefix::kStore).append("grown"); }
std::string restored(FileId id) { return number(Prefix::kRestored, id); }
std::string inode(FileId id) { return number(Prefix::kInode, id); }
std::string entry(FileId dir, std::string_view name) { return named(Prefix::kEntry, dir, name); }

std::string cookie(FileId dir, std::uint64_t cookie) {
  std::string key = number(Prefix::kCookie, dir);
  put_u64(key, cookie);
  return key;
}

std::string parent(FileId dir) { return number(Prefix::kParent, dir); }
std::string layout(FileId id) { return number(Prefix::kLayout, id); }

std::string reverse(std::uint32_t ds_id, FileId id, std::uint32_t generation) {
  std::string key = begin(Prefix::kReverse);
  put_u32(key, ds_id);
  put_u64(key, id);
  put_u32(key, generation);
  return key;
}

std::string removal(FileId id, std::uint32_t generation) {
  std::string key = number(Prefix::kRemoval, id);
  put_u32(key, generation);
  return key;
}

std::string truncate(FileId id) { return number(Prefix::kTruncate, id); }
std::string orphan(FileId id) { return number(Prefix::kOrphan, id); }
std::string xattr(FileId id, std::string_view name) { return named(Prefix::kXattr, id, name); }
std::string inline_bytes(FileId id) { return number(Prefix::kInline, id); }
std::string growing(FileId id) { return number(Prefix::kGrowing, id); }
std::string policy(FileId id) { return number(Prefix::kPolicy, id); }
std::string client_epoch(ClientId client) { return number(Prefix::kClientEpoch, client); }

std::string writers(FileId id) {
  std::string key = journal(kWriters);
  put_u64(key, id);
  return key;
}

std::string stale(std::uint32_t ds_id, FileId id, std::uint32_t copy) {
  std::string key = journal(kStale);
  put_u32(key, ds_id);
  put_u64(key, id);
  put_u32(key, copy);
  return key;
}

std::string move(FileId id) {
  std::string key = journal(kMove);
  put_u64(key, id);
  return key;
}

Range all(Prefix prefix) {
  const char letter = static_cast<char>(prefix);
  return {std::string(1, letter), std::string(1, static_cast<char>(letter + 1))};
}

Range under(Prefix prefix, std::uint64_t id) {
  std::string last = id == UINT64_MAX ? all(prefix).end : number(prefix, id + 1);
  return {number(prefix, id), std::move(last)};
}

Range reverse_of(std::uint32_t ds_id) {
  Range range = all(Prefix::kReverse);
  put_u32(range.begin, ds_id);
  if (ds_id != UINT32_MAX) {
    range.end = begin(Prefix::kReverse);
    put_u32(range.end, ds_id + 1);
  }
  return range;
}

Range all_writers() { return {journal(kWriters), journal(kWriters + 1)}; }

Range all_moves() { return {journal(kMove), journal(kMove + 1)}; }

Range all_stale() { return {journal(kStale), journal(kStale + 1)}; }

Range stale_of(std::uint32_t ds_id) {
  Range range = all_stale();
  put_u32(range.begin, ds_id);
  if (ds_id != UINT32_MAX) {
    range.end = journal(kStale);
    put_u32(range.end, ds_id + 1);
  }
  return range;
}

std::string after(std::string_view key) {
  std::string next(key);
  next.push_back('\0');
  return next;
}

std::optional<NumberKey> parse_number(Prefix prefix, std::string_view key) {
  if (!has_prefix(key, prefix) || key.size() != 9) return std::nullopt;
  return NumberKey{get_u64(key, 1)};
}

std::optional<NamedKey> parse_named(Prefix prefix, std::string_view key) {
  if (!has_prefix(key, prefix) || key.size() < 10) return std::nullopt;
  return NamedKey{get_u64(key, 1), key.substr(9)};
}

std::optional<CookieKey> parse_cookie(std::string_view key) {
  if (!has_prefix(key, Prefix::kCookie) || key.size() != 17) return std::nullopt;
  return CookieKey{get_u64(key, 1), get_u64(key, 9)};
}

std::optional<ObjectKey> parse_reverse(std::string_view key) {
  if (!has_prefix(key, Prefix::kReverse) || key.size() != 17) return std::nullopt;
  return ObjectKey{get_u32(key, 1), get_u64(key, 5), get_u32(key, 13)};
}

std::optional<ObjectKey> parse_removal(std::string_view key) {
  if (!has_prefix(key, Prefix::kRemoval) || key.size() != 13) return std::nullopt;
  return ObjectKey{0, get_u64(key, 1), get_u32(key, 9)};
}

std::optional<NumberKey> parse_writers(std::string_view key) {
  if (!is_journal(key, kWriters) || key.size() != 10) return std::nullopt;
  return NumberKey{get_u64(key, 2)};
}

std::optional<StaleKey> parse_stale(std::string_view key) {
  if (!is_journal(key, kStale) || key.size() != 18) return std::nullopt;
  return StaleKey{get_u32(key, 2), get_u64(key, 6), get_u32(key, 14)};
}

std::optional<NumberKey> parse_move(std::string_view key) {
  if (!is_journal(key, kMove) || key.size() != 10) return std::nullopt;
  return NumberKey{get_u64(key, 2)};
}

}  // namespace weft::mds::keys
