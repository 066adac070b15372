#include "ganesha-fsal/meta/fsck.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "layout/device_table.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

using keys::Prefix;

// Of the registry of data servers, which writes it when it is opened first.
const std::string kDeviceSalt = "Wd";

struct Seen {
  FileType type = FileType::kRegular;
  std::uint32_t nlink = 0;
  std::uint64_t size = 0;
  std::uint64_t next_cookie = 0;
  std::uint64_t xattr_bytes = 0;
  FileId parent = 0;  // of a directory, from its parent record
  // Counted.
  std::uint32_t names = 0;
  std::uint32_t subdirectories = 0;
  std::uint64_t entries = 0;
  std::uint64_t cookies = 0;
  std::uint64_t xattr_counted = 0;
  bool orphan = false;
  std::uint64_t walk = 0;  // up to the root, in which it was met first
};

class Checker {
 public:
  Checker(const KvReader& reader, const CheckRegistry& registry)
      : reader_(reader), registry_(registry) {}
  Result<FsckReport> run();

 private:
  using Visit = void (Checker::*)(std::string_view key, std::string_view value);
  Result<> each(Prefix prefix, Visit visit);
  void problem(ProblemKind kind, FileId id, std::string text);
  template <class T>
  bool good(const Result<T>& decoded, FileId id);
  Seen* find(FileId id);
  // True when the key is there, whatever its value.
  bool exists(const std::string& key);

  Result<> check_superblock();
  void check_key(std::string_view key);
  void inode(std::string_view key, std::string_view value);
  void entry(std::string_view key, std::string_view value);
  void cookie(std::string_view key, std::string_view value);
  void parent(std::string_view key, std::string_view value);
  void orphan(std::string_view key, std::string_view value);
  void server(std::string_view key, std::string_view value);
  void cluster(std::string_view key, std::string_view value);
  void device(std::string_view key, std::string_view value);
  void layout(std::string_view key, std::string_view value);
  void removal(std::string_view key, std::string_view value);
  void truncate(std::string_view key, std::string_view value);
  void xattr(std::string_view key, std::string_view value);
  void policy(std::string_view key, std::string_view value);
  void inline_bytes(std::string_view key, std::string_view value);
  void growing(std::string_view key, std::string_view value);
  void restored(std::string_view key, std::string_view value);
  void of_store(std::string_view key, std::string_view value);
  void epoch(std::string_view key, std::string_view value);
  void reverse(std::string_view key, std::string_view value);
  void journal(std::string_view key, std::string_view value);
  void stale(const keys::StaleKey& at, std::string_view value);
  void move(FileId id, std::string_view value);
  void check_copies(FileId id, const layout::LayoutMap& map);
  void expect_reverse(const std::vector<std::uint32_t>& ds_ids, FileId id,
                      std::uint32_t generation);
  void check_counts(FileId id, const Seen& seen);
  void check_rooted(FileId id, Seen& seen);

  const KvReader& reader_;
  const CheckRegistry& registry_;
  std::unordered_map<FileId, Seen> seen_;
  // Nothing: no registry was ever opened over this store, as in tests of the namespace alone.
  std::optional<std::set<std::uint32_t>> servers_;
  FileId next_fileid_ = 0;
  std::uint64_t boot_epoch_ = 0;
  std::uint64_t walks_ = 0;
  Result<> failed_;  // the first failure to read
  FsckReport report_;
};

void Checker::problem(ProblemKind kind, FileId id, std::string text) {
  ++report_.problem_count;
  if (report_.problems.size() < FsckReport::kMaxProblems) {
    report_.problems.push_back({kind, id, std::move(text)});
  }
}

template <class T>
bool Checker::good(const Result<T>& decoded, FileId id) {
  if (!decoded) problem(ProblemKind::kMalformed, id, decoded.error().describe());
  return decoded.has_value();
}

Seen* Checker::find(FileId id) {
  const auto at = seen_.find(id);
  return at == seen_.end() ? nullptr : &at->second;
}

bool Checker::exists(const std::string& key) {
  auto value = reader_.peek(key);
  if (!value && failed_) failed_ = std::unexpected(value.error());
  return value && value->has_value();
}

