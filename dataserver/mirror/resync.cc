#include "dataserver/mirror/resync.h"

#include "dataserver/mirror/resync_job.h"

namespace weft::ds {

namespace control = rpc::control;

namespace {

constexpr std::uint64_t kNoJob = 0;

}  // namespace

Resyncs::Resyncs(Parts parts) : parts_(std::move(parts)), rate_(parts_.clock.now()) {}

Resyncs::~Resyncs() = default;

void Resyncs::start(control::Resync request, Done<void> done) {
  std::shared_ptr<Job> job;
  std::shared_ptr<Job> earlier;
  const std::uint64_t number = request.job;
  Result<> refused;
  {
    const MutexLock lock(mutex_);
    const auto known = jobs_.find(number);
    const bool finished = std::ranges::find(done_, number) != done_.end();
    if (known != jobs_.end() && !finished) {
      refused = {};  // under way: that is what is wanted
    } else if (stopped_) {
      refused = fail(Errc::kClosed, "shutting down");
    } else if (earlier = running_of(request.object, number); earlier != nullptr) {
      // below
    } else if (running_ >= kMaxRunning) {
      refused = fail(Errc::kBusy, "too many objects are made equal already");
    } else {
      IoRing& ring =
          *parts_.rings[std::hash<layout::ObjectId>{}(request.object) % parts_.rings.size()];
      rate_.set(request.bytes_per_second, parts_.clock.now());
      job = std::make_shared<Job>(parts_, rate_, std::move(request), ring,
                                  [this, number] { this->finished(number); });
      std::erase(done_, number);
      jobs_[number] = job;
      ++running_;
    }
  }
  if (earlier != nullptr) {
    return earlier->cancel([this, request = std::move(request), done = std::move(done)]() mutable {
      start(std::move(request), std::move(done));
    });
  }
  if (job != nullptr) job->start();
  done(std::move(refused));
}

std::shared_ptr<Resyncs::Job> Resyncs::running_of(const layout::ObjectId& object,
                                                  std::uint64_t job) const {
  for (const auto& [number, known] : jobs_) {
    if (number == job || !(known->object() == object)) continue;
    if (known->progress().state == control::ResyncProgress::State::kRunning) return known;
  }
  return nullptr;
}

void Resyncs::finished(std::uint64_t job) {
  const MutexLock lock(mutex_);
  if (--running_ == 0) none_runs_.notify_all();
  done_.push_back(job);
  if (done_.size() > kMaxFinished) {
    jobs_.erase(done_.front());
    done_.pop_front();
  }
}

control::ResyncProgress Resyncs::status(std::uint64_t job) const {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? control::ResyncProgress{} : found->second->progress();
}

control::Unreadable Resyncs::unreadable(std::uint64_t job) const {
  const MutexLock lock(mutex_);
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? control::Unreadable{} : found->second->unreadable();
}

void Resyncs::cancel(std::uint64_t job, Done<void> done) {
  std::shared_ptr<Job> found;
  {
    const MutexLock lock(mutex_);
    const auto known = jobs_.find(job);
    if (known != jobs_.end()) found = known->second;
  }
  if (found == nullptr) return done(Result<>{});
  found->cancel([done = std::move(done)]() mutable { done(Result<>{}); });
}

void Resyncs::removing(const layout::ObjectId& object, std::move_only_function<void()> done) {
  std::shared_ptr<Job> running;
  {
    const MutexLock lock(mutex_);
    if (running_ > 0) running = running_of(object, kNoJob);
  }
  if (running == nullptr) return done();
  running->cancel(std::move(done));
}

bool Resyncs::stop(std::chrono::milliseconds limit) {
  std::vector<std::shared_ptr<Job>> running;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    for (const auto& [number, job] : jobs_) running.push_back(job);
  }
  for (const auto& job : running) job->cancel([] {});
  const MutexLock lock(mutex_);
  return none_runs_.wait_for(mutex_, limit,
                             [this]() WEFT_REQUIRES(mutex_) { return running_ == 0; });
}

}  // namespace weft::ds
