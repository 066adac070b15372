#include "ganesha-fsal/backup/prepare_store.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/cluster/records.h"
#include "ganesha-fsal/meta/ops/tree.h"
#include "ganesha-fsal/meta/schema/journal.h"
#include "ganesha-fsal/meta/schema/keys.h"
#include "ganesha-fsal/meta/schema/records.h"
#include "layout/handle.h"
#include "layout/layout_map.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

// Numbers of data servers that are given out between two restores, at most. Each restore has a
// block of them, so that what was given out after one is not given out after another.
constexpr std::uint32_t kServerIds = 1000;
constexpr std::uint32_t kServerBlocks = 8000;
constexpr std::size_t kBatch = 512;  // records of a transaction

using Change =
    std::function<Result<>(Transaction&, std::string_view key, const std::string& value)>;

// Calls `change` for every key of a range as the store is now, some hundred in one transaction.
Result<> for_each(KvStore& store, const std::string& begin, const std::string& end,
                  const Change& change) {
  const auto now = store.snapshot();
  std::string from = begin;
  for (;;) {
    std::vector<std::pair<std::string, std::string>> page;
    const auto visit = [&](std::string_view key, std::string_view value) {
      page.emplace_back(key, value);
      return true;
    };
    if (auto done = now->scan(from, end, kBatch, visit); !done) return done;
    if (page.empty()) return {};
    from = keys::after(page.back().first);
    auto done = store.apply([&](Transaction& transaction) -> Result<> {
      for (const auto& [key, value] : page) {
        if (auto changed = change(transaction, key, value); !changed) return changed;
      }
      return {};
    });
    if (!done) return pass(done);
  }
}

template <class Range>
Result<> for_each(KvStore& store, const Range& range, const Change& change) {
  return for_each(store, range.begin, range.end, change);
}

template <class T>
Result<T> read(Transaction& transaction, const std::string& key,
               Result<T> (*decode)(std::string_view)) {
  auto value = transaction.peek(key);
  if (!value) return pass(value);
  if (!*value) return fail(Errc::kCorrupt, "the metadata store has no " + key);
  return decode(**value);
}

class Preparation {
 public:
  Preparation(KvStore& store, const PrepareOptions& options) : store_(store), options_(options) {}

  Result<Prepared> run() {
    if (auto begun = begin(); !begun) return pass(begun);
    for (const auto step :
         {&Preparation::inodes, &Preparation::removals, &Preparation::moves, &Preparation::growing,
          &Preparation::layouts, &Preparation::stale, &Preparation::servers}) {
      if (auto done = (this->*step)(); !done) return pass(done);
    }
    // A commit with something in it: the last, which all before are durable with.
    auto ended = store_.run([&](Transaction& transaction) -> Result<> {
      transaction.put(keys::restore(), encode(record_));
      return {};
    });
    if (!ended) return pass(ended);
    return out_;
  }

 private:
  // What there is one of.
  Result<> begin() {
    const auto stamp = restore_stamp(options_.now_ns);
    if (!stamp || options_.now_ns < options_.made_ns) {
      return fail(Errc::kInvalid, "the clock of this machine is wrong: it is before the backup");
    }
    out_.stamp = *stamp;
    return store_.run([this](Transaction& transaction) -> Result<> {
      auto super = read(transaction, keys::superblock(), decode_superblock);
      if (!super) return pass(super);
      auto before = transaction.peek(keys::restore());
      if (!before) return pass(before);
      auto last = *before ? decode_restore(**before) : Result<RestoreRecord>();
      if (!last) return pass(last);
      if (out_.stamp <= std::max<std::uint64_t>(super->boot_epoch, last->stamp)) {
        return fail(Errc::kInvalid,
                    "the clock of this machine is wrong, or the store was restored a moment ago");
      }
      record_ = {.stamp = out_.stamp,
                 .made_ns = options_.made_ns,
                 .restored_ns = options_.now_ns,
                 .boot_epoch = super->boot_epoch};
      super->format = kRestoredFormat;
      super->boot_epoch = out_.stamp;
      transaction.put(keys::superblock(), encode(*super));
      transaction.put(cluster_keys::device_salt(), encode_u32(options_.device_salt));
      transaction.erase(keys::restored_grown());
      if (auto jumped = skip_fileids(transaction); !jumped) return jumped;
      return skip_servers(transaction, last->first_lost);
    });
  }

