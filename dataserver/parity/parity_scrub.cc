#include "dataserver/parity/parity_scrub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <deque>

#include "dataserver/store/object_files.h"

namespace weft::ds {

namespace {

constexpr std::uint64_t kRunBytes = std::uint64_t{512} << 10;  // at each member, at a time
constexpr unsigned kTries = 3;
constexpr ByteRange kNothingHeld{};
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kRest = 3600;  // seconds

}  // namespace

std::uint64_t ParityStore::Scrub::seconds_now() const {
  return static_cast<std::uint64_t>(group_.parts_.clock.wall_ns()) / kSecond;
}

Task<bool> ParityStore::Scrub::load(std::vector<std::byte> bytes) {
  if (std::exchange(loaded_, true)) co_return true;
  auto kept = decode_scrub_record(bytes);
  if (kept) {
    record_ = *kept;
    group_.view_.scrub.ended.store(record_.ended);
    count({});
    co_return true;
  }
  if (!bytes.empty()) spdlog::warn("event=parity_scrub error=\"{}\"", kept.error().describe());
  record_ = {.ended = seconds_now()};
  co_return co_await save();
}

Result<> ParityStore::Scrub::begin(bool only_tell) {
  if (group_.view_.scrub.running.load()) return fail(Errc::kBusy, "a scrub of the group runs");
  Want nothing = Want::kNothing;
  if (!wanted_.compare_exchange_strong(nothing, only_tell ? Want::kTell : Want::kRepair)) {
    return fail(Errc::kBusy, "a scrub of the group begins");
  }
  group_.kick();
  return {};
}

void ParityStore::Scrub::object_gone() {
  const std::uint64_t now = seconds_now();
  std::uint64_t before = not_again_before_.load();
  if (now < before || !not_again_before_.compare_exchange_strong(before, now + kRest)) return;
  if (auto begun = begin(false); !begun) {
    spdlog::info("event=parity_scrub_not_begun why=\"{}\"", begun.error().describe());
  }
}

bool ParityStore::Scrub::end() {
  const bool some = wanted_.exchange(Want::kNothing) != Want::kNothing;
  if (!group_.view_.scrub.running.load()) return some;
  stop_.store(true);
  ++group_.tasks_;
  group_.parts_.rings.front()->post([this] {
    timer_.cancel();
    --group_.tasks_;
  });
  return true;
}

bool ParityStore::Scrub::due() {
  if (!loaded_ || running_) return false;
  if (wanted_.load() != Want::kNothing || record_.running) return true;
  const std::uint64_t now = seconds_now();
  record_.ended = std::min(record_.ended, now);  // the clock was wrong then, or is now
  const auto every = static_cast<std::uint64_t>(options().scrub_every.count());
  return every > 0 && now - record_.ended >= every;
}

bool ParityStore::Scrub::stopped() const {
  if (stop_.load()) return true;
  const MutexLock lock(group_.mutex_);
  return group_.closed_;
}

void ParityStore::Scrub::prepare() {
  running_ = true;
  stop_.store(false);
  group_.view_.scrub.running.store(true);
  const Want wanted = wanted_.exchange(Want::kNothing);
  from_the_first_ = wanted != Want::kNothing || !record_.running;
  if (from_the_first_) {
    record_ = {.running = true, .only_tell = wanted == Want::kTell, .ended = record_.ended};
  }
  const TimePoint now = group_.parts_.clock.now();
  rate_ = TokenBucket(options().scrub_rate, now);
  began_ = now;
  next_note_ = now + options().note_every;
  group_.view_.scrub.only_tell.store(record_.only_tell);
  count({});
  const std::uint64_t all = std::max<std::uint64_t>(1, group_.objects_in_all());
  began_at_ = static_cast<double>(record_.done) / static_cast<double>(std::max(all, record_.done));
  show(0, 1);
  spdlog::info("event=parity_scrub done_objects={} only_tell={}", record_.done, record_.only_tell);
}

// A scrub that the end of the process interrupts goes on with the next one.
Task<bool> ParityStore::Scrub::run() {
  prepare();
  co_await save();
  const auto done = co_await everything();
  bool closed = false;
  {
    const MutexLock lock(group_.mutex_);
    closed = group_.closed_;
  }
  if (!closed) {
    if (!done && !stop_.load()) {
      ++record_.found.failed;
      spdlog::error("event=parity_scrub_failed error=\"{}\"", done.error().describe());
    }
    record_.running = false;
    record_.ended = seconds_now();
    const ScrubFindings& found = record_.found;
    spdlog::info(
        "event=parity_scrub_ended objects={} bytes={} corrupt={} parity={} lost={} failed={}",
        record_.done, found.bytes, found.corrupt, found.parity, found.lost, found.failed);
    co_await save();
    count({});
    if (done && from_the_first_ && found.lost == 0 && found.failed == 0) {
      const MutexLock lock(group_.mutex_);
      group_.none_lost_ = true;
    }
    group_.kick();
    group_.view_.scrub.ended.store(record_.ended);
    group_.view_.scrub.rounds.fetch_add(1);
  }
  group_.view_.scrub.running.store(false);
  running_ = false;
  co_return done.has_value();
}

Task<Result<>> ParityStore::Scrub::everything() {
  for (;;) {
    ObjectList page;
    auto listed = co_await while_whole(
        {}, kNothingHeld, [&](Op& op) { return group_.list_some(op, record_.place, page); });
    if (!listed) co_return listed;
    for (const ObjectId& object : page.objects) {
      auto done = co_await one_object(object);
      if (stopped()) co_return fail(Errc::kCancelled, "the scrub was ended");
      if (!done) {
        ++record_.found.failed;
        spdlog::warn("event=parity_scrub_failed object={} error=\"{}\"", to_string(object),
                     done.error().describe());
      }
      ++record_.done;
      record_.place = {.folder = object_folder(sums_of(object)), .after = sums_of(object)};
      show(0, 1);
      if (group_.parts_.clock.now() < next_note_) continue;
      next_note_ = group_.parts_.clock.now() + options().note_every;
      co_await save();
    }
    if (!page.more) co_return Result<>{};
    record_.place = page.next;
  }
}

Task<Result<>> ParityStore::Scrub::one_object(ObjectId object) {
  Subject at{.object = object, .state = {}};
  ScrubFindings found;
  // With nobody at the object: one that is just being removed must not be written.
  auto shaped = co_await while_whole(object, kWholeObject,
                                     [&](Op& op) { return check_shape(op, at, found); });
  if (!shaped) co_return shaped;
  count(found);
  const std::uint64_t in_chunk = group_.geometry().blocks_in_chunk();
  const std::uint64_t width = group_.geometry().width();
  const std::uint64_t stripes = (at.rows + in_chunk - 1) / in_chunk;
  const std::uint64_t step = std::max<std::uint64_t>(1, kRunBytes / group_.geometry().chunk);
  Result<> all;
  std::uint64_t lost = 0;
  for (std::uint64_t from = 0; from < stripes && !stopped(); from += step) {
    const std::uint64_t to = std::min(stripes, from + step);
    auto done = co_await while_whole(object, {from * width, to * width}, [&](Op& op) {
      return check_stripes(op, at, from, to, found);
    });
    if (done) {
      count(found);
      lost += found.lost;
    } else {
      all = done;
    }
    show(to, stripes);
    co_await throttle((to - from) * group_.geometry().chunk);
  }
  if (at.absent == 0 || record_.only_tell || !all || lost > 0 || stopped()) co_return all;
  co_return co_await while_whole(object, kNothingHeld, [&](Op& op) { return is_back(op, at); });
}

// --- While the group is whole --------------------------------------------------------------------

// One attempt, with the range held, again when a member went out meanwhile. Nothing is held while
// it waits for the group.
template <class Attempt>
Task<Result<>> ParityStore::Scrub::while_whole(ObjectId object, ByteRange range, Attempt attempt) {
  for (unsigned tries = 1;; ++tries) {
    if (!co_await until_whole()) co_return fail(Errc::kCancelled, "the scrub was ended");
    Hold hold;
    if (range.begin < range.end) hold = co_await group_.lock(object, range);
    auto done = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
      if (op.mode.out >= 0) co_return fail(Errc::kBusy, "a member of the parity group is out");
      co_return co_await attempt(op);
    });
    hold = {};
    if (done || tries == kTries || !(done.error() == Errc::kBusy)) co_return done;
    co_await pause(options().retry_every);
  }
}

