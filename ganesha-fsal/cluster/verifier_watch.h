// One write verifier that stands for those of all data servers.
//
// A data server's verifier changes when unstable data there may have been lost. Whatever changes,
// ours does: a client that wrote through us before compares unequal at COMMIT and writes again. The
// other way round, as long as ours is the same, every data server seen has kept what it was sent.
//
// Threading: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace weft::mds {

class VerifierWatch {
 public:
  // `start` differs with each start of the process.
  explicit VerifierWatch(std::uint64_t start) : value_(start) {}

  // Takes in a verifier from a reply of a data server; returns ours, to be used for that reply.
  std::uint64_t observe(std::uint32_t ds_id, std::uint64_t verifier) {
    const std::lock_guard lock(mutex_);
    const auto [known, first] = seen_.emplace(ds_id, verifier);
    if (!first && known->second != verifier) {
      known->second = verifier;
      ++value_;
    }
    return value_;
  }

  [[nodiscard]] std::uint64_t value() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t value_;                          // guarded by mutex_, as is seen_
  std::map<std::uint32_t, std::uint64_t> seen_;  // the last of each data server
};

}  // namespace weft::mds
