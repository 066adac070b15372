#include "dataserver/segments/segment_loader.h"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

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
  {
    const MutexLock lock(mutex_);
    waiting_.emplace(SegmentTable::number_of(segment), job);
  }
  begin_next();
}

SegmentLoader::JobPtr SegmentLoader::take() {
  const MutexLock lock(mutex_);
  if (running_ == kAtOnce || waiting_.empty()) return nullptr;
  auto at = waiting_.lower_bound(next_);
  if (at == waiting_.end()) at = waiting_.begin();
  JobPtr job = std::move(at->second);
  next_ = at->first + 1;
  waiting_.erase(at);
  ++running_;
  return job;
}

void SegmentLoader::begin_next() {
  const JobPtr job = take();
  if (!job) return;
  partition_.read(SegmentTable::number_of(job->segment), job->memory,
                  [this, job](std::size_t piece, Result<> result) {
                    piece_came(*job, piece, std::move(result));
                    if (--job->left == 0) end(job);
                  });
}

void SegmentLoader::end(const JobPtr& job) {
  {
    const MutexLock lock(mutex_);
    --running_;
  }
  begin_next();
  job->ended(Result<>{});
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
