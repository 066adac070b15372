// Mover: which data servers are left, and what of theirs is next. One move is in mover_steps.cc.
#include "ganesha-fsal/repair/mover.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/cluster/in_parallel.h"
#include "ganesha-fsal/repair/mend_parts.h"
#include "layout/relocation.h"

namespace weft::mds {

Mover::Mover(Parts parts) : parts_(std::move(parts)) {}

Mover::~Mover() { stop(); }

void Mover::start() {
  thread_ = std::thread([this] { run(); });
}

void Mover::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Mover::look_now() {
  {
    const MutexLock lock(mutex_);
    look_now_ = true;
    for (auto& [ds_id, source] : sources_) source.look_at = {};
  }
  wake_.notify_all();
}

void Mover::give_up(std::uint32_t ds_id) {
  {
    const MutexLock lock(mutex_);
    given_up_.insert(ds_id);
  }
  look_now();
}

std::uint64_t Mover::moved() const {
  const MutexLock lock(mutex_);
  return moved_;
}

void Mover::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    look_now_ = false;
    lock.unlock();
    const bool more = turn();
    lock.lock();
    if (moved_directly_) continue;
    wake_.wait_for(mutex_, more ? parts_.limits.round : parts_.limits.idle,
                   [this]() WEFT_REQUIRES(mutex_) { return stopping_ || look_now_; });
  }
}

const Mover::Server* Mover::Round::find(std::uint32_t ds_id) const {
  const auto at = std::ranges::find(servers, ds_id,
                                    [](const Server& server) { return server.candidate.ds_id; });
  return at == servers.end() ? nullptr : &*at;
}

Mover::Round::Round(std::vector<Server> all) : servers(std::move(all)) {
  for (const Server& server : servers) candidates.push_back(server.candidate);
}

std::size_t Mover::Round::moves_to(std::uint32_t ds_id) const {
  const auto at = filling.find(ds_id);
  return at == filling.end() ? 0 : at->second.moves;
}

std::uint64_t Mover::Round::coming_to(std::uint32_t ds_id) const {
  const auto at = filling.find(ds_id);
  return at == filling.end() ? 0 : at->second.bytes.stripe;
}

void Mover::Round::add(std::uint32_t to, const Size& size) {
  for (Amount* const amount : {&under_way, &filling[to]}) {
    ++amount->moves;
    amount->bytes.file += size.file;
    amount->bytes.stripe += size.stripe;
  }
}

void Mover::Round::take_off(std::uint32_t to, const Size& size) {
  for (Amount* const amount : {&under_way, &filling[to]}) {
    --amount->moves;
    amount->bytes.file -= size.file;
    amount->bytes.stripe -= size.stripe;
  }
}

bool Mover::full(const Round& round) const {
  const Limits& limits = parts_.limits;
  const auto& [moves, bytes] = round.under_way;
  return moves >= limits.at_once || (moves >= limits.large_at_once && bytes.file > limits.bytes) ||
         moves_.size() >= limits.known;
}

bool Mover::full(const Round& round, std::uint32_t to) const {
  const Limits& limits = parts_.limits;
  const auto at = round.filling.find(to);
  if (at == round.filling.end()) return false;
  const auto& [moves, bytes] = at->second;
  return moves >= limits.per_server ||
         (moves >= limits.large_per_server && bytes.file > limits.bytes);
}

std::vector<std::uint32_t> Mover::sources(const std::vector<Server>& servers) const {
  std::vector<std::uint32_t> out;
  std::vector<std::uint32_t> lost;
  std::set<std::string> domains;
  const Clock::duration replace_after = replace_after_;
  for (const Server& server : servers) {
    const std::uint32_t ds_id = server.candidate.ds_id;
    if (server.duty != Duty::kServing) {
      out.push_back(ds_id);
    } else if (replace_after.count() > 0 && server.gone_for && *server.gone_for >= replace_after) {
      lost.push_back(ds_id);
      // Nobody has said that those without a domain fail together: more than one of them counts
      // as more than one domain.
      const std::string& domain = server.candidate.domain;
      domains.insert(domain.empty() ? std::to_string(ds_id) : domain);
    }
  }
  if (domains.size() <= 1) out.insert(out.end(), lost.begin(), lost.end());
  return out;
}

