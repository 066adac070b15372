#include "tests/ganesha-fsal/meta/memory_kv.h"

#include <deque>
#include <map>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ganesha-fsal/meta/kv/group_sync.h"

namespace weft::mds {
namespace {

// A committed value; erased keys stay, so that their version can conflict.
struct Cell {
  std::optional<std::string> value;
  std::uint64_t version = 0;
};
using Cells = std::map<std::string, Cell, std::less<>>;
using Writes = std::map<std::string, std::optional<std::string>, std::less<>>;

const Cell* find(const Cells& cells, std::string_view key) {
  const auto at = cells.find(key);
  return at == cells.end() ? nullptr : &at->second;
}

// Visits `cells` overlaid with `writes`.
void merge_scan(const Cells& cells, const Writes& writes, std::string_view begin,
                std::string_view end, std::size_t limit, const ScanVisitor& visit) {
  auto base = cells.lower_bound(begin);
  auto over = writes.lower_bound(begin);
  std::size_t seen = 0;
  while (seen < limit) {
    const bool base_left = base != cells.end() && base->first < end;
    const bool over_left = over != writes.end() && over->first < end;
    if (!base_left && !over_left) return;
    const bool take_over = over_left && (!base_left || over->first <= base->first);
    const std::string& key = take_over ? over->first : base->first;
    const std::optional<std::string>& value = take_over ? over->second : base->second.value;
    if (take_over && base_left && base->first == key) ++base;
    if (value) {
      ++seen;
      if (!visit(key, *value)) return;
    }
    take_over ? static_cast<void>(++over) : static_cast<void>(++base);
  }
}

}  // namespace

struct MemoryKv::State {
  explicit State(std::uint64_t seed)
      : random(seed), reader(*this), sync([this] { return make_durable(); }) {}

  class Reader final : public KvReader {
   public:
    explicit Reader(const State& state) : state_(state) {}
    Result<std::optional<std::string>> peek(std::string_view key) const override {
      auto value = state_.value_of(key);
      if (const auto hook = state_.hook()) (*hook)(key);
      return value;
    }
    Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                  const ScanVisitor& visit) const override {
      state_.scan({}, begin, end, limit, visit);
      return {};
    }

   private:
    const State& state_;
  };

  [[nodiscard]] std::optional<std::string> value_of(std::string_view key) const {
    const MutexLock lock(mutex);
    const Cell* cell = find(cells, key);
    return cell == nullptr ? std::nullopt : cell->value;
  }
  [[nodiscard]] std::shared_ptr<const std::function<void(std::string_view)>> hook() const {
    const MutexLock lock(mutex);
    return after_peek;
  }

  // The visitor runs without the lock: it may read.
  void scan(const Writes& writes, std::string_view begin, std::string_view end, std::size_t limit,
            const ScanVisitor& visit) const {
    std::vector<std::pair<std::string, std::string>> found;
    {
      const MutexLock lock(mutex);
      merge_scan(cells, writes, begin, end, limit,
                 [&](std::string_view key, std::string_view value) {
                   found.emplace_back(key, value);
                   return true;
                 });
    }
    for (const auto& [key, value] : found) {
      if (!visit(key, value)) return;
    }
  }

  // The refusal that a fault asks for, if any.
  [[nodiscard]] std::optional<Error> fault() WEFT_REQUIRES(mutex) {
    if (auto failed = sync.poisoned()) return failed;
    if (conflict_one_in != 0 && random() % conflict_one_in == 0) {
      return Error{Errc::kConflict, "injected"};
    }
    if (fail_count == 0) return std::nullopt;
    if (fail_skip > 0) {
      --fail_skip;
      return std::nullopt;
    }
    --fail_count;
    return Error{fail_code, "injected"};
  }

  static void apply_writes(Cells& to, const Writes& writes, std::uint64_t at_version) {
    for (const auto& [key, value] : writes) to[key] = Cell{value, at_version};
  }

  Result<> make_durable() {
    const MutexLock lock(mutex);
    if (sync_fault) return std::unexpected(*sync_fault);
    for (const Writes& writes : undurable) apply_writes(durable, writes, 0);
    undurable.clear();
    return {};
  }

  mutable Mutex mutex;
  std::mt19937_64 random WEFT_GUARDED_BY(mutex);
  Cells cells WEFT_GUARDED_BY(mutex);
  Cells durable WEFT_GUARDED_BY(mutex);
  std::deque<Writes> undurable WEFT_GUARDED_BY(mutex);  // since the last sync, oldest first
  std::uint64_t version WEFT_GUARDED_BY(mutex) = 0;
  std::uint64_t life WEFT_GUARDED_BY(mutex) = 0;  // counts power losses
  std::uint64_t fail_skip WEFT_GUARDED_BY(mutex) = 0;
  std::uint64_t fail_count WEFT_GUARDED_BY(mutex) = 0;
  Errc fail_code WEFT_GUARDED_BY(mutex) = Errc::kIo;
  std::uint32_t conflict_one_in WEFT_GUARDED_BY(mutex) = 0;
  std::optional<Error> sync_fault WEFT_GUARDED_BY(mutex);
  std::shared_ptr<const std::function<void(std::string_view)>> after_peek WEFT_GUARDED_BY(mutex);
  bool full WEFT_GUARDED_BY(mutex) = false;

  const Reader reader;
  GroupSync sync;
};

