#include "dataserver/parity/scrub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>

#include "dataserver/store/object_files.h"
#include "rpc/base/log_limit.h"

namespace weft::ds::parity {

namespace {

constexpr std::uint64_t kMostTold = 100;  // lost rows of one scrub that the log names
constexpr unsigned kTries = 3;
constexpr ByteRange kNothingHeld{};
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kRest = 3600;  // seconds

// A member may have lost all that it had. Never destroyed: threads may log while the process ends.
LogLimit& found_log = *new LogLimit;
LogLimit& failed_log = *new LogLimit;

}  // namespace

std::uint64_t Scrub::seconds_now() const {
  return static_cast<std::uint64_t>(group_.parts().clock.wall_ns()) / kSecond;
}

Task<bool> Scrub::load(std::vector<std::byte> bytes) {
  if (std::exchange(loaded_, true)) co_return true;
  auto kept = decode_scrub_record(bytes);
  if (kept) {
    record_ = *kept;
    group_.view().scrub.ended.store(record_.ended);
    count({});
    co_return true;
  }
  if (!bytes.empty()) spdlog::warn("event=parity_scrub error=\"{}\"", kept.error().describe());
  record_ = {.ended = seconds_now()};
  co_return co_await save();
}

Result<> Scrub::begin(bool only_tell) {
  if (group_.view().scrub.running.load()) return fail(Errc::kBusy, "a scrub of the group runs");
  Want nothing = Want::kNothing;
  if (!wanted_.compare_exchange_strong(nothing, only_tell ? Want::kTell : Want::kRepair)) {
    return fail(Errc::kBusy, "a scrub of the group begins");
  }
  group_.kick();
  return {};
}

void Scrub::object_gone() {
  const std::uint64_t now = seconds_now();
  std::uint64_t before = not_again_before_.load();
  if (now < before || !not_again_before_.compare_exchange_strong(before, now + kRest)) return;
  if (auto begun = begin(false); !begun) {
    spdlog::info("event=parity_scrub_not_begun why=\"{}\"", begun.error().describe());
  }
}

bool Scrub::end() {
  const bool some = wanted_.exchange(Want::kNothing) != Want::kNothing;
  if (!group_.view().scrub.running.load()) return some;
  stop_.store(true);
  group_.task_begins();
  group_.parts().rings.front()->post([this] {
    timer_.cancel();
    group_.task_ended();
  });
  return true;
}

bool Scrub::due() {
  if (!loaded_ || running_) return false;
  if (wanted_.load() != Want::kNothing || record_.running) return true;
  const std::uint64_t now = seconds_now();
  record_.ended = std::min(record_.ended, now);  // the clock was wrong then, or is now
  const auto every = static_cast<std::uint64_t>(group_.rates().scrub_every.count());
  return every > 0 && now - record_.ended >= every;
}

bool Scrub::stopped() const { return stop_.load() || group_.closed(); }

void Scrub::prepare() {
  running_ = true;
  stop_.store(false);
  group_.view().scrub.running.store(true);
  const Want wanted = wanted_.exchange(Want::kNothing);
  from_the_first_ = wanted != Want::kNothing || !record_.running;
  if (from_the_first_) {
    record_ = {.running = true, .only_tell = wanted == Want::kTell, .ended = record_.ended};
  }
  const TimePoint now = group_.now();
  rate_ = TokenBucket(group_.rates().scrub, now);
  began_ = now;
  next_note_ = now + options().note_every;
  group_.view().scrub.only_tell.store(record_.only_tell);
  count({});
  const std::uint64_t all = std::max<std::uint64_t>(1, group_.objects_in_all());
  began_at_ = static_cast<double>(record_.done) / static_cast<double>(std::max(all, record_.done));
  show(0, 1);
  spdlog::info("event=parity_scrub done_objects={} only_tell={}", record_.done, record_.only_tell);
}

// A scrub that the end of the process interrupts goes on with the next one.
Task<bool> Scrub::run() {
  prepare();
  co_await save();
  const auto done = co_await everything();
  if (!group_.closed()) {
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
      group_.set_none_lost(true);
    }
    group_.kick();
    group_.view().scrub.ended.store(record_.ended);
    group_.view().scrub.rounds.fetch_add(1);
  }
  group_.view().scrub.running.store(false);
  running_ = false;
  co_return done.has_value();
}