bool Mover::is_stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void Mover::learn_moves() {
  constexpr std::size_t kPage = 1024;
  while (learnt_ && moves_.size() < parts_.limits.known) {
    const std::size_t asked = std::min(kPage, parts_.limits.known - moves_.size());
    auto page = parts_.names.moves(*learnt_, asked);
    if (!page) {
      spdlog::error("event=moves_unread error=\"{}\"", page.error().describe());
      return;
    }
    for (const Move& move : *page) {
      const auto attributes = parts_.names.getattr(move.id);
      const auto map = parts_.names.layout(move.id);
      const Size size = attributes && map && *map ? size_of(attributes->size, **map) : Size{};
      moves_[move.id] = {.move = move, .size = size, .fenced = {}};
      if (move.stage == MoveStage::kLeft && move.to != 0) unfilled_[{move.id, move.to}] = size;
      learnt_ = move.id;
    }
    if (page->size() < asked) learnt_.reset();
  }
}

void Mover::count_filling(Round& round) {
  for (const auto& [file, known] : moves_) {
    if (known.move.stage == MoveStage::kFilling) round.add(known.move.to, known.size);
  }
  std::erase_if(unfilled_, [&](const auto& one) {
    const auto& [file, to] = one.first;
    const Server* const server = round.find(to);
    if (server == nullptr) return true;
    const auto map = parts_.names.layout(file);
    if (map && (!*map || is_current(**map, to) || !has_source(**map, to, round))) return true;
    if (server->reach == Reach::kGone) return false;  // it gets nothing now
    round.add(to, one.second);
    return false;
  });
}

void Mover::note_given_up() {
  std::set<std::uint32_t> given_up;
  {
    const MutexLock lock(mutex_);
    given_up.swap(given_up_);
  }
  for (auto& [file, known] : moves_) {
    if (known.move.stage == MoveStage::kFilling && given_up.contains(known.move.from)) {
      known.given_up = true;
    }
  }
}

bool Mover::turn() {
  Round round(parts_.servers());
  moved_directly_ = false;
  learn_moves();
  note_given_up();
  Steps steps = due();
  count_filling(round);
  const auto leaving = sources(round.servers);
  {
    const MutexLock lock(mutex_);
    std::erase_if(sources_, [&](const auto& source) {
      return std::ranges::find(leaving, source.first) == leaving.end();
    });
  }
  bool more = round.under_way.moves > 0;
  bool evening = false;
  const auto begin = [&] {
    if (is_stopping()) return;
    for (const std::uint32_t ds_id : leaving) more = leave(ds_id, round) || more;
    evening = even_out(round);
  };
  in_parallel(2, parts_.limits.threads,
              [&](std::size_t part) { part == 0 ? take(steps, round) : begin(); });
  put_down(steps);
  if ((leaving.empty() && !evening) || not_directly_.size() > parts_.limits.known)
    not_directly_.clear();
  std::erase_if(not_before_,
                [now = parts_.clock.now()](const auto& at) { return at.second <= now; });
  return more || evening;
}

// True: there may be more to begin at once.
bool Mover::leave(std::uint32_t ds_id, Round& round) {
  const Server* const server = round.find(ds_id);
  if (server == nullptr) return false;
  bool due = false;
  {
    const MutexLock lock(mutex_);
    const auto [it, fresh] = sources_.try_emplace(ds_id, Source{.since = parts_.clock.now()});
    if (fresh) spdlog::info("event=leaving ds={} duty={}", ds_id, to_string(server->duty));
    due = parts_.clock.now() >= it->second.look_at;
  }
  const bool counting = count_first(ds_id);
  if (server->reach == Reach::kWait) return counting;
  if (server->reach == Reach::kGone && !parts_.lapse(ds_id)) return counting;
  if (due && !full(round)) look_through(ds_id, round);
  if (server->duty == Duty::kRemoving) {
    const auto any = parts_.names.objects_of(ds_id, std::nullopt, 1);
    if (any && any->empty()) {
      const auto forgotten = parts_.forget(ds_id);
      spdlog::info("event=data_server_removed ds={} outcome=\"{}\"", ds_id,
                   forgotten ? "done" : forgotten.error().describe());
      return false;
    }
  }
  const MutexLock lock(mutex_);
  const auto it = sources_.find(ds_id);
  return counting || (it != sources_.end() && it->second.look_at == Clock::time_point{});
}

