// FileData: how far files go, and changes of that.
#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/cluster/object_calls.h"
#include "ganesha-fsal/files/file_data.h"
#include "ganesha-fsal/files/results.h"

namespace weft::mds {
namespace {

// A change of size waits so long for what is under way with the file.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

Result<> FileData::doubt_size(FileId file) {
  FileTable::Changing(parts_.files, file)->size.doubt = parts_.files.number();
  parts_.changed(file);
  return parts_.journal.ensure(file);
}

void FileData::writer_fenced(FileId file) {
  if (!parts_.journal.doubt(file)) return;
  FileTable::Changing(parts_.files, file)->size.doubt = parts_.files.number();
  parts_.changed(file);
}

void FileData::layout_ended(FileId file, ClientId client, layout::Access access, bool forgotten) {
  if (access == layout::Access::kReadWrite &&
      (forgotten || parts_.layouts.recalled(file, client, access))) {
    static_cast<void>(doubt_size(file));  // the record of the layout is there
  }
  parts_.layouts.returned(file, client, access);
}

std::optional<std::uint64_t> FileData::doubt_of(FileId file) const {
  const std::uint64_t doubt = FileTable::Looking(parts_.files, file)->size.doubt;
  return doubt == 0 ? std::nullopt : std::optional(doubt);
}

bool FileData::size_doubtful(FileId file) const {
  const FileTable::Looking record(parts_.files, file);
  return record->size.doubt != 0 || (record->journal.inherited && !record->journal.asked);
}

std::optional<std::uint64_t> FileData::doubt_to_tell(FileId file) {
  if (!size_doubtful(file)) return std::nullopt;
  const FileTable::Changing record(parts_.files, file);
  if (record->journal.inherited && !std::exchange(record->journal.asked, true) &&
      record->size.doubt == 0) {
    record->size.doubt = parts_.files.number();
  }
  const std::uint64_t doubt = record->size.doubt;
  return doubt == 0 ? std::nullopt : std::optional(doubt);
}

void FileData::end_doubt(FileId file, std::uint64_t doubt) {
  {
    const FileTable::Changing record(parts_.files, file);
    if (record->size.doubt != doubt) return;
    record->size.doubt = 0;
    record->size.guessed = false;
  }
  static_cast<void>(asks_.forget(file));  // an answer is left when the file was removed
}

void FileData::relearn_size(FileId file) {
  // The record of the earlier run stays until its writers are fenced.
  static_cast<void>(doubt_size(file));
  static_cast<void>(ready(file));
}

bool FileData::first_guess(FileId file, std::uint64_t doubt) {
  const FileTable::Changing record(parts_.files, file);
  return record->size.doubt == doubt && !std::exchange(record->size.guessed, true);
}

Result<> FileData::size_known(FileId file) {
  const auto doubt = doubt_to_tell(file);
  if (!doubt) return {};
  // The size that was set holds until the objects are cut to it; that of a file that grows until
  // its bytes are there. What they say then is learned.
  if (uncut(file) || growing(file)) return {};
  // Of a file whose objects were not looked at yet they do not count.
  const auto restored = parts_.names.restored_file(file);
  if (!restored) return failed(restored);
  if (*restored) return {};
  const auto learned = learn_doubted(file, *doubt, kSizePatience);
  if (!learned && learned.error().code != Errc::kStale) {
    return fail(Errc::kBusy, "the data servers have not said yet how far the file goes");
  }
  if (learned && !learned->complete) {
    if (first_guess(file, *doubt)) {
      spdlog::warn(
          "event=size_not_known file={:x} size={} a data server is lost that may know more", file,
          learned->size);
    }
    return {};
  }
  end_doubt(file, *doubt);
  return {};
}

Result<> FileData::finish_learning(FileId file, std::chrono::milliseconds patience) {
  const auto doubt = doubt_of(file);
  if (!doubt) return {};
  const auto learned = learn_doubted(file, *doubt, patience);
  if (!learned && learned.error().code != Errc::kStale) return failed(learned);
  if (learned && !learned->complete) {
    return fail(Errc::kUnreachable, "a data server is lost that may know how far the file goes");
  }
  end_doubt(file, *doubt);
  return {};
}

Result<> FileData::finish_cut(FileId file, IfAlone others) {
  if (!uncut(file)) return {};
  const auto alone = be_alone(file, Phase::Alone::kCutting, kPatience, others);
  if (!alone) return failed(alone);
  return finish_cut(*alone, file);
}

Result<> FileData::finish_cut(const Alone& /*alone*/, FileId file) {
  if (!uncut(file)) return {};
  if (auto nobody = recall_writers(file, std::nullopt, "a truncate is pending"); !nobody) {
    return nobody;
  }
  const auto pending = parts_.names.pending_truncate(file);
  if (!pending) return failed(pending);
  if (*pending) {
    if (auto done = cut(**pending); !done) return failed(done);
  }
  FileTable::Changing(parts_.files, file)->phase.uncut = false;
  return {};
}

Result<> FileData::cut(const PendingTruncate& pending) {
  // No object has a byte behind that, and an empty range is none that a copy could lack.
  if (pending.cut_at == kMaxFileSize) return parts_.names.finish_truncate(pending);
  const ObjectsChange truncate = [&](const layout::LayoutMap& map, const layout::ObjectId& object,
                                     Finished<void> finished) {
    parts_.cluster.objects().truncate(map, object, pending.cut_at, std::move(finished));
  };
  const auto done =
      change_objects(pending.id, pending.layout, {pending.cut_at, kMaxFileSize}, truncate);
  if (!done) {
    spdlog::warn("truncate waits for data servers file={:x} size={} error=\"{}\"", pending.id,
                 pending.cut_at, done.error().describe());
    return failed(done);
  }
  return parts_.names.finish_truncate(pending);
}

// The file's end as its objects show it.
Result<ObjectsEnd> FileData::written_end(FileId file) {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) return ObjectsEnd{};
  const layout::ObjectId object = parts_.names.object_of(file, **map);
  const auto stat = await<ObjectCalls::Stat>([&](Done<ObjectCalls::Stat> done) {
    parts_.cluster.objects().stat(**map, object, std::move(done));
  });
  if (!stat) return failed(stat);
  return ObjectsEnd{stat->size, stat->complete};
}

Result<std::uint64_t> FileData::commit(const Growth& growth, ClientId client) {
  ++commits_;
  if (auto whole = fit(growth.id); !whole) return failed(whole);
  Growth believed = growth;
  // It may tell of bytes that are still to be cut. To refuse it would keep its layout from coming
  // back, which the cut waits for.
  if (uncut(growth.id)) {
    believed.end = 0;
    if (auto durable = doubt_size(growth.id); !durable) return failed(durable);
    const auto after = parts_.names.grow_size(believed);
    if (!after) return failed(after);
    return after->size;
  }
  const auto before = parts_.names.getattr(growth.id);
  if (!before) return failed(before);
  bool doubtful = FileTable::Looking(parts_.files, growth.id)->size.cut_under_layouts;
  if (!parts_.layouts.known(growth.id, client)) doubtful = true;
  // Ganesha's lock on the file's state is held: the client comes again for what the data servers do
  // not answer at once.
  if (doubtful && growth.end > before->size) {
    const auto durable =
        doubt_of(growth.id) ? parts_.journal.ensure(growth.id) : doubt_size(growth.id);
    if (!durable) return failed(durable);
    if (auto known = finish_learning(growth.id, kSizePatience); !known) return failed(known);
    believed.end = 0;
  }
  const auto learning = enter_learning(parts_.files, growth.id);  // no cut comes in between
  if (!learning) return failed(learning);
  const auto after = parts_.names.grow_size(believed);
  if (!after) return failed(after);
  return after->size;
}

Result<> FileData::recall_writers(FileId file, std::optional<ClientId> except,
                                  std::string_view why) {
  if (!parts_.layouts.held_for_write(file, except)) return {};
  parts_.layouts.recall(file, why, {.except = except});
  if (!parts_.layouts.held_for_write(file, except)) return {};
  return fail(Errc::kBusy, "layouts are being recalled");
}

// With several copies the caller's own layout, too: what it writes meanwhile could reach one copy
// before the cut, and another after it.
Result<> FileData::recall_before_cut(FileId file, ClientId client) {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  const bool own = *map && (*map)->copies.size() > 1;
  return recall_writers(file, own ? std::nullopt : std::optional(client), "truncate");
}

// A client that writes under a layout may not have told yet how far. Where that could be beyond the
// size we know, the data servers say: or else setting the size would cut at the one we know.
Result<> FileData::learn_size(FileId file, std::uint64_t wanted) {
  const auto before = parts_.names.getattr(file);
  if (!before) return failed(before);
  if (wanted < before->size) return {};
  const auto end = written_end(file);
  if (!end) return failed(end);
  if (auto grown = grow_to(*before, *end); !grown) return failed(grown);
  return {};
}

Result<ObjectsEnd> FileData::grow_to(const InodeAttributes& before, const ObjectsEnd& end) {
  if (end.size <= before.size) return ObjectsEnd{before.size, end.complete};
  Growth growth;
  growth.id = before.id;
  growth.end = end.size;
  const auto grown = parts_.names.grow_size(growth);
  if (!grown) return failed(grown);
  parts_.changed(before.id);
  return end;
}

Result<> FileData::learn_end(FileId file) {
  const auto learning = enter_learning(parts_.files, file);
  if (!learning) return failed(learning);
  return learn_size(file, UINT64_MAX);
}

Result<ObjectsEnd> FileData::learn_doubted(FileId file, std::uint64_t doubt,
                                           std::chrono::milliseconds patience) {
  const auto learning = enter_learning(parts_.files, file);
  if (!learning) return failed(learning);
  const auto before = parts_.names.getattr(file);
  if (!before) return failed(before);
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map) return ObjectsEnd{before->size};
  const auto end = asks_.answer(file, doubt, patience, [&](SizeAsks::Answered answered) {
    parts_.cluster.objects().stat(
        **map, parts_.names.object_of(file, **map),
        [answered = std::move(answered)](const Result<ObjectCalls::Stat>& stat) mutable {
          if (!stat) return answered(failed(stat));
          answered(ObjectsEnd{stat->size, stat->complete});
        },
        ObjectCalls::Silent::kLeaveOut);
  });
  if (!end) return failed(end);
  return grow_to(*before, *end);
}