Result<> Checker::each(Prefix prefix, Visit visit) {
  const keys::Range range = keys::all(prefix);
  const auto call = [&](std::string_view key, std::string_view value) {
    (this->*visit)(key, value);
    return failed_.has_value();
  };
  if (auto done = reader_.scan(range.begin, range.end, SIZE_MAX, call); !done) return done;
  return failed_;
}

Result<> Checker::check_superblock() {
  auto value = reader_.peek(keys::superblock());
  if (!value) return pass(value);
  if (!*value) return fail(Errc::kNotFound, "no superblock: not a Weft metadata store");
  auto super = decode_superblock(**value);
  if (!super && super.error().code == Errc::kNotSupported) return pass(super);
  if (good(super, 0)) boot_epoch_ = super->boot_epoch;
  auto next = reader_.peek(keys::next_fileid());
  if (!next) return pass(next);
  if (!*next) {
    problem(ProblemKind::kCounter, 0, "no file number counter");
    return {};
  }
  if (auto counter = decode_counter(**next); good(counter, 0)) next_fileid_ = *counter;
  return {};
}

void Checker::inode(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kInode, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "inode key");
  auto record = decode_inode(value);
  if (!good(record, at->id)) return;
  const InodeAttributes& a = record->attributes;
  if (a.id != at->id) problem(ProblemKind::kMalformed, at->id, "an inode with another's number");
  if (at->id >= next_fileid_) problem(ProblemKind::kCounter, at->id, "file number not yet given");
  ++report_.inodes;
  if (a.type == FileType::kDirectory) ++report_.directories;
  seen_[at->id] = {.type = a.type,
                   .nlink = a.nlink,
                   .size = a.size,
                   .next_cookie = record->next_cookie,
                   .xattr_bytes = record->xattr_bytes};
}

void Checker::entry(std::string_view key, std::string_view value) {
  const auto at = keys::parse_named(Prefix::kEntry, key);
  if (!at || !is_entry_name(at->name)) return problem(ProblemKind::kMalformed, 0, "entry key");
  ++report_.entries;
  auto record = decode_entry(value);
  if (!good(record, at->id)) return;
  const std::string name(at->name);
  Seen* dir = find(at->id);
  if (dir == nullptr || dir->type != FileType::kDirectory) {
    return problem(ProblemKind::kDanglingEntry, at->id, "entry \"" + name + "\" in no directory");
  }
  ++dir->entries;
  if (record->cookie >= dir->next_cookie) {
    problem(ProblemKind::kCookieIndex, at->id, "cookie of \"" + name + "\" not yet given");
  }
  auto index = reader_.peek(keys::cookie(at->id, record->cookie));
  if (!index) failed_ = std::unexpected(index.error());
  if (!index) return;
  const CookieRecord wanted{record->id, record->type, name};
  if (!*index || **index != encode(wanted)) {
    problem(ProblemKind::kCookieIndex, at->id, "index of \"" + name + "\" missing or different");
  }
  Seen* target = find(record->id);
  if (target == nullptr) {
    return problem(ProblemKind::kDanglingEntry, record->id, "entry \"" + name + "\" of nothing");
  }
  ++target->names;
  if (target->type != record->type) {
    problem(ProblemKind::kWrongType, record->id, "entry \"" + name + "\"");
  }
  if (record->type == FileType::kDirectory) ++dir->subdirectories;
}

void Checker::cookie(std::string_view key, std::string_view value) {
  const auto at = keys::parse_cookie(key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "cookie key");
  if (!good(decode_cookie(value), at->dir)) return;
  // Every entry has its index (checked there); with the same number of both, they match.
  if (Seen* dir = find(at->dir)) {
    ++dir->cookies;
  } else {
    problem(ProblemKind::kCookieIndex, at->dir, "cookie in no directory");
  }
}

void Checker::parent(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kParent, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "parent key");
  auto record = decode_parent(value);
  if (!good(record, at->id)) return;
  Seen* dir = find(at->id);
  if (dir == nullptr || dir->type != FileType::kDirectory || at->id == kRootFileId) {
    return problem(ProblemKind::kParent, at->id, "parent record of no directory");
  }
  dir->parent = record->dir;
  auto up = peek_entry(reader_, record->dir, record->name);
  if (!up || !*up || (*up)->id != at->id) {
    problem(ProblemKind::kParent, at->id,
            "its parent does not list it as \"" + record->name + "\"");
  }
}

