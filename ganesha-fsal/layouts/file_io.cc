// FileData: reading and writing through this server, and the other changes of objects that it
// makes itself.
#include <spdlog/spdlog.h>

#include <thread>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/layouts/file_data.h"

namespace weft::mds {
namespace {

template <class T>
std::unexpected<Error> failed(const Result<T>& result) {
  return std::unexpected(result.error());
}

// A write goes on through other leaders for so long; then its client is to ask again.
constexpr std::chrono::seconds kPersist{20};
constexpr std::chrono::milliseconds kRest{100};  // between attempts
constexpr std::size_t kCommits = 64;             // by ourselves at a time
// A truncate waits so long for writes of ours.
constexpr std::chrono::seconds kPatience{2};

bool broken(const Error& error) {
  return error == Errc::kIo || error == Errc::kCorrupt || error == Errc::kReadOnly;
}

bool mirrored(const layout::LayoutMap& map) { return map.copies.size() > 1; }

Result<layout::LayoutMap> no_layout(const InodeAttributes&) {
  return fail(Errc::kCorrupt, "a file with data and without layout");
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

void FileData::end_writing(FileId file) {
  const std::lock_guard lock(mutex_);
  if (--writing_[file] > 0) return;
  writing_.erase(file);
  writes_ended_.notify_all();
}

void FileData::end_alone(FileId file) {
  const std::lock_guard lock(mutex_);
  if (--cutting_[file] == 0) cutting_.erase(file);
}

Result<FileData::Writing> FileData::enter_writing(FileId file) {
  const std::lock_guard lock(mutex_);
  if (cutting_.contains(file)) return fail(Errc::kBusy, "the file is being truncated");
  ++writing_[file];
  return Writing(this, file);
}

Result<FileData::Alone> FileData::be_alone(FileId file) {
  std::unique_lock lock(mutex_);
  if (learning_.contains(file)) return fail(Errc::kBusy, "the file's size is being learned");
  ++cutting_[file];
  const bool ended =
      writes_ended_.wait_for(lock, kPatience, [&] { return !writing_.contains(file); });
  lock.unlock();
  Alone alone(this, file);
  if (!ended) return fail(Errc::kBusy, "the file is being written");
  return alone;
}

Result<FileData::Read> FileData::read(FileId file, std::uint64_t offset, std::uint32_t count) {
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto attributes = parts_.names.getattr(file);
  if (!attributes) return failed(attributes);
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  ++reads_;
  Read result;
  if (offset >= attributes->size) {
    result.eof = true;
    return result;
  }
  const std::uint64_t left = attributes->size - offset;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, left));
  result.eof = wanted == left;
  if (!*map) {  // nothing was ever written: a hole
    result.data.append(ZeroRange{wanted});
  } else {
    const auto from = readable(file, **map);
    if (!from) return failed(from);
    auto got = await<ProxyIo::ReadResult>([&](Done<ProxyIo::ReadResult> done) {
      parts_.proxy.read(*from, attributes->size, offset, wanted, std::move(done));
    });
    if (!got) return failed(got);
    result.data = std::move(got->data);
  }
  read_bytes_ += result.data.size();
  return result;
}

// Any current copy has what was acknowledged; but what is duplicated later, by and by, only the
// leaders have at once.
Result<ProxyIo::File> FileData::readable(FileId file, const layout::LayoutMap& map) {
  ProxyIo::File from{parts_.names.object_of(file, map), map, {}};
  if (!mirrored(map) || map.duplication != layout::Duplication::kServerAsync) return from;
  auto view = parts_.mirrors.look(file);
  if (!view) return failed(view);
  from.map = std::move(view->map);
  from.leads = std::move(view->leads);
  if (from.leads.empty()) from.leads = parts_.proxy.uncommitted(from.object, from.map);
  return from;
}

// What is to be done about leaders that failed. Success: the call is to be made again, with the map
// and the leaders there are now.
Result<> FileData::give_way(FileId file, const layout::LayoutMap& map, const Failures& failures) {
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
    const auto excluded = parts_.mirrors.exclude(
        file, ds_id, reach == Reach::kGone ? Mirrors::Cause::kGone : Mirrors::Cause::kNoAnswer);
    // Of the last copy the client is to hear what is wrong, not to ask again for ever.
    if (!excluded && broken(error) && reach == Reach::kHere &&
        excluded.error() == Errc::kLayoutTryLater) {
      return std::unexpected(error);
    }
    if (!excluded) return failed(excluded);
  }
  return {};
}

template <class T>
Result<T> FileData::through_leaders(FileId file, const Namespace::MakeLayout& make,
                                    const LeaderCall<T>& call) {
  const auto until = Clock::now() + kPersist;
  for (;;) {
    Result<> again;
    const auto target = parts_.mirrors.begin_write(file, make);
    if (!target) {
      again = failed(target);
    } else {
      const ProxyIo::File to{parts_.names.object_of(file, target->map), target->map, target->leads};
      // What other leaders still bring to these must not come after what these get now.
      const auto before = parts_.proxy.uncommitted(to.object, to.map);
      if (!before.empty() && before != to.leads) {
        again = settle_duplication(file, to.map);
        if (!again) return failed(again);
      }
      auto [result, failures] =
          await_with<T, Failures>([&](Finished<T> done) { call(to, std::move(done)); });
      if (result || failures.empty()) return std::move(result);
      again = give_way(file, target->map, failures);
    }
    if (!again && again.error() != Errc::kBusy) return failed(again);
    if (stopping_ || Clock::now() >= until) {
      return fail(Errc::kBusy, again ? "the file's leaders change" : again.error().text);
    }
    std::this_thread::sleep_for(kRest);
  }
}

