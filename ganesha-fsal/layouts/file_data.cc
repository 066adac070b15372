#include "ganesha-fsal/layouts/file_data.h"

#include <spdlog/spdlog.h>

#include "ganesha-fsal/cluster/await.h"
#include "layout/files_layout.h"

namespace weft::mds {
namespace {

template <class T>
std::unexpected<Error> failed(const Result<T>& result) {
  return std::unexpected(result.error());
}

}  // namespace

FileData::FileData(Parts parts) : parts_(std::move(parts)) {}

Result<> FileData::open() {
  const auto inherited = parts_.journal.open();
  if (!inherited) return failed(inherited);
  if (*inherited > 0) spdlog::info("event=journal_inherited files={}", *inherited);
  const auto pending = parts_.names.pending_truncates(SIZE_MAX);
  if (!pending) return failed(pending);
  const std::lock_guard lock(mutex_);
  for (const PendingTruncate& cut : *pending) uncut_.insert(cut.id);
  return {};
}

void FileData::catch_up() {
  std::set<FileId> files;
  {
    const std::lock_guard lock(mutex_);
    files = uncut_;
    files.insert(unlearned_.begin(), unlearned_.end());
  }
  for (const FileId file : files) {
    if (stopping_) return;
    static_cast<void>(ready(file));
  }
}

void FileData::relearn_size(FileId file) {
  {
    const std::lock_guard lock(mutex_);
    unlearned_.insert(file);
  }
  parts_.changed(file);
  static_cast<void>(ready(file));
}

Result<> FileData::size_known(FileId file) {
  if (finish_learning(file)) return {};
  return fail(Errc::kBusy, "the data servers have not said yet how far the file goes");
}

Result<> FileData::ready(FileId file) {
  if (parts_.layouts.blocked(file))
    return fail(Errc::kBusy, "a client of the file is being fenced");
  {
    const std::lock_guard lock(mutex_);
    if (cutting_.contains(file)) return fail(Errc::kBusy, "the file is being truncated");
  }
  if (auto done = finish_cut(file); !done) return done;
  return finish_learning(file);
}

Result<> FileData::finish_learning(FileId file) {
  {
    const std::lock_guard lock(mutex_);
    if (!unlearned_.contains(file)) return {};
  }
  const auto learned = learn_end(file);
  if (!learned && learned.error().code != Errc::kStale) return failed(learned);
  const std::lock_guard lock(mutex_);
  unlearned_.erase(file);
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
  const layout::ObjectId object = parts_.names.object_of(pending.id, pending.layout);
  const auto done = await<void>([&](Done<void> finished) {
    parts_.cluster.truncate(pending.layout, object, pending.cut_at, std::move(finished));
  });
  if (!done) {
    spdlog::warn("truncate waits for data servers file={:x} size={} error=\"{}\"", pending.id,
                 pending.cut_at, done.error().describe());
    return failed(done);
  }
  return parts_.names.finish_truncate(pending);
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
  return parts_.names.ensure_layout(file, placer(policy));
}

// A handle for reading a file of the journal's, too, is sealed above an earlier run's epoch: or
// settling would refuse it.
Result<WriterJournal::Begun> FileData::begin_grant(const LayoutRequest& request,
                                                   const layout::PlacementPolicy& policy) {
  if (request.access == layout::Access::kReadWrite || parts_.journal.inherited(request.file)) {
    return parts_.journal.begin(request.file, placer(policy));
  }
  auto map = map_of(request.file, policy);
  if (!map) return failed(map);
  return WriterJournal::Begun{std::move(*map), {}};
}

Result<std::vector<std::byte>> FileData::make_body(const LayoutRequest& request,
                                                   const layout::LayoutMap& map) {
  Registry& registry = parts_.cluster.registry();
  const layout::Copy& copy = map.copies.front();
  const auto device = registry.device_for(copy.ds_ids);
  if (!device) return failed(device);
  const auto epoch = parts_.fencer.epoch_for(request.client);
  if (!epoch) return failed(epoch);

  layout::FilesLayout files;
  files.device = layout::pack(registry.device_id(request.fsal, request.export_id, **device));
  files.stripe_unit = map.stripe_unit;
  files.first_stripe_index = copy.first_index;
  layout::Handle handle;
  handle.access = request.access;
  handle.key_id = control::kHandleKeyId;
  handle.object = parts_.names.object_of(request.file, map);
  handle.client_id = request.client;
  handle.object_epoch = map.object_epoch;
  handle.client_epoch = *epoch;
  for (const layout::DeviceMember& member : (*device)->members) {
    handle.ds_id = member.ds_id;
    files.handles.push_back(layout::seal(handle, parts_.cluster.handle_key()));
  }
  xdr::Encoder body(layout::files_layout_bytes(files.handles.size()));
  if (auto encoded = layout::encode(body, files); !encoded) return failed(encoded);
  if (body.size() > request.max_bytes) return fail(Errc::kTooLarge, "the layout has no room");
  return body.take();
}

Result<std::vector<std::byte>> FileData::grant(const LayoutRequest& request,
                                               const layout::PlacementPolicy& policy) {
  const auto refuse = [this](const Error& error) -> std::unexpected<Error> {
    ++refused_;
    return std::unexpected(error);
  };
  if (auto fine = ready(request.file); !fine) return refuse(fine.error());
  const auto begun = begin_grant(request, policy);
  if (!begun) return refuse(begun.error());
  const layout::LayoutMap& map = begun->map;
  if (const auto down = parts_.cluster.registry().down_of(map); !down.empty()) {
    return refuse({Errc::kLayoutTryLater, fmt::format("data server {} is down", down.front())});
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
  auto body = make_body(request, map);
  if (!body) {
    parts_.layouts.returned(request.file, request.client, request.access);
    return refuse(body.error());
  }
  return body;
}

Result<std::vector<std::byte>> FileData::device_body(const layout::DeviceId& id) const {
  const auto device = parts_.cluster.registry().device(id);
  if (device == nullptr) return fail(Errc::kNotFound, "no such device");
  xdr::Encoder body;
  if (auto encoded = layout::encode(body, layout::files_device(*device)); !encoded) {
    return failed(encoded);
  }
  return body.take();
}

void FileData::layouts_gone(FileId file) {
  if (parts_.layouts.held_for_write(file)) return;  // granted anew meanwhile
  const std::lock_guard lock(mutex_);
  doubtful_.erase(file);
}

// The file's end as its objects show it.
Result<std::uint64_t> FileData::written_end(FileId file) {
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (!*map) return 0;
  const layout::ObjectId object = parts_.names.object_of(file, **map);
  const auto stat = await<Cluster::ObjectsStat>([&](Done<Cluster::ObjectsStat> done) {
    parts_.cluster.stat(**map, object, std::move(done));
  });
  if (!stat) return failed(stat);
  return stat->size;
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
    const auto end = written_end(growth.id);
    if (!end) return failed(end);
    believed.end = std::min(growth.end, *end);
  }
  const auto after = parts_.names.grow_size(believed);
  if (!after) return failed(after);
  return after->size;
}

Result<> FileData::recall_other_writers(FileId file, ClientId client) {
  if (!parts_.layouts.held_for_write(file, client)) return {};
  parts_.layouts.recall(file, "truncate", client);
  if (!parts_.layouts.held_for_write(file, client)) return {};
  return fail(Errc::kBusy, "layouts of other clients are being recalled");
}

// A client that writes under a layout may not have told yet how far. Where that could be beyond the
// size we know, the data servers say: or else setting the size would cut at the one we know.
Result<> FileData::learn_size(FileId file, std::uint64_t wanted) {
  const auto before = parts_.names.getattr(file);
  if (!before) return failed(before);
  if (wanted < before->size) return {};
  Growth growth;
  growth.id = file;
  const auto end = written_end(file);
  if (!end) return failed(end);
  if (*end <= before->size) return {};
  growth.end = *end;
  const auto grown = parts_.names.grow_size(growth);
  if (!grown) return failed(grown);
  parts_.changed(file);
  return {};
}

Result<> FileData::learn_end(FileId file) {
  {
    const std::lock_guard lock(mutex_);
    if (cutting_.contains(file)) return fail(Errc::kBusy, "the file is being truncated");
    ++learning_[file];
  }
  auto learned = learn_size(file, UINT64_MAX);
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
  if (auto alone = recall_other_writers(file, client); !alone) return failed(alone);
  if (auto known = learn_size(file, *change.size); !known) return failed(known);
  {
    const std::lock_guard lock(mutex_);
    if (learning_.contains(file)) return fail(Errc::kBusy, "the file's size is being learned");
    ++cutting_[file];
    if (parts_.layouts.held_for_write(file)) doubtful_.insert(file);
  }
  auto result = set_size(file, change);
  const std::lock_guard lock(mutex_);
  if (--cutting_[file] == 0) cutting_.erase(file);
  return result;
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
    auto got = await<ProxyIo::ReadResult>([&](Done<ProxyIo::ReadResult> done) {
      parts_.proxy.read({parts_.names.object_of(file, **map), **map}, attributes->size, offset,
                        wanted, std::move(done));
    });
    if (!got) return failed(got);
    result.data = std::move(got->data);
  }
  read_bytes_ += result.data.size();
  return result;
}

