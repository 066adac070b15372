// Audit: looks for strays, objects that a data server has and no file needs, and queues them for
// removal.
//
// Strays come to be when somebody writes an object that was removed already, under a handle that
// was not refused, or when a metadata server was taken over from a backup. They cost space, nothing
// else. One data server after the other:
//
//   1. It lists its objects, page by page. Those that the reverse index does not have are suspects.
//   2. A suspect that is there still, and still not in the index, is a stray: what is removed just
//      now is gone then.
//   3. Unless it is only to be told, the stray is queued for removal, in one transaction with
//      another look at the index. Its handles are refused before it goes (RemovalRecord).
//
// Objects of file numbers that were never given out here are told of and left alone: they are
// another system's, or the metadata store is older than the data server's, and then they are data.
//
// What is missing at a data server is not looked for: objects that nothing was written to are not
// there. Scrubs compare copies.
//
// Threading: any thread. A thread of its own goes through the data servers and blocks.
//
// Ownership: everything in Parts outlives it. stop(), or destruction, joins.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = rpc::control;

struct Stray {
  std::uint32_t ds_id = 0;
  layout::ObjectId object;
  std::uint64_t bytes = 0;  // of storage
  enum class Is : std::uint8_t { kLeft, kRemoved, kForeign } is = Is::kLeft;

  friend bool operator==(const Stray&, const Stray&) = default;
};

struct AuditState {
  bool running = false;
  bool only_tell = false;
  std::uint64_t rounds = 0;         // that have ended
  std::chrono::milliseconds age{};  // of the round, or since the last ended
  // Of the round that runs, or of the last:
  std::uint64_t servers = 0;  // gone through
  std::uint64_t objects = 0;
  std::uint64_t strays = 0;
  std::uint64_t removed = 0;  // of these, queued for removal
  std::uint64_t foreign = 0;  // not counted as strays
  std::uint64_t bytes = 0;    // of storage, of strays and foreign ones
  std::vector<Stray> found;   // the first of them
  struct Failure {
    std::uint32_t ds_id = 0;
    std::string why;
  };
  std::vector<Failure> failures;  // data servers that were not gone through to the end
};

class Auditor {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    std::size_t most_found = 100;  // that are listed
    unsigned tries = 3;            // of each question
    std::chrono::milliseconds between{1000};
  };
  struct Parts {
    Namespace& names;
    struct Server {
      std::uint32_t ds_id = 0;
      bool connected = false;
    };
    std::function<std::vector<Server>()> servers;
    // Each blocks.
    std::function<Result<control::Listed>(std::uint32_t ds_id, const control::ListFrom&)> list;
    std::function<Result<control::ObjectStat>(std::uint32_t ds_id, const layout::ObjectId&)> stat;
    std::function<void()> removals;  // there are more
    Limits limits{};
    const weft::Clock& clock;  // outlives it
  };

  explicit Auditor(Parts parts);
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;
  ~Auditor();
  void start();
  void stop();

  // kBusy: an audit runs.
  [[nodiscard]] Result<> begin(bool only_tell);
  // Ends one that runs, soon. False: none did.
  bool end();
  [[nodiscard]] AuditState state() const;

 private:
  void run();
  void look_at(std::uint32_t ds_id, bool only_tell);
  [[nodiscard]] Result<> go_through(std::uint32_t ds_id, bool only_tell);
  [[nodiscard]] Result<> judge(std::uint32_t ds_id, const layout::ObjectId& suspect,
                               bool only_tell);
  template <class T, class Ask>
  [[nodiscard]] Result<T> ask(const Ask& question);
  [[nodiscard]] bool wanted() const;
  // False: it is to end.
  [[nodiscard]] bool pause();

  const Parts parts_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ WEFT_GUARDED_BY(mutex_) = false;
  bool ending_ WEFT_GUARDED_BY(mutex_) = false;
  AuditState state_ WEFT_GUARDED_BY(mutex_);
  Clock::time_point since_ WEFT_GUARDED_BY(mutex_) = parts_.clock.now();
  std::thread thread_;
};

}  // namespace weft::mds
