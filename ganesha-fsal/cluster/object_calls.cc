#include "ganesha-fsal/cluster/object_calls.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "ganesha-fsal/cluster/failures.h"
#include "ganesha-fsal/cluster/gather.h"
#include "rpc/base/mutex.h"
#include "rpc/control/mds_boot.h"

namespace weft::mds {
namespace {

bool changed(layout::CopyState state) {
  return state == layout::CopyState::kCurrent || state == layout::CopyState::kResyncing;
}

bool too_large(std::uint64_t offset, std::uint64_t length) {
  return offset > layout::kMaxFileSize || length > layout::kMaxFileSize - offset;
}

// Calls visit(ds id, striping, index of the server) for what a change has to be told.
template <class Visit>
void for_each_changed(const layout::LayoutMap& map, Visit&& visit) {
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Striping striping = map.striping(copy);
    for (std::uint32_t index = 0; index < striping.count(); ++index) {
      if (!changed(map.copies[copy].state_of(index))) continue;
      visit(map.copies[copy].ds_ids[index], striping, index);
    }
  }
}

// It was sent, and nobody has said how it ended.
bool may_come_late(const Error& error) {
  return error == Errc::kTimedOut || error == Errc::kUnreachable || error == Errc::kClosed;
}

control::Share share_of(const layout::Striping& striping, std::uint32_t index) {
  return {striping.unit_bytes(), striping.count(), striping.first_index(), index};
}

}  // namespace

template <rpc::peer::Request R>
void ObjectCalls::change(std::uint32_t ds_id, const layout::ObjectId& object, const R& request,
                         Done<typename R::Reply> done) {
  const auto refuse = [&](std::string_view why) {
    done(fail(Errc::kUnreachable, fmt::format("data server {} {}", ds_id, why)));
  };
  const auto view = registry_.find(ds_id);
  if (!view || !view->connected) return refuse("is not connected");
  if (!registry_.runs_fenced(ds_id)) return refuse("has not caught up since our start");
  if (registry_.has_stopped(ds_id)) return refuse("has stopped: its store is not there");
  if (registry_.given_up()->has({ds_id, object})) {
    return done(fail(Errc::kBusy, "a change that failed may be carried out yet"));
  }
  server_.call(
      ds_id, request, timeout_,
      [this, ds_id, object, done = std::move(done)](Result<typename R::Reply> answer) mutable {
        if (!answer && may_come_late(answer.error())) give_up(ds_id, object);
        done(std::move(answer));
      });
}

void ObjectCalls::give_up(std::uint32_t ds_id, const layout::ObjectId& object) {
  auto change =
      std::make_unique<GivenUp::Change>(registry_.given_up(), GivenUp::Where{ds_id, object});
  change->give_up();
  const MutexLock lock(mutex_);
  late_[ds_id].changes.push_back(std::move(change));
}

void ObjectCalls::settle(std::uint32_t ds_id) {
  Changes before;
  {
    const MutexLock lock(mutex_);
    const auto late = late_.find(ds_id);
    if (late == late_.end() || late->second.asked) return;
    late->second.asked = true;
    before.swap(late->second.changes);
  }
  // No handle is refused by it.
  const control::Fence fence{
      .what = control::Fence::What::kClient, .client_id = control::kOwnClientId, .epoch = 0};
  server_.call(ds_id, control::FenceRequest{{fence}}, timeout_,
               [this, ds_id, before = std::move(before)](const Result<>& ended) mutable {
                 if (ended) before.clear();
                 const MutexLock lock(mutex_);
                 const auto late = late_.find(ds_id);
                 late->second.asked = false;
                 std::ranges::move(before, std::back_inserter(late->second.changes));
                 if (late->second.changes.empty()) late_.erase(late);
               });
}

void ObjectCalls::truncate(const layout::LayoutMap& map, const layout::ObjectId& object,
                           std::uint64_t size, Finished<void> done) {
  if (size > layout::kMaxFileSize) return done(fail(Errc::kFileTooLarge, "size"), {});
  std::vector<std::pair<std::uint32_t, std::uint64_t>> cuts;
  for_each_changed(map,
                   [&](std::uint32_t id, const layout::Striping& striping, std::uint32_t index) {
                     cuts.emplace_back(id, striping.object_end(index, size));
                   });
  const auto all = GatherFailures::make(cuts.size(), std::move(done));
  for (const auto& [id, end] : cuts) {
    change(id, object, control::Truncate{object, end},
           [one = all->one(id)](const Result<control::ObjectStat>& answer) mutable {
             if (!answer) return one(std::unexpected(answer.error()));
             one({});
           });
  }
}