Result<InodeAttributes> FileData::set_size(const Credentials& who, FileId file,
                                           const AttributeChange& change) {
  const auto changed = parts_.names.setattr(who, file, change);
  if (!changed) return failed(changed);
  if (changed->truncate) {
    if (auto done = cut(*changed->truncate); !done) {
      FileTable::Changing(parts_.files, file)->phase.uncut = true;
      parts_.changed(file);  // the size is the new one; Ganesha keeps what it knew when this fails
      return failed(done);
    }
  }
  return changed->after;
}

// Ganesha's cache, which has not asked for this change, is told of it: it may have the file by
// another way than the name that was opened, and nobody may wait for the end.
Result<> FileData::empty(const Credentials& who, FileId file, ClientId client) {
  AttributeChange change;
  change.size = 0;
  change.mtime_now = true;
  const auto done = set_attributes(who, file, change, client);
  parts_.changed(file);
  return done ? Result<>() : failed(done);
}

Result<> FileData::empty_soon(const Credentials& who, FileId file, ClientId client) {
  const auto map = layout_map(parts_.files, parts_.names, file);
  if (!map) return failed(map);
  if (!*map && !growing(file)) return empty(who, file, client);  // asks no data server
  return behind_.run(
      file, kSizePatience,
      [this, who, groups = std::vector(who.groups.begin(), who.groups.end()), file, client] {
        Credentials same = who;
        same.groups = groups;
        if (stopping_) return Result<>(fail(Errc::kBusy, "the server stops"));
        return empty(same, file, client);
      });
}