  Result<> skip_fileids(Transaction& transaction) const {
    auto next = read(transaction, keys::next_fileid(), decode_counter);
    if (!next) return pass(next);
    auto kept = transaction.peek(keys::skipped_fileids());
    if (!kept) return pass(kept);
    auto skipped = *kept ? decode_counter(**kept) : Result<std::uint64_t>(0);
    if (!skipped) return pass(skipped);
    const std::uint64_t from_now_on = std::max(*next, std::uint64_t{out_.stamp} << 20);
    transaction.put(keys::next_fileid(), encode_counter(from_now_on));
    transaction.put(keys::skipped_fileids(), encode_counter(*skipped + from_now_on - *next));
    return {};
  }

  // `first_lost`: of the restore before; 0: there was none. Who registered before it may come yet.
  Result<> skip_servers(Transaction& transaction, std::uint32_t first_lost) {
    auto next = transaction.peek(cluster_keys::next_server());
    if (!next) return pass(next);
    auto first = *next ? decode_u32(**next) : Result<std::uint32_t>(1);
    if (!first) return pass(first);
    record_.first_lost = first_lost > 0 ? first_lost : *first;
    record_.first_fresh = layout::kMaxPartnerId + 1;
    const std::uint32_t block = 1 + out_.stamp % kServerBlocks;
    transaction.put(cluster_keys::next_server(),
                    encode_u32(record_.first_lost + block * kServerIds));
    return {};
  }

  Result<> inodes() {
    const std::uint64_t least = std::uint64_t{out_.stamp} << 32;
    return for_each(
        store_, keys::all(keys::Prefix::kInode),
        [&](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          auto inode = decode_inode(value);
          if (!inode) return pass(inode);
          ++out_.files;
          std::uint64_t& change = inode->attributes.change;
          change = std::max(change + 1, least);
          transaction.put(key, encode(*inode));
          return {};
        });
  }

  // Objects that left a file's map. Since the backup the file may have gone back there, and have no
  // others.
  Result<> removals() {
    return for_each(
        store_, keys::all(keys::Prefix::kRemoval),
        [&](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          const auto at = keys::parse_removal(key);
          auto queued = decode_removal(value);
          if (!queued) return pass(queued);
          if (!at) return fail(Errc::kCorrupt, "key of a removal");
          auto map = peek_layout(transaction, at->id);
          if (!map) return pass(map);
          if (!*map || (*map)->object_generation != at->generation) return {};
          for (const std::uint32_t ds_id : queued->ds_ids) {
            transaction.erase(keys::reverse(ds_id, at->id, at->generation));
          }
          transaction.erase(key);
          return {};
        });
  }

  // Those end here, with what was current at the backup: what has left the map, or is not filled,
  // may be all that there is by now.
  Result<> moves() {
    return for_each(
        store_, keys::all_moves(),
        [&](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          const auto at = keys::parse_move(key);
          auto move = decode_move(value);
          if (!move) return pass(move);
          if (!at) return fail(Errc::kCorrupt, "key of a move");
          transaction.erase(key);
          std::uint32_t leaves = move->from;
          if (move->stage == MoveStage::kFilling) {
            auto out = end_filling(transaction, at->id, *move);
            if (!out) return pass(out);
            leaves = *out;
          }
          transaction.erase(keys::reverse(leaves, at->id, move->generation));
          return {};
        });
  }

