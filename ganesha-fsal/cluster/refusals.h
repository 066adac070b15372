// Who wanted to be a data server lately and was not let in: for the log, which has each reason
// once, and for administrators, to whom a data server that is refused is otherwise one that is not
// there.
//
// One that has not proved that it has the cluster key has no name: what it says is not believed.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/net_address.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Refusals {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMost = 64;  // remembered; the oldest give way
  static constexpr std::chrono::minutes kRecent{5};

  struct Refusal {
    std::string address;      // without a port
    std::string name;         // empty: not proved
    std::string why;          // the last time
    std::uint64_t times = 0;  // for that reason
    Clock::time_point last;
  };

  explicit Refusals(std::function<Clock::time_point()> now) : now_(std::move(now)) {}

  // Whether that is news.
  [[nodiscard]] bool add(const layout::NetAddress& from, const std::string& name,
                         const std::string& why);
  // It was let in.
  void forget(const layout::NetAddress& from, const std::string& name);
  // Of the last kRecent, those that came last first.
  [[nodiscard]] std::vector<Refusal> recent() const;

 private:
  using Who = std::pair<std::string, std::string>;  // address and name
  const std::function<Clock::time_point()> now_;
  mutable Mutex mutex_;
  std::map<Who, Refusal> known_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
