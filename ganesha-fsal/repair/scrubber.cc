#include "ganesha-fsal/repair/scrubber.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace weft::mds {
namespace {

constexpr std::chrono::seconds kIdle{1};

}  // namespace

Scrubber::Scrubber(Parts parts) : parts_(std::move(parts)) {}

Scrubber::~Scrubber() { stop(); }

void Scrubber::start() {
  for (unsigned i = 0; i < parts_.limits.workers; ++i) threads_.emplace_back([this] { run(); });
}

void Scrubber::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// Findings outlive rounds: what differs stays listed until a later look finds it mended.
void Scrubber::begin_locked(bool only_tell) {
  auto findings = std::move(state_.findings);
  auto resolved = std::move(state_.resolved);
  state_ = {.running = true,
            .only_tell = only_tell,
            .rounds = state_.rounds,
            .findings = std::move(findings),
            .resolved = std::move(resolved)};
  since_ = parts_.clock.now();
  files_.clear();
  more_ = false;
  whole_ = false;
  passing_ = {};
}

// All files.
void Scrubber::begin_whole() {
  after_ = 0;
  more_ = true;
  whole_ = true;
}

Result<> Scrubber::begin(std::optional<FileId> file, bool only_tell) {
  {
    const MutexLock lock(mutex_);
    if (state_.running) return fail(Errc::kBusy, "a scrub runs (weft scrub status)");
    begin_locked(only_tell);
    if (file) {
      files_.push_back(*file);
    } else {
      begin_whole();
    }
  }
  wake_.notify_all();
  return {};
}

Result<> Scrubber::resolve(FileId file, std::uint32_t from) {
  {
    const MutexLock lock(mutex_);
    if (resolutions_.size() >= parts_.limits.most_resolving) {
      return fail(Errc::kBusy, "too many files wait to be resolved (weft scrub status)");
    }
    resolutions_.push_back({file, from});
  }
  wake_.notify_all();
  return {};
}

bool Scrubber::end() {
  const MutexLock lock(mutex_);
  files_.clear();
  more_ = false;
  whole_ = false;
  const bool ran = state_.running;
  if (ran && working_ == 0) end_locked();
  return ran;
}

void Scrubber::end_locked() {
  state_.running = false;
  ++state_.rounds;
  if (whole_) crowded_ = std::move(passing_);
  since_ = parts_.clock.now();
  spdlog::info("event=scrub_ended files={} written={} failed={} differing={} mended={}",
               state_.files, state_.written, state_.failed, state_.differing, state_.mended);
}

ScrubState Scrubber::state() {
  MutexLock lock(mutex_);
  const std::vector<FileId> files = differing();
  lock.unlock();
  const std::vector<FileId> gone = removed(files);
  lock.lock();
  forget(gone);
  ScrubState out = state_;
  out.age = std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock.now() - since_);
  return out;
}

std::vector<FileId> Scrubber::differing() const {
  std::vector<FileId> files;
  for (const ScrubFinding& finding : state_.findings) {
    if (!finding.mended) files.push_back(finding.file);
  }
  return files;
}

std::vector<FileId> Scrubber::removed(std::vector<FileId> files) const {
  std::erase_if(files, [this](FileId file) {
    const auto map = parts_.names.layout(file);
    return map ? map->has_value() : map.error() != Errc::kStale && map.error() != Errc::kNotFound;
  });
  return files;
}

void Scrubber::forget(const std::vector<FileId>& files) {
  for (const FileId file : files) keep_findings(file, {});
}

CrowdedFiles Scrubber::crowded() {
  MutexLock lock(mutex_);
  const CrowdedFiles known = crowded_;
  lock.unlock();
  if (known.count == 0) return known;
  const auto servers = parts_.data_servers();
  CrowdedFiles still{.count = known.count, .first = known.first};
  still.count -=
      std::erase_if(still.first, [&](FileId file) { return !is_crowded(file, servers); });
  lock.lock();
  if (crowded_ == known) crowded_ = still;
  return still;
}

// While it is moved it has more copies than it should, and they may be anywhere.
bool Scrubber::is_crowded(FileId file, std::span<const layout::GroupServer> servers) const {
  const auto map = parts_.names.layout(file);
  if (!map || !*map || (*map)->copies.size() < 2) return false;
  const auto move = parts_.names.move_of(file);
  return move && !*move && layout::shares_domain(**map, servers);
}

std::vector<ScrubFinding> Scrubber::open_findings(FileId file) const {
  std::vector<ScrubFinding> open;
  const MutexLock lock(mutex_);
  std::ranges::copy_if(state_.findings, std::back_inserter(open), [file](const auto& finding) {
    return finding.file == file && !finding.mended;
  });
  return open;
}

