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
    const auto [at, fresh] = asked_.try_emplace(std::move(servers));
    if (fresh) turns_.push_back(at->first);
    at->second.push_back({std::move(fences), std::move(done)});
    if (running_ >= parts_.at_once) return;
    ++running_;
  }
  post_one();
}

// For one that is counted as running.
void FenceBatches::post_one() {
  if (parts_.post([this] { run(); })) return;
  std::map<Servers, std::deque<Asked>> refused;
  {
    const MutexLock lock(mutex_);
    --running_;
    if (running_ == 0) {  // else one that runs goes on with them
      refused.swap(asked_);
      turns_.clear();
    }
  }
  for (auto& [servers, asked] : refused) {
    for (Asked& one : asked) one.done(fail(Errc::kBusy, "the metadata server has too much to do"));
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

// Of the data servers whose turn it is, as many as a message holds.
std::optional<FenceBatches::Batch> FenceBatches::take() {
  const MutexLock lock(mutex_);
  if (turns_.empty()) return std::nullopt;
  Batch batch{.servers = std::move(turns_.front()), .fences = {}, .done = {}};
  turns_.pop_front();
  const auto at = asked_.find(batch.servers);
  std::deque<Asked>& asked = at->second;
  while (!asked.empty() &&
         batch.fences.size() + asked.front().fences.size() <= control::kMaxFences) {
    Asked& one = asked.front();
    batch.fences.insert(batch.fences.end(), one.fences.begin(), one.fences.end());
    batch.done.push_back(std::move(one.done));
    asked.pop_front();
  }
  if (asked.empty()) {
    asked_.erase(at);
  } else {
    turns_.push_back(batch.servers);
  }
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
