#include "ganesha-fsal/files/behind.h"

#include <optional>
#include <utility>

#include "ganesha-fsal/cluster/wait_limit.h"

namespace weft::mds {

struct Behind::UnderWay {
  std::optional<Result<>> result;  // guarded by the Behind's mutex
};

void Behind::end(FileId file, UnderWay& work, Result<> result) {
  const MutexLock lock(mutex_);
  work.result = std::move(result);
  under_way_.erase(file);
  ended_.notify_all();
}

Result<> Behind::run(FileId file, std::chrono::milliseconds patience, Work work) {
  if (!WaitLimit::may_wait()) {
    return fail(Errc::kBusy, "too many requests wait for data servers");
  }
  const auto mine = std::make_shared<UnderWay>();
  {
    const MutexLock lock(mutex_);
    if (!under_way_.try_emplace(file, mine).second) {
      return fail(Errc::kBusy, "the same is being done already");
    }
  }
  const bool taken = queue_.post(
      [this, file, mine, work = std::move(work)]() mutable { end(file, *mine, work()); });
  if (!taken) end(file, *mine, fail(Errc::kBusy, "too much waits for data servers"));
  MutexLock lock(mutex_);
  const bool ended = ended_.wait_for(
      mutex_, patience, [&]() WEFT_REQUIRES(mutex_) { return mine->result.has_value(); });
  if (!ended) return fail(Errc::kBusy, "the data servers have not answered yet");
  return *mine->result;
}

}  // namespace weft::mds