Result<ProxyIo::Stability> FileData::write(FileId file, std::uint64_t offset,
                                           std::span<const std::byte> data,
                                           ProxyIo::Stability wanted,
                                           const layout::PlacementPolicy& policy) {
  if (offset > kMaxFileSize || data.size() > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the write ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  ++writes_;
  const auto written = await<ProxyIo::WriteResult>([&](Done<ProxyIo::WriteResult> done) {
    parts_.proxy.write({parts_.names.object_of(file, *map), *map}, offset, data, wanted,
                       std::move(done));
  });
  if (!written) return failed(written);
  written_bytes_ += data.size();
  Growth growth;
  growth.id = file;
  growth.end = offset + data.size();
  if (auto grown = parts_.names.grow_size(growth); !grown) return failed(grown);
  return written->stability;
}

Result<> FileData::sync(FileId file) {
  const auto map = parts_.names.layout(file);
  if (!map) return failed(map);
  if (!*map) return {};
  const auto done = await<std::uint64_t>([&](Done<std::uint64_t> finished) {
    parts_.proxy.commit({parts_.names.object_of(file, **map), **map}, std::move(finished));
  });
  if (!done) return failed(done);
  return {};
}

Result<> FileData::allocate(FileId file, std::uint64_t offset, std::uint64_t length,
                            const layout::PlacementPolicy& policy) {
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return fail(Errc::kFileTooLarge, "the range ends beyond the largest file");
  }
  if (auto fine = ready(file); !fine) return failed(fine);
  const auto map = map_of(file, policy);
  if (!map) return failed(map);
  const layout::ObjectId object = parts_.names.object_of(file, *map);
  const auto done = await<void>([&](Done<void> finished) {
    parts_.cluster.allocate(*map, object, offset, length, std::move(finished));
  });
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
    const layout::ObjectId object = parts_.names.object_of(file, **map);
    const auto done = await<void>([&](Done<void> finished) {
      parts_.cluster.punch(**map, object, offset, length, std::move(finished));
    });
    if (!done) return failed(done);
  }
  Growth touched;
  touched.id = file;
  if (auto grown = parts_.names.grow_size(touched); !grown) return failed(grown);
  return {};
}

DataCounters FileData::counters() const {
  return {reads_, writes_, read_bytes_, written_bytes_, refused_, commits_};
}

}  // namespace weft::mds