  // The one that is not in the map any more.
  Result<std::uint32_t> end_filling(Transaction& transaction, FileId id, const MoveRecord& move) {
    auto map = peek_layout(transaction, id);
    if (!map) return pass(map);
    const auto from = *map ? layout::seat_of(**map, move.from) : std::nullopt;
    const auto to = *map ? layout::seat_of(**map, move.to) : std::nullopt;
    if (!from || !to || to->copy + 1 != (*map)->copies.size() || to->stripe != from->stripe) {
      return fail(Errc::kCorrupt, "a move that does not fit the layout map");
    }
    const bool filled =
        (*map)->copies[to->copy].state_of(to->stripe) == layout::CopyState::kCurrent;
    const std::uint32_t leaves = filled ? move.from : move.to;
    const std::size_t copy = filled ? from->copy : to->copy;
    transaction.erase(keys::stale(leaves, id, static_cast<std::uint32_t>(copy)));
    filled ? layout::take_seat(**map, move.from, move.to) : layout::drop_seat(**map, move.to);
    transaction.put(keys::layout(id), layout::encode_layout_map(**map));
    return leaves;
  }

  // Their objects may have been written since; what they had then is in the store.
  Result<> growing() {
    return for_each(
        store_, keys::all(keys::Prefix::kGrowing),
        [&](Transaction& transaction, std::string_view key, const std::string&) -> Result<> {
          const auto at = keys::parse_number(keys::Prefix::kGrowing, key);
          if (!at) return fail(Errc::kCorrupt, "key of a growing file");
          ++out_.growing;
          transaction.erase(key);
          return forget_objects(transaction, at->id);
        });
  }

  Result<> forget_objects(Transaction& transaction, FileId id) {
    auto map = peek_layout(transaction, id);
    if (!map) return pass(map);
    if (!*map) return {};
    for (const std::uint32_t ds_id : holders(**map)) {
      transaction.erase(keys::reverse(ds_id, id, (*map)->object_generation));
      for (std::uint32_t copy = 0; copy < (*map)->copies.size(); ++copy) {
        transaction.erase(keys::stale(ds_id, id, copy));
      }
    }
    for (const std::string& key : {keys::layout(id), keys::writers(id), keys::truncate(id)}) {
      transaction.erase(key);
    }
    return {};
  }

  Result<> layouts() {
    return for_each(
        store_, keys::all(keys::Prefix::kLayout),
        [&](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          const auto at = keys::parse_number(keys::Prefix::kLayout, key);
          auto map = layout::decode_layout_map(std::string_view(value));
          if (!map) return pass(map);
          if (!at) return fail(Errc::kCorrupt, "key of a layout map");
          if (map->object_epoch == UINT32_MAX) {
            return fail(Errc::kTooLarge, "out of object epochs");
          }
          ++out_.laid_out;
          map->object_epoch = std::max(map->object_epoch + 1, out_.stamp);
          transaction.put(key, layout::encode_layout_map(*map));
          transaction.put(keys::restored(at->id), encode(RestoredRecord{}));
          return {};
        });
  }

  Result<> stale() {
    return for_each(
        store_, keys::all_stale(),
        [](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          auto stale = decode_stale(value);
          if (!stale) return pass(stale);
          stale->dirty = {{0, kMaxFileSize}};
          ++stale->ticket;
          transaction.put(key, encode(*stale));
          return {};
        });
  }

  Result<> servers() {
    return for_each(
        store_, cluster_keys::all_servers(),
        [](Transaction& transaction, std::string_view key, const std::string& value) -> Result<> {
          auto server = decode_server(value);
          if (!server) return pass(server);
          server->history.reset();
          server->review = Review::kNone;
          server->reviewed = {};
          transaction.put(key, encode(*server));
          return {};
        });
  }

  KvStore& store_;
  const PrepareOptions options_;
  RestoreRecord record_;
  Prepared out_;
};

}  // namespace

Result<Prepared> prepare_restored(KvStore& store, const PrepareOptions& options) {
  return Preparation(store, options).run();
}

}  // namespace weft::mds