// A stat under way: for each stripe what its current copies answered.
struct ObjectCalls::Statting : std::enable_shared_from_this<Statting> {
  struct Stripe {
    std::vector<std::uint32_t> ds_ids;  // of current copies
    std::optional<control::ObjectStat> found;
    std::optional<Error> error;
  };

  Statting(std::vector<Stripe> of, std::size_t asked) : stripes(std::move(of)), left(asked) {}

  void arrive(std::size_t stripe, const Result<control::ObjectStat>& answer) {
    MutexLock lock(mutex);
    Stripe& at = stripes[stripe];
    if (!answer) {
      at.error = answer.error();
    } else if (!at.found) {
      at.found = *answer;
    } else {
      at.found->size = std::max(at.found->size, answer->size);
      at.found->allocated = std::max(at.found->allocated, answer->allocated);
      at.found->mtime_ns = std::max(at.found->mtime_ns, answer->mtime_ns);
    }
    if (--left > 0) return;
    lock.unlock();
    finish();
  }

  // When nothing is left.
  void finish() {
    std::vector<Stripe> answered;
    {
      const MutexLock lock(mutex);
      answered.swap(stripes);
    }
    Stat total;
    for (const Stripe& stripe : answered) {
      if (!stripe.found) {
        const bool nobody_writes = silent == Silent::kLeaveOut && !stripe.ds_ids.empty() &&
                                   std::ranges::all_of(stripe.ds_ids, [&](std::uint32_t id) {
                                     return registry->lapse(id);
                                   });
        if (!nobody_writes) {
          return done(std::unexpected(
              stripe.error.value_or(Error{Errc::kBusy, "a stripe without a current copy"})));
        }
        total.complete = false;
        continue;
      }
      total.size = std::max(total.size, stripe.found->size);
      total.allocated += stripe.found->allocated;
      total.mtime_ns = std::max(total.mtime_ns, stripe.found->mtime_ns);
    }
    done(total);
  }

  Registry* registry = nullptr;
  Silent silent{};
  Mutex mutex;
  std::vector<Stripe> stripes WEFT_GUARDED_BY(mutex);
  std::size_t left WEFT_GUARDED_BY(mutex);
  Done<Stat> done;
};

void ObjectCalls::stat(const layout::LayoutMap& map, const layout::ObjectId& object,
                       Done<Stat> done, Silent silent) {
  std::vector<std::pair<std::uint32_t, std::size_t>> asked;
  std::vector<Statting::Stripe> stripes(map.copies.front().ds_ids.size());
  for (std::size_t stripe = 0; stripe < stripes.size(); ++stripe) {
    for (const layout::Copy& copy : map.copies) {
      if (copy.state_of(stripe) != layout::CopyState::kCurrent) continue;
      stripes[stripe].ds_ids.push_back(copy.ds_ids[stripe]);
      asked.emplace_back(copy.ds_ids[stripe], stripe);
    }
  }
  const auto stat = std::make_shared<Statting>(std::move(stripes), asked.size());
  stat->registry = &registry_;
  stat->silent = silent;
  stat->done = std::move(done);
  if (asked.empty()) return stat->finish();
  for (const auto& [id, stripe] : asked) {
    server_.call(id, control::Stat{object}, timeout_,
                 [stat, stripe](const Result<control::ObjectStat>& answer) {
                   stat->arrive(stripe, answer);
                 });
  }
}

void ObjectCalls::lacks(std::uint32_t ds_id, const layout::ObjectId& object,
                        std::move_only_function<void(bool)> done) {
  server_.call(ds_id, control::Stat{object}, timeout_,
               [done = std::move(done)](const Result<control::ObjectStat>& told) mutable {
                 done(told && !told->exists);
               });
}