// False: the scrub is to end.
Task<bool> ParityStore::Scrub::until_whole() {
  const auto whole = [this] {
    const MutexLock lock(group_.mutex_);
    return !group_.broken_ && group_.mode_.out < 0;
  };
  for (;;) {
    if (stopped()) co_return false;
    const bool now = whole();
    group_.view_.scrub.waiting.store(!now);
    if (now) co_return true;
    co_await pause(options().retry_every);
  }
}

Task<bool> ParityStore::Scrub::pause(Nanoseconds time) {
  if (stopped()) co_return false;
  co_return co_await group_.pause(timer_, time) && !stopped();
}

Task<bool> ParityStore::Scrub::throttle(std::uint64_t bytes) {
  rate_.use(bytes);
  for (;;) {
    const Nanoseconds wait = rate_.wait(group_.parts_.clock.now());
    if (wait.count() == 0 || !co_await pause(wait)) co_return true;
  }
}

// --- An object -----------------------------------------------------------------------------------

// A read that the member's disk refuses leaves blocks that are not good; everything else that goes
// wrong is the member's failure.
void ParityStore::Scrub::read(Op& op, Join& join, unsigned member, const ObjectId& object,
                              std::uint64_t offset, std::uint64_t count, Payload& into,
                              bool& unread) {
  join.started();
  group_.parts_.members[member]->read_uncached(
      object, offset, static_cast<std::uint32_t>(count),
      [this, &op, &join, member, &into, &unread](Result<ReadResult> result) {
        unread = !result && result.error() == Errc::kIo;
        group_.after(op, member, result || unread ? nullptr : &result.error(), nullptr);
        if (result) into = std::move(result->payload);
        join.ended();
      });
}

