// FileData: reading and writing through this server, and the other changes of objects that it
// makes itself.
#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"
#include "layout/relocation.h"

namespace weft::mds {
namespace {

// A write goes on through other leaders for so long; then its client is to ask again.
constexpr std::chrono::seconds kPersist{20};
// Between attempts, unless something is done with the file before.
constexpr std::chrono::milliseconds kRest{100};
constexpr std::size_t kCommits = 64;  // by ourselves at a time
constexpr std::size_t kOwing = 256;   // files that owe, as well
// A hole in several copies waits so long for writes of ours.
constexpr std::chrono::seconds kPatience{2};

bool broken(const Error& error) {
  return error == Errc::kIo || error == Errc::kCorrupt || error == Errc::kReadOnly;
}

bool mirrored(const layout::LayoutMap& map) { return map.copies.size() > 1; }

bool current_at(const layout::LayoutMap& map, std::uint32_t ds_id) {
  const auto seat = layout::seat_of(map, ds_id);
  return seat && map.copies[seat->copy].state_of(seat->stripe) == layout::CopyState::kCurrent;
}

bool all_current(const layout::LayoutMap& map) {
  return std::ranges::all_of(servers_of(map),
                             [&](std::uint32_t ds_id) { return current_at(map, ds_id); });
}

// Whether all copies that are current were so before.
bool were_current(const layout::LayoutMap& now, const layout::LayoutMap& before) {
  return std::ranges::all_of(servers_of(now), [&](std::uint32_t ds_id) {
    return !current_at(now, ds_id) || current_at(before, ds_id);
  });
}

// The other copies' servers, of the stripe that this one has a copy of.
std::vector<std::uint32_t> partners_of(const layout::LayoutMap& map, std::uint32_t ds_id) {
  std::vector<std::uint32_t> others;
  for (std::size_t stripe = 0; stripe < map.copies.front().ds_ids.size(); ++stripe) {
    std::vector<std::uint32_t> holders;
    for (const layout::Copy& copy : map.copies) holders.push_back(copy.ds_ids[stripe]);
    if (std::ranges::find(holders, ds_id) == holders.end()) continue;
    std::erase(holders, ds_id);
    std::erase(holders, 0U);  // vacant places
    others.insert(others.end(), holders.begin(), holders.end());
  }
  return others;
}

}  // namespace

Result<Alone> FileData::be_alone(FileId file, Phase::Alone why, Clock::duration patience,
                                 IfAlone others) {
  const auto until = patience.count() == 0 ? kDoNotWait : parts_.files.now() + patience;
  auto alone = mds::be_alone(parts_.files, file, why, until, others);
  if (!alone) return alone;
  // Nobody asks for its size from here on. What was answered before is not true any more.
  if (auto fine = asks_.forget(file); !fine) return failed(fine);
  return alone;
}

Result<std::shared_ptr<FileData::BegunRead>> FileData::begin_read(FileId file, std::uint64_t offset,
                                                                  std::uint32_t count,
                                                                  Answered answered) {
  if (parts_.names.inlines()) {
    // Before ready(): while such a file goes to its objects it is read here.
    auto here = read_inline(file, offset, count);
    if (!here || *here) return here;
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto attributes = parts_.names.getattr(file);
  if (!attributes) return failed(attributes);
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  ++reads_;
  auto begun = std::make_shared<BegunRead>();
  if (offset >= attributes->size) {
    begun->result.eof = true;
    return begun;
  }
  const std::uint64_t left = attributes->size - offset;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, left));
  begun->result.eof = wanted == left;
  if (!*map) {  // nothing was ever written: a hole
    begun->result.data.append(ZeroRange{wanted});
    return begun;
  }
  const auto from = readable(file, **map);
  if (!from) return failed(from);
  begun->later = true;
  begun->file = file;
  begun->size = attributes->size;
  begun->offset = offset;
  begun->count = wanted;
  begun->epoch = from->map.object_epoch;
  parts_.proxy.read(
      *from, attributes->size, offset, wanted,
      [begun, answered = std::move(answered)](Result<ProxyIo::ReadResult> got) mutable {
        // Whoever ends it is the last that has it: not this thread, some time after.
        std::exchange(begun, nullptr)->got = std::move(got);
        answered();
      });
  return begun;
}