void ObjectCalls::without(const layout::LayoutMap& map, const layout::ObjectId& object,
                          Asked done) {
  struct Answers {
    Mutex mutex;
    std::vector<std::uint32_t> unasked WEFT_GUARDED_BY(mutex);
    std::vector<std::vector<std::uint32_t>> none WEFT_GUARDED_BY(mutex);  // of each stripe
    std::vector<bool> bytes WEFT_GUARDED_BY(mutex);
  };
  const std::size_t stripes = map.copies.front().ds_ids.size();
  const auto answers = std::make_shared<Answers>();
  {
    const MutexLock lock(answers->mutex);
    answers->none.resize(stripes);
    answers->bytes.resize(stripes);
  }
  std::vector<std::pair<std::uint32_t, std::size_t>> asked;
  for (const layout::Copy& copy : map.copies) {
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
      const bool current = copy.state_of(stripe) == layout::CopyState::kCurrent;
      if (current) asked.emplace_back(copy.ds_ids[stripe], stripe);
    }
  }
  const auto all = Gather::make(asked.size(), [answers, done = std::move(done)](const Result<>&) {
    std::vector<std::uint32_t> found;
    std::vector<std::uint32_t> unasked;
    {
      const MutexLock lock(answers->mutex);
      unasked.swap(answers->unasked);
      for (std::size_t stripe = 0; stripe < answers->none.size(); ++stripe) {
        if (answers->bytes[stripe]) std::ranges::copy(answers->none[stripe], back_inserter(found));
      }
    }
    done(std::move(found), std::move(unasked));
  });
  for (const auto& [id, stripe] : asked) {
    server_.call(
        id, control::Stat{object}, timeout_,
        [answers, id, stripe, one = all->one()](const Result<control::ObjectStat>& told) mutable {
          {
            const MutexLock lock(answers->mutex);
            if (!told && told.error() == Errc::kUnreachable) answers->unasked.push_back(id);
            if (told && told->size > 0) answers->bytes[stripe] = true;
            if (told && !told->exists) answers->none[stripe].push_back(id);
          }
          one({});
        });
  }
}

void ObjectCalls::punch(const layout::LayoutMap& map, const layout::ObjectId& object,
                        std::uint64_t offset, std::uint64_t length, Finished<void> done) {
  if (too_large(offset, length)) {
    return done(fail(Errc::kFileTooLarge, "range ends beyond the largest file"), {});
  }
  std::vector<std::pair<std::uint32_t, control::Punch>> parts;
  for_each_changed(map,
                   [&](std::uint32_t id, const layout::Striping& striping, std::uint32_t index) {
                     // Bytes of other servers in between are holes in this object: one range serves
                     // all of ours.
                     const std::uint64_t last = striping.object_end(index, offset + length);
                     const std::uint64_t first = striping.next_held(index, offset);
                     if (first < last)
                       parts.emplace_back(id, control::Punch{{object, first, last - first}});
                   });
  const auto all = GatherFailures::make(parts.size(), std::move(done));
  for (const auto& [id, part] : parts) change(id, object, part, all->one(id));
}

// A search under way: for each stripe what the first of its current copies answered.
struct ObjectCalls::Seeking {
  struct Stripe {
    std::optional<control::SeekAnswer> found;
    std::optional<Error> error;
  };

  Seeking(std::size_t count, std::size_t asked) : stripes(count), left(asked) {}

  void arrive(std::size_t stripe, const Result<control::SeekAnswer>& answer) {
    MutexLock lock(mutex);
    Stripe& at = stripes[stripe];
    if (!answer) at.error = answer.error();
    if (answer && !at.found) at.found = *answer;
    if (--left > 0) return;
    auto nearest = first();
    lock.unlock();
    done(std::move(nearest));
  }

  // The nearest of all stripes'. One that was not searched to there is to be asked again.
  [[nodiscard]] Result<control::SeekAnswer> first() const WEFT_REQUIRES(mutex) {
    control::SeekAnswer nearest;
    for (const Stripe& stripe : stripes) {
      if (!stripe.found) {
        return std::unexpected(
            stripe.error.value_or(Error{Errc::kBusy, "a stripe without a current copy"}));
      }
      if (stripe.found->offset < nearest.offset) nearest = *stripe.found;
    }
    return nearest;
  }