bool Mover::count_first(std::uint32_t ds_id) {
  std::optional<layout::ObjectId> after;
  {
    const MutexLock lock(mutex_);
    const Source& source = sources_[ds_id];
    if (source.counted) return false;
    after = source.counted_to;
  }
  const auto page = parts_.names.objects_of(ds_id, after, parts_.limits.count_page);
  if (!page) {
    spdlog::error("event=objects_unread ds={} error=\"{}\"", ds_id, page.error().describe());
    return true;
  }
  const MutexLock lock(mutex_);
  Source& source = sources_[ds_id];
  source.count.objects += page->size();
  if (!page->empty()) source.counted_to = page->back();
  source.counted = page->size() < parts_.limits.count_page;
  return !source.counted;
}

void Mover::look_through(std::uint32_t ds_id, Round& round) {
  std::optional<layout::ObjectId> after;
  {
    const MutexLock lock(mutex_);
    Source& source = sources_[ds_id];
    after = source.after;
    if (!after) source.passing = {.objects = 0, .moved = source.moved};
  }
  const auto page = parts_.names.objects_of(ds_id, after, parts_.limits.page);
  if (!page) {
    spdlog::error("event=objects_unread ds={} error=\"{}\"", ds_id, page.error().describe());
    return;
  }
  bool whole = true;
  std::uint64_t passed = 0;
  const Server* const server = round.find(ds_id);
  const bool lost = is_lost(server);
  std::vector<Chosen> chosen;
  for (const layout::ObjectId& object : *page) {
    if (lost && strip_removal(object, ds_id)) {
      after = object;
      continue;
    }
    if (choose(object.fileid, ds_id, round, chosen) == Begun::kFull) {
      whole = false;
      break;
    }
    after = object;
    ++passed;
  }
  for (const Chosen& failed : begin_all(std::move(chosen), ds_id, round)) {
    if (failed.begun || is_overtaken(failed.begun.error())) continue;
    note_stuck(ds_id, failed.file, failed.begun.error().describe());
  }
  const MutexLock lock(mutex_);
  Source& source = sources_[ds_id];
  source.after = after;
  source.passing.objects += passed;
  source.look_at = {};
  if (!whole || page->size() == parts_.limits.page) return;
  // The end of the list: from the beginning again, by and by.
  source.after.reset();
  source.count = source.passing;
  source.counted = true;
  source.look_at = parts_.clock.now() + parts_.limits.look_every;
  source.stuck = std::exchange(source.found, {});
}

void Mover::note_stuck(std::uint32_t ds_id, FileId file, const std::string& why) {
  const MutexLock lock(mutex_);
  Stuck& stuck = sources_[ds_id].found[why];
  ++stuck.objects;
  if (stuck.first.size() < parts_.limits.most_named) stuck.first.push_back(file);
}

std::vector<Mover::Leaving> Mover::leaving() const {
  std::vector<Leaving> out;
  for (const std::uint32_t ds_id : sources(parts_.servers())) {
    Leaving& at = out.emplace_back();
    at.ds_id = ds_id;
    at.left = 1;  // at least, as long as it is not known
    const MutexLock lock(mutex_);
    const auto it = sources_.find(ds_id);
    if (it == sources_.end()) continue;
    const Source& source = it->second;
    at.drained = source.counted && source.count.objects == 0;
    at.left = left_of(source);
    at.moved = source.moved;
    at.moved_bytes = source.moved_bytes;
    at.stuck = source.stuck;
    if (at.moved == 0) continue;
    const auto so_far =
        std::chrono::duration_cast<std::chrono::milliseconds>(parts_.clock.now() - source.since);
    at.remaining = so_far * at.left / at.moved;
  }
  return out;
}

// What was moved stays in the list until its object is removed: the last ones count as one.
std::uint64_t Mover::left_of(const Source& source) {
  if (source.counted && source.count.objects == 0) return 0;
  const std::uint64_t moved = source.moved - source.count.moved;
  return source.count.objects > moved ? source.count.objects - moved : 1;
}

}  // namespace weft::mds