Result<InodeAttributes> FileData::set_attributes(const Credentials& who, FileId file,
                                                 const AttributeChange& change, ClientId client) {
  if (!change.size) {
    auto changed = parts_.names.setattr(who, file, change);
    if (!changed) return failed(changed);
    return changed->after;
  }
  if (parts_.layouts.blocked(file))
    return fail(Errc::kBusy, "a client of the file is being fenced");
  // Cut to nothing, a file needs none of the bytes that it has lost.
  const auto whole = fit(file);
  if (!whole && (whole.error() != Errc::kIo || *change.size > 0)) return failed(whole);
  if (auto fenced = settle_inherited(file); !fenced) return failed(fenced);
  if (auto nobody = recall_before_cut(file, client); !nobody) return failed(nobody);
  const auto alone = be_alone(file, Phase::Alone::kCutting, kPatience);
  if (!alone) return failed(alone);
  // No layout is granted any more; but one may have been, a moment ago.
  if (auto nobody = recall_before_cut(file, client); !nobody) return failed(nobody);
  if (auto earlier = finish_cut(*alone, file); !earlier) return failed(earlier);
  if (auto grown = finish_growth(*alone, file); !grown) return failed(grown);
  if (auto known = learn_size(file, *change.size); !known) return failed(known);
  if (parts_.layouts.held_for_write(file)) {
    FileTable::Changing(parts_.files, file)->size.cut_under_layouts = true;
  }
  auto after = set_size(who, file, change);
  if (!after) {
    if (auto ended = end_layouts_beside_late(file); !ended) return failed(ended);
  }
  return after;
}

}  // namespace weft::mds
