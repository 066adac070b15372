// FileData: files whose bytes are in the metadata store, and their way to objects.
//
// A write that stays within the file's limit is one transaction. Whatever else needs objects, a
// longer write or a layout, is alone with the file first and brings it to them (to_objects()):
//
//   1. the layout map, and the record that the file is growing, in one transaction
//   2. its bytes are written at the objects, at all copies, and committed
//   3. bytes and record go, in one transaction
//
// Until 3 the bytes in the store are the file's: they are what is read, and nothing changes them or
// the size. So whatever ends between 1 and 3, the same bytes are written again, here or after a
// restart. What an earlier run has sent and a data server still has before it is refused first, by
// the object's epoch. And when all copies of a part of the objects are at data servers that are
// lost, and being removed, the file gets other objects, in one transaction: those had nothing yet
// that is not in the store.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"
#include "ganesha-fsal/meta/ops/owed.h"
#include "layout/policy.h"
#include "rpc/base/log_limit.h"

namespace weft::mds {
namespace {

// Who brings a file to its objects waits so long for what is under way with it.
constexpr std::chrono::seconds kPatience{2};

// There is a line for each file, again and again while its data server is away. Never destroyed:
// threads may log while the process ends.
LogLimit& waits_log = *new LogLimit;

std::uint64_t size_of(ProxyIo::Pieces data) {
  std::uint64_t size = 0;
  for (const auto& piece : data) size += piece.size();
  return size;
}

// Bytes [offset, offset + count) of a file that has `bytes` and zeros behind.
Payload part_of(std::string bytes, std::uint64_t offset, std::uint32_t count) {
  Payload part;
  const std::size_t there =
      offset < bytes.size() ? std::min<std::size_t>(count, bytes.size() - offset) : 0;
  if (there > 0) {
    const auto kept = std::make_shared<std::string>(std::move(bytes));
    part.append(Buffer::foreign(std::as_writable_bytes(std::span(*kept).subspan(offset, there)),
                                [kept] {}));
  }
  if (there < count) part.append(ZeroRange{count - there});
  return part;
}

}  // namespace

// Instantiated where it is defined, in file_io.cc.
extern template Result<ProxyIo::WriteResult> FileData::through_leaders(
    FileId, const Namespace::MakeLayout&, Mirrors::Use, const LeaderCall<ProxyIo::WriteResult>&,
    Mirrors::Until);
extern template Result<std::uint64_t> FileData::through_leaders(FileId,
                                                                const Namespace::MakeLayout&,
                                                                Mirrors::Use,
                                                                const LeaderCall<std::uint64_t>&,
                                                                Mirrors::Until);

bool FileData::may_be_inline(const layout::PlacementPolicy& policy) const {
  return policy.inline_bytes > 0 || parts_.names.inlines();
}

bool FileData::growing(FileId file) const {
  return FileTable::Looking(parts_.files, file)->phase.growing;
}

// One without a map may have one that is not durable yet, or have been made just now: whoever goes
// on by that waits.
Result<bool> FileData::is_inline(FileId file) const {
  const auto map = layout_map(parts_.files, parts_.names, file, Namespace::IfNone::kSayNow);
  if (!map) return failed(map);
  return !*map;
}

// What is in the store already stays: to read it there costs less than to bring it elsewhere.
Result<std::optional<std::uint64_t>> FileData::inline_limit(
    FileId file, const layout::PlacementPolicy& policy) const {
  if (policy.inline_bytes == 0) return std::nullopt;
  const auto here = is_inline(file);
  if (!here) return failed(here);
  if (!*here) return std::nullopt;
  if (busy_) {
    const auto attributes = parts_.names.getattr(file);
    if (!attributes) return failed(attributes);
    if (attributes->size == 0) return 0;
  }
  return policy.inline_bytes;
}

Result<std::shared_ptr<FileData::BegunRead>> FileData::read_inline(FileId file,
                                                                   std::uint64_t offset,
                                                                   std::uint32_t count) {
  // The map first: who sees it sees that the file grows, too.
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (*map && !growing(file)) return nullptr;
  auto there = parts_.names.inline_file(file);
  if (!there) return failed(there);
  if (!*there) return nullptr;
  ++reads_;
  ++inline_reads_;
  auto begun = std::make_shared<BegunRead>();
  const std::uint64_t size = (*there)->attributes.size;
  begun->result.eof = offset >= size || count >= size - offset;
  if (offset >= size) return begun;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, size - offset));
  inline_read_bytes_ += wanted;
  begun->result.data = part_of(std::move((*there)->bytes), offset, wanted);
  return begun;
}