// A map's new epoch is durable before any data server refuses what is of an older one.
Result<layout::LayoutMap> FileData::newer_map(FileId file, std::uint32_t epoch) {
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) return fail(Errc::kStale, "the file was removed");
  if ((*map)->object_epoch > epoch) return std::move(**map);
  return fail(Errc::kAccess, "a data server has a fence above the file's epoch");
}

Result<FileData::Read> FileData::end_read(BegunRead& begun) {
  while (begun.later && !begun.got && begun.got.error() == Errc::kAccess) {
    const auto map = newer_map(begun.file, begun.epoch);
    if (!map) return failed(map);
    const auto from = readable(begun.file, *map);
    if (!from) return failed(from);
    begun.epoch = map->object_epoch;
    begun.got = await<ProxyIo::ReadResult>([&](Done<ProxyIo::ReadResult> done) {
      parts_.proxy.read(*from, begun.size, begun.offset, begun.count, std::move(done));
    });
  }
  if (begun.later) {
    if (!begun.got) return failed(begun.got);
    begun.result.data = std::move(begun.got->data);
  }
  read_bytes_ += begun.result.data.size();
  return std::move(begun.result);
}

// Any current copy has what was acknowledged; but what is duplicated later, by and by, only the
// leaders have at once: those that look() tells of while the file owes (mirrors.h).
Result<ProxyIo::File> FileData::readable(FileId file, const layout::LayoutMap& map) {
  ProxyIo::File from{parts_.names.object_of(file, map), map, {}};
  if (!mirrored(map) || map.duplication != layout::Duplication::kServerAsync) return from;
  auto view = parts_.mirrors.look(file);
  if (!view) return failed(view);
  from.map = std::move(view->map);
  from.leads = std::move(view->leads);
  return from;
}

// What is to be done about leaders that failed. Success: the call is to be made again, with the map
// and the leaders there are now.
Result<> FileData::give_way(FileId file, const layout::LayoutMap& map, const Failures& failures,
                            Clock::time_point until) {
  for (const auto& [ds_id, error] : failures) {
    switch (error.code) {
      case Errc::kAccess:
      case Errc::kFenced:               // it was excluded, or leads no more
      case Errc::kCancelled: continue;  // it has new addresses
      case Errc::kNoSpace:
      case Errc::kQuota:
      case Errc::kFileTooLarge:
      case Errc::kBusy:
      case Errc::kClosed:  // it is us who end
      case Errc::kInvalid: return std::unexpected(error);
      default: break;
    }
    const Reach reach = parts_.mirrors.reach(ds_id);
    // It may be waiting itself: for a partner that is lost, or for us to say that it is.
    const auto partners = partners_of(map, ds_id);
    const auto here = [&](std::uint32_t id) { return parts_.mirrors.reach(id) == Reach::kHere; };
    if (error.code == Errc::kTimedOut && reach == Reach::kHere &&
        !std::ranges::all_of(partners, here)) {
      return std::unexpected(error);
    }
    spdlog::warn("event=leader_failed file={:x} ds={} reach={} error=\"{}\"", file, ds_id,
                 to_string(reach), error.describe());
    const auto cause = reach == Reach::kGone ? Mirrors::Cause::kGone : Mirrors::Cause::kNoAnswer;
    const auto excluded = parts_.mirrors.exclude(file, ds_id, cause, until);
    // Of the last copy the client is to hear what is wrong, not to ask again for ever.
    if (!excluded && broken(error) && reach == Reach::kHere &&
        excluded.error() == Errc::kLayoutTryLater) {
      return std::unexpected(error);
    }
    if (!excluded) return excluded;
  }
  return {};
}

