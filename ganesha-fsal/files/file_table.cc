#include "ganesha-fsal/files/file_table.h"

#include <algorithm>

namespace weft::mds {
namespace {

const FileState kNothing;

// Ascending; none: the map is not known.
std::vector<std::uint32_t> servers_in(const layout::LayoutMap* map) {
  std::vector<std::uint32_t> ids;
  if (map == nullptr) return ids;
  for (const layout::Copy& copy : map->copies) {
    ids.insert(ids.end(), copy.ds_ids.begin(), copy.ds_ids.end());
  }
  std::erase(ids, 0U);  // of vacant places
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

// A guard's lock is one of many, found when the program runs: the analysis does not see that it is
// the shard's that guards the record. Outside it is checked as a lock of the whole table.

FileTable::Changing::Changing(FileTable& table, FileId file) WEFT_NO_THREAD_SAFETY_ANALYSIS
    : table_(table),
      shard_(table.shard_of(file)),
      record_([&]() WEFT_NO_THREAD_SAFETY_ANALYSIS -> Records::value_type& {
        shard_.mutex.lock();
        return *shard_.records.try_emplace(file).first;
      }()) {}

FileTable::Changing::~Changing() WEFT_NO_THREAD_SAFETY_ANALYSIS {
  publish();
  if (record_.second.waiting == 0 && record_.second.state.idle()) {
    shard_.records.erase(FileId{record_.first});
  }
  shard_.mutex.unlock();
}

void FileTable::Changing::publish() WEFT_NO_THREAD_SAFETY_ANALYSIS {
  auto& [file, record] = record_;
  for (std::size_t what = 0; what < kDues; ++what) {
    const Clock::time_point at = record.state.due(static_cast<Due>(what));
    Clock::time_point& indexed = record.indexed[what];
    if (at == indexed) continue;
    if (indexed != FileState::kNever) shard_.due[what].erase({indexed, file});
    if (at != FileState::kNever) shard_.due[what].emplace(at, file);
    indexed = at;
  }
  enter_group(shard_, record_);
  if (record.waiting > 0) record.changed.notify_all();
}

void FileTable::enter_group(Shard& shard, Records::value_type& of) {
  auto& [file, record] = of;
  const bool out = !record.state.layouts.grants.empty();
  if (out == record.group.has_value()) return;
  if (!out) return leave_group(shard, of);
  record.group = shard.with_layouts.try_emplace(servers_in(record.state.map.get())).first;
  (*record.group)->second.insert(file);
}

void FileTable::leave_group(Shard& shard, Records::value_type& of) {
  const auto at = std::exchange(of.second.group, std::nullopt);
  if (!at) return;
  (*at)->second.erase(of.first);
  if ((*at)->second.empty()) shard.with_layouts.erase(*at);
}

void FileTable::set_map(Shard& shard, Records::value_type& of,
                        std::shared_ptr<const layout::LayoutMap> map) {
  leave_group(shard, of);
  of.second.state.map = std::move(map);
  enter_group(shard, of);
}

FileTable::Looking::Looking(const FileTable& table, FileId file) WEFT_NO_THREAD_SAFETY_ANALYSIS
    : shard_(table.shard_of(file)),
      state_([&]() WEFT_NO_THREAD_SAFETY_ANALYSIS -> const FileState& {
        shard_.mutex.lock();
        const auto at = shard_.records.find(file);
        return at == shard_.records.end() ? kNothing : at->second.state;
      }()) {}

FileTable::Looking::~Looking() WEFT_NO_THREAD_SAFETY_ANALYSIS { shard_.mutex.unlock(); }

void FileTable::await_progress(FileId file, std::uint64_t seen, Clock::time_point deadline) {
  Changing record(*this, file);
  static_cast<void>(record.wait_until(
      deadline, [seen](const FileState& state) { return state.progress != seen; }));
}

FileTable::SeenMap FileTable::map(FileId file) const {
  Shard& shard = shard_of(file);
  const MutexLock lock(shard.mutex);
  const auto at = shard.records.find(file);
  return {at == shard.records.end() ? nullptr : at->second.state.map, shard.map_changes};
}

void FileTable::keep_map(FileId file, std::uint64_t changes, const layout::LayoutMap& map) {
  auto kept = std::make_shared<const layout::LayoutMap>(map);
  Shard& shard = shard_of(file);
  const MutexLock lock(shard.mutex);
  const auto at = shard.records.find(file);
  if (at != shard.records.end() && shard.map_changes == changes) {
    set_map(shard, *at, std::move(kept));
  }
}

void FileTable::map_changed(FileId file, const layout::LayoutMap* now) {
  auto kept = now == nullptr ? nullptr : std::make_shared<const layout::LayoutMap>(*now);
  Shard& shard = shard_of(file);
  const MutexLock lock(shard.mutex);
  ++shard.map_changes;
  const auto at = shard.records.find(file);
  if (at != shard.records.end()) set_map(shard, *at, std::move(kept));
}

std::vector<FileId> FileTable::due(Due what, Clock::time_point now, std::size_t limit) const {
  std::vector<FileId> files;
  const std::size_t first = first_.fetch_add(1);
  for (std::size_t turn = 0; turn < kShards && files.size() < limit; ++turn) {
    Shard& shard = shards_[(first + turn) % kShards];
    const MutexLock lock(shard.mutex);
    for (const auto& [at, file] : shard.due[static_cast<std::size_t>(what)]) {
      if (at > now || files.size() == limit) break;
      files.push_back(file);
    }
  }
  return files;
}

std::size_t FileTable::count(Due what) const {
  std::size_t count = 0;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    count += shard.due[static_cast<std::size_t>(what)].size();
  }
  return count;
}

Clock::time_point FileTable::first(Due what) const {
  Clock::time_point first = FileState::kNever;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    const auto& due = shard.due[static_cast<std::size_t>(what)];
    if (!due.empty()) first = std::min(first, due.begin()->first);
  }
  return first;
}

std::vector<FileId> FileTable::with_layouts(std::optional<std::uint32_t> ds_id) const {
  std::vector<FileId> files;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [servers, of_them] : shard.with_layouts) {
      if (ds_id && !servers.empty() && !std::ranges::binary_search(servers, *ds_id)) continue;
      files.insert(files.end(), of_them.begin(), of_them.end());
    }
  }
  return files;
}

std::size_t FileTable::size() const {
  std::size_t size = 0;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    size += shard.records.size();
  }
  return size;
}

}  // namespace weft::mds