Result<bool> FileData::write_inline(FileId file, std::uint64_t offset, ProxyIo::Pieces data,
                                    const layout::PlacementPolicy& policy) {
  if (!may_be_inline(policy)) return false;
  {
    const auto writing = enter_writing(parts_.files, file);
    if (!writing) return failed(writing);
    const auto map = layout_map(parts_.files, parts_.names, file);
    if (!map) return failed(map);
    if (*map) return false;
    const auto written = parts_.names.write_inline(file, offset, data, policy.inline_bytes);
    if (!written) return failed(written);
    if (*written) {
      ++writes_;
      ++inline_writes_;
      written_bytes_ += size_of(data);
      inline_written_bytes_ += size_of(data);
      return true;
    }
  }
  if (auto moved = to_objects(file, policy); !moved) return failed(moved);
  return false;
}

Result<bool> FileData::allocate_inline(FileId file, std::uint64_t end,
                                       const layout::PlacementPolicy& policy) {
  if (!may_be_inline(policy)) return false;
  {
    const auto writing = enter_writing(parts_.files, file);
    if (!writing) return failed(writing);
    const auto map = layout_map(parts_.files, parts_.names, file);
    if (!map) return failed(map);
    if (*map) return false;
    if (end <= policy.inline_bytes) {
      Growth growth;
      growth.id = file;
      growth.end = end;
      if (auto grown = parts_.names.grow_size(growth); !grown) return failed(grown);
      return true;
    }
  }
  if (auto moved = to_objects(file, policy); !moved) return failed(moved);
  return false;
}

Result<bool> FileData::punch_inline(FileId file, std::uint64_t offset, std::uint64_t length) {
  if (!parts_.names.inlines()) return false;
  const auto writing = enter_writing(parts_.files, file);
  if (!writing) return failed(writing);
  const auto punched = parts_.names.punch_inline(file, offset, length);
  if (!punched) return failed(punched);
  return punched->has_value();
}

Result<> FileData::leave_store(const LayoutRequest& request,
                               const layout::PlacementPolicy& policy) {
  if (!may_be_inline(policy)) return {};
  const auto here = is_inline(request.file);
  if (!here) return failed(here);
  if (!*here) return {};
  if (request.with_open) {
    const auto attributes = [&] {
      Owed promised_to_nobody;
      const Owed::Scope scope(promised_to_nobody);
      return parts_.names.getattr(request.file);
    }();
    if (!attributes) return failed(attributes);
    const bool new_while_busy =
        busy_ && attributes->size == 0 && request.access == layout::Access::kReadWrite;
    if (policy.inline_bytes > 0 && attributes->size <= policy.inline_bytes && !new_while_busy) {
      return fail(Errc::kLayoutUnavailable, "the file is inline");
    }
  }
  return to_objects(request.file, policy);
}

// A file that grows is read here whatever keeps it from its objects. kBusy passes in a moment, of
// one that does not grow or that somebody is bringing there now; a client goes by "unavailable" for
// minutes.
bool FileData::served_here(const LayoutRequest& request, const layout::PlacementPolicy& policy,
                           const Error& why) const {
  const bool reads = request.access == layout::Access::kRead;
  const Phase phase = FileTable::Looking(parts_.files, request.file)->phase;
  if (phase.growing) return reads && !(why == Errc::kBusy && phase.is_alone());
  if (why == Errc::kBusy || !may_be_inline(policy)) return false;
  const auto here = is_inline(request.file);
  const auto attributes = parts_.names.getattr(request.file);
  if (!here || !*here || !attributes) return false;
  return reads || (policy.inline_bytes > 0 && attributes->size <= policy.inline_bytes);
}

// Without bytes there is nothing to bring, and the map is made by whoever needs it. If there are
// some by then, he is told kBusy.
Result<> FileData::to_objects(FileId file, const layout::PlacementPolicy& policy) {
  const auto there = parts_.names.inline_file(file);
  if (!there) return failed(there);
  if (!*there || (*there)->bytes.empty()) return {};
  const auto alone = be_alone(file, Phase::Alone::kGrowing, kPatience);
  if (!alone) return failed(alone);
  // Another was first. The file must not seem to grow: COMMIT would leave out what is written
  // since.
  if (!growing(file)) {
    const auto map = layout_map(parts_.files, parts_.names, file);
    if (!map) return failed(map);
    if (*map) return {};
  }
  return grow(*alone, file, placer(policy));
}