void Checker::orphan(std::string_view key, std::string_view) {
  const auto at = keys::parse_number(Prefix::kOrphan, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "orphan key");
  ++report_.orphans;
  Seen* inode = find(at->id);
  if (inode == nullptr) return problem(ProblemKind::kOrphan, at->id, "an orphan without inode");
  inode->orphan = true;
  if (inode->nlink != 0) problem(ProblemKind::kOrphan, at->id, "an orphan with links");
}

void Checker::expect_reverse(const std::vector<std::uint32_t>& ds_ids, FileId id,
                             std::uint32_t generation) {
  for (const std::uint32_t ds_id : ds_ids) {
    if (exists(keys::reverse(ds_id, id, generation))) continue;
    problem(ProblemKind::kReverseIndex, id,
            "not listed under data server " + std::to_string(ds_id));
  }
}

void Checker::cluster(std::string_view key, std::string_view value) {
  if (registry_) good(registry_(key, value), 0);
}

void Checker::server(std::string_view key, std::string_view value) {
  constexpr std::size_t kBytes = 1 + sizeof(std::uint32_t);
  if (key.size() != kBytes) return problem(ProblemKind::kMalformed, 0, "data server key");
  std::uint32_t ds_id = 0;
  for (const char byte : key.substr(1)) ds_id = ds_id << 8 | static_cast<unsigned char>(byte);
  if (servers_) servers_->insert(ds_id);
  cluster(key, value);
}

void Checker::device(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kDevices, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "device key");
  const auto device = layout::decode_device(std::as_bytes(std::span(value)));
  if (!good(device, 0)) return;
  if (device->number != at->id) {
    problem(ProblemKind::kMalformed, 0, "a device with another's number");
  }
}

void Checker::layout(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kLayout, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "layout key");
  ++report_.layouts;
  auto map = layout::decode_layout_map(value);
  if (!good(map, at->id)) return;
  const Seen* inode = find(at->id);
  if (inode == nullptr || inode->type != FileType::kRegular) {
    problem(ProblemKind::kLayout, at->id, "a layout of no regular file");
  }
  const std::vector<std::uint32_t> ds_ids = holders(*map);
  for (const std::uint32_t ds_id : ds_ids) {
    if (!servers_ || servers_->contains(ds_id)) continue;
    problem(ProblemKind::kServer, at->id,
            "at data server " + std::to_string(ds_id) + ", which is none");
  }
  expect_reverse(ds_ids, at->id, map->object_generation);
  check_copies(at->id, *map);
  const bool vacant = map->copies.back().state == layout::CopyState::kVacant;
  if (vacant && !exists(keys::move(at->id))) {
    problem(ProblemKind::kLayout, at->id, "a vacant place, and the file is not being moved");
  }
}

// That an entry fits the map is checked with the entry.
void Checker::check_copies(FileId id, const layout::LayoutMap& map) {
  for (std::uint32_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Copy& servers = map.copies[copy];
    for (std::size_t at = 0; at < servers.ds_ids.size(); ++at) {
      if (servers.state_of(at) == layout::CopyState::kCurrent || !servers.holds(at)) continue;
      if (exists(keys::stale(servers.ds_ids[at], id, copy))) continue;
      problem(ProblemKind::kJournal, id,
              "copy " + std::to_string(copy) + " at data server " +
                  std::to_string(servers.ds_ids[at]) + " is " +
                  std::string(to_string(servers.state_of(at))) + ", of nothing");
    }
  }
}

void Checker::journal(std::string_view key, std::string_view value) {
  if (const auto at = keys::parse_stale(key)) return stale(*at, value);
  if (const auto at = keys::parse_move(key)) return move(at->id, value);
  const auto at = keys::parse_writers(key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "journal key");
  ++report_.written;
  auto record = decode_writers(value);
  if (!good(record, at->id)) return;
  if (!exists(keys::layout(at->id))) {
    problem(ProblemKind::kJournal, at->id, "being written without a layout");
  }
  if (record->boot_epoch > boot_epoch_) {
    problem(ProblemKind::kJournal, at->id, "being written in a run that is to come");
  }
}