Task<Result<>> Scrub::everything() {
  for (;;) {
    ObjectList page;
    auto listed = co_await while_whole(
        {}, kNothingHeld, [&](Op& op) { return group_.calls().list(op, record_.place, page); });
    if (!listed) co_return listed;
    for (const ObjectId& object : page.objects) {
      auto done = co_await one_object(object);
      if (stopped()) co_return fail(Errc::kCancelled, "the scrub was ended");
      if (!done) {
        ++record_.found.failed;
        failed_log.warn("event=parity_scrub_failed object={} error=\"{}\"", to_string(object),
                        done.error().describe());
      }
      ++record_.done;
      record_.place = {.folder = object_folder(sums_of(object)), .after = sums_of(object)};
      show(0, 1);
      if (group_.now() < next_note_) continue;
      next_note_ = group_.now() + options().note_every;
      co_await save();
    }
    if (!page.more) co_return Result<>{};
    record_.place = page.next;
  }
}

Task<Result<>> Scrub::one_object(ObjectId object) {
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
  const std::uint64_t step = group_.stripes_at_once();
  Result<> all;
  std::uint64_t lost = 0;
  for (std::uint64_t from = 0; from < stripes && !stopped();) {
    const std::uint64_t to = std::min(stripes, from + step);
    at.next = to;
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
    from = at.next;
  }
  if (at.absent == 0 || record_.only_tell || !all || lost > 0 || stopped()) co_return all;
  // All that the member had of it is there again.
  co_return co_await while_whole(object, kNothingHeld,
                                 [&](Op& op) { return group_.is_back(op, object, at.state); });
}

// --- While the group is whole --------------------------------------------------------------------

// One attempt, with the range held, again when a member went out meanwhile. Nothing is held while
// it waits for the group.
template <class Attempt>
Task<Result<>> Scrub::while_whole(ObjectId object, ByteRange range, Attempt attempt) {
  for (unsigned tries = 1;; ++tries) {
    if (!co_await until_whole()) co_return fail(Errc::kCancelled, "the scrub was ended");
    Hold hold;
    if (range.begin < range.end) hold = co_await group_.lock(object, range);
    auto done = co_await group_.until_done(0, [&](Op& op) -> Task<Result<>> {
      if (op.mode.out >= 0) co_return fail(Errc::kUnreachable, "a member of the group is out");
      co_return co_await attempt(op);
    });
    hold = {};
    if (done || tries == kTries) co_return done;
    if (!(done.error() == Errc::kBusy || done.error() == Errc::kUnreachable)) co_return done;
    co_await pause(options().retry_every);
  }
}

// False: the scrub is to end.
Task<bool> Scrub::until_whole() {
  for (;;) {
    if (stopped()) co_return false;
    const bool now = group_.whole();
    group_.view().scrub.waiting.store(!now);
    if (now) co_return true;
    co_await pause(options().retry_every);
  }
}

Task<bool> Scrub::pause(Nanoseconds time) {
  if (stopped()) co_return false;
  co_return co_await group_.pause(timer_, time) && !stopped();
}

Task<bool> Scrub::throttle(std::uint64_t bytes) {
  rate_.use(bytes);
  for (;;) {
    const Nanoseconds wait = rate_.wait(group_.now());
    if (wait.count() == 0 || !co_await pause(wait)) co_return true;
  }
}

// --- An object -----------------------------------------------------------------------------------

Task<Result<>> Scrub::check_shape(Op& op, Subject& at, ScrubFindings& found) {
  found = {};
  at.rows = 0;
  auto state = co_await group_.find_in(op, at.object);
  if (!state && op.failed == 0 && state.error() == Errc::kIo) {
    ++found.lost;
    spdlog::error("event=parity_scrub_lost object={} what=header", to_string(at.object));
    co_return Result<>{};
  }
  if (!state) co_return pass(state);
  at.state = std::move(*state);
  if (auto good = co_await check_headers(op, at, found); !good) co_return good;
  const Object known = group_.look(at.state);
  if (!known.exists) co_return Result<>{};
  auto measured = co_await group_.calls().measure(op, at.object, group_.calls().readable(op.mode));
  if (!measured) co_return pass(measured);
  at.rows = std::min(measured->rows,
                     group_.geometry().stripes(known.size) * group_.geometry().blocks_in_chunk());
  co_return Result<>{};
}

