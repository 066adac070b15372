// Jobs at data servers, from here: a job makes an object equal to another data server's, or only
// tells how they differ (docs/protocol.md, "Resync"). One is begun, then asked how far it is until
// it has ended.
//
// Threading: any thread; a call blocks, at most until stop(). Parts are called from it.
// Ownership: everything in Parts outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "ganesha-fsal/cluster/data_servers.h"
#include "ganesha-fsal/repair/repair_jobs.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class ResyncRunner {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    std::uint64_t bytes_per_second = 0;  // of a data server; 0: no limit
    Clock::duration poll_first = std::chrono::milliseconds(10);
    // Between two looks at a job: the next one of the server waits for as long after its end.
    Clock::duration poll_most = std::chrono::milliseconds(100);
    // Between attempts to begin one at a server that has as many as it does at once.
    Clock::duration busy_most = std::chrono::milliseconds(500);
    Clock::duration give_up = std::chrono::seconds(15);  // a job of which nothing is heard
  };
  struct Parts {
    DataServers& servers;
    RepairJobs& jobs;  // numbers and progress
    // While what it returns lives the file's objects are not removed. kStale: it is gone.
    std::function<Result<std::shared_ptr<void>>(FileId)> keep;
    // Somebody waits to cut the file, or to make a hole in it.
    std::function<bool(FileId)> cut_waits;
    std::function<Clock::time_point()> now;
    Limits limits;
  };

  explicit ResyncRunner(Parts parts)
      : parts_(std::move(parts)), rate_(parts_.limits.bytes_per_second) {}
  ResyncRunner(const ResyncRunner&) = delete;
  ResyncRunner& operator=(const ResyncRunner&) = delete;

  // Of jobs that begin from now on: Limits::bytes_per_second.
  void set_rate(std::uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  [[nodiscard]] std::uint64_t rate() const { return rate_; }

  // Ends every wait, with kCancelled.
  void stop();

  // Begins `job`, which gets its number and rate, at the data server. Returns the number.
  [[nodiscard]] Result<std::uint64_t> begin(RepairKind kind, FileId file, std::uint32_t ds_id,
                                            control::Resync& job);
  // Waits for its end, until nothing has been heard of it for Limits::give_up, or until `until`. If
  // `uncut` is a file that must not be cut meanwhile, and is to be, the job is ended for that, and
  // the answer is kBusy.
  [[nodiscard]] Result<control::ResyncProgress> finish(
      std::uint32_t ds_id, std::uint64_t number, FileId uncut = 0,
      Clock::time_point until = Clock::time_point::max());
  // A job that is given up: its data server is asked once to end it; or, where its going on does
  // harm, until it says that it has, or Limits::give_up is over once more. Always so with `uncut`.
  enum class Ended : bool { kAsked, kSurely };
  // Both, one after the other.
  [[nodiscard]] Result<control::ResyncProgress> run(RepairKind kind, FileId file,
                                                    std::uint32_t ds_id, control::Resync& job,
                                                    FileId uncut = 0, Ended ended = Ended::kAsked);

 private:
  [[nodiscard]] Result<control::ResyncProgress> wait_for(std::uint32_t ds_id, std::uint64_t number,
                                                         FileId uncut, Clock::time_point until,
                                                         Ended ended);
  void cancel(std::uint32_t ds_id, std::uint64_t number, Ended ended);
  // False: stopping.
  [[nodiscard]] bool sleep(Clock::duration span);

  const Parts parts_;
  std::atomic<std::uint64_t> rate_;
  Mutex mutex_;
  CondVar awake_;  // who sleeps
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::mds