void Checker::stale(const keys::StaleKey& at, std::string_view value) {
  ++report_.stale;
  auto record = decode_stale(value);
  if (!good(record, at.id)) return;
  const std::string name =
      "copy " + std::to_string(at.copy) + " at data server " + std::to_string(at.ds_id);
  auto map = peek_layout(reader_, at.id);
  if (!map || !*map || at.copy >= (*map)->copies.size()) {
    return problem(ProblemKind::kJournal, at.id, name + " is stale and does not exist");
  }
  const layout::Copy& copy = (*map)->copies[at.copy];
  const auto server = std::ranges::find(copy.ds_ids, at.ds_id);
  if (server == copy.ds_ids.end() || record->generation != (*map)->object_generation) {
    return problem(ProblemKind::kJournal, at.id, name + " is stale and not in the layout map");
  }
  if (copy.state_of(static_cast<std::size_t>(server - copy.ds_ids.begin())) ==
      layout::CopyState::kCurrent) {
    problem(ProblemKind::kJournal, at.id, name + " is stale, and current in the layout map");
  }
}

void Checker::move(FileId id, std::string_view value) {
  ++report_.moves;
  auto record = decode_move(value);
  if (!good(record, id)) return;
  auto map = peek_layout(reader_, id);
  if (!map || !*map || (*map)->object_generation != record->generation) {
    return problem(ProblemKind::kJournal, id, "being moved, and without such a layout");
  }
  expect_reverse({record->from}, id, record->generation);
  const bool there = layout::seat_of(**map, record->from).has_value();
  const bool filling = record->stage == MoveStage::kFilling;
  if (there != filling || (filling && !layout::seat_of(**map, record->to))) {
    problem(ProblemKind::kJournal, id, "being moved otherwise than the layout map says");
  }
}

void Checker::removal(std::string_view key, std::string_view value) {
  const auto at = keys::parse_removal(key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "removal key");
  ++report_.removals;
  auto record = decode_removal(value);
  if (!good(record, at->id)) return;
  expect_reverse(record->ds_ids, at->id, at->generation);
  auto map = peek_layout(reader_, at->id);
  if (!map || !*map || (*map)->object_generation != at->generation) return;
  const auto used = holders(**map);
  if (std::ranges::any_of(record->ds_ids, [&](std::uint32_t ds_id) {
        return std::ranges::binary_search(used, ds_id);
      })) {
    problem(ProblemKind::kLayout, at->id, "objects in use are queued for removal");
  }
}

void Checker::truncate(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kTruncate, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "truncate key");
  ++report_.truncates;
  if (!good(decode_truncate(value), at->id)) return;
  if (!exists(keys::layout(at->id))) {
    problem(ProblemKind::kLayout, at->id, "a pending truncate of a file without layout");
  }
}

void Checker::xattr(std::string_view key, std::string_view value) {
  const auto at = keys::parse_named(Prefix::kXattr, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "extended attribute key");
  ++report_.xattrs;
  Seen* inode = find(at->id);
  if (inode == nullptr) return problem(ProblemKind::kXattr, at->id, "attribute of nothing");
  inode->xattr_counted += at->name.size() + value.size();
}

void Checker::policy(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kPolicy, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "policy key");
  ++report_.policies;
  if (!good(decode_policy(value), at->id)) return;
  const Seen* inode = find(at->id);
  if (inode == nullptr ||
      (inode->type != FileType::kDirectory && inode->type != FileType::kRegular)) {
    problem(ProblemKind::kPolicy, at->id, "a policy of no directory or regular file");
  }
}

void Checker::inline_bytes(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kInline, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "key of an inline file");
  ++report_.inline_files;
  auto record = decode_inline(value);
  if (!good(record, at->id)) return;
  report_.inline_bytes += record->bytes.size();
  const Seen* inode = find(at->id);
  if (inode == nullptr || inode->type != FileType::kRegular) {
    return problem(ProblemKind::kInline, at->id, "bytes of no regular file");
  }
  if (record->bytes.size() > inode->size) {
    problem(ProblemKind::kInline, at->id, "bytes behind its end");
  }
  if (exists(keys::layout(at->id)) && !exists(keys::growing(at->id))) {
    problem(ProblemKind::kInline, at->id, "bytes here and at data servers");
  }
}

