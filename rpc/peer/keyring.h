// The cluster's keys as a running server has them: read from the key file, and again when that has
// changed, so that the key can be changed while everything serves.
//
// A file that cannot be used changes nothing: the keys there are stay, and it is tried again.
//
// Threading: any thread; now() takes no lock. One thread follows the file.
//
// Ownership: what now() refers to lives as long as the ring. A set of keys that was replaced is
// kept: that is a few hundred bytes for each time the key was changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rpc/base/mutex.h"
#include "rpc/peer/keys.h"

namespace weft::rpc::peer {

class Keyring {
 public:
  // One or two; the first is used.
  struct Keys {
    ClusterKeys cluster;
    std::vector<layout::HandleKey> handle;    // of each
    std::vector<std::uint64_t> fingerprints;  // likewise
  };

  // Without a file, for tests.
  explicit Keyring(const ClusterKeys& keys);
  explicit Keyring(const ClusterKey& key) : Keyring(ClusterKeys{key}) {}
  // As load_cluster_keys().
  [[nodiscard]] static Result<std::shared_ptr<Keyring>> load(const std::string& path);

  [[nodiscard]] const Keys& now() const { return *now_.load(std::memory_order_acquire); }
  // What handles are sealed with, and proofs made.
  [[nodiscard]] const layout::HandleKey& sealing() const { return now().handle.front(); }
  [[nodiscard]] const ClusterKey& first() const { return now().cluster.front(); }
  [[nodiscard]] bool accepts(const ClusterKey& key) const;

  void use(const ClusterKeys& keys);
  // Reads the file again if it is not as it was when it was read last, and says so in the log. True
  // if there are other keys now. Cheap while the file stays as it is.
  bool follow();

 private:
  // What a file that was changed differs in.
  struct Seen {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // there is none
    std::int64_t changed_ns = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  [[nodiscard]] static Seen look(const std::string& path);

  std::string path_;     // constant
  Seen seen_;            // of the thread that follows
  bool unread_ = false;  // likewise: it could not be used, for a reason that may pass
  Mutex mutex_;
  std::vector<std::unique_ptr<const Keys>> all_ WEFT_GUARDED_BY(mutex_);
  std::atomic<const Keys*> now_{nullptr};
};

}  // namespace weft::rpc::peer