template <class T>
Result<T> FileData::through_leaders(FileId file, const Namespace::MakeLayout& make,
                                    Mirrors::Use use, const LeaderCall<T>& call,
                                    Mirrors::Until until) {
  const auto end = until.value_or(parts_.files.now() + kPersist);
  for (;;) {
    const std::uint64_t seen = parts_.files.progress(file);
    const auto target = parts_.mirrors.begin_write(file, make, use, end);
    if (!target) return failed(target);
    const ProxyIo::File to{parts_.names.object_of(file, target->map), target->map, target->leads};
    auto [result, failures] =
        await_with<T, Failures>([&](Finished<T> done) { call(to, std::move(done)); });
    if (result || failures.empty()) return std::move(result);
    if (auto out = give_way(file, target->map, failures, end); !out) return failed(out);
    if (stopping_ || parts_.files.now() >= end)
      return fail(Errc::kBusy, "the file's leaders change");
    // One that refused, and was not left out, is not asked again at once.
    parts_.files.await_progress(file, seen, parts_.files.now() + kRest);
  }
}

template <class T>
Result<T> FileData::by_leaders(Asked<T>& begun, const Namespace::MakeLayout& make, Mirrors::Use use,
                               const LeaderCall<T>& call) {
  const auto until = parts_.files.now() + kPersist;
  if (begun.later) {
    if (begun.result || begun.failures.empty()) return std::move(begun.result);
    const auto out = give_way(begun.file, begun.target->map, begun.failures, until);
    begun.target.reset();
    if (!out) return failed(out);
  }
  return through_leaders(begun.file, make, use, call, until);
}

template <class T>
Result<T> FileData::by_one_copy(Asked<T>& begun, const LeaderCall<T>& call) {
  while (!begun.result && begun.result.error() == Errc::kAccess) {
    const auto map = newer_map(begun.file, begun.epoch);
    if (!map) return failed(map);
    if (mirrored(*map)) return fail(Errc::kBusy, "the file is being moved");
    begun.epoch = map->object_epoch;
    const ProxyIo::File to{parts_.names.object_of(begun.file, *map), *map, {}};
    begun.result =
        await_with<T, Failures>([&](Finished<T> done) { call(to, std::move(done)); }).first;
  }
  return std::move(begun.result);
}

// For inline_files.cc.
template Result<ProxyIo::WriteResult> FileData::through_leaders(
    FileId, const Namespace::MakeLayout&, Mirrors::Use, const LeaderCall<ProxyIo::WriteResult>&,
    Mirrors::Until);
template Result<std::uint64_t> FileData::through_leaders(FileId, const Namespace::MakeLayout&,
                                                         Mirrors::Use,
                                                         const LeaderCall<std::uint64_t>&,
                                                         Mirrors::Until);

