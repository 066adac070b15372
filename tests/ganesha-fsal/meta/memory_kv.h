// The double of the metadata store: in memory, with faults on purpose. For tests.
//
// It keeps two states: what is committed, and what is durable. lose_power() goes back to the
// durable one plus a random part of what was committed since, as a crash would.
//
// Threading: as KvStore; the fault functions from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ganesha-fsal/meta/kv/kv.h"

namespace weft::mds {

class MemoryKv final : public KvStore {
 public:
  explicit MemoryKv(std::uint64_t seed = 1);
  ~MemoryKv() override;

  [[nodiscard]] std::unique_ptr<Transaction> begin() override;
  [[nodiscard]] const KvReader& latest() const override;
  [[nodiscard]] std::unique_ptr<KvReader> snapshot() const override;
  [[nodiscard]] Result<> wait_durable(CommitSeq seq) override;
  [[nodiscard]] CommitSeq durable() const override;
  [[nodiscard]] Result<> room() const override;

  // The next `count` commits, after letting `skip` through, are refused and change nothing.
  void fail_commits(Errc code, std::uint64_t skip, std::uint64_t count);
  // From now on about one commit in `one_in` is answered kConflict; 0: none.
  void conflict_at_random(std::uint32_t one_in);
  // The next sync fails; the store then refuses everything until lose_power().
  void fail_sync(Errc code);
  // Called, on its thread, after each peek of latest(), with what others can have changed since.
  void after_peek(std::function<void(std::string_view key)> hook);
  void set_full(bool full);
  // Crash and restart: durable commits, and the first few of the others, by the seed. Transactions
  // begun before fail to commit (kClosed).
  void lose_power();

  [[nodiscard]] std::uint64_t commits() const;
  [[nodiscard]] std::uint64_t syncs() const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weft::mds
