#include "dataserver/mirror/duplicator.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <future>

#include "dataserver/mirror/duplicator_internal.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr std::chrono::milliseconds kBack{2000};  // forget(): for a partner to be back

}  // namespace

std::vector<WriteVerifier> verifiers_of(const std::vector<CopyPart>& copies) {
  std::vector<WriteVerifier> verifiers;
  for (const CopyPart& copy : copies) verifiers.push_back(copy.verifier);
  return verifiers;
}

bool own_copy_told(Result<> told, std::optional<Error>& refused) {
  if (told) {
    refused = Error{Errc::kFenced, "the own copy missed it"};
  } else if (told.error() == Errc::kBusy || told.error() == Errc::kFenced) {
    refused = std::move(told.error());
  }
  return refused.has_value();
}

Duplicator::Duplicator(Parts parts) : parts_(std::move(parts)) {
  parts_.link.timeout = parts_.options.timeout;
  parts_.link.keys = parts_.keys;
  for (IoRing* ring : parts_.rings) {
    threads_.push_back(std::make_unique<PerThread>(*ring, parts_, book_));
  }
}

Duplicator::~Duplicator() = default;

Duplicator::PerThread& Duplicator::mine() {
  const IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr && ring->index() < threads_.size());
  return *threads_[ring->index()];
}

PartnerLink& Duplicator::link(std::uint32_t ds_id) {
  PerThread& thread = mine();
  auto& link = thread.links[ds_id];
  if (link == nullptr) {
    link = std::make_shared<PartnerLink>(thread.ring, partners_.find(ds_id), parts_.authority,
                                         parts_.link);
  }
  return *link;
}

// splitmix64's finisher over one number after the other.
WriteVerifier Duplicator::combine(WriteVerifier own, std::span<const WriteVerifier> others) const {
  std::uint64_t h = parts_.boot;
  const auto mix = [&h](std::uint64_t value) {
    h += value + 0x9E3779B97F4A7C15ULL;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
    h ^= h >> 31;
  };
  mix(own);
  for (const WriteVerifier other : others) mix(other);
  return h;
}

void Duplicator::when_local(const layout::ObjectId& object, std::uint64_t offset,
                            std::uint64_t count, std::function<void()> done) {
  const std::uint64_t end = count > kMaxEnd - std::min(offset, kMaxEnd) ? kMaxEnd : offset + count;
  locks_.when_local(object, {offset, end}, std::move(done));
}

// Before something that was to be tried again is.
void Duplicator::after_rest(std::move_only_function<void()> then) {
  constexpr std::chrono::milliseconds kRest{50};
  auto timer = std::make_unique<boost::asio::steady_timer>(mine().ring.context(), kRest);
  boost::asio::steady_timer& waiting = *timer;
  waiting.async_wait(
      [timer = std::move(timer), then = std::move(then)](const auto&) mutable { then(); });
}

void Duplicator::unreadable(const layout::Handle& handle, std::uint64_t offset, std::uint64_t count,
                            std::move_only_function<void(bool left_out)> done) {
  if (offset >= kMaxEnd || count == 0) return done(false);
  ExtentSet extents;
  extents.add({offset, offset + std::min(count, kMaxEnd - offset)});
  mine().reports.report_own(
      handle.object, handle.ds_id, handle.object_epoch, extents,
      [this, object = handle.object, done = std::move(done)](Result<> told) mutable {
        const bool out = told || told.error() == Errc::kFenced;
        unreadable_log_.warn("event=unreadable object={} copy_left_out={}",
                             layout::to_string(object), out);
        done(out);
      });
}

void Duplicator::forget(const layout::ObjectId& object, std::uint32_t partner,
                        std::move_only_function<void()> done) {
  IoRing& ring = *parts_.rings[std::hash<layout::ObjectId>{}(object) % parts_.rings.size()];
  ring.post([this, object, partner, done = std::move(done)]() mutable {
    // The metadata server has it back; with us still taking it for away, it would miss more.
    link(partner).when_back(kBack, [this, object, partner, done = std::move(done)]() mutable {
      book_.forget(object, partner);
      // Whoever left the partner out because of what was forgotten holds a range until it is over.
      locks_.acquire(object, {0, kMaxEnd}, [done = std::move(done)](RangeLocks::Hold hold) mutable {
        hold.release();
        done();
      });
    });
  });
}

MirrorCounts Duplicator::counts() const {
  MirrorCounts counts{.pending_bytes = pending_bytes_.load(),
                      .oldest_pending = {},
                      .partners_away = partners_.away(),
                      .forwarded_bytes = forwarded_bytes_.load(),
                      .missed_writes = missed_writes_.load()};
  const MutexLock lock(pending_mutex_);
  if (!pending_.empty()) {
    counts.oldest_pending = std::chrono::duration_cast<std::chrono::milliseconds>(
        parts_.clock.now() - *pending_.begin());
  }
  return counts;
}

void Duplicator::end_links() {
  for (const auto& [id, link] : mine().links) link->stop();
}

bool Duplicator::stop(std::chrono::milliseconds limit) {
  bool drained = false;
  {
    const MutexLock lock(pending_mutex_);
    drained = none_pending_.wait_for(
        pending_mutex_, limit, [this]() WEFT_REQUIRES(pending_mutex_) { return pending_.empty(); });
  }
  for (const auto& thread : threads_) {
    auto ended = std::make_shared<std::promise<void>>();
    auto over = ended->get_future();
    thread->ring.post([this, ended] {
      end_links();
      ended->set_value();
    });
    if (over.wait_for(std::chrono::seconds(5)) != std::future_status::ready) return false;
  }
  return drained;
}

}  // namespace weft::ds