Result<std::shared_ptr<FileData::BegunWrite>> FileData::begin_write(
    FileId file, std::uint64_t offset, ProxyIo::Pieces data, ProxyIo::Stability wanted,
    const layout::PlacementPolicy& policy, Answered answered) {
  std::uint64_t size = 0;
  for (const auto& piece : data) size += piece.size();
  if (offset > kMaxFileSize || size > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the write ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto here = write_inline(file, offset, data, policy);
  if (!here) return failed(here);
  if (*here) {
    auto ended = std::make_shared<BegunWrite>();
    ended->result =
        ProxyIo::WriteResult{size, ProxyIo::Stability::kFileSync, parts_.proxy.verifier()};
    ended->inlined = true;
    return ended;
  }
  auto writing = enter_writing(parts_.files, file);
  if (!writing) return failed(writing);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  ++writes_;
  auto begun = std::make_shared<BegunWrite>();
  begun->file = file;
  begun->offset = offset;
  begun->size = size;
  begun->wanted = wanted;
  begun->policy = policy;
  begun->mirrored = mirrored(*map);
  begun->writing.emplace(std::move(*writing));
  auto to = begun->mirrored ? leaders_for(*begun)
                            : ProxyIo::File{parts_.names.object_of(file, *map), *map, {}};
  if (!to) return begun;
  begun->later = true;
  begun->epoch = to->map.object_epoch;
  parts_.proxy.write(*to, offset, data, wanted,
                     [begun, answered = std::move(answered)](Result<ProxyIo::WriteResult> written,
                                                             Failures failures) mutable {
                       begun->result = std::move(written);
                       begun->failures = std::move(failures);
                       begun.reset();  // as of a read
                       answered();
                     });
  return begun;
}

std::optional<ProxyIo::File> FileData::leaders_for(BegunWrite& begun) {
  auto target = parts_.mirrors.begin_write(begun.file, placer(begun.policy), Mirrors::Use::kWrite,
                                           kDoNotWait);
  if (!target) return std::nullopt;
  ProxyIo::File to{parts_.names.object_of(begun.file, target->map), target->map, target->leads};
  begun.target.emplace(std::move(*target));
  return to;
}

Result<ProxyIo::WriteResult> FileData::end_write(BegunWrite& begun, ProxyIo::Pieces data) {
  if (begun.inlined) return std::move(begun.result);
  const bool nothing_sent = begun.later && !begun.result && begun.failures.empty();
  const LeaderCall<ProxyIo::WriteResult> write = [&](const ProxyIo::File& to,
                                                     Finished<ProxyIo::WriteResult> done) {
    parts_.proxy.write(to, begun.offset, data, begun.wanted, std::move(done));
  };
  auto written = begun.mirrored
                     ? by_leaders(begun, placer(begun.policy), Mirrors::Use::kWrite, write)
                     : by_one_copy(begun, write);
  if (!written) {
    begun.writing.reset();
    if (nothing_sent) return written;
    // The copies may differ now where it was written in part.
    if (begun.mirrored) parts_.journal.doubt(begun.file);
    if (auto ended = end_layouts_beside_late(begun.file); !ended) return failed(ended);
    return written;
  }
  written_bytes_ += begun.size;
  if (begun.mirrored && written->stability == ProxyIo::Stability::kUnstable) {
    const FileTable::Changing record(parts_.files, begun.file);
    record->unstable.written(written->verifier, parts_.files.number(), parts_.files.now(),
                             parts_.commit_after);
  }
  Growth growth;
  growth.id = begun.file;
  growth.end = begun.offset + begun.size;
  if (auto grown = parts_.names.grow_size(growth); !grown) return failed(grown);
  return written;
}

bool FileData::late(FileId file, const layout::LayoutMap& map) const {
  return parts_.proxy.unsettled(parts_.names.object_of(file, map), map);
}

// The last current copy of its stripe stays, and is waited for.
void FileData::leave_out_late(FileId file) {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map || !*map || !mirrored(**map)) return;
  const layout::ObjectId object = parts_.names.object_of(file, **map);
  for (const std::uint32_t ds_id : servers_of(**map)) {
    if (!current_at(**map, ds_id) || !parts_.proxy.unsettled(object, ds_id) ||
        parts_.mirrors.reach(ds_id) != Reach::kGone) {
      continue;
    }
    static_cast<void>(parts_.mirrors.exclude(file, ds_id, Mirrors::Cause::kGone, kDoNotWait));
  }
}

// Whatever changes objects is in one of these phases before it reads the file's map. Of a file that
// is there yet, what is under way goes where its map says: not to an object that was left behind.
bool FileData::may_change(const layout::ObjectId& object, std::uint32_t ds_id) const {
  if (parts_.proxy.unsettled(object, ds_id)) return true;
  const Phase phase = FileTable::Looking(parts_.files, object.fileid)->phase;
  if (phase.writing == 0 && !phase.is_alone()) return false;
  const auto map = parts_.names.layout(object.fileid);
  return !map || !*map;
}