Task<Result<>> Scrub::read_headers(Op& op, ObjectId object,
                                   std::vector<std::vector<std::byte>>& into) {
  const unsigned members = group_.members();
  std::vector<MemberRead> headers(members);
  Join join;
  for (unsigned member = 0; member < members; ++member) {
    group_.calls().read(op, join, member, sums_of(object), 0, SumHeader::kBytes, headers[member],
                        MemberCalls::From::kDisk);
  }
  co_await join;
  if (auto good = outcome(op); !good) co_return good;
  for (const MemberRead& header : headers) {
    auto bytes = header.payload.flatten();
    if (!bytes) co_return pass(bytes);
    into.push_back(std::move(*bytes));
    if (header.unread) into.back() = {std::byte{1}};  // something is there
  }
  co_return Result<>{};
}

Task<Result<>> Scrub::check_headers(Op& op, Subject& at, ScrubFindings& found) {
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
  const Object state = group_.look(at.state);
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
  group_.header_is_wrong(at.state, at.absent);
  hold = {};
  co_return co_await group_.flush_header(op, at.object, at.state);
}

// --- Its stripes ---------------------------------------------------------------------------------

// A block of zeros at a member that has lost the object, and not that one.
std::optional<unsigned> Scrub::gone(const Rows& rows, std::size_t row,
                                    std::optional<unsigned> but) const {
  for (unsigned member = 0; member < group_.members(); ++member) {
    const bool absent = (rows.absent >> member & 1) != 0;
    if (absent && rows.image.sums[member][row] == 0 && member != but) return member;
  }
  return std::nullopt;
}

// Whether a block of data in the row, but that one's, may be a hole or be lost.
bool Scrub::has_hole(const Rows& rows, std::size_t row, unsigned but) const {
  const std::uint64_t offset = rows.image.offset() + row * kParityBlock;
  const unsigned parity = group_.geometry().parity_member(offset / group_.geometry().chunk);
  for (unsigned member = 0; member < group_.members(); ++member) {
    if (member == parity || member == but || rows.image.sums[member][row] != 0) continue;
    if (group_.geometry().logical(member, offset) < rows.size) return true;
  }
  return false;
}

void Scrub::lost(const Rows& rows, std::size_t row, unsigned blocks, ScrubFindings& found) {
  if (record_.found.lost + found.lost < kMostTold) {
    spdlog::error("event=parity_scrub_lost object={} at={} blocks={}", to_string(rows.image.object),
                  rows.image.offset() + row * kParityBlock, blocks);
  }
  found.lost += blocks;
}

void Scrub::judge_row(Rows& rows, std::size_t row, ScrubFindings& found) {
  Image& image = rows.image;
  const std::uint64_t offset = image.offset() + row * kParityBlock;
  const unsigned parity = group_.geometry().parity_member(offset / group_.geometry().chunk);
  const auto bad = static_cast<unsigned>(
      std::ranges::count_if(image.good, [row](const auto& good) { return !good[row]; }));
  if (bad > 1) {
    // Of a row that was given up the parity is lost because of the data.
    const bool with_parity = image.lost[parity][row];
    return lost(rows, row, with_parity ? bad - 1 : bad, found);
  }
  std::optional<unsigned> one = gone(rows, row, {});
  for (unsigned member = 0; member < group_.members(); ++member) {
    if (!image.good[member][row]) one = member;
  }
  const unsigned which = one.value_or(parity);
  std::array<std::byte, kParityBlock> before;
  std::ranges::copy(image.block(which, row), before.begin());
  image.compute_block(which, row);
  const bool other = !std::ranges::equal(before, image.block(which, row));
  if (bad == 0 && !other) return;  // it is right
  // The checksum, or the block, says that the row is right but for this.
  const bool sure = !other || sum_block(image.block(which, row), image.object, which,
                                        image.first + row) == image.sums[which][row];
  const bool known_gone = (rows.absent >> which & 1) != 0;
  if (!sure && (gone(rows, row, which) || (!known_gone && has_hole(rows, row, which)))) {
    std::ranges::copy(before, image.block(which, row).begin());
    return lost(rows, row, 1, found);
  }
  rows.changed[which][row] = true;
  image.lost[which][row] = false;
  ++(one ? found.corrupt : found.parity);
  found_log.warn("event=parity_scrub_found object={} member={} at={} what={}",
                 to_string(image.object), which, offset,
                 one ? (other ? "block" : "checksum") : "parity");
}