Task<Result<>> ParityStore::Scrub::check_shape(Op& op, Subject& at, ScrubFindings& found) {
  found = {};
  at.rows = 0;
  auto state = co_await group_.find_in(op, at.object);
  if (!state) co_return pass(state);
  at.state = std::move(*state);
  if (auto good = co_await check_headers(op, at, found); !good) co_return good;
  {
    const MutexLock lock(group_.mutex_);
    if (!at.state->exists) co_return Result<>{};
  }
  auto counted = co_await group_.count_rows(op, at.object, at.rows);
  const MutexLock lock(group_.mutex_);
  at.rows = std::min(
      at.rows, group_.geometry().stripes(at.state->size) * group_.geometry().blocks_in_chunk());
  co_return counted;
}

Task<Result<>> ParityStore::Scrub::read_headers(Op& op, ObjectId object,
                                                std::vector<std::vector<std::byte>>& into) {
  const unsigned members = group_.members();
  std::vector<Payload> payloads(members);
  std::deque<bool> unread(members);
  Join join;
  for (unsigned member = 0; member < members; ++member) {
    read(op, join, member, sums_of(object), 0, SumHeader::kBytes, payloads[member], unread[member]);
  }
  co_await join;
  if (op.failed != 0) co_return fail(Errc::kIo, "a member of the parity group failed");
  for (unsigned member = 0; member < members; ++member) {
    auto bytes = payloads[member].flatten();
    if (!bytes) co_return pass(bytes);
    into.push_back(std::move(*bytes));
    if (unread[member]) into.back() = {std::byte{1}};  // something is there
  }
  co_return Result<>{};
}

