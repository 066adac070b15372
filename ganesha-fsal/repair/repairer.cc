// Repairer: who works at what, and when.
#include "ganesha-fsal/repair/repairer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/repair/copy_scrub.h"

namespace weft::mds {
namespace {

constexpr std::size_t kPage = 256;  // of what is stale at a data server, read at once
constexpr unsigned kWatching = 4;   // workers that look by themselves whether there is something
constexpr std::chrono::hours kLong{1};
constexpr std::uint64_t kMib = 1U << 20;

// Numbers of this run are above those of earlier ones, as far as data servers remember them.
std::uint64_t first_number(const Namespace& names) { return names.superblock().boot_epoch << 32; }

}  // namespace

Repairer::Repairer(Parts parts)
    : parts_(std::move(parts)),
      jobs_(first_number(parts_.names), [this] { return parts_.clock.now(); }),
      runner_({
          .servers = parts_.servers,
          .jobs = jobs_,
          .keep = parts_.keep,
          .cut_waits = parts_.cut_waits,
          .now = [this] { return parts_.clock.now(); },
          .limits = parts_.limits.jobs,
      }) {}

Repairer::~Repairer() { stop(); }

void Repairer::start() {
  for (unsigned i = 0; i < parts_.limits.workers; ++i) workers_.emplace_back([this] { run(); });
}

void Repairer::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  runner_.stop();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void Repairer::server_up(std::uint32_t ds_id) {
  {
    const MutexLock lock(mutex_);
    Destination& at = destinations_[ds_id];
    at.look_at = at.not_before = {};
    at.rest = {};
    put_off_.clear();  // some may have waited for it as their source
  }
  wake_.notify_all();
}

void Repairer::look_soon(std::uint32_t ds_id) {
  {
    const MutexLock lock(mutex_);
    destinations_[ds_id].look_at = {};
  }
  wake_.notify_one();
}

Result<> Repairer::compare(FileId file) {
  auto map = parts_.names.layout(file);
  if (!map) return pass(map);
  if (!*map || (*map)->copies.size() < 2) return {};
  {
    const MutexLock lock(mutex_);
    const auto found = compares_.find(file);
    if (found != compares_.end()) {
      if (!found->second) return fail(Errc::kBusy, "its copies are being compared");
      const bool done = *found->second;
      compares_.erase(found);
      if (done) return {};
    }
    // Some that are done nobody asks about again: removed meanwhile.
    if (compares_.size() >= parts_.limits.max_compares) {
      std::erase_if(compares_, [](const auto& known) { return known.second.has_value(); });
    }
    if (compares_.size() >= parts_.limits.max_compares) {
      return fail(Errc::kBusy, "too many files are being compared");
    }
    compares_[file] = std::nullopt;
    to_compare_.push_back(file);
  }
  wake_.notify_one();
  return fail(Errc::kBusy, "its copies are to be compared");
}

Result<ScrubOutcome> Repairer::scrub(FileId file, const ScrubHow& how) {
  {
    const MutexLock lock(mutex_);
    if (!busy_.insert(file).second) return fail(Errc::kBusy, "the file is being repaired");
  }
  auto outcome = CopyScrub({.names = parts_.names,
                            .servers = parts_.servers,
                            .jobs = runner_,
                            .pin = parts_.pin,
                            .keep_uncut = parts_.keep_uncut,
                            .keep_unwritten = parts_.keep_unwritten,
                            .written = parts_.written},
                           file, how)
                     .run();
  const MutexLock lock(mutex_);
  busy_.erase(file);
  return outcome;
}

void Repairer::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (const auto what = take()) {
      wake_.notify_one();  // where there was one there may be another
      work(*what);
    } else if (!stopping_) {
      const bool watches = watching_ < kWatching;
      if (watches) ++watching_;
      wake_.wait_for(mutex_, watches ? parts_.limits.idle : Clock::duration(kLong));
      if (watches) --watching_;
    }
  }
}

// What is compared may take hours, and what is stale has fewer copies meanwhile.
std::optional<Repairer::Work> Repairer::take_compare() {
  if (comparing_ >= std::max(1U, parts_.limits.workers / 2)) return std::nullopt;
  for (auto it = to_compare_.begin(); it != to_compare_.end(); ++it) {
    const FileId file = *it;
    if (busy_.contains(file)) continue;
    to_compare_.erase(it);
    return Work{.compare = file};
  }
  return std::nullopt;
}

// What is put off goes from the list, which is read again and again, so that others get their turn.
std::optional<Repairer::Work> Repairer::take_stale(std::uint32_t ds_id, Destination& at) {
  const auto now = parts_.clock.now();
  std::erase_if(at.waiting, [&](const Waiting& waiting) WEFT_REQUIRES(mutex_) {
    const auto off = put_off_.find({ds_id, waiting.object.id});
    return off != put_off_.end() && now < off->second.not_before;
  });
  for (auto it = at.waiting.begin(); it != at.waiting.end(); ++it) {
    if (busy_.contains(it->object.id) || !has_turn(at, it->small)) continue;
    Work work{.stale = std::move(it->object), .small = it->small};
    at.waiting.erase(it);
    return work;
  }
  return std::nullopt;
}

