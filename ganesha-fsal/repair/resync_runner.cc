#include "ganesha-fsal/repair/resync_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "rpc/base/log_text.h"

namespace weft::mds {

using control::ResyncProgress;

void ResyncRunner::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  awake_.notify_all();
}

bool ResyncRunner::sleep(Clock::duration span) {
  MutexLock lock(mutex_);
  awake_.wait_for(mutex_, span, [this]() WEFT_REQUIRES(mutex_) { return stopping_; });
  return !stopping_;
}

// A job that has begun ends when its object is removed. One that came after that would make the
// object anew.
Result<std::uint64_t> ResyncRunner::begin(RepairKind kind, FileId file, std::uint32_t ds_id,
                                          control::Resync& job) {
  auto kept = parts_.keep(file);
  if (!kept) return pass(kept);
  job.bytes_per_second = rate_;
  job.job = parts_.jobs.begin(kind, file, ds_id, job.source);
  // It may have as many as it does at once, begun by whomever: it says so, and is asked again.
  for (auto wait = parts_.limits.poll_first;; wait = std::min(2 * wait, parts_.limits.busy_most)) {
    auto begun = parts_.servers.ask(ds_id, job);
    if (begun) return job.job;
    const bool last = wait >= parts_.limits.busy_most;
    if (begun.error() == Errc::kBusy && !last && sleep(wait)) continue;
    parts_.jobs.end(job.job, false);
    return pass(begun);
  }
}

// It is asked, and does not tell of the end: what it answers is also how far it is, and that it was
// restarted and knows nothing of the job. An answer that is lost is made good by the next question;
// a message would need these questions beside it, for when it is lost.
Result<ResyncProgress> ResyncRunner::wait_for(std::uint32_t ds_id, std::uint64_t number,
                                              FileId uncut, Clock::time_point until, Ended ended) {
  auto wait = parts_.limits.poll_first;
  auto heard = parts_.now();
  Result<ResyncProgress> outcome = fail(Errc::kCancelled, "shutting down");
  while (sleep(wait)) {
    if (uncut != 0 && parts_.cut_waits(uncut)) {
      outcome = fail(Errc::kBusy, "the file is to be cut");
      break;
    }
    if (parts_.now() >= until) {
      outcome = fail(Errc::kTimedOut, "the data server takes too long");
      break;
    }
    wait = std::min(2 * wait, parts_.limits.poll_most);
    const auto at = parts_.servers.ask(ds_id, control::ResyncStatus{number});
    if (at) {
      heard = parts_.now();
      parts_.jobs.progress(number, *at);
      if (at->state == ResyncProgress::State::kRunning) continue;
      if (at->state == ResyncProgress::State::kDone) outcome = *at;
      if (at->state == ResyncProgress::State::kFailed) {
        outcome = fail(Errc::kIo, log_text(at->error));
      }
      if (at->state == ResyncProgress::State::kUnknown) {
        outcome = fail(Errc::kUnreachable, "the data server was restarted");
      }
      parts_.jobs.end(number, outcome.has_value());
      return outcome;
    }
    if (parts_.now() - heard < parts_.limits.give_up) continue;
    outcome = std::unexpected(at.error());
    break;
  }
  cancel(ds_id, number, ended);
  parts_.jobs.end(number, false);
  return outcome;
}

Result<ResyncProgress> ResyncRunner::finish(std::uint32_t ds_id, std::uint64_t number, FileId uncut,
                                            Clock::time_point until) {
  return wait_for(ds_id, number, uncut, until, uncut != 0 ? Ended::kSurely : Ended::kAsked);
}

Result<ResyncProgress> ResyncRunner::run(RepairKind kind, FileId file, std::uint32_t ds_id,
                                         control::Resync& job, FileId uncut, Ended ended) {
  if (uncut != 0) ended = Ended::kSurely;
  auto number = begin(kind, file, ds_id, job);
  if (number) return wait_for(ds_id, *number, uncut, Clock::time_point::max(), ended);
  // It may have begun, and the answer was lost.
  if (job.job != 0 && ended == Ended::kSurely) cancel(ds_id, job.job, ended);
  return pass(number);
}

// A job that could not be cancelled may go on there for a while; the object's next job ends it. The
// answer comes when the job has ended. Who has to be sure of that asks until then, or until the
// server is as good as gone: it is left out then before the file is changed, and fenced.
void ResyncRunner::cancel(std::uint32_t ds_id, std::uint64_t number, Ended ended) {
  const auto until = parts_.now() + parts_.limits.give_up;
  do {
    if (parts_.servers.ask(ds_id, control::ResyncCancel{number})) return;
  } while (ended == Ended::kSurely && parts_.now() < until && sleep(parts_.limits.poll_most));
  spdlog::info("event=resync_not_cancelled ds={} job={}", ds_id, number);
}

}  // namespace weft::mds
