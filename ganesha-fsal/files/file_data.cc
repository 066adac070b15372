#include "ganesha-fsal/files/file_data.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/files/results.h"
#include "ganesha-fsal/files/ways.h"
#include "layout/files_layout.h"

namespace weft::mds {
namespace {

// Of one round of asking, and of one of learning, in the background.
constexpr std::chrono::seconds kCatchUp{1};

// While the pin lives there is a record of the file in memory, which keeps the map once it was
// read.
WriterJournal::Pin keep_record(FileTable& files, WriterJournal& journal, FileId file) {
  ++FileTable::Changing(files, file)->journal.pins;
  return {journal, file};
}

}  // namespace

FileData::FileData(Parts parts)
    : parts_(std::move(parts)),
      asks_(parts_.files),
      reports_(report_parts()),
      space_({
          .files = parts_.files,
          .names = parts_.names,
          .cluster = parts_.cluster,
          .now = [this] { return parts_.files.now(); },
      }),
      changed_since_backup_(parts_.names) {}

Result<> FileData::open() {
  const auto inherited = parts_.journal.open();
  if (!inherited) return failed(inherited);
  if (*inherited > 0) spdlog::info("event=journal_inherited files={}", *inherited);
  const auto pending = parts_.names.pending_truncates(SIZE_MAX);
  if (!pending) return failed(pending);
  for (const PendingTruncate& cut : *pending) {
    FileTable::Changing(parts_.files, cut.id)->phase.uncut = true;
  }
  const auto growing = parts_.names.growing();
  if (!growing) return failed(growing);
  for (const FileId file : *growing) {
    FileTable::Changing(parts_.files, file)->phase.growing = true;
  }
  return {};
}

void FileData::catch_up() {
  reports_.mend();
  const std::vector<FileId> files = parts_.files.due(Due::kMend, parts_.files.now(), SIZE_MAX);
  // All are asked for their sizes before any answer is waited for. But a cut is waited for, and
  // there may be many at a data server that does not answer: the next round begins with others.
  auto until = parts_.files.now() + kCatchUp;
  for (const FileId file : files) {
    if (stopping_) return;
    if (parts_.files.now() >= until) break;
    static_cast<void>(ready(file, {}));
  }
  until = parts_.files.now() + kCatchUp;
  for (const FileId file : files) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - parts_.files.now());
    if (stopping_ || left.count() <= 0) return;
    if (doubt_of(file)) static_cast<void>(ready(file, left));
  }
}

bool FileData::uncut(FileId file) const {
  return FileTable::Looking(parts_.files, file)->phase.uncut;
}

Result<> FileData::ready(FileId file) { return ready(file, kSizePatience); }

Result<> FileData::ready(FileId file, std::chrono::milliseconds patience) {
  if (parts_.layouts.blocked(file))
    return fail(Errc::kBusy, "a client of the file is being fenced");
  if (auto whole = fit(file); !whole) return whole;
  const Phase phase = FileTable::Looking(parts_.files, file)->phase;
  // While a file is moved its objects stay as they are.
  const bool moving = phase.alone == Phase::Alone::kMoving;
  if (auto free = phase.check_not_alone(); !free && !moving) return free;
  // One thread at most waits for the data servers of a file, whatever asks for it.
  if (phase.uncut) {
    if (auto done = finish_cut(file, IfAlone::kRefuse); !done) return done;
  }
  if (phase.growing) {
    if (auto done = finish_growth(file, IfAlone::kRefuse); !done) return done;
  }
  return finish_learning(file, patience);
}

Namespace::MakeLayout FileData::placer(const layout::PlacementPolicy& policy) {
  return [this, policy](const InodeAttributes& file) -> Result<layout::LayoutMap> {
    auto choice = parts_.placement.choose(parts_.cluster.registry().candidates(), policy);
    if (!choice) return failed(choice);
    spdlog::debug("placed file={:x} why=\"{}\"", file.id, choice->reason);
    return std::move(choice->map);
  };
}

Result<layout::LayoutMap> FileData::map_of(FileId file, const layout::PlacementPolicy& policy) {
  auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (*map) return std::move(**map);
  return parts_.names.ensure_layout(file, placer(policy));
}

// A handle for reading a file of the journal's, too, is sealed above an earlier run's epoch: or
// settling would refuse it.
Result<Mirrors::Target> FileData::begin_grant(const LayoutRequest& request,
                                              const layout::PlacementPolicy& policy) {
  if (request.access == layout::Access::kReadWrite) {
    return parts_.mirrors.begin_write(request.file, placer(policy));
  }
  if (parts_.journal.inherited(request.file)) {
    auto begun = parts_.journal.begin(request.file, placer(policy));
    if (!begun) return failed(begun);
    return Mirrors::Target{
        {std::move(begun->map), {}},
        Mirrors::Pin(nullptr, request.file, Mirrors::Use::kWrite, std::move(begun->pin))};
  }
  auto map = map_of(request.file, policy);
  if (!map) return failed(map);
  return Mirrors::Target{{std::move(*map), {}}, {}};
}