std::optional<Repairer::Work> Repairer::take() {
  if (auto compare = take_compare()) return compare;
  mutex_.unlock();
  auto here = parts_.here();
  mutex_.lock();
  std::ranges::sort(here);
  std::ranges::rotate(here, std::ranges::upper_bound(here, last_served_));
  for (const std::uint32_t ds_id : here) {
    if (stopping_) return std::nullopt;
    Destination& at = destinations_[ds_id];  // never erased, so it stays while unlocked
    const auto now = parts_.clock.now();
    if (now < at.not_before || (!has_turn(at, false) && !has_turn(at, true))) continue;
    if (at.waiting.empty() && !at.listing && now >= at.look_at) look(ds_id);
    if (auto work = take_stale(ds_id, at)) {
      last_served_ = ds_id;
      return work;
    }
  }
  return std::nullopt;
}

void Repairer::look(std::uint32_t ds_id) {
  Destination& at = destinations_[ds_id];
  at.listing = true;
  const auto after = at.after;
  mutex_.unlock();
  auto page = parts_.names.stale_objects(ds_id, after, kPage);
  std::vector<Waiting> found;
  for (std::size_t i = 0; page && i < page->size(); ++i) {
    found.push_back({(*page)[i], is_small((*page)[i].id)});
  }
  mutex_.lock();
  at.listing = false;
  if (!page) {
    spdlog::error("event=stale_objects_unread ds={} error=\"{}\"", ds_id, page.error().describe());
    at.look_at = parts_.clock.now() + parts_.limits.look_every;
    return;
  }
  // At the end from the beginning again, and not at once: what is left has failed, or is new.
  if (page->size() < kPage) {
    at.after.reset();
    at.look_at =
        parts_.clock.now() + (page->empty() ? parts_.limits.look_every : parts_.limits.first_rest);
  } else {
    at.after = page->back();
  }
  std::ranges::move(found, std::back_inserter(at.waiting));
}

bool Repairer::is_small(FileId file) const {
  const auto attributes = parts_.names.getattr(file);
  return attributes && attributes->size < parts_.limits.small;
}

std::chrono::steady_clock::time_point Repairer::rest_longer(Clock::duration& rest) const {
  rest = std::clamp(rest * 2, parts_.limits.first_rest, parts_.limits.longest_rest);
  return parts_.clock.now() + rest;
}

void Repairer::failed(const StaleObject& stale, bool at_server, const Error& error) {
  Destination& at = destinations_[stale.ds_id];
  at.waits_for = error.describe();
  const ObjectAt object{stale.ds_id, stale.id};
  if (!at_server && (put_off_.contains(object) || put_off_.size() < parts_.limits.max_put_off)) {
    PutOff& off = put_off_[object];
    off.not_before = rest_longer(off.rest);
    off.why = error.describe();
  } else {
    at.not_before = rest_longer(at.rest);
  }
}

std::map<std::uint32_t, std::string> Repairer::waits_for() const {
  std::map<std::uint32_t, std::string> waits;
  const MutexLock lock(mutex_);
  for (const auto& [ds_id, at] : destinations_) {
    if (!at.waits_for.empty()) waits.emplace(ds_id, at.waits_for);
  }
  return waits;
}

std::string Repairer::state_of(FileId file, std::uint32_t ds_id) const {
  if (!is_here(ds_id)) return "waits: its data server is away";
  const std::uint64_t rate = runner_.rate();
  for (const RepairJob& job : jobs_.running()) {
    if (job.file != file || job.ds_id != ds_id) continue;
    const std::string limit =
        rate == 0 ? "" : fmt::format(", at most {} MiB/s at one server", rate / kMib);
    return fmt::format("under way from data server {}, {} of {} MiB compared{}", job.source,
                       job.compared_bytes / kMib, job.total_bytes / kMib, limit);
  }
  const auto now = parts_.clock.now();
  const auto later = [now](Clock::time_point when, const std::string& why) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(when - now);
    return fmt::format("waits {} s more: {}", left.count(), why);
  };
  const MutexLock lock(mutex_);
  const auto off = put_off_.find({ds_id, file});
  if (off != put_off_.end() && now < off->second.not_before) {
    return later(off->second.not_before, off->second.why);
  }
  const auto at = destinations_.find(ds_id);
  if (at != destinations_.end() && now < at->second.not_before) {
    return later(at->second.not_before, at->second.waits_for);
  }
  if (busy_.contains(file)) return "waits: its file is being worked at";
  if (at != destinations_.end() && at->second.running >= parts_.limits.per_server) {
    return fmt::format("waits: {} of at most {} repairs run at its data server", at->second.running,
                       parts_.limits.per_server);
  }
  return "waits for its turn";
}

void Repairer::work(const Work& what) {
  const FileId file = what.stale ? what.stale->id : what.compare;
  busy_.insert(file);
  Destination* const at = what.stale ? &destinations_[what.stale->ds_id] : nullptr;
  unsigned* const running =
      at == nullptr ? nullptr : &(what.small ? at->small_running : at->running);
  if (running != nullptr) ++*running;
  if (at == nullptr) ++comparing_;
  mutex_.unlock();
  bool at_server = false;
  const auto done = what.stale ? mend(*what.stale, at_server) : compare_copies(file);
  if (!done) {
    spdlog::info("event=repair_put_off file={:x} ds={} error=\"{}\"", file,
                 what.stale ? what.stale->ds_id : 0, done.error().describe());
  }
  mutex_.lock();
  busy_.erase(file);
  if (at != nullptr) {
    --*running;
    if (done) {
      at->rest = {};
      at->waits_for.clear();
      put_off_.erase({what.stale->ds_id, file});
    } else {
      failed(*what.stale, at_server, done.error());
    }
  } else {
    --comparing_;
    compares_[file] = done.has_value();
    mutex_.unlock();
    parts_.compared();
    mutex_.lock();
  }
}

}  // namespace weft::mds
