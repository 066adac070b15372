#include "ganesha-fsal/cluster/fence_batches.h"

#include <memory>
#include <utility>

namespace weft::mds {

namespace control = rpc::control;

void FenceBatches::fence(Servers servers, Fences fences, Done done) {
  if (fences.empty() || fences.size() > control::kMaxFences) {
    return done(fail(Errc::kInvalid, "1 to 1024 fences at a time"));
  }
  {
    const MutexLock lock(mutex_);
    asked_.push_back({std::move(servers), std::move(fences), std::move(done)});
    if (running_ >= parts_.at_once) return;
    ++running_;
  }
  post_one();
}

// For one that is counted as running.
void FenceBatches::post_one() {
  if (parts_.post([this] { run(); })) return;
  std::deque<Asked> refused;
  {
    const MutexLock lock(mutex_);
    --running_;
    if (running_ == 0) refused.swap(asked_);  // else one that runs goes on with them
  }
  for (Asked& one : refused) {
    one.done(fail(Errc::kBusy, "the metadata server has too much to do"));
  }
}

// Between two batches others have their turn.
void FenceBatches::run() {
  if (auto batch = take()) carry_out(std::move(*batch));
  {
    const MutexLock lock(mutex_);
    if (asked_.empty()) {
      --running_;
      return;
    }
  }
  post_one();
}

// The one that waits longest, and others of the same servers.
std::optional<FenceBatches::Batch> FenceBatches::take() {
  const MutexLock lock(mutex_);
  if (asked_.empty()) return std::nullopt;
  Batch batch{.servers = asked_.front().servers, .fences = {}, .done = {}};
  std::deque<Asked> others;
  for (Asked& one : asked_) {
    if (one.servers != batch.servers ||
        batch.fences.size() + one.fences.size() > control::kMaxFences) {
      others.push_back(std::move(one));
      continue;
    }
    batch.fences.insert(batch.fences.end(), one.fences.begin(), one.fences.end());
    batch.done.push_back(std::move(one.done));
  }
  asked_ = std::move(others);
  return batch;
}

void FenceBatches::carry_out(Batch batch) {
  const auto done =
      [all = std::make_shared<std::vector<Done>>(std::move(batch.done))](const Result<>& outcome) {
        for (Done& one : *all) one(outcome);
      };
  if (auto recorded = parts_.record(batch.servers, batch.fences); !recorded) return done(recorded);
  parts_.send(batch.servers, batch.fences, done);
}

}  // namespace weft::mds
