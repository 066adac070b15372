#include "ganesha-fsal/files/flex_reports.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "rpc/base/log_limit.h"
#include "rpc/nfs4/types.h"

namespace weft::mds {
namespace {

using rpc::nfs4::Op;
using rpc::nfs4::Status;

// Never destroyed: threads may log while the process ends.
LogLimit& error_log = *new LogLimit;
LogLimit& stays_log = *new LogLimit;

bool is_no_fault(Status status) {
  switch (status) {
    case Status::NFS4_OK:
    case Status::NFS4ERR_ACCESS:
    case Status::NFS4ERR_STALE:
    case Status::NFS4ERR_BADHANDLE:
    case Status::NFS4ERR_DELAY:
    case Status::NFS4ERR_GRACE: return true;
    default: return false;
  }
}

bool is_full(Status status) {
  return status == Status::NFS4ERR_NOSPC || status == Status::NFS4ERR_DQUOT;
}

}  // namespace

FlexReports::FlexReports(Parts parts) : parts_(std::move(parts)) {}

FlexReports::OfFile& FlexReports::of(FileId file) {
  const auto [it, fresh] = files_.try_emplace(file);
  if (!fresh) ages_.erase(it->second.age);
  it->second.age = ages_.insert(ages_.end(), file);
  if (files_.size() > kMaxFiles) {
    files_.erase(ages_.front());
    ages_.pop_front();
  }
  return it->second;
}

void FlexReports::errors(FileId file, ClientId client, std::uint64_t offset,
                         std::span<const layout::DeviceError> errors) {
  std::set<std::uint32_t> unwritten;
  for (const layout::DeviceError& one : errors) error(file, client, offset, one, unwritten);
  writes_failed(file, client, unwritten);
}

void FlexReports::returned(FileId file, ClientId client, const layout::FlexReturn& report) {
  std::set<std::uint32_t> unwritten;
  for (const layout::FlexIoError& io : report.errors) {
    for (const layout::DeviceError& one : io.errors) error(file, client, io.offset, one, unwritten);
  }
  writes_failed(file, client, unwritten);
  for (const layout::FlexStats& one : report.stats) {
    stats(file, client, one.device, {one.reads, one.read_bytes, one.writes, one.write_bytes, 0});
  }
}

void FlexReports::stats(FileId file, ClientId client, const layout::DeviceIdBytes& device,
                        const ClientIo& so_far) {
  const std::uint32_t ds_id = parts_.ds_of(device);
  if (ds_id == 0) return;
  const MutexLock lock(mutex_);
  OfFile& known = of(file);
  const std::pair<ClientId, std::uint32_t> reporter{client, ds_id};
  if (known.reported.size() >= kMaxReporters && !known.reported.contains(reporter)) return;
  ClientIo& last = known.reported[reporter];
  // Less than before: counted anew, under another layout.
  const bool anew = so_far.reads < last.reads || so_far.read_bytes < last.read_bytes ||
                    so_far.writes < last.writes || so_far.written_bytes < last.written_bytes;
  if (anew) last = {};
  ClientIo& io = known.io[ds_id];
  io.reads += so_far.reads - last.reads;
  io.read_bytes += so_far.read_bytes - last.read_bytes;
  io.writes += so_far.writes - last.writes;
  io.written_bytes += so_far.written_bytes - last.written_bytes;
  last = so_far;
}

void FlexReports::error(FileId file, ClientId client, std::uint64_t offset,
                        const layout::DeviceError& error, std::set<std::uint32_t>& unwritten) {
  const std::uint32_t ds_id = parts_.ds_of(error.device);
  error_log.warn("layout error file={:x} client={:x} ds={} op={} status={} offset={}", file, client,
                 ds_id, error.op, error.status, offset);
  const auto status = static_cast<Status>(error.status);
  if (ds_id == 0 || is_no_fault(status)) return;
  const bool full = is_full(status) && parts_.may_write(file, client);
  {
    const Clock::time_point now = parts_.now();
    const MutexLock lock(mutex_);
    OfFile& known = of(file);
    ++known.io[ds_id].errors;
    if (full) known.full_at[ds_id] = now;
  }
  if (is_full(status)) return;
  switch (static_cast<Op>(error.op)) {
    case Op::OP_WRITE:
    case Op::OP_COMMIT: unwritten.insert(ds_id); return;
    case Op::OP_READ: return read_failed(file, ds_id, offset);
    default: return;
  }
}

void FlexReports::writes_failed(FileId file, ClientId client,
                                const std::set<std::uint32_t>& ds_ids) {
  if (ds_ids.empty() || !parts_.may_write(file, client)) return;
  for (const std::uint32_t ds_id : ds_ids) missed(file, ds_id);
}

void FlexReports::missed(FileId file, std::uint32_t ds_id) {
  if (const auto done = parts_.missed(file, ds_id); !done) {
    stays_log.warn("copy stays file={:x} ds={} error=\"{}\"", file, ds_id, done.error().describe());
  }
}

void FlexReports::read_failed(FileId file, std::uint32_t ds_id, std::uint64_t offset) {
  const Copy copy{file, ds_id};
  {
    const MutexLock lock(looks_->mutex);
    if (looks_->under_way.size() + looks_->damaged.size() >= kMaxLooks) return;
    if (looks_->damaged.contains(copy) || !looks_->under_way.insert(copy).second) return;
  }
  parts_.look(file, ds_id, offset, [looks = looks_, copy](Result<> read) {
    const MutexLock lock(looks->mutex);
    looks->under_way.erase(copy);
    if (!read && (read.error() == Errc::kIo || read.error() == Errc::kCorrupt)) {
      looks->damaged.insert(copy);
    }
  });
}

std::set<std::uint32_t> FlexReports::full_for(FileId file) const {
  std::set<std::uint32_t> full;
  const Clock::time_point now = parts_.now();
  const MutexLock lock(mutex_);
  const auto known = files_.find(file);
  if (known == files_.end()) return full;
  for (const auto& [ds_id, at] : known->second.full_at) {
    if (now - at < kFullFor) full.insert(ds_id);
  }
  return full;
}

bool FlexReports::no_room(FileId file, const layout::LayoutMap& map) const {
  const auto full = full_for(file);
  if (full.empty()) return false;
  for (std::size_t stripe = 0; stripe < map.copies.front().ds_ids.size(); ++stripe) {
    const bool room = std::ranges::any_of(map.copies, [&](const layout::Copy& copy) {
      return copy.state_of(stripe) == layout::CopyState::kCurrent &&
             !full.contains(copy.ds_ids[stripe]);
    });
    if (!room) return true;
  }
  return false;
}

void FlexReports::mend() {
  std::set<Copy> damaged;
  {
    const MutexLock lock(looks_->mutex);
    damaged.swap(looks_->damaged);
  }
  for (const auto& [file, ds_id] : damaged) {
    spdlog::warn("copy cannot be read file={:x} ds={}", file, ds_id);
    missed(file, ds_id);
  }
}

std::map<std::uint32_t, ClientIo> FlexReports::io_of(FileId file) const {
  const MutexLock lock(mutex_);
  const auto known = files_.find(file);
  return known == files_.end() ? std::map<std::uint32_t, ClientIo>{} : known->second.io;
}

}  // namespace weft::mds
