// Fences of the same data servers that are asked for at about the same time: recorded by one
// transaction and sent in one message. A fence of its own costs two syncs here and one at the data
// server, however small; moving a million objects takes millions of them.
//
// A fence that comes while Parts::at_once batches are being recorded waits for one of these to end,
// and all that wait for the same data servers are the next batch, up to what a message holds. Lists
// of data servers take turns.
//
// Threading: fence() from any thread. Parts are called on the threads of `post`, and `done` where
// `send` completes.
//
// Ownership: outlives what it has posted.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ganesha-fsal/cluster/work_queue.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

class FenceBatches {
 public:
  using Done = rpc::control::Done<void>;
  using Fences = std::vector<rpc::control::Fence>;
  using Servers = std::vector<std::uint32_t>;

  struct Parts {
    std::function<bool(WorkQueue::Work&&)> post;                    // WorkQueue::post()
    std::function<Result<>(const Servers&, const Fences&)> record;  // durably
    std::function<void(const Servers&, const Fences&, Done)> send;
    unsigned at_once = 2;
  };

  explicit FenceBatches(Parts parts) : parts_(std::move(parts)) {}
  FenceBatches(const FenceBatches&) = delete;
  FenceBatches& operator=(const FenceBatches&) = delete;

  // 1 to kMaxFences of them. kBusy when `post` refuses.
  void fence(Servers servers, Fences fences, Done done);

 private:
  struct Asked {
    Fences fences;
    Done done;
  };
  struct Batch {
    Servers servers;
    Fences fences;
    std::vector<Done> done;
  };

  void post_one();
  void run();
  [[nodiscard]] std::optional<Batch> take();
  void carry_out(Batch batch);

  const Parts parts_;
  Mutex mutex_;
  // Of none of them nothing; in turns_ each of them once.
  std::map<Servers, std::deque<Asked>> asked_ WEFT_GUARDED_BY(mutex_);
  std::deque<Servers> turns_ WEFT_GUARDED_BY(mutex_);
  unsigned running_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft::mds