  Mutex mutex;
  std::vector<Stripe> stripes WEFT_GUARDED_BY(mutex);
  std::size_t left WEFT_GUARDED_BY(mutex);
  Done<control::SeekAnswer> done;
};

void ObjectCalls::seek(const layout::LayoutMap& map, const layout::ObjectId& object,
                       std::uint64_t offset, bool hole, Done<control::SeekAnswer> done) {
  if (offset > layout::kMaxFileSize) return done(fail(Errc::kFileTooLarge, "offset"));
  struct Asked {
    std::uint32_t ds_id;
    std::size_t stripe;
    control::Share share;
  };
  std::vector<Asked> asked;
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    const layout::Striping striping = map.striping(copy);
    for (std::uint32_t index = 0; index < striping.count(); ++index) {
      if (map.copies[copy].state_of(index) != layout::CopyState::kCurrent) continue;
      asked.emplace_back(map.copies[copy].ds_ids[index], index, share_of(striping, index));
    }
  }
  const auto seeking = std::make_shared<Seeking>(map.copies.front().ds_ids.size(), asked.size());
  if (asked.empty()) return done(fail(Errc::kBusy, "no current copy"));
  seeking->done = std::move(done);
  for (const Asked& one : asked) {
    server_.call(one.ds_id, control::Seek{object, offset, one.share, hole}, timeout_,
                 [seeking, stripe = one.stripe](const Result<control::SeekAnswer>& answer) {
                   seeking->arrive(stripe, answer);
                 });
  }
}

// One window of an allocation after the other. Bytes of other servers in between must not be
// reserved: each server is told which stripe units are its own.
struct ObjectCalls::Allocation : std::enable_shared_from_this<Allocation> {
  static constexpr std::uint64_t kMaxUnits = 1 << 20;

  ObjectCalls* calls = nullptr;
  layout::LayoutMap map;
  layout::ObjectId object;
  std::uint64_t at = 0;
  std::uint64_t end = 0;
  Finished<void> done;

  void next() {
    if (at >= end) return done({}, {});
    const layout::Striping whole = map.striping();
    if (whole.count() == 1) return reserve(end);
    const std::uint64_t window =
        (control::AllocateShare::kMaxUnits - 1) * std::uint64_t{whole.unit_bytes()} * whole.count();
    reserve(end - at > window ? at + window : end);
  }

  void reserve(std::uint64_t to) {
    std::vector<std::pair<std::uint32_t, control::AllocateShare>> parts;
    for_each_changed(
        map, [&](std::uint32_t id, const layout::Striping& striping, std::uint32_t index) {
          const std::uint64_t first = striping.next_held(index, at);
          const std::uint64_t last = striping.object_end(index, to);
          if (first >= last) return;
          parts.emplace_back(
              id, control::AllocateShare{{object, first, last - first}, share_of(striping, index)});
        });
    at = to;
    const auto all = GatherFailures::make(
        parts.size(), [self = shared_from_this()](Result<> outcome, Failures failures) {
          if (!outcome) return self->done(std::move(outcome), std::move(failures));
          self->next();
        });
    for (const auto& [id, part] : parts) {
      if (part.share.servers == 1) {
        calls->change(id, object, control::Allocate{part.range}, all->one(id));
      } else {
        calls->change(id, object, part, all->one(id));
      }
    }
  }
};

void ObjectCalls::allocate(const layout::LayoutMap& map, const layout::ObjectId& object,
                           std::uint64_t offset, std::uint64_t length, Finished<void> done) {
  if (too_large(offset, length)) {
    return done(fail(Errc::kFileTooLarge, "range ends beyond the largest file"), {});
  }
  if (map.copies.front().ds_ids.size() > 1 && length / map.stripe_unit > Allocation::kMaxUnits) {
    // Not that it is not supported: a Linux client would believe that, and not ask again for any
    // file.
    return done(fail(Errc::kFileTooLarge, "too many stripe units to reserve at once"), {});
  }
  const auto allocation = std::make_shared<Allocation>();
  allocation->calls = this;
  allocation->map = map;
  allocation->object = object;
  allocation->at = offset;
  allocation->end = offset + length;
  allocation->done = std::move(done);
  allocation->next();
}

}  // namespace weft::mds