// Of the map and the leaders as they are when the grant is recorded.
Result<FileData::Granted> FileData::make_layout(const LayoutRequest& request) {
  Registry& registry = parts_.cluster.registry();
  const auto view = parts_.mirrors.look(request.file);
  if (!view) return failed(view);
  if (view->map.type != request.type) {
    return fail(Errc::kLayoutUnavailable, "the file is laid out for another type");
  }
  const auto usable = ways(registry, view->map, request.from);
  if (!usable) return failed(usable);
  if (request.type == layout::LayoutType::kFlexFiles) {
    return make_flex_layout(request, *view, *usable);
  }
  const std::size_t most =
      std::min(layout::kMaxLayoutServers, layout::max_servers_within(request.max_bytes));
  const auto servers =
      parts_.mirrors.servers_for(request.file, *view, request.access, most, *usable);
  if (!servers) return failed(servers);
  for (const std::uint32_t ds_id : servers->ds_ids) {
    if (*usable && !(*usable)(ds_id)) return no_way_to(ds_id, Errc::kLayoutUnavailable);
  }
  const auto device = registry.device_for(servers->ds_ids);
  if (!device) return failed(device);
  parts_.layouts.names(request.file, request.client, request.access, *device);
  const auto epoch = parts_.fencer.epoch_for(request.client);
  if (!epoch) return failed(epoch);

  layout::FilesLayout files;
  files.device = layout::pack(registry.device_id(request.fsal, request.export_id, **device));
  files.stripe_unit = view->map.stripe_unit;
  files.first_stripe_index = servers->first_index;
  for (std::size_t stripe = 0; stripe < servers->ds_ids.size(); ++stripe) {
    layout::Handle handle;
    if (request.access == layout::Access::kReadWrite) {
      auto leading = layout::leading_handle(view->map, view->leads[stripe], stripe);
      if (!leading) return failed(leading);
      handle = *leading;
    }
    handle.access = request.access;
    handle.ds_id = servers->ds_ids[stripe];
    handle.key_id = rpc::peer::kHandleKeyId;
    handle.object = parts_.names.object_of(request.file, view->map);
    handle.client_id = request.client;
    handle.object_epoch = view->map.object_epoch;
    handle.client_epoch = *epoch;
    files.handles.push_back(layout::seal(handle, parts_.cluster.keys().sealing()));
  }
  xdr::Encoder body(layout::files_layout_bytes(files.handles.size()));
  if (auto encoded = layout::encode(body, files); !encoded) return failed(encoded);
  if (body.size() > request.max_bytes) return fail(Errc::kTooLarge, "the layout has no room");
  return Granted{body.take(), keep(request, servers->ds_ids)};
}

bool FileData::keep(const LayoutRequest& request, std::span<const std::uint32_t> ds_ids) {
  const bool here = std::ranges::all_of(
      ds_ids, [this](std::uint32_t ds_id) { return parts_.mirrors.reach(ds_id) == Reach::kHere; });
  return here ? parts_.layouts.keep(request.file, request.client, ds_ids)
              : parts_.layouts.keeps(request.file, request.client);
}

// Of a file with one copy. A data server that has not fenced earlier runs yet may serve for the
// lease that it has of them, and carry out later what they sent: over newer bytes of whoever writes
// under a layout of ours. With several copies whoever is written is here, and so has fenced them
// (Mirrors::check_here()).
Result<> FileData::earlier_runs_over(layout::Access access, const layout::LayoutMap& map) const {
  if (access != layout::Access::kReadWrite) return {};
  for (const std::uint32_t ds_id : servers_of(map)) {
    if (parts_.cluster.registry().runs_fenced(ds_id)) continue;
    return fail(
        Errc::kLayoutTryLater,
        fmt::format("data server {} may carry out yet what was sent before the restart", ds_id));
  }
  return {};
}