// Who holds such a layout could write newer bytes, which the late write would replace, or the late
// cut or hole take away. No layout for writing is granted while it is late (may_hand_out()).
Result<> FileData::end_layouts_beside_late(FileId file) {
  const auto until = parts_.files.now() + kPersist;
  for (;;) {
    const std::uint64_t seen = parts_.files.progress(file);
    const auto map = layout_map(parts_.files, parts_.names, file);
    if (!map) return failed(map);
    if (!*map || !late(file, **map)) return {};
    parts_.layouts.recall(file, "a change by the metadata server may come late",
                          {.only = layout::Access::kReadWrite, .others_wait = false});
    if (!FileTable::Looking(parts_.files, file)->layouts.written()) return {};
    if (stopping_ || parts_.files.now() >= until || !WaitLimit::may_wait()) {
      return fail(Errc::kBusy, "layouts are out beside a change that may be carried out yet");
    }
    parts_.files.await_progress(file, seen, parts_.files.now() + kRest);
  }
}

Result<std::shared_ptr<FileData::BegunSync>> FileData::prepare_sync(FileId file) {
  auto begun = std::make_shared<BegunSync>();
  begun->file = file;
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map || growing(file)) {  // not written at data servers, or removed
    forget_unstable(file);
    return begun;
  }
  begun->map = std::move(*map);
  begun->last = FileTable::Looking(parts_.files, file)->unstable.last;
  return begun;
}

Result<std::shared_ptr<FileData::BegunSync>> FileData::begin_sync(FileId file, Answered answered) {
  auto prepared = prepare_sync(file);
  if (!prepared || !(*prepared)->map) return prepared;
  auto begun = std::move(*prepared);
  ProxyIo::File to{{}, *begun->map, {}};
  if (mirrored(to.map)) {
    auto target = parts_.mirrors.begin_write(file, no_layout, Mirrors::Use::kPin, kDoNotWait);
    if (!target) return begun;
    to.map = target->map;
    to.leads = target->leads;
    begun->target.emplace(std::move(*target));
  }
  to.object = parts_.names.object_of(file, to.map);
  begun->later = true;
  begun->epoch = to.map.object_epoch;
  parts_.proxy.commit(to, [begun, answered = std::move(answered)](Result<std::uint64_t> committed,
                                                                  Failures failures) mutable {
    begun->result = std::move(committed);
    begun->failures = std::move(failures);
    begun.reset();  // as of a read
    answered();
  });
  return begun;
}

Result<> FileData::end_sync(BegunSync& begun) {
  if (!begun.map) return {};
  const LeaderCall<std::uint64_t> commit = [&](const ProxyIo::File& to,
                                               Finished<std::uint64_t> done) {
    parts_.proxy.commit(to, std::move(done));
  };
  const auto done = mirrored(*begun.map) ? by_leaders(begun, no_layout, Mirrors::Use::kPin, commit)
                                         : by_one_copy(begun, commit);
  if (!done) return failed(done);
  if (FileTable::Changing(parts_.files, begun.file)->unstable.committed(begun.last, *done)) {
    parts_.journal.doubt(begun.file);
  }
  return {};
}

Result<> FileData::sync(FileId file) {
  const auto prepared = prepare_sync(file);
  if (!prepared) return failed(prepared);
  return end_sync(**prepared);
}

void FileData::forget_unstable(FileId file) {
  FileTable::Changing(parts_.files, file)->unstable = {};
}