Result<ProxyIo::WriteResult> FileData::write(FileId file, std::uint64_t offset,
                                             std::span<const std::byte> data,
                                             ProxyIo::Stability wanted,
                                             const layout::PlacementPolicy& policy) {
  if (offset > kMaxFileSize || data.size() > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the write ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  const auto writing = enter_writing(file);
  if (!writing) return failed(writing);
  ++writes_;
  const LeaderCall<ProxyIo::WriteResult> call = [&](const ProxyIo::File& to,
                                                    Finished<ProxyIo::WriteResult> done) {
    parts_.proxy.write(to, offset, data, wanted, std::move(done));
  };
  auto written =
      mirrored(*map) ? through_leaders(file, placer(policy), call) : at_one_copy(file, *map, call);
  if (!written) {
    // The copies may differ now where it was written in part.
    if (mirrored(*map)) parts_.journal.doubt(file);
    return written;
  }
  written_bytes_ += data.size();
  if (mirrored(*map) && written->stability == ProxyIo::Stability::kUnstable) {
    unstable_.written(file, written->verifier, Clock::now());
  }
  Growth growth;
  growth.id = file;
  growth.end = offset + data.size();
  if (auto grown = parts_.names.grow_size(growth); !grown) return failed(grown);
  return written;
}

template <class T>
Result<T> FileData::at_one_copy(FileId file, const layout::LayoutMap& map,
                                const LeaderCall<T>& call) {
  const ProxyIo::File to{parts_.names.object_of(file, map), map, {}};
  return await_with<T, Failures>([&](Finished<T> done) { call(to, std::move(done)); }).first;
}

Result<> FileData::sync(FileId file) {
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (!*map) {  // not written, or removed
    unstable_.forget(file);
    return {};
  }
  const LeaderCall<std::uint64_t> call = [&](const ProxyIo::File& to,
                                             Finished<std::uint64_t> done) {
    parts_.proxy.commit(to, std::move(done));
  };
  const std::uint64_t last = unstable_.last(file);
  const auto done =
      mirrored(**map) ? through_leaders(file, no_layout, call) : at_one_copy(file, **map, call);
  if (!done) return failed(done);
  if (unstable_.committed(file, last, *done)) parts_.journal.doubt(file);
  return {};
}

void FileData::commit_left() {
  const auto now = Clock::now();
  for (const FileId file : unstable_.take_due(now - parts_.commit_after, now, kCommits)) {
    if (stopping_) return;
    const auto done = sync(file);
    if (done) continue;
    if (done.error() == Errc::kStale || done.error() == Errc::kNotFound) {
      unstable_.forget(file);  // removed
      continue;
    }
    spdlog::info("event=not_committed file={:x} error=\"{}\"", file, done.error().describe());
    return;  // the others after a while, as this one
  }
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
// same effect as done once. Each time there are fewer copies.
Result<> FileData::change_objects(FileId file, const layout::LayoutMap& map, DirtyExtent changed,
                                  const ObjectsChange& change) {
  const auto until = Clock::now() + kPersist;
  for (;;) {
    const auto to = prepare_change(file, map, changed);
    if (!to) return failed(to);
    const layout::ObjectId object = parts_.names.object_of(file, *to);
    auto [done, failures] = await_with<void, Failures>(
        [&](Finished<void> finished) { change(*to, object, std::move(finished)); });
    if (done || failures.empty() || !mirrored(*to)) return done;
    if (auto out = parts_.mirrors.change_failed(file, changed, failures); !out) return out;
    if (stopping_ || Clock::now() >= until) return fail(Errc::kBusy, "the file's copies change");
  }
}

Result<> FileData::allocate(FileId file, std::uint64_t offset, std::uint64_t length,
                            const layout::PlacementPolicy& policy) {
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the range ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  const ObjectsChange allocate = [&](const layout::LayoutMap& to, const layout::ObjectId& object,
                                     Finished<void> finished) {
    parts_.cluster.allocate(to, object, offset, length, std::move(finished));
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
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (*map) {
    const auto done = mirrored(**map) ? punch_copies(file, offset, length)
                                      : punch_objects(file, **map, offset, length);
    if (!done) return done;
  }
  Growth touched;
  touched.id = file;
  if (auto grown = parts_.names.grow_size(touched); !grown) return failed(grown);
  return {};
}

// A write that overlaps must not reach one copy before the hole and another after it: nobody writes
// meanwhile. If we die in the middle, or a data server does, the journal's record stays and the
// copies are compared.
Result<> FileData::punch_copies(FileId file, std::uint64_t offset, std::uint64_t length) {
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the range ends beyond the largest file");
  }
  const auto alone = be_alone(file);
  if (!alone) return failed(alone);
  if (auto nobody = recall_writers(file, std::nullopt, "deallocate"); !nobody) return nobody;
  const auto record = parts_.journal.begin(file, no_layout);
  if (!record) return failed(record);
  auto done = punch_objects(file, record->map, offset, length);
  if (!done) parts_.journal.doubt(file);
  return done;
}

Result<> FileData::punch_objects(FileId file, const layout::LayoutMap& map, std::uint64_t offset,
                                 std::uint64_t length) {
  const ObjectsChange punch = [&](const layout::LayoutMap& to, const layout::ObjectId& object,
                                  Finished<void> finished) {
    parts_.cluster.punch(to, object, offset, length, std::move(finished));
  };
  return change_objects(file, map, {offset, offset + length}, punch);
}

}  // namespace weft::mds