void Scrubber::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    // First: somebody waits for these.
    if (!resolutions_.empty()) {
      const Resolution what = resolutions_.front();
      resolutions_.pop_front();
      lock.unlock();
      const auto outcome = parts_.scrub(what.file, {.only_tell = false, .from = what.from});
      lock.lock();
      resolved(what, outcome);
      continue;
    }
    const Clock::duration every = every_;
    if (!state_.running && every.count() > 0 && parts_.clock.now() - since_ >= every) {
      begin_locked(false);
      begin_whole();
    }
    const auto file = next();
    if (!file) {
      wake_.wait_for(mutex_, kIdle);
      continue;
    }
    ++working_;
    const bool only_tell = state_.only_tell;
    lock.unlock();
    const auto outcome = parts_.scrub(*file, {.only_tell = only_tell});
    const bool crowded = is_crowded(*file, parts_.data_servers());
    lock.lock();
    --working_;
    if (crowded && ++passing_.count <= parts_.limits.most_crowded) {
      passing_.first.push_back(*file);
    }
    count(*file, outcome);
    if (files_.empty() && !more_ && !listing_ && working_ == 0) end_locked();
  }
}

// nullopt: nothing to do now.
std::optional<FileId> Scrubber::next() {
  while (state_.running && files_.empty() && more_ && !listing_ && !stopping_) {
    listing_ = true;
    const FileId after = after_;
    // They leave room for what is found from here on.
    const std::vector<FileId> found = after == 0 ? differing() : std::vector<FileId>();
    mutex_.unlock();
    auto page = parts_.names.laid_out(after, parts_.limits.page);
    const std::vector<FileId> gone = removed(found);
    mutex_.lock();
    forget(gone);
    listing_ = false;
    if (!more_) break;  // it was ended meanwhile
    if (!page) {
      spdlog::error("event=scrub_failed error=\"{}\"", page.error().describe());
      ++state_.failed;
      more_ = false;
      whole_ = false;
      break;
    }
    more_ = page->size() == parts_.limits.page;
    if (!page->empty()) after_ = page->back();
    files_.assign(page->begin(), page->end());
    wake_.notify_all();
  }
  if (!state_.running) return std::nullopt;
  if (files_.empty()) {
    if (!more_ && !listing_ && working_ == 0) end_locked();
    return std::nullopt;
  }
  const FileId file = files_.front();
  files_.pop_front();
  return file;
}

void Scrubber::count(FileId file, const Result<ScrubOutcome>& outcome) {
  if (!outcome) {
    if (outcome.error() == Errc::kStale || outcome.error() == Errc::kNotFound) {  // removed
      return keep_findings(file, {});
    }
    // A file that is being written says nothing about its copies, so nothing failed.
    if (outcome.error() == Errc::kBusy) {
      ++state_.written;
    } else {
      ++state_.failed;
      spdlog::warn("event=scrub_failed file={:x} error=\"{}\"", file, outcome.error().describe());
    }
    return;
  }
  if (outcome->is == ScrubOutcome::Is::kSingle) return keep_findings(file, {});
  if (outcome->is == ScrubOutcome::Is::kWritten) {
    ++state_.written;
    return;
  }
  ++state_.files;
  state_.compared_bytes += outcome->compared_bytes;
  for (const ScrubFinding& finding : outcome->findings) {
    ++state_.differing;
    if (finding.mended) ++state_.mended;
  }
  keep_findings(file, outcome->findings);
}

void Scrubber::keep_findings(FileId file, const std::vector<ScrubFinding>& findings) {
  auto& kept = state_.findings;
  std::erase_if(kept, [&](const auto& old) { return old.file == file && !old.mended; });
  for (const ScrubFinding& finding : findings) {
    // When the list is full, news of what is mended makes way for what is not.
    if (kept.size() >= parts_.limits.most_findings) {
      const auto mended = std::ranges::find(kept, true, &ScrubFinding::mended);
      if (mended == kept.end()) {
        if (!finding.mended) ++state_.unlisted;
        continue;
      }
      kept.erase(mended);
    }
    kept.push_back(finding);
  }
}

void Scrubber::resolved(const Resolution& what, const Result<ScrubOutcome>& outcome) {
  std::string how;
  if (!outcome) {
    how = "failed, and can be tried again: " + outcome.error().describe();
  } else if (outcome->is == ScrubOutcome::Is::kWritten) {
    how = "nothing was changed, since somebody writes it: try again when nobody does";
  } else {
    keep_findings(what.file, outcome->findings);
    const auto mended = std::ranges::count(outcome->findings, true, &ScrubFinding::mended);
    if (mended > 0) {
      how = fmt::format("{} copies made equal to it", mended);
    } else if (outcome->findings.empty()) {
      how = "no copy differs from that";
    } else {
      how = "nothing was changed, since it has no current copy of what differs";
    }
  }
  spdlog::warn("event=scrub_resolved file={:x} from={} outcome=\"{}\"", what.file, what.from, how);
  constexpr std::size_t kMostKept = 10;
  if (state_.resolved.size() == kMostKept) state_.resolved.erase(state_.resolved.begin());
  state_.resolved.push_back(
      fmt::format("fileid {} from data server {}: {}", what.file, what.from, how));
}

}  // namespace weft::mds