void FileData::commit_left() {
  for (const FileId file :
       take_uncommitted(parts_.files, parts_.files.now(), parts_.commit_after, kCommits)) {
    if (stopping_) return;
    const auto done = sync(file);
    if (done) continue;
    if (done.error() == Errc::kStale || done.error() == Errc::kNotFound) {
      forget_unstable(file);  // removed
      continue;
    }
    spdlog::info("event=not_committed file={:x} error=\"{}\"", file, done.error().describe());
    return;  // the others after a while, as this one
  }
}

// A data server that was restarted has forgotten what it owed, and may have lost what was brought
// to it: then its COMMIT says nothing.
bool FileData::restarted_since(FileId file, Clock::time_point since) const {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map || !*map) return false;
  return std::ranges::any_of(servers_of(**map), [&](std::uint32_t ds_id) {
    const auto view = parts_.cluster.registry().find(ds_id);
    return current_at(**map, ds_id) && view && view->uptime < parts_.files.now() - since;
  });
}

bool FileData::duplicate_left() {
  const auto owing = parts_.mirrors.take_owing(kOwing);
  for (const Mirrors::Owing& what : owing) {
    if (stopping_) return false;
    const auto done = sync(what.file);
    if (done || done.error() == Errc::kStale || done.error() == Errc::kNotFound) {
      if (done && restarted_since(what.file, what.since)) parts_.journal.doubt(what.file);
      parts_.mirrors.duplicated(what);
      continue;
    }
    spdlog::info("event=not_duplicated file={:x} error=\"{}\"", what.file, done.error().describe());
    return false;  // as of commit_left()
  }
  return owing.size() == kOwing;
}

// What data servers still owe to each other must not come after the change: COMMIT waits for it. Of
// the servers that led once, any may owe something.
Result<> FileData::settle_duplication(FileId file, const layout::LayoutMap& map) {
  if (!mirrored(map) || map.duplication != layout::Duplication::kServerAsync) return {};
  const std::size_t stripes = map.copies.front().ds_ids.size();
  for (std::size_t turn = 0; turn < map.copies.size(); ++turn) {
    ProxyIo::File at{parts_.names.object_of(file, map), map, {}};
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
      std::vector<std::uint8_t> current;
      for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
        if (map.copies[copy].state_of(stripe) == layout::CopyState::kCurrent) {
          current.push_back(static_cast<std::uint8_t>(copy));
        }
      }
      if (current.empty()) return fail(Errc::kBusy, "a stripe without a current copy");
      at.leads.push_back(current[std::min(turn, current.size() - 1)]);
    }
    const auto done = await_with<std::uint64_t, Failures>(
        [&](Finished<std::uint64_t> finished) { parts_.proxy.commit(at, std::move(finished)); });
    if (!done.first) return failed(done.first);
  }
  return {};
}

Result<layout::LayoutMap> FileData::prepare_change(FileId file, const layout::LayoutMap& map,
                                                   DirtyExtent changed) {
  if (!mirrored(map)) return map;
  auto prepared = parts_.mirrors.prepare_change(file, changed);
  if (!prepared) return prepared;
  if (auto owed = settle_duplication(file, *prepared); !owed) return failed(owed);
  return prepared;
}

// What some copies' disks cannot do goes on without them, as a write does. Done twice it has the
// same effect as done once.
Result<> FileData::change_objects(FileId file, const layout::LayoutMap& map, DirtyExtent changed,
                                  const ObjectsChange& change) {
  const auto until = parts_.files.now() + kPersist;
  for (;;) {
    const auto to = prepare_change(file, map, changed);
    if (!to) return failed(to);
    // What it wrote would be back, behind a cut or in a hole.
    if (late(file, *to)) return fail(Errc::kBusy, "a change that failed may be carried out yet");
    const layout::ObjectId object = parts_.names.object_of(file, *to);
    auto [done, failures] = await_with<void, Failures>(
        [&](Finished<void> finished) { change(*to, object, std::move(finished)); });
    if (!mirrored(*to)) return done;
    if (done) {
      if (all_current(*to)) return done;
      // What a copy was filled with meanwhile may be from before the change: it lacks that still,
      // or again. One that counts as filled by now is to be changed, too.
      const auto now = prepare_change(file, map, changed);
      if (!now) return failed(now);
      if (were_current(*now, *to)) return done;
    } else {
      if (failures.empty()) return done;
      if (auto out = parts_.mirrors.change_failed(file, changed, failures); !out) return out;
    }
    if (stopping_ || parts_.files.now() >= until)
      return fail(Errc::kBusy, "the file's copies change");
  }
}