namespace {

class SnapshotReader final : public KvReader {
 public:
  explicit SnapshotReader(Cells cells) : cells_(std::move(cells)) {}
  Result<std::optional<std::string>> peek(std::string_view key) const override {
    const Cell* cell = find(cells_, key);
    return cell == nullptr ? std::nullopt : cell->value;
  }
  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    merge_scan(cells_, {}, begin, end, limit, visit);
    return {};
  }

 private:
  const Cells cells_;
};

template <class State>
class MemoryTransaction final : public Transaction {
 public:
  explicit MemoryTransaction(std::shared_ptr<State> state) : state_(std::move(state)) {
    const MutexLock lock(state_->mutex);
    life_ = state_->life;
  }

  Result<std::optional<std::string>> peek(std::string_view key) const override {
    if (const auto own = writes_.find(key); own != writes_.end()) return own->second;
    return state_->value_of(key);
  }

  Result<std::optional<std::string>> get(std::string_view key) override {
    if (const auto own = writes_.find(key); own != writes_.end()) return own->second;
    const MutexLock lock(state_->mutex);
    const Cell* cell = find(state_->cells, key);
    reads_.try_emplace(std::string(key), cell == nullptr ? 0 : cell->version);
    return cell == nullptr ? std::nullopt : cell->value;
  }

  void put(std::string_view key, std::string_view value) override {
    writes_.insert_or_assign(std::string(key), std::string(value));
  }
  void erase(std::string_view key) override {
    writes_.insert_or_assign(std::string(key), std::nullopt);
  }

  Result<> scan(std::string_view begin, std::string_view end, std::size_t limit,
                const ScanVisitor& visit) const override {
    state_->scan(writes_, begin, end, limit, visit);
    return {};
  }

  Result<CommitSeq> commit() override {
    const MutexLock lock(state_->mutex);
    if (life_ != state_->life) return fail(Errc::kClosed, "the store has lost power");
    if (writes_.empty() && reads_.empty()) return CommitSeq{0};
    if (auto fault = state_->fault()) return std::unexpected(std::move(*fault));
    for (const auto& [key, version] : reads_) {
      const Cell* cell = find(state_->cells, key);
      if ((cell == nullptr ? 0 : cell->version) != version) return fail(Errc::kConflict, "");
    }
    if (writes_.empty()) return CommitSeq{0};
    state_->apply_writes(state_->cells, writes_, ++state_->version);
    state_->undurable.push_back(std::move(writes_));
    return state_->sync.note_commit();
  }

 private:
  std::shared_ptr<State> state_;
  std::uint64_t life_ = 0;
  Writes writes_;
  std::unordered_map<std::string, std::uint64_t> reads_;  // versions
};

}  // namespace

MemoryKv::MemoryKv(std::uint64_t seed) : state_(std::make_shared<State>(seed)) {}
MemoryKv::~MemoryKv() = default;

std::unique_ptr<Transaction> MemoryKv::begin() {
  return std::make_unique<MemoryTransaction<State>>(state_);
}

const KvReader& MemoryKv::latest() const { return state_->reader; }

std::unique_ptr<KvReader> MemoryKv::snapshot() const {
  const MutexLock lock(state_->mutex);
  return std::make_unique<SnapshotReader>(state_->cells);
}

Result<> MemoryKv::wait_durable(CommitSeq seq) { return state_->sync.wait(seq); }
CommitSeq MemoryKv::durable() const { return state_->sync.durable(); }

Result<> MemoryKv::room() const {
  const MutexLock lock(state_->mutex);
  if (state_->full) return fail(Errc::kNoSpace, "injected");
  return {};
}

void MemoryKv::set_full(bool full) {
  const MutexLock lock(state_->mutex);
  state_->full = full;
}

void MemoryKv::fail_commits(Errc code, std::uint64_t skip, std::uint64_t count) {
  const MutexLock lock(state_->mutex);
  state_->fail_code = code;
  state_->fail_skip = skip;
  state_->fail_count = count;
}

void MemoryKv::conflict_at_random(std::uint32_t one_in) {
  const MutexLock lock(state_->mutex);
  state_->conflict_one_in = one_in;
}

void MemoryKv::fail_sync(Errc code) {
  const MutexLock lock(state_->mutex);
  state_->sync_fault = Error{code, "injected"};
}

void MemoryKv::after_peek(std::function<void(std::string_view key)> hook) {
  const MutexLock lock(state_->mutex);
  state_->after_peek.reset();
  if (hook) {
    state_->after_peek =
        std::make_shared<const std::function<void(std::string_view)>>(std::move(hook));
  }
}

void MemoryKv::lose_power() {
  const MutexLock lock(state_->mutex);
  ++state_->life;
  const std::size_t kept = state_->random() % (state_->undurable.size() + 1);
  for (std::size_t i = 0; i < kept; ++i) {
    state_->apply_writes(state_->durable, state_->undurable[i], 0);
  }
  state_->undurable.clear();
  state_->cells = state_->durable;
  state_->sync_fault.reset();
  state_->sync.restart();
}

std::uint64_t MemoryKv::syncs() const { return state_->sync.syncs(); }

std::uint64_t MemoryKv::commits() const {
  const MutexLock lock(state_->mutex);
  return state_->version;
}

std::size_t MemoryKv::size() const {
  const MutexLock lock(state_->mutex);
  std::size_t live = 0;
  for (const auto& [key, cell] : state_->cells) live += cell.value ? 1 : 0;
  return live;
}

}  // namespace weft::mds
