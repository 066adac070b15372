#include "dataserver/segments/segment_store.h"

#include <algorithm>
#include <limits>

namespace weft::ds {

namespace {

constexpr std::chrono::seconds kPoll{1};
constexpr unsigned kLooks = 100;  // of a read, before it goes beneath: it may have 65 strips
constexpr std::uint64_t kToTheEnd = std::numeric_limits<std::uint64_t>::max();

SuccessorOptions successors(const SegmentOptions& options) {
  return {.best = options.best, .recent = options.recent, .max_strips = options.history};
}

std::uint64_t end_of(std::uint64_t offset, std::uint64_t size) {
  return size > kToTheEnd - offset ? kToTheEnd : offset + size;
}

std::optional<std::uint64_t> end_after(const Result<WriteResult>& result, WriteVerifier now) {
  if (!result || result->verifier != now) return {};
  return result->object_end;
}
// Of what dooms all segments of the object.
template <class T>
std::optional<std::uint64_t> end_after(const Result<T>& /*result*/, WriteVerifier /*now*/) {
  return {};
}

}  // namespace

SegmentStore::SegmentStore(Store& beneath, Store& partition, const SegmentOptions& options,
                           std::function<std::uint64_t()> device_queue)
    : StoreOver(beneath),
      partition_(partition),
      table_(options),
      loader_(partition_, table_),
      graph_(successors(options)),
      builder_({.beneath = beneath,
                .partition = partition_,
                .table = table_,
                .groups = [this] { return groups(); },
                .begun = [this] { return begun_.load(); },
                .under_way = [this] { return under_way_.load(); },
                .device_queue = std::move(device_queue),
                .idle = options.idle}) {}

void SegmentStore::open(Done<void> done) {
  spawn(partition_.open(), [this, done = std::move(done)](Result<SegmentIndex> index) mutable {
    if (!index) return done(pass(index));
    table_.restore(std::move(*index));
    done(Result<>{});
  });
}

// --- Learning ------------------------------------------------------------------------------------

void SegmentStore::note_read(std::uint64_t client, const layout::ObjectId& object,
                             std::uint64_t offset, std::uint32_t count) {
  if (count == 0) return;
  const std::uint64_t last = (end_of(offset, count) - 1) / kStrip;
  const MutexLock lock(mutex_);
  observed_ = true;
  for (std::uint64_t index = offset / kStrip; index <= last; ++index) {
    graph_.observe(client, {.object = object, .index = index});
  }
}

std::vector<StripGroup> SegmentStore::groups() {
  std::vector<SuccessorGraph::Vertex> vertices;
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(observed_, false)) return {};
    vertices = graph_.vertices();
  }
  return SuccessorGraph::groups_of(vertices);
}

void SegmentStore::start(IoRing& ring) {
  ticker_.start(ring, kPoll, [this] { poll(); });
}

void SegmentStore::stop() {
  builder_.stop();
  ticker_.stop();
}

// --- Reading -------------------------------------------------------------------------------------

struct SegmentStore::ReadOp {
  StoreRead what;
  unsigned looks = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> asked = {};  // for these pieces of segments
  Done<ReadResult> done;
};

void SegmentStore::read(StoreRead what, Done<ReadResult> done) {
  if (what.uncached) return beneath_.read(std::move(what), beneath(std::move(done)));
  table_.view().reads.fetch_add(1, std::memory_order_relaxed);
  look(std::make_shared<ReadOp>(ReadOp{.what = std::move(what), .done = std::move(done)}));
}

void SegmentStore::look(std::shared_ptr<ReadOp> op) {
  using Kind = SegmentTable::Found::Kind;
  if (++op->looks > kLooks) return read_beneath(*op);
  auto found = table_.find(op->what.object, op->what.offset, op->what.count, beneath_.verifier());
  switch (found.kind) {
    case Kind::kNothing: return read_beneath(*op);
    case Kind::kEnd: return ask_end(std::move(op), found.entry);
    case Kind::kLoad: return load(std::move(op), found.segment, found.piece);
    case Kind::kBytes: break;
  }
  SegmentView& view = table_.view();
  (op->asked.empty() ? view.hits : view.waits).fetch_add(1, std::memory_order_relaxed);
  view.hit_bytes.fetch_add(found.result.payload.size(), std::memory_order_relaxed);
  into_room(std::move(op->what.room), std::move(op->done))(std::move(found.result));
}

