// FileData: how far files go, and changes of that.
#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "ganesha-fsal/layouts/file_data.h"

namespace weft::mds {
namespace {

template <class T>
std::unexpected<Error> failed(const Result<T>& result) {
  return std::unexpected(result.error());
}

}  // namespace

void FileData::doubt_size(FileId file) {
  {
    const std::lock_guard lock(mutex_);
    unlearned_[file] = ++doubts_;
  }
  parts_.changed(file);
}

void FileData::layout_ended(FileId file, ClientId client, layout::Access access, bool forgotten) {
  if (access == layout::Access::kReadWrite &&
      (forgotten || parts_.layouts.recalled(file, client, access))) {
    doubt_size(file);
  }
  parts_.layouts.returned(file, client, access);
}

std::optional<std::uint64_t> FileData::doubt_of(FileId file) {
  const std::lock_guard lock(mutex_);
  const auto at = unlearned_.find(file);
  return at == unlearned_.end() ? std::nullopt : std::optional(at->second);
}

void FileData::end_doubt(FileId file, std::uint64_t doubt) {
  const std::lock_guard lock(mutex_);
  if (const auto at = unlearned_.find(file); at != unlearned_.end() && at->second == doubt) {
    unlearned_.erase(at);
    guessed_.erase(file);
  }
}

void FileData::relearn_size(FileId file) {
  doubt_size(file);
  static_cast<void>(ready(file));
}

Result<> FileData::size_known(FileId file) {
  const auto doubt = doubt_of(file);
  if (!doubt) return {};
  const auto learned = learn_end(file, Cluster::Silent::kLeaveOut);
  if (!learned && learned.error().code != Errc::kStale) {
    return fail(Errc::kBusy, "the data servers have not said yet how far the file goes");
  }
  if (learned && !learned->complete) {
    const std::lock_guard lock(mutex_);
    if (guessed_.insert(file).second) {
      spdlog::warn(
          "event=size_not_known file={:x} size={} a data server is lost that may know more", file,
          learned->size);
    }
    return {};
  }
  end_doubt(file, *doubt);
  return {};
}

Result<> FileData::finish_learning(FileId file) {
  const auto doubt = doubt_of(file);
  if (!doubt) return {};
  const auto learned = learn_end(file);
  if (!learned && learned.error().code != Errc::kStale) return failed(learned);
  end_doubt(file, *doubt);
  return {};
}

Result<> FileData::finish_cut(FileId file) {
  {
    const std::lock_guard lock(mutex_);
    if (!uncut_.contains(file)) return {};
  }
  const auto pending = parts_.names.pending_truncate(file);
  if (!pending) return failed(pending);
  if (*pending) {
    if (auto done = cut(**pending); !done) return failed(done);
  }
  const std::lock_guard lock(mutex_);
  uncut_.erase(file);
  return {};
}

Result<> FileData::cut(const PendingTruncate& pending) {
  const ObjectsChange truncate = [&](const layout::LayoutMap& map, const layout::ObjectId& object,
                                     Finished<void> finished) {
    parts_.cluster.truncate(map, object, pending.cut_at, std::move(finished));
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
Result<FileData::End> FileData::written_end(FileId file, Cluster::Silent silent) {
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (!*map) return End{};
  const layout::ObjectId object = parts_.names.object_of(file, **map);
  const auto stat = await<Cluster::ObjectsStat>([&](Done<Cluster::ObjectsStat> done) {
    parts_.cluster.stat(**map, object, std::move(done), silent);
  });
  if (!stat) return failed(stat);
  return End{stat->size, stat->complete};
}

Result<std::uint64_t> FileData::commit(const Growth& growth, ClientId client) {
  ++commits_;
  Growth believed = growth;
  const auto before = parts_.names.getattr(growth.id);
  if (!before) return failed(before);
  bool doubtful = !parts_.layouts.known(growth.id, client);
  {
    const std::lock_guard lock(mutex_);
    doubtful = doubtful || doubtful_.contains(growth.id);
  }
  if (doubtful && growth.end > before->size) {
    const auto end = written_end(growth.id, Cluster::Silent::kFail);
    if (!end) return failed(end);
    believed.end = std::min(growth.end, end->size);
  }
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
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  const bool own = *map && (*map)->copies.size() > 1;
  return recall_writers(file, own ? std::nullopt : std::optional(client), "truncate");
}

// A client that writes under a layout may not have told yet how far. Where that could be beyond the
// size we know, the data servers say: or else setting the size would cut at the one we know.
Result<FileData::End> FileData::learn_size(FileId file, std::uint64_t wanted,
                                           Cluster::Silent silent) {
  const auto before = parts_.names.getattr(file);
  if (!before) return failed(before);
  if (wanted < before->size) return End{before->size};
  const auto end = written_end(file, silent);
  if (!end) return failed(end);
  if (end->size <= before->size) return End{before->size, end->complete};
  Growth growth;
  growth.id = file;
  growth.end = end->size;
  const auto grown = parts_.names.grow_size(growth);
  if (!grown) return failed(grown);
  parts_.changed(file);
  return *end;
}

Result<> FileData::learn_end(FileId file) {
  if (auto learned = learn_end(file, Cluster::Silent::kFail); !learned) return failed(learned);
  return {};
}

Result<FileData::End> FileData::learn_end(FileId file, Cluster::Silent silent) {
  {
    const std::lock_guard lock(mutex_);
    if (cutting_.contains(file)) return fail(Errc::kBusy, "the file is being truncated");
    ++learning_[file];
  }
  auto learned = learn_size(file, UINT64_MAX, silent);
  const std::lock_guard lock(mutex_);
  if (--learning_[file] == 0) learning_.erase(file);
  return learned;
}

Result<InodeAttributes> FileData::set_size(FileId file, const AttributeChange& change) {
  const auto changed = parts_.names.setattr(file, change);
  if (!changed) return failed(changed);
  // An earlier cut that failed is due even if the size is the same now.
  std::optional<PendingTruncate> pending = changed->truncate;
  if (!pending) {
    auto left = parts_.names.pending_truncate(file);
    if (!left) return failed(left);
    pending = std::move(*left);
  }
  if (pending) {
    if (auto done = cut(*pending); !done) {
      const std::lock_guard lock(mutex_);
      uncut_.insert(file);
      return failed(done);
    }
  }
  const std::lock_guard lock(mutex_);
  uncut_.erase(file);
  return changed->after;
}

Result<InodeAttributes> FileData::set_attributes(FileId file, const AttributeChange& change,
                                                 ClientId client) {
  if (!change.size) {
    auto changed = parts_.names.setattr(file, change);
    if (!changed) return failed(changed);
    return changed->after;
  }
  if (parts_.layouts.blocked(file))
    return fail(Errc::kBusy, "a client of the file is being fenced");
  if (auto fenced = settle_inherited(file); !fenced) return failed(fenced);
  if (auto nobody = recall_before_cut(file, client); !nobody) return failed(nobody);
  if (auto known = learn_size(file, *change.size, Cluster::Silent::kFail); !known) {
    return failed(known);
  }
  const auto alone = be_alone(file);
  if (!alone) return failed(alone);
  // No layout is granted any more; but one may have been, a moment ago.
  if (auto nobody = recall_before_cut(file, client); !nobody) return failed(nobody);
  if (parts_.layouts.held_for_write(file)) {
    const std::lock_guard lock(mutex_);
    doubtful_.insert(file);
  }
  return set_size(file, change);
}

}  // namespace weft::mds