Result<> FileData::allocate(FileId file, std::uint64_t offset, std::uint64_t length,
                            const layout::PlacementPolicy& policy) {
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the range ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto here = allocate_inline(file, offset + length, policy);
  if (!here) return failed(here);
  if (*here) return {};
  const auto writing = enter_writing(parts_.files, file);
  if (!writing) return failed(writing);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  const ObjectsChange allocate = [&](const layout::LayoutMap& to, const layout::ObjectId& object,
                                     Finished<void> finished) {
    parts_.cluster.objects().allocate(to, object, offset, length, std::move(finished));
  };
  const auto done = change_objects(file, *map, {offset, offset + length}, allocate);
  if (!done) return failed(done);
  Growth growth;
  growth.id = file;
  growth.end = offset + length;
  if (auto grown = parts_.names.grow_size(growth); !grown) return failed(grown);
  return {};
}

Result<> FileData::punch(FileId file, std::uint64_t offset, std::uint64_t length) {
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto here = punch_inline(file, offset, length);
  if (!here) return failed(here);
  if (*here) return {};
  const auto copies = punch_one_copy(file, offset, length);
  if (!copies) {
    if (auto ended = end_layouts_beside_late(file); !ended) return ended;
    return failed(copies);
  }
  if (*copies > 1) {
    if (auto done = punch_copies(file, offset, length); !done) return done;
  }
  Growth touched;
  touched.id = file;
  if (auto grown = parts_.names.grow_size(touched); !grown) return failed(grown);
  return {};
}

// A write that overlaps must not reach one copy before the hole and another after it: nobody writes
// meanwhile, and no client of before a restart does. If we die in the middle, or a data server
// does, the journal's record stays and the copies are compared.
Result<> FileData::punch_copies(FileId file, std::uint64_t offset, std::uint64_t length) {
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the range ends beyond the largest file");
  }
  if (auto fenced = settle_inherited(file); !fenced) return fenced;
  const auto alone = be_alone(file, Phase::Alone::kPunching, kPatience);
  if (!alone) return failed(alone);
  if (uncut(file)) return fail(Errc::kBusy, "an earlier truncate is still to be done");
  if (auto nobody = recall_writers(file, std::nullopt, "deallocate"); !nobody) return nobody;
  const auto record = parts_.journal.begin(file, no_layout);
  if (!record) return failed(record);
  auto done = punch_objects(file, record->map, offset, length);
  if (!done) parts_.journal.doubt(file);
  return done;
}

// Beside other writers, whose order nothing says; but not beside a cut.
Result<std::size_t> FileData::punch_one_copy(FileId file, std::uint64_t offset,
                                             std::uint64_t length) {
  const auto writing = enter_writing(parts_.files, file);
  if (!writing) return failed(writing);
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) return 0;
  if (!mirrored(**map)) {
    if (auto done = punch_objects(file, **map, offset, length); !done) return failed(done);
  }
  return (*map)->copies.size();
}

Result<> FileData::punch_objects(FileId file, const layout::LayoutMap& map, std::uint64_t offset,
                                 std::uint64_t length) {
  const ObjectsChange punch = [&](const layout::LayoutMap& to, const layout::ObjectId& object,
                                  Finished<void> finished) {
    parts_.cluster.objects().punch(to, object, offset, length, std::move(finished));
  };
  return change_objects(file, map, {offset, offset + length}, punch);
}

}  // namespace weft::mds