Task<Result<>> ParityStore::Scrub::check_headers(Op& op, Subject& at, ScrubFindings& found) {
  Hold hold = co_await group_.lock(at.object, kHeaderRange);
  std::vector<std::vector<std::byte>> bytes;
  if (auto got = co_await read_headers(op, at.object, bytes); !got) co_return got;
  std::vector<std::optional<SumHeader>> headers;
  std::optional<SumHeader> newest;
  std::uint32_t blank = 0;  // members that have none, as before the first is written
  for (unsigned member = 0; member < group_.members(); ++member) {
    const auto& header = headers.emplace_back(decode_sum_header(bytes[member]));
    if (header && (!newest || header->sequence > newest->sequence)) newest = header;
    const bool none = std::ranges::all_of(bytes[member], [](auto b) { return b == std::byte{0}; });
    if (none) blank |= std::uint32_t{1} << member;
  }
  at.absent = newest ? blank : 0;
  {
    const MutexLock lock(group_.mutex_);
    Object& state = *at.state;
    const bool some = std::ranges::any_of(bytes, [](const auto& one) { return !one.empty(); });
    if (!state.exists) {
      if (!some || newest) co_return Result<>{};
      ++found.lost;
      spdlog::error("event=parity_scrub_lost object={} what=header", to_string(at.object));
      co_return Result<>{};
    }
    const bool unwritten = std::popcount(blank) == static_cast<int>(group_.members());
    if (state.header_dirty && unwritten) co_return Result<>{};
    const auto wrong = std::ranges::count_if(headers, [&](const auto& header) {
      if (!header || header->sequence != newest->sequence || header->size != newest->size) {
        return true;
      }
      return !state.header_dirty &&
             (header->sequence != state.sequence || header->size != state.size);
    });
    if (wrong == 0) co_return Result<>{};
    found.corrupt += static_cast<std::uint64_t>(wrong);
    if (record_.only_tell) co_return Result<>{};
    state.header_dirty = true;
    state.gone = at.absent;
  }
  hold = {};
  co_return co_await group_.flush_header(op, at.object, at.state);
}

// All that the member had of it is there again.
Task<Result<>> ParityStore::Scrub::is_back(Op& op, Subject& at) {
  {
    const MutexLock lock(group_.mutex_);
    if (!at.state->exists || at.state->gone == 0) co_return Result<>{};
    at.state->gone = 0;
    at.state->header_dirty = true;
  }
  co_return co_await group_.flush_header(op, at.object, at.state);
}

// --- What is known of it -------------------------------------------------------------------------

void ParityStore::Scrub::count(const ScrubFindings& found) {
  ScrubFindings& all = record_.found;
  all.bytes += found.bytes;
  all.corrupt += found.corrupt;
  all.parity += found.parity;
  all.lost += found.lost;
  all.failed += found.failed;
  ScrubView& view = group_.view_.scrub;
  view.bytes.store(all.bytes);
  view.corrupt.store(all.corrupt);
  view.parity.store(all.parity);
  view.lost.store(all.lost);
  view.failed.store(all.failed);
  group_.view_.lost_blocks.fetch_add(found.lost);
  if (record_.only_tell) return;
  group_.view_.corrupt_blocks.fetch_add(found.corrupt);
  group_.view_.parity_fixed.fetch_add(found.parity);
}

// With this much done of the object it is at.
void ParityStore::Scrub::show(std::uint64_t part, std::uint64_t parts) {
  ScrubView& view = group_.view_.scrub;
  const auto all = static_cast<double>(
      std::max<std::uint64_t>({1, group_.objects_in_all(), record_.done + (part > 0 ? 1 : 0)}));
  const double within = part == 0 ? 0 : static_cast<double>(part) / static_cast<double>(parts);
  const double done = std::min(1.0, (static_cast<double>(record_.done) + within) / all);
  view.objects.store(record_.done);
  view.permille.store(static_cast<std::uint32_t>(done * 1000));
  const std::chrono::duration<double> took = group_.parts_.clock.now() - began_;
  const double here = done - began_at_;
  view.remaining_s.store(here > 0 ? static_cast<std::uint64_t>(took.count() / here * (1 - done)) + 1
                                  : 0);
}

// An error costs what the next process does again.
Task<bool> ParityStore::Scrub::save() {
  auto start = [this](auto done) {
    group_.parts_.disk.save_scrub(encode(record_), std::move(done));
  };
  auto saved = co_await call<Result<>>(start);
  if (!saved) spdlog::warn("event=parity_scrub error=\"{}\"", saved.error().describe());
  co_return saved.has_value();
}

}  // namespace weft::ds
