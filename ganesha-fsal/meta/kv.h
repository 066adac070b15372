// The metadata store: an ordered key-value store with serialisable transactions.
//
// Everything the metadata server knows durably goes through this interface. RocksDB, embedded, is
// the default engine (rocks_kv.h); memory_kv.h is the double for tests, which can also fail and
// lose power on purpose. A distributed engine can take their place.
//
// Transactions are optimistic: get() and scan() remember what was read, and commit() answers
// kConflict when somebody else has changed any of it since; run() then tries again. Nothing a
// transaction writes is seen by others before commit() returns success, and from then on it
// survives the death of the process, and of the machine when the store was opened with sync.
//
// Threading: a KvStore is used from any thread; a Transaction belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/base/error.h"

namespace weft::mds {

class Transaction {
 public:
  virtual ~Transaction() = default;

  // nullopt when there is no such key. Sees this transaction's own writes.
  [[nodiscard]] virtual Result<std::optional<std::string>> get(std::string_view key) = 0;
  // Like get, but a later change by others is no conflict: for values that only inform.
  [[nodiscard]] virtual Result<std::optional<std::string>> peek(std::string_view key) = 0;
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual void erase(std::string_view key) = 0;

  // Visits keys of [begin, end) in order until `visit` returns false or `limit` keys were seen.
  // Sees this transaction's own writes. A scan conflicts with changes to keys it returned, not with
  // new keys in between: a caller that needs the range to stay as it was reads a guard key too.
  [[nodiscard]] virtual Result<> scan(
      std::string_view begin, std::string_view end, std::size_t limit,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) = 0;

  // kConflict: run it again. kIo, kNoSpace: not committed. Used once.
  [[nodiscard]] virtual Result<> commit() = 0;
};

class KvStore {
 public:
  virtual ~KvStore() = default;
  [[nodiscard]] virtual std::unique_ptr<Transaction> begin() = 0;

  // Runs `body` in a transaction and commits it; on kConflict again, at most `kMaxAttempts` times.
  // An error from `body` ends it uncommitted and is returned.
  static constexpr int kMaxAttempts = 64;
  [[nodiscard]] Result<> run(const std::function<Result<>(Transaction&)>& body);
};

}  // namespace weft::mds