void Checker::growing(std::string_view key, std::string_view /*value*/) {
  const auto at = keys::parse_number(Prefix::kGrowing, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "key of a growing file");
  if (!exists(keys::layout(at->id))) {
    problem(ProblemKind::kInline, at->id, "growing without a layout");
  }
  if (!exists(keys::inline_bytes(at->id))) {
    problem(ProblemKind::kInline, at->id, "growing without its bytes");
  }
}

void Checker::restored(std::string_view key, std::string_view value) {
  const auto at = keys::parse_number(Prefix::kRestored, key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "key of a restored file");
  auto record = decode_restored(value);
  if (!good(record, at->id)) return;
  ++report_.restored;
  if (record->state == RestoredRecord::State::kDamaged) ++report_.damaged;
  if (!exists(keys::layout(at->id))) {
    problem(ProblemKind::kLayout, at->id, "restored, and without a layout");
  }
}

// check_superblock() has looked at the others.
void Checker::of_store(std::string_view key, std::string_view value) {
  if (key == keys::restore()) {
    good(decode_restore(value), 0);
  } else if (key == keys::restored_grown() || key == keys::skipped_fileids()) {
    good(decode_counter(value), 0);
  }
}

void Checker::epoch(std::string_view key, std::string_view value) {
  if (!keys::parse_number(Prefix::kClientEpoch, key)) {
    return problem(ProblemKind::kMalformed, 0, "client epoch key");
  }
  good(decode_counter(value), 0);
}

void Checker::reverse(std::string_view key, std::string_view) {
  const auto at = keys::parse_reverse(key);
  if (!at) return problem(ProblemKind::kMalformed, 0, "reverse key");
  const auto lists = [&](const std::vector<std::uint32_t>& ds_ids) {
    return std::ranges::find(ds_ids, at->ds_id) != ds_ids.end();
  };
  auto map = peek_layout(reader_, at->id);
  if (map && *map && (*map)->object_generation == at->generation && lists(holders(**map))) return;
  if (auto moved = reader_.peek(keys::move(at->id)); moved && *moved) {
    const auto record = decode_move(**moved);
    if (record && record->from == at->ds_id && record->generation == at->generation) return;
  }
  auto value = reader_.peek(keys::removal(at->id, at->generation));
  if (value && *value) {
    auto record = decode_removal(**value);
    if (record && lists(record->ds_ids)) return;
  }
  problem(ProblemKind::kReverseIndex, at->id,
          "listed under data server " + std::to_string(at->ds_id) + " for no reason");
}

void Checker::check_counts(FileId id, const Seen& seen) {
  const bool directory = seen.type == FileType::kDirectory;
  const std::uint32_t links = directory ? 2 + seen.subdirectories : seen.names;
  if (seen.nlink != links) {
    problem(ProblemKind::kLinkCount, id,
            "says " + std::to_string(seen.nlink) + ", has " + std::to_string(links));
  }
  const std::uint32_t names_wanted = id == kRootFileId ? 0 : 1;
  if (directory && seen.names > names_wanted) {
    problem(ProblemKind::kLinkCount, id, "a directory with several names");
  }
  if (seen.names == 0 && id != kRootFileId && !seen.orphan) {
    problem(ProblemKind::kUnreachable, id, "no name");
  }
  if (directory && seen.size != seen.entries) {
    problem(ProblemKind::kDirectorySize, id,
            "says " + std::to_string(seen.size) + ", has " + std::to_string(seen.entries));
  }
  if (seen.cookies != seen.entries) {
    problem(
        ProblemKind::kCookieIndex, id,
        std::to_string(seen.entries) + " entries, " + std::to_string(seen.cookies) + " cookies");
  }
  if (seen.xattr_bytes != seen.xattr_counted) {
    problem(ProblemKind::kXattr, id,
            "says " + std::to_string(seen.xattr_bytes) + " bytes, has " +
                std::to_string(seen.xattr_counted));
  }
}