// Where all members have a hole there is nothing to check.
Task<Result<>> Scrub::look_on(Op& op, Subject& at, const Image& image, std::uint64_t last) {
  at.next = last;
  if (!image.empty()) co_return Result<>{};
  const std::uint64_t in_chunk = group_.geometry().blocks_in_chunk();
  auto row = co_await group_.calls().next_row(op, at.object, last * in_chunk,
                                              group_.calls().readable(op.mode));
  if (!row) co_return pass(row);
  at.next = std::max(last, *row / in_chunk);
  co_return Result<>{};
}

// Precondition: the stripes are held, and all members are read.
Task<Result<>> Scrub::check_stripes(Op& op, Subject& at, std::uint64_t first, std::uint64_t last,
                                    ScrubFindings& found) {
  const std::uint64_t in_chunk = group_.geometry().blocks_in_chunk();
  const unsigned members = group_.members();
  Image image(members, at.object, first * in_chunk, last * in_chunk);
  auto loaded = co_await group_.calls().load(op, image, group_.calls().readable(op.mode),
                                             MemberCalls::From::kDisk);
  if (!loaded) co_return loaded;
  if (auto looked = co_await look_on(op, at, image, last); !looked) co_return looked;
  found = {.bytes = image.bytes() * members};
  Rows rows{.image = image,
            .size = 0,
            .absent = at.absent,
            .changed = {members, std::vector<bool>(image.rows)}};
  const Object known = group_.look(at.state);
  if (known.exists) rows.size = known.size;
  for (std::size_t row = 0; row < image.rows; ++row) judge_row(rows, row, found);
  if (record_.only_tell || found.corrupt + found.parity == 0) co_return Result<>{};
  std::vector<MemberWrite> writes;
  for (unsigned member = 0; member < members; ++member) {
    for (std::size_t row = 0; row < image.rows; ++row) {
      if (!rows.changed[member][row]) continue;
      auto added = group_.calls().add_write(writes, image, member, row, row + 1);
      if (!added) co_return added;
    }
  }
  auto room = co_await group_.calls().ask_room(op, at.object, ranges_of(writes), 0);
  if (!room) co_return room;
  co_return co_await group_.calls().write_all(op, at.object, std::move(writes),
                                              Stability::kFileSync);
}

// --- What is known of it -------------------------------------------------------------------------

void Scrub::count(const ScrubFindings& found) {
  ScrubFindings& all = record_.found;
  all.bytes += found.bytes;
  all.corrupt += found.corrupt;
  all.parity += found.parity;
  all.lost += found.lost;
  all.failed += found.failed;
  ScrubView& view = group_.view().scrub;
  view.bytes.store(all.bytes);
  view.corrupt.store(all.corrupt);
  view.parity.store(all.parity);
  view.lost.store(all.lost);
  view.failed.store(all.failed);
  group_.view().lost_blocks.fetch_add(found.lost);
  if (record_.only_tell) return;
  group_.view().corrupt_blocks.fetch_add(found.corrupt);
  group_.view().parity_fixed.fetch_add(found.parity);
}

// With this much done of the object it is at.
void Scrub::show(std::uint64_t part, std::uint64_t parts) {
  ScrubView& view = group_.view().scrub;
  const auto all = static_cast<double>(
      std::max<std::uint64_t>({1, group_.objects_in_all(), record_.done + (part > 0 ? 1 : 0)}));
  const double within = part == 0 ? 0 : static_cast<double>(part) / static_cast<double>(parts);
  const double done = std::min(1.0, (static_cast<double>(record_.done) + within) / all);
  view.objects.store(record_.done);
  view.permille.store(static_cast<std::uint32_t>(done * 1000));
  const std::chrono::duration<double> took = group_.now() - began_;
  const double here = done - began_at_;
  view.remaining_s.store(here > 0 ? static_cast<std::uint64_t>(took.count() / here * (1 - done)) + 1
                                  : 0);
}

// An error costs what the next process does again.
Task<bool> Scrub::save() {
  auto start = [this](auto done) {
    group_.parts().disk.save_scrub(encode(record_), std::move(done));
  };
  auto saved = co_await call<Result<>>(start);
  if (!saved) spdlog::warn("event=parity_scrub error=\"{}\"", saved.error().describe());
  co_return saved.has_value();
}

}  // namespace weft::ds::parity