Result<FileData::Granted> FileData::grant(const LayoutRequest& request,
                                          const layout::PlacementPolicy& policy) {
  const auto refuse = [&](const Error& error) -> std::unexpected<Error> {
    ++refused_;
    if (served_here(request, policy, error)) return fail(Errc::kLayoutUnavailable, error.text);
    return std::unexpected(error);
  };
  // Whatever asks below, the map is read once. The journal's transaction, of a file whose record is
  // to be made, reads it by itself, under its lock.
  const WriterJournal::Pin use = keep_record(parts_.files, parts_.journal, request.file);
  if (auto fine = ready(request.file); !fine) return refuse(fine.error());
  if (auto left = leave_store(request, policy); !left) {
    // That one is told to a client that was told before that it needs none.
    if (left.error() == Errc::kLayoutUnavailable) return failed(left);
    return refuse(left.error());
  }
  if (request.type == layout::LayoutType::kFlexFiles &&
      request.access == layout::Access::kReadWrite) {
    if (auto room = make_room(request.file); !room) return refuse(room.error());
  }
  const auto begun = begin_grant(request, policy);
  if (!begun) return refuse(begun.error());
  if (begun->map.copies.size() == 1) {
    if (const auto down = parts_.cluster.registry().down_of(begun->map); !down.empty()) {
      return refuse({Errc::kLayoutTryLater, fmt::format("data server {} is down", down.front())});
    }
    if (auto over = earlier_runs_over(request.access, begun->map); !over) {
      return refuse(over.error());
    }
  }
  // The hold and the grant come first: whoever fences or recalls from here on knows of us, and
  // the body is sealed with an epoch that such a fence refuses.
  if (auto held = parts_.names.hold(request.file); !held) return refuse(held.error());
  const auto first = parts_.layouts.grant(request.file, request.client, request.access);
  if (!first || !*first) {  // one hold stands for all grants
    if (auto released = parts_.names.release(request.file); !released) {
      return refuse(released.error());
    }
  }
  if (!first) return refuse(first.error());
  const auto may = may_hand_out(request, begun->map);
  auto made = may ? make_layout(request) : failed(may);
  // Who loses all that he has of the file between the grant and the look at his epoch is fenced
  // below that.
  if (made && !parts_.layouts.holds(request.file, request.client, request.access)) {
    made = fail(Errc::kRecallConflict, "the client lost its layouts of the file meanwhile");
  }
  if (!made) {
    parts_.layouts.returned(request.file, request.client, request.access);
    if (!may) leave_out_late(request.file);
    return refuse(made.error());
  }
  return made;
}

// One who changes the file alone has either seen the grant, or is seen here. So has one whose write
// ended and may be carried out late.
Result<> FileData::may_hand_out(const LayoutRequest& request, const layout::LayoutMap& map) const {
  if (auto open = FileTable::Looking(parts_.files, request.file)->phase.check_open(); !open) {
    return open;
  }
  if (request.access == layout::Access::kReadWrite && late(request.file, map)) {
    return fail(Errc::kLayoutTryLater, "a change that failed may be carried out yet");
  }
  return {};
}

void FileData::layouts_gone(FileId file) {
  const FileTable::Changing record(parts_.files, file);
  if (record->layouts.grants.any_writer()) return;  // granted anew meanwhile
  record->size.cut_under_layouts = false;
}

Result<layout::LayoutMap> FileData::begin_move(FileId file, std::uint32_t from, std::uint32_t to) {
  if (auto whole = fit(file); !whole) return pass(whole);
  auto alone = be_alone(file, Phase::Alone::kMoving, Clock::duration::zero());
  if (!alone) return pass(alone);
  if (uncut(file)) return fail(Errc::kBusy, "an earlier truncate is still to be done");
  if (growing(file)) return fail(Errc::kBusy, "the file is on its way to its objects");
  return parts_.names.begin_move(file, from, to);
}

// Whoever gets a layout records it, and looks then whether somebody is alone with the file.
Result<Alone> FileData::hold_unused(FileId file, const layout::LayoutMap& map) {
  if (auto whole = fit(file); !whole) return pass(whole);
  auto alone = be_alone(file, Phase::Alone::kMoving, Clock::duration::zero(), IfAlone::kRefuse);
  if (!alone) return alone;
  const auto used = [&] {
    const FileTable::Looking record(parts_.files, file);
    return !record->others_idle() || record->phase.uncut || record->phase.growing;
  };
  if (used() || late(file, map)) return fail(Errc::kBusy, "the file is used");
  return alone;
}

Result<Alone> FileData::hold_unchanged(FileId file) {
  auto alone = be_alone(file, Phase::Alone::kComparing, Clock::duration::zero(), IfAlone::kRefuse);
  if (!alone) return alone;
  if (uncut(file)) return fail(Errc::kBusy, "an earlier truncate is still to be done");
  if (growing(file)) return fail(Errc::kBusy, "the file is on its way to its objects");
  return alone;
}

bool FileData::being_written(FileId file) const {
  const Phase phase = FileTable::Looking(parts_.files, file)->phase;
  return phase.writing > 0 || phase.is_alone() || phase.uncut || phase.growing;
}

DataCounters FileData::counters() const {
  return {.reads = reads_,
          .writes = writes_,
          .read_bytes = read_bytes_,
          .written_bytes = written_bytes_,
          .layouts_refused = refused_,
          .layout_commits = commits_,
          .grown = grown_,
          .inline_reads = inline_reads_,
          .inline_writes = inline_writes_,
          .inline_read_bytes = inline_read_bytes_,
          .inline_written_bytes = inline_written_bytes_};
}

}  // namespace weft::mds