Result<> FileData::finish_growth(FileId file, IfAlone others) {
  if (!growing(file)) return {};
  const auto alone = be_alone(file, Phase::Alone::kGrowing, kPatience, others);
  if (!alone) return failed(alone);
  return finish_growth(*alone, file);
}

Result<> FileData::finish_growth(const Alone& alone, FileId file) {
  if (!growing(file)) return {};
  return grow(alone, file, no_layout);
}

Result<> FileData::grow(const Alone& /*alone*/, FileId file, const Namespace::MakeLayout& make) {
  const auto note = [&](bool growing) {
    return std::exchange(FileTable::Changing(parts_.files, file)->phase.growing, growing);
  };
  // Before the map can be seen: with it alone, bytes would be looked for at the objects.
  const bool before = note(true);
  auto begun = parts_.names.begin_growth(file, make);
  if (!begun) {
    if (!before || begun.error() == Errc::kStale) note(false);
    return failed(begun);
  }
  if (begun->bytes.empty() && !before) {  // there is nothing any more
    note(false);
    return {};
  }
  if (!begun->bytes.empty()) {
    const std::size_t bytes = begun->bytes.size();
    if (auto written = write_grown(file, std::move(*begun)); !written) {
      waits_log.warn("event=growth_waits file={:x} bytes={} error=\"{}\"", file, bytes,
                     written.error().describe());
      return written;
    }
  }
  if (auto done = parts_.names.finish_growth(file); !done) return done;
  note(false);
  ++grown_;
  return {};
}

bool FileData::lost_for_good(const layout::LayoutMap& map) {
  Registry& registry = parts_.cluster.registry();
  const auto lost = [&](std::uint32_t ds_id) {
    return registry.is_lost(ds_id) && registry.lapse(ds_id);
  };
  for (std::size_t stripe = 0; stripe < map.copies.front().ds_ids.size(); ++stripe) {
    const bool left = std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
      return copy.state_of(stripe) == layout::CopyState::kCurrent && !lost(copy.ds_ids[stripe]);
    });
    if (!left) return true;
  }
  return false;
}

// Who led at the objects of before says nothing of the new ones.
Result<layout::LayoutMap> FileData::grow_elsewhere(FileId file, const layout::LayoutMap& before) {
  const auto forget_leaders = [&] {
    const FileTable::Changing record(parts_.files, file);
    record->mirrors.leads.clear();
    record->mirrors.renumbered.reset();
    ++record->mirrors.chosen;
  };
  forget_leaders();
  auto map = parts_.names.grow_elsewhere(
      file, placer(layout::placement_policy(layout::policy_of(before), before.type)));
  forget_leaders();
  if (!map) return failed(map);
  spdlog::info("event=growth_moved file={:x} generation={}", file, map->object_generation);
  return map;
}

Result<> FileData::write_grown(FileId file, Namespace::GrowthBegun begun) {
  if (lost_for_good(begun.map)) {
    auto map = grow_elsewhere(file, begun.map);
    if (!map) return failed(map);
    begun.map = std::move(*map);
  }
  if (begun.map.copies.size() == 1) {
    if (const auto down = parts_.cluster.registry().down_of(begun.map); !down.empty()) {
      return fail(Errc::kBusy, fmt::format("data server {} is down", down.front()));
    }
  }
  if (const auto what = parts_.journal.unsettled(file); what && what->inherited) {
    if (fence_inherited({*what}).empty()) {
      return fail(Errc::kBusy, "writers of before the restart are being fenced");
    }
  }
  const auto bytes = std::as_bytes(std::span(begun.bytes));
  const ProxyIo::Pieces pieces(&bytes, 1);
  const LeaderCall<ProxyIo::WriteResult> write = [&](const ProxyIo::File& to,
                                                     Finished<ProxyIo::WriteResult> done) {
    parts_.proxy.write(to, 0, pieces, ProxyIo::Stability::kFileSync, std::move(done));
  };
  const LeaderCall<std::uint64_t> commit = [&](const ProxyIo::File& to,
                                               Finished<std::uint64_t> done) {
    parts_.proxy.commit(to, std::move(done));
  };
  const auto written = through_leaders(file, no_layout, Mirrors::Use::kWrite, write);
  if (!written) return failed(written);
  // Leaders are ahead of the other copies with some duplications; not after a COMMIT.
  const auto committed = through_leaders(file, no_layout, Mirrors::Use::kPin, commit);
  if (!committed) return failed(committed);
  return {};
}

}  // namespace weft::mds
