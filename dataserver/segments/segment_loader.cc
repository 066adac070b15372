#include "dataserver/segments/segment_loader.h"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr unsigned kAtOnce = 2;  // the disk has the next while the last piece of one is checked

}  // namespace

void SegmentLoader::load(const SegmentTable::SegmentPtr& segment, Buffer memory,
                         Store::Done<void> ended) {
  const auto job = std::make_shared<Job>(Job{.segment = segment,
                                             .memory = std::move(memory),
                                             .left = SegmentTable::pieces_of(segment),
                                             .ended = std::move(ended)});
  JobPtr next;
  {
    const MutexLock lock(mutex_);
    const bool fresh = later_.emplace(SegmentTable::number_of(segment), job).second;
    WEFT_ASSERT(fresh);
    next = take();
  }
  if (next) begin(next);
}

bool SegmentLoader::idle() const {
  const MutexLock lock(mutex_);
  return running_ == 0 && sweep_.empty() && later_.empty();
}

SegmentLoader::JobPtr SegmentLoader::take() {
  if (running_ == kAtOnce) return nullptr;
  if (sweep_.empty()) std::swap(sweep_, later_);
  if (sweep_.empty()) return nullptr;
  JobPtr job = std::move(sweep_.begin()->second);
  sweep_.erase(sweep_.begin());
  ++running_;
  return job;
}

void SegmentLoader::begin(const JobPtr& job) {
  // A change has come while it waited: who reads it goes beneath.
  if (table_.is_doomed(job->segment)) {
    const std::size_t pieces = job->left;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      piece_came(*job, piece, fail(Errc::kBusy, "a change has come"));
    }
    return end(*job);
  }
  partition_.read(SegmentTable::number_of(job->segment), job->memory,
                  [this, job](std::size_t piece, Result<> result) {
                    piece_came(*job, piece, std::move(result));
                    if (--job->left == 0) end(*job);
                  });
}

// If nothing waits, this may be gone once it is told that nothing runs.
void SegmentLoader::end(Job& job) {
  job.ended(Result<>{});
  JobPtr next;
  {
    const MutexLock lock(mutex_);
    --running_;
    next = take();
  }
  if (!next) return;
  // Not from here: those that the kernel has in memory end at once, one within the other.
  if (IoRing* ring = IoRing::current()) {
    ring->post([this, next] { begin(next); });
  } else {
    begin(next);
  }
}

void SegmentLoader::piece_came(Job& job, std::size_t piece, Result<> result) {
  const std::size_t at = piece * kPiece;
  const std::size_t size = std::min<std::size_t>(kPiece, job.memory.size() - at);
  const std::uint64_t sum = SegmentTable::sum_of(job.segment, piece);
  if (result && XXH64(job.memory.data() + at, size, 0) != sum) {
    result = fail(Errc::kCorrupt, "a segment's bytes do not have its checksum");
  }
  using Came = SegmentTable::Came;
  Came came = Came::kWhole;
  if (!result) came = result.error() == Errc::kBusy ? Came::kNot : Came::kDamaged;
  auto ended = table_.end_load(job.segment, piece, came);
  if (ended.dropped) {
    const std::uint64_t number = SegmentTable::number_of(job.segment);
    spdlog::warn("event=segment_dropped number={} error=\"{}\"", number, result.error().describe());
    partition_.remove_all(
        {number}, [this](std::uint64_t gone) { table_.removed(gone); },
        [](const Result<>& /*the builder tries again*/) {});
  }
  IoRing* here = IoRing::current();
  for (auto& waiter : ended.waiters) {
    if (waiter.ring == here) {
      waiter.go_on();
    } else {
      waiter.ring->post(std::move(waiter.go_on));
    }
  }
}

}  // namespace weft::ds