void SegmentStore::read_beneath(ReadOp& op) {
  beneath_.read(std::move(op.what), beneath(std::move(op.done)));
}

void SegmentStore::ask_end(std::shared_ptr<ReadOp> op, std::uint64_t entry) {
  const layout::ObjectId object = op->what.object;
  beneath_.stat(object, [this, op = std::move(op), entry](const Result<ObjectStat>& stat) {
    if (!stat) return read_beneath(*op);
    table_.learn_end(op->what.object, entry, stat->size);
    look(op);
  });
}

void SegmentStore::load(std::shared_ptr<ReadOp> op, const SegmentTable::SegmentPtr& segment,
                        std::size_t piece) {
  // What is gone again has made room for another: together they do not fit.
  const std::uint64_t number = SegmentTable::number_of(segment);
  const std::pair wanted(number, piece);
  if (std::ranges::find(op->asked, wanted) != op->asked.end()) return read_beneath(*op);
  op->asked.push_back(wanted);
  Buffer memory;
  SegmentTable::Waiter waiter{.ring = IoRing::current(), .go_on = [this, op] { look(op); }};
  switch (table_.begin_load(segment, piece, std::move(waiter), memory)) {
    case SegmentTable::Load::kThere: return look(std::move(op));
    case SegmentTable::Load::kJoined: return;
    case SegmentTable::Load::kRefused: return read_beneath(*op);
    case SegmentTable::Load::kStart: break;
  }
  loader_.load(segment, std::move(memory), beneath<void>([](const Result<>& /*waiters know*/) {}));
}

// --- Changing ------------------------------------------------------------------------------------

template <class T, class Go>
void SegmentStore::change(const layout::ObjectId& object, std::uint64_t begin, std::uint64_t end,
                          Go go, Done<T> done) {
  auto doomed = table_.begin_change(object, begin, end);
  auto ended = beneath<T>([this, object, done = std::move(done)](Result<T> result) mutable {
    table_.end_change(object, end_after(result, beneath_.verifier()));
    done(std::move(result));
  });
  if (doomed.empty()) return go(std::move(ended));
  partition_.remove_all(
      std::move(doomed), [this](std::uint64_t number) { table_.removed(number); },
      [go = std::move(go), ended = std::move(ended)](Result<> removed) mutable {
        if (!removed) return ended(pass(removed));
        go(std::move(ended));
      });
}

template <class T, class Go>
void SegmentStore::change_all(const layout::ObjectId& object, Go go, Done<T> done) {
  change<T>(object, 0, kToTheEnd, std::move(go), std::move(done));
}

void SegmentStore::write(StoreWrite what, Done<WriteResult> done) {
  const layout::ObjectId object = what.object;
  const std::uint64_t begin = what.offset;
  const std::uint64_t end = end_of(begin, what.size());
  change<WriteResult>(
      object, begin, end,
      [this, what = std::move(what)](Done<WriteResult> then) mutable {
        beneath_.write(std::move(what), std::move(then));
      },
      std::move(done));
}

void SegmentStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                            Done<ObjectStat> done) {
  change_all<ObjectStat>(
      object,
      [this, object, size](Done<ObjectStat> then) {
        beneath_.truncate(object, size, std::move(then));
      },
      std::move(done));
}

void SegmentStore::remove(const layout::ObjectId& object, Done<void> done) {
  change_all<void>(
      object, [this, object](Done<void> then) { beneath_.remove(object, std::move(then)); },
      std::move(done));
}

void SegmentStore::allocate(const layout::ObjectId& object, std::uint64_t offset,
                            std::uint64_t size, Done<void> done) {
  change_all<void>(
      object,
      [this, object, offset, size](Done<void> then) {
        beneath_.allocate(object, offset, size, std::move(then));
      },
      std::move(done));
}

void SegmentStore::punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                         Done<void> done) {
  change_all<void>(
      object,
      [this, object, offset, size](Done<void> then) {
        beneath_.punch(object, offset, size, std::move(then));
      },
      std::move(done));
}

}  // namespace weft::ds
