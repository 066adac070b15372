#include "ganesha-fsal/meta/kv/kv.h"

#include <chrono>
#include <thread>

namespace weft::mds {

Result<KvReader::Values> KvReader::peek_all(std::span<const std::string> keys) const {
  Values values;
  for (const std::string& key : keys) {
    auto value = peek(key);
    if (!value) return pass(value);
    values.push_back(std::move(*value));
  }
  return values;
}

Result<CommitSeq> KvStore::apply(const Body& body) {
  Error last{Errc::kConflict, ""};
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto transaction = begin();
    auto seq = [&]() -> Result<CommitSeq> {
      if (auto done = body(*transaction); !done) return pass(done);
      return transaction->commit();
    }();
    if (seq || seq.error().code != Errc::kConflict) return seq;
    last = std::move(seq.error());
    // Who won has committed: there is nothing to wait for. Locks keep nearly all apart that change
    // the same keys (inode_locks.h); what is left are keys of several inodes, such as the count of
    // restored files that have grown. Many threads at one of these would take all tries from each
    // other, so from the fourth try on they spread. All sleeps together are 21 ms at most.
    if (attempt > 2) std::this_thread::sleep_for(std::chrono::microseconds(10 << (attempt % 8)));
  }
  return std::unexpected(std::move(last));
}

Result<> KvStore::run(const Body& body) {
  auto seq = apply(body);
  if (!seq) return pass(seq);
  return wait_durable(*seq);
}

}  // namespace weft::mds