// Marks the whole way up, so that every directory is walked over once. Where it meets its own mark
// it goes in a circle; above the mark of an earlier one is the root, or has been told that it is
// not.
void Checker::check_rooted(FileId id, Seen& seen) {
  if (seen.type != FileType::kDirectory || seen.walk != 0) return;
  const std::uint64_t walk = ++walks_;
  Seen* at = &seen;
  FileId at_id = id;
  while (at != nullptr && at_id != kRootFileId && at->walk == 0) {
    at->walk = walk;
    at_id = at->parent;
    at = find(at_id);
  }
  const bool circle = at != nullptr && at_id != kRootFileId && at->walk == walk;
  if (at == nullptr || circle) problem(ProblemKind::kUnreachable, id, "not below the root");
}

void Checker::check_key(std::string_view key) {
  constexpr std::string_view kKnown = "IEKPLRQTOXYCMSDWJBGV";
  if (key.empty() || kKnown.find(key[0]) == kKnown.npos) {
    problem(ProblemKind::kUnknownKey, 0, "key of unknown kind");
  }
}

Result<FsckReport> Checker::run() {
  if (auto done = check_superblock(); !done) return pass(done);
  const auto any = [&](std::string_view key, std::string_view) {
    check_key(key);
    return true;
  };
  if (auto done = reader_.scan("", std::string(16, '\xff'), SIZE_MAX, any); !done) {
    return pass(done);
  }
  if (exists(kDeviceSalt)) servers_.emplace();
  // Inodes and data servers first: everything else is held against them.
  const std::pair<Prefix, Visit> passes[] = {
      {Prefix::kInode, &Checker::inode},     {Prefix::kServers, &Checker::server},
      {Prefix::kDevices, &Checker::device},  {Prefix::kEntry, &Checker::entry},
      {Prefix::kCookie, &Checker::cookie},   {Prefix::kParent, &Checker::parent},
      {Prefix::kOrphan, &Checker::orphan},   {Prefix::kLayout, &Checker::layout},
      {Prefix::kRemoval, &Checker::removal}, {Prefix::kTruncate, &Checker::truncate},
      {Prefix::kXattr, &Checker::xattr},     {Prefix::kClientEpoch, &Checker::epoch},
      {Prefix::kReverse, &Checker::reverse}, {Prefix::kJournal, &Checker::journal},
      {Prefix::kPolicy, &Checker::policy},   {Prefix::kInline, &Checker::inline_bytes},
      {Prefix::kGrowing, &Checker::growing}, {Prefix::kRestored, &Checker::restored},
      {Prefix::kCluster, &Checker::cluster}, {Prefix::kStore, &Checker::of_store},
  };
  for (const auto& [prefix, visit] : passes) {
    if (auto done = each(prefix, visit); !done) return pass(done);
  }
  if (find(kRootFileId) == nullptr) problem(ProblemKind::kUnreachable, kRootFileId, "no root");
  for (auto& [id, seen] : seen_) {
    check_counts(id, seen);
    check_rooted(id, seen);
  }
  return std::move(report_);
}

}  // namespace

std::string_view to_string(ProblemKind kind) {
  switch (kind) {
    case ProblemKind::kMalformed: return "malformed";
    case ProblemKind::kUnknownKey: return "unknown key";
    case ProblemKind::kDanglingEntry: return "dangling entry";
    case ProblemKind::kWrongType: return "wrong type";
    case ProblemKind::kCookieIndex: return "cookie index";
    case ProblemKind::kLinkCount: return "link count";
    case ProblemKind::kDirectorySize: return "directory size";
    case ProblemKind::kUnreachable: return "unreachable";
    case ProblemKind::kParent: return "parent";
    case ProblemKind::kOrphan: return "orphan";
    case ProblemKind::kReverseIndex: return "reverse index";
    case ProblemKind::kLayout: return "layout";
    case ProblemKind::kServer: return "data server";
    case ProblemKind::kJournal: return "journal";
    case ProblemKind::kPolicy: return "policy";
    case ProblemKind::kInline: return "inline files";
    case ProblemKind::kXattr: return "extended attributes";
    case ProblemKind::kCounter: return "file number counter";
  }
  return "unknown";
}

Result<FsckReport> fsck(const KvReader& reader, const CheckRegistry& registry) {
  return Checker(reader, registry).run();
}

}  // namespace weft::mds
